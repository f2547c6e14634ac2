"""One clear line instead of a traceback: errors that end a task, warnings that do not."""

from __future__ import annotations

import os
import sys

EXIT_PEER = 3  # another task did not answer; started again, this one may find it


class TrainerError(Exception):
    """Something that the person can act on; its text is the whole message."""

    exit_code = 1


class PeerError(TrainerError):
    """Another task kept this one waiting for too long."""

    exit_code = EXIT_PEER


class SettingsError(TrainerError):
    """A setting, a flag or TF_CONFIG that cannot be used as given."""

    exit_code = 2


def warn(message: str) -> None:
    """One line on stderr about something that does not stop the task."""
    print(f"trainer: warning: {message}", file=sys.stderr, flush=True)


def give_up(message: str, code: int = 1) -> None:
    """End the process with an error, from any thread."""
    print(f"trainer: error: {message}", file=sys.stderr, flush=True)
    os._exit(code)
