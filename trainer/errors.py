"""One clear line instead of a traceback: errors that end a task, warnings that do not."""

from __future__ import annotations

import sys


class TrainerError(Exception):
    """Something that the person can act on; its text is the whole message."""

    exit_code = 1


class SettingsError(TrainerError):
    """A setting, a flag or TF_CONFIG that cannot be used as given."""

    exit_code = 2


def warn(message: str) -> None:
    """One line on stderr about something that does not stop the task."""
    print(f"trainer: warning: {message}", file=sys.stderr, flush=True)
