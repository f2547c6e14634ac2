"""Kinds of causes that a program's own last words tell: a table of patterns, words and advice.

A pattern is tried on the exception that ended the program, then on its last lines, latest first.
`{0}` in words and advice is what the pattern's group found, `{task}`, `{role}` and `{where}` are
the task, its role and the place in the person's own code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfcluster.diagnosis.tracebacks import Raised

LAST_LINES = 60  # in which words outside of an exception count


@dataclass(frozen=True)
class Clue:
    """A kind of cause, how it is recognised, what to say of it and what to do."""

    kind: str
    pattern: re.Pattern[str]
    words: str
    advice: tuple[str, ...]
    of_peer: bool = False  # the words blame another task: look there first


def clue(kind: str, pattern: str, words: str, *advice: str, of_peer: bool = False) -> Clue:
    return Clue(kind, re.compile(pattern), words, advice, of_peer)


CLUES = (
    clue(
        "missing-module",
        r"No module named '?([\w.]+)",
        "{task} cannot import {0}",
        "install {0} for the interpreter that the task uses: tfcluster plan {task} shows it",
        "if {0} is a module of your own, set workdir to its folder, or PYTHONPATH under env",
    ),
    clue(
        "missing-file",
        r"can't open file '([^']+)'|No such file or directory:? '?([^'\s]+)"
        r"|NotFoundError.*?(/\S+);",
        "{task} did not find the file {0}",
        "relative paths start at workdir: tfcluster plan {task} shows it",
    ),
    clue(
        "permission",
        r"Permission denied:? '?([^'\s]*)",
        "{task} may not use {0}",
        "look at the owner and the mode of {0}, and at the user that the task runs as",
    ),
    clue(
        "syntax-error",
        r"^(SyntaxError|IndentationError|TabError)\b",
        "{task} could not be compiled: {0}",
        "correct {where}",
    ),
    clue(
        "disk-full",
        r"(No space left on device|Disk quota exceeded|Errno 28\b)",
        "{task} ran out of disk space",
        "make room, or put logdir and checkpoints on another disk; df -h shows which is full",
    ),
    clue(
        "too-many-files",
        r"(Too many open files|Errno 24\b)",
        "{task} had too many files open",
        "raise the limit (ulimit -n), or close files and data sets that are no longer used",
    ),
    clue(
        "out-of-memory",
        r"\b(MemoryError|std::bad_alloc|OOM when allocating|ResourceExhaustedError"
        r"|CUDA_ERROR_OUT_OF_MEMORY|Cannot allocate memory)",
        "{task} could not get the memory that it asked for ({0})",
        "use smaller batches or a smaller model, or raise roles.{role}.memory",
    ),
    clue(
        "diverged",
        r"(?i)(cost became \S+ at step \d+|parameters are no longer finite at global step \d+"
        r"|nan ?loss\w*|loss (?:is|was|became|=) ?(?:nan|-?inf)\w*|had (?:NaN|Inf) values"
        r"|model diverged)",
        "training diverged: {0}",
        "use a smaller learning rate, or look at the data for values that are not numbers",
    ),
    clue(
        "checkpoint-damaged",
        r"(none of the checkpoints in \S+ is whole|Unable to open table file \S+"
        r"|TensorSliceReader constructor: .*|not an sstable)",
        "{task} cannot use its checkpoints: {0}",
        "put a good checkpoint back, or start from the beginning in a new folder",
    ),
    clue(
        "bad-data",
        r"(DataLossError.*|corrupted record at \d+|its checksum does not match|is damaged:.*)",
        "{task} read damaged data: {0}",
        "fetch the data again and compare its checksum",
    ),
    clue(
        "port-taken",
        r"(Address already in use|errno: ?98\b|Could not start gRPC server|cannot serve on \S+)",
        "{task} cannot listen on its port: {0}",
        "end the process that has the port, or choose others with ports or local.port_range",
    ),
    clue(
        "data-ended",
        r"(Your input ran out of data|OUT_OF_RANGE: End of sequence|OutOfRangeError)",
        "the data set of {task} ended before the others were done",
        "under MultiWorkerMirroredStrategy every worker needs the same number of batches:"
        " repeat() the data set and set steps_per_epoch",
    ),
    clue(
        "wrong-strategy",
        r"(?i)(`?TF_CONFIG`? .*(?:invalid|missing|must)|task_type.* (?:invalid|not in the cluster)"
        r"|there must be (?:at most )?one `?chief)",
        "the program does not fit its TF_CONFIG: {0}",
        "set strategy in the spec to what the program uses: tfcluster plan {task} shows TF_CONFIG",
    ),
    clue(
        "peer-slow",
        r"\b([a-z][a-z0-9-]*-\d+(?:, [a-z][a-z0-9-]*-\d+)*) (?:did not contribute|did not join"
        r"|did not answer|makes no more steps)",
        "{task} waited too long for {0}",
        "see what {0} was doing: tfcluster logs {0}",
        of_peer=True,
    ),
    clue(
        "peer-lost",
        r"(UnavailableError|UNAVAILABLE:|AbortedError|Socket closed|Connection reset by peer"
        r"|failed to connect to all addresses|Collective ops is aborted|lost \S+ at \S+)",
        "{task} lost the connection to another task ({0})",
        "see which task went away first: tfcluster events",
        of_peer=True,
    ),
)


@dataclass(frozen=True)
class Match:
    """A clue that was found, with the line that gave it away."""

    clue: Clue
    found: str  # what its group matched
    line: str


def find_clue(raised: Raised | None, lines: Sequence[str]) -> Match | None:
    """What the exception tells, else what the last lines tell."""
    if raised is not None:
        return first_match(raised.text)
    for line in reversed(lines[-LAST_LINES:]):
        match = first_match(line)
        if match is not None:
            return match
    return None


def first_match(text: str) -> Match | None:
    for one in CLUES:
        match = one.pattern.search(text)
        if match is not None:
            found = next((group for group in match.groups() if group), match[0])
            return Match(one, found.strip(), text)
    return None
