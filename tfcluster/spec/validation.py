"""Validates a spec's data: every mistake of shape, and every mistake of sense that can be seen.

A wrong value must not hide the others. Data with mistakes is validated again without them, and
what remains is checked for sense; judgements that rest on a wrong value are left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tfcluster.similar import closest
from tfcluster.spec.checks import check_spec
from tfcluster.spec.findings import Finding, Path, without_consequences
from tfcluster.spec.model import JobSpec, json_schema
from tfcluster.spec.schema_walk import schema_at
from tfcluster.spec.wording import finding_of

_ROUNDS = 20
_MOST_WORDED = 1000
_STAND_INS: dict[str, Any] = {"name": "job", "roles": {}}


@dataclass(frozen=True)
class Verdict:
    """The spec, or why there is none."""

    spec: JobSpec | None
    findings: tuple[Finding, ...]
    more: int = 0  # mistakes that nobody would read


def validate_spec(data: dict[str, Any]) -> Verdict:
    """Validates plain data; the data is left as it was."""
    try:
        spec = JobSpec.model_validate(data)
    except ValidationError as error:
        errors: list[Any] = error.errors(include_url=False)
        worded = errors[:_MOST_WORDED]
        schema = json_schema()
        meant = _meant(worded, schema)
        shape = [finding_of(entry, schema) for entry in worded if _path(entry) not in meant]
        sense = _sense_of_the_rest(data, errors, meant)
        return Verdict(None, (*shape, *sense), len(errors) - len(worded))
    findings = check_spec(spec)
    return Verdict(None if findings else spec, tuple(findings))


def _meant(errors: list[Any], schema: dict[str, Any]) -> set[Path]:
    """The paths that misspelt keys were probably meant to be; what they lack is not a mistake."""
    out: set[Path] = set()
    for entry in errors:
        path = _path(entry)
        parent = schema_at(schema, path[:-1])
        known = parent.known() if parent is not None else {}
        match = closest(str(path[-1]), known) if entry["type"] == "extra_forbidden" else None
        if match is not None:
            out.add((*path[:-1], match))
    return out


def _sense_of_the_rest(data: dict[str, Any], errors: list[Any], meant: set[Path]) -> list[Finding]:
    """What is wrong with the parts that are right in themselves."""
    rest = copy.deepcopy(data)
    broken = meant | {_path(entry) for entry in errors}
    for _ in range(_ROUNDS):
        # From the back, so that taking out a list's item leaves earlier indices as they are.
        for path in sorted(map(_removal, errors), key=_sort_key, reverse=True):
            _remove(rest, path)
        try:
            return without_consequences(check_spec(JobSpec.model_validate(rest)), broken)
        except ValidationError as error:
            errors = error.errors(include_url=False)
    return []


def _path(error: Any) -> Path:
    return tuple(part for part in error["loc"] if part != "[key]")


def _removal(error: Any) -> Path:
    """What to take out so that this error goes away: a missing key takes its owner with it."""
    path = _path(error)
    return path[:-1] if error["type"] == "missing" and len(path) > 1 else path


def _sort_key(path: Path) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (0, part) for part in path]


def _remove(data: Any, path: Iterable[str | int]) -> None:
    *parents, last = path
    for part in parents:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(data, list) and isinstance(last, int) and last < len(data):
        del data[last]
    elif isinstance(data, dict) and not parents and last in _STAND_INS:
        data[last] = copy.deepcopy(_STAND_INS[str(last)])
    elif isinstance(data, dict):
        data.pop(last, None)
