"""Ctrl-C, once a command has something to lose by ending at once (see entry for before that)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from tfcluster.errors import EXIT_INTERRUPTED

EXIT_TERMINATED = 143


@contextmanager
def raised_interrupts() -> Iterator[None]:
    """A press is a KeyboardInterrupt: for commands that have a word to say or a child to end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass
class Presses:
    """How often Ctrl-C was pressed since the command began to change something."""

    count: int = 0
    begun: bool = False
    deferred: str = ""  # what to say at once when nobody looks at the count for a while
    given_up: str = ""  # what to say at the second press, which then ends the command
    goes_on: str = ""  # what to say of the job when SIGTERM ends the command

    def begin(self) -> None:
        """From now on something is being changed, and a press must not leave it half done."""
        self.begun = True

    def settle(self) -> bool:
        """Nothing more is changed: a press ends the command now. Whether none came before."""
        self.begun = False  # first this, so that no press falls between
        self.begun = self.count > 0
        return not self.begun

    def pressed(self, number: int, frame: FrameType | None) -> None:
        if not self.begun:
            leave("")
        self.count += 1
        if self.deferred and self.count == 1:
            os.write(2, f"\r{self.deferred}\n".encode())
        elif self.deferred:
            leave(self.given_up)


def leave(words: str) -> None:
    """End at once. Not by an exception: one that is raised in a destructor would be lost."""
    if words:
        os.write(2, f"\r{words}\n".encode())
    os._exit(EXIT_INTERRUPTED)


@contextmanager
def watched_signals() -> Iterator[Presses]:
    """Count Ctrl-C instead of being ended by it; a SIGTERM ends this command, not the run."""
    presses = Presses()
    terminations = 0

    def terminated(number: int, frame: FrameType | None) -> None:
        nonlocal terminations
        terminations += 1
        raise SystemExit(EXIT_TERMINATED)

    before = signal.signal(signal.SIGINT, presses.pressed)
    before_term = signal.signal(signal.SIGTERM, terminated)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, before_term)
        if terminations and presses.goes_on:
            os.write(2, f"Told to stop by SIGTERM. {presses.goes_on}\n".encode())
