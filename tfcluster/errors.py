"""Everything that can go wrong, as exceptions that know their exit code.

An error says where, what, and what to do next; only the console prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfcluster.escapes import visible

EXIT_OK = 0
EXIT_TOOL = 1
EXIT_USAGE = 2
EXIT_MISSING = 3
EXIT_TIMEOUT = 4
EXIT_JOB_FAILED = 5
EXIT_INTERRUPTED = 130

SHOWN_PROBLEMS = 20  # of a spec


class TfclusterError(Exception):
    """The base of every error that a person can act on."""

    exit_code = EXIT_TOOL

    def __init__(self, message: str, *, evidence: Sequence[str] = (), hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.evidence = tuple(evidence)
        self.hint = hint


class UsageError(TfclusterError):
    """The call or the spec asks for something that cannot be."""

    exit_code = EXIT_USAGE


class MissingError(TfclusterError):
    """Something needed is absent or cannot be reached: a job, a file, an engine, a GPU."""

    exit_code = EXIT_MISSING


class MissingFile(MissingError):
    """A file that the call names is not there or cannot be read."""


MOVES_ASIDE = "tfcluster down ends what runs and moves the file aside; then: tfcluster up"


class DamagedFile(TfclusterError):
    """A file of ours that is not what it should be; nothing of it was used."""

    def __init__(self, path: object, wrong: str, *, hint: str = MOVES_ASIDE):
        super().__init__(f"{path}: {wrong}", hint=hint)
        self.path, self.wrong = str(path), wrong


class StateWarning(UserWarning):
    """What is wrong with the state folder, where the command can do its work in spite of it."""


class SpecWarning(UserWarning):
    """What a spec says that has no effect, or hardly the one that is meant."""


class OutputError(TfclusterError):
    """What the command prints cannot be written, on a full disk for example."""


class WaitTimeout(TfclusterError):
    """A named wait reached its deadline."""

    exit_code = EXIT_TIMEOUT


class JobFailed(TfclusterError):
    """The job ended badly; the message names the first task that failed."""

    exit_code = EXIT_JOB_FAILED


@dataclass(frozen=True)
class Problem:
    """One mistake in a spec: where it is, what it is, what to do next.

    `where` is the file as the person named it, or the flag (`--set roles.worker.replicas=four`);
    `line` and `column` count from 1; `snippet` is the source line with its gutter and carets.
    """

    message: str
    where: str = ""
    line: int | None = None
    column: int | None = None
    snippet: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        # Keys and values of a file appear in these; none may break the line or colour it.
        for name in ("message", "where", "hint"):
            text = getattr(self, name)
            if text is not None and not text.isprintable():
                object.__setattr__(self, name, visible(text))

    @property
    def place(self) -> str:
        """`cluster.yaml:5:5`, as far as it is known."""
        parts = [self.where, self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None and part != "")

    def text(self) -> str:
        """The problem as the console shows it, without colour."""
        lines = [f"error: {self.message}"]
        if self.place:
            lines.append(f"  --> {self.place}")
        if self.snippet:
            lines.append(self.snippet)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class SpecProblems(UsageError):
    """The problems of one spec, together; `more` counts those that nobody would read."""

    def __init__(self, problems: Sequence[Problem], more: int = 0):
        count = len(problems) + more
        message = f"{count:,} problem{'s' if count != 1 else ''} in the spec"
        if count > SHOWN_PROBLEMS:
            message += f"; these are the first {SHOWN_PROBLEMS}"
        super().__init__(message)
        self.problems = tuple(problems)

    def text(self) -> str:
        """The problems as the console shows them, a blank line between two."""
        return "\n\n".join(problem.text() for problem in self.problems)
