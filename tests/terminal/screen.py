"""A command on a real terminal: a pty, somebody who types, and what is on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path
from typing import IO

from tests.launchers import until

COLUMNS, ROWS = 100, 40
CONTROL = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


def take_terminal() -> None:
    """As a login shell would have it; a runner in the background hands down a SIGINT ignored."""
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)  # without a controlling terminal there is no Ctrl-C
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """One command with a terminal of its own, as its controlling terminal."""

    def __init__(
        self, argv: list[str], *, env: dict[str, str], cwd: Path, stdout: IO[bytes] | None = None
    ):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            argv,
            env={**env, "TERM": "xterm-256color"},
            cwd=cwd,
            stdin=slave,
            stdout=stdout or slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(slave)
        self.received = b""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        try:
            while chunk := os.read(self.master, 65536):
                self.received += chunk
        except OSError:
            pass  # the other side is closed

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def shows(self, text: str, timeout: float = 60) -> None:
        """Wait until the screen shows this."""
        until(lambda: text in "\n".join(self.screen()), f"{text!r} on the screen", timeout)

    def end(self, timeout: float = 60) -> int:
        """The exit code of the command, once it has ended."""
        code = self.process.wait(timeout)
        self.reader.join(5)
        os.close(self.master)
        return code

    def screen(self) -> list[str]:
        """What a person sees, scrolled-off lines included."""
        lines, row, column = [""], 0, 0
        for match in CONTROL.finditer(self.received.decode("utf-8", "replace")):
            number, command, control, text = match.groups()
            if command == "A":
                row = max(0, row - int(number or 1))
            elif command == "K":
                lines[row] = lines[row][:column]
            elif command == "J":
                lines = [*lines[:row], lines[row][:column]]
            elif control == "\r":
                column = 0
            elif control == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif text:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + text + line[column + len(text) :]
                column += len(text)
        return lines
