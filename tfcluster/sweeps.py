"""A sweep: the same job with every combination of some settings, and which was best.

Everything here is pure; commands.sweep carries it out. A cell's name is made of its whole spec and
its code, so that the record of a cell that is done is found again by a sweep that was interrupted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfcluster.errors import UsageError
from tfcluster.events import is_measure

MOST_CELLS = 1000
LONGEST_BASE = 30  # characters of the job's own name in a cell's
LOWER_IS_BETTER = ("loss", "error", "cost", "seconds", "time", "perplexity")
OPENING, CLOSING = "[{", "]}"


@dataclass(frozen=True)
class Axis:
    """One setting and its values. `argument` if it is a flag of the program, not of the spec."""

    name: str
    values: tuple[str, ...]
    argument: bool = False


@dataclass(frozen=True)
class Cell:
    """One combination: the value of each axis, in the order of the axes."""

    settings: tuple[tuple[Axis, str], ...]

    @property
    def label(self) -> str:
        """`train.learning_rate=0.01 train.batch_size=50`."""
        return " ".join(f"{axis.name}={value}" for axis, value in self.settings)

    def overrides(self, args: Sequence[str]) -> tuple[str, ...]:
        """As `--set` takes them; `args` are those that the program has anyway."""
        found = [f"{axis.name}={value}" for axis, value in self.settings if not axis.argument]
        flags = [f"--{axis.name}={value}" for axis, value in self.settings if axis.argument]
        return (*found, *([f"args={json.dumps([*args, *flags])}"] if flags else []))


@dataclass(frozen=True)
class Measure:
    """The number of a result that cells are compared by."""

    name: str
    lowest: bool = False

    def of(self, result: Mapping[str, Any] | None) -> float | None:
        value = (result or {}).get(self.name)
        return float(value) if is_measure(value) and not isinstance(value, str) else None


# -- Axes and cells ----------------------------------------------------------------------------


def parse_axis(text: str, *, argument: bool = False) -> Axis:
    """`train.learning_rate=0.01,0.05`; what is in brackets or quotes is one value."""
    option = "--arg" if argument else "--grid"
    example = "--arg lr=0.01,0.05" if argument else "--grid train.learning_rate=0.01,0.05"
    name, equals, written = text.partition("=")
    name = name.strip().lstrip("-") if argument else name.strip()
    values = tuple(part.strip() for part in split_values(written))
    if not equals or not name or not all(values):
        raise UsageError(f'{option} "{text}": expected NAME=VALUE,VALUE', hint=f"as in {example}")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise UsageError(f'{option} "{text}": {twice} is there twice', hint="name it once")
    return Axis(name, values, argument)


def split_values(text: str) -> Iterator[str]:
    """The parts between commas that are outside brackets and quotes."""
    part, depth, quote = "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in OPENING:
            depth += 1
        elif char in CLOSING:
            depth -= 1
        elif char == "," and depth == 0:
            yield part
            part = ""
            continue
        part += char
    yield part


def make_cells(axes: Sequence[Axis]) -> list[Cell]:
    """Every combination, the last axis changing fastest."""
    if not axes:
        raise UsageError(
            "nothing to vary", hint="as in: tfcluster sweep --grid train.learning_rate=0.01,0.05"
        )
    names = [axis.name for axis in axes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is varied twice", hint="put all its values into one list")
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > MOST_CELLS:
        raise UsageError(
            f"{count} combinations; a sweep has at most {MOST_CELLS}", hint="vary fewer values"
        )
    return [
        Cell(tuple(zip(axes, values, strict=True)))
        for values in itertools.product(*(axis.values for axis in axes))
    ]


def cell_name(job: str, spec: Mapping[str, Any], code: str) -> str:
    """A name for the cell's job: the same for the same spec and code, and no other."""
    content = json.dumps([{**spec, "name": job}, code], sort_keys=True, default=str)
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    return f"{job[:LONGEST_BASE].rstrip('-')}-{digest}"


# -- Which was best ----------------------------------------------------------------------------


def choose_measure(wanted: str | None, results: Iterable[Mapping[str, Any]]) -> Measure | None:
    """What cells are ranked by: as asked for, or accuracy, or loss, or the first number there is.

    What is called loss, error or time is better the lower it is; `-NAME` says so of any other.
    """
    if wanted:
        name = wanted.lstrip("-+")
        sign = wanted[0] if wanted[0] in "-+" else ""
        return Measure(name, sign == "-" or (not sign and is_cost(name)))
    found = [key for result in results for key in result if Measure(key).of(result) is not None]
    if not found:
        return None
    name = next((known for known in ("accuracy", "loss") if known in found), found[0])
    return Measure(name, is_cost(name))


def is_cost(name: str) -> bool:
    return name.lower().endswith(LOWER_IS_BETTER)


def rank(values: Sequence[float | None], *, lowest: bool) -> list[int]:
    """The places of the values, best first; those without a value last, in their order."""

    def key(place: int) -> tuple[bool, float]:
        value = values[place]
        if value is None or value != value:
            return (True, 0.0)
        return (False, value if lowest else -value)

    return sorted(range(len(values)), key=key)
