"""Keeps secrets out of what people and logs get to see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "***"
_SECRET_NAME = re.compile(r"secret|token(?!iz)|passw(or)?d|credential|api[-_]?key", re.IGNORECASE)
_SECRET_FLAG = re.compile(
    r"--?[\w.-]*(?:secret|token|passw(?:or)?d|credentials?|api[-_]?key)", re.IGNORECASE
)
_KEY = re.compile(r"""^(\s*(?:-\s+)*)["']?([\w./-]+)["']?\s*:(?:\s|$)""")
# Bounded, so that a long line of a hostile file costs no more than its length.
_REST_OF_KEY = re.compile(r"""[\w.-]{0,100}["']?[ \t]{0,100}[:=][ \t]{0,100}(?=\S)""")
_START_OF_KEY = re.compile(r"[\w.-]{0,100}$")
_ENDS_IN_SECRET = re.compile(
    r"""(?:token|passw(?:or)?d|credential|api[-_]?key)[\w.-]{0,100}["']?[ \t]{0,100}:\s*$""",
    re.IGNORECASE,
)
# These keys of the spec hold the name of a secret, not the secret itself.
_REFERENCES = {"secret", "secrets"}


def looks_secret(name: str) -> bool:
    """Whether a variable of this name probably holds a secret."""
    return _SECRET_NAME.search(name) is not None


def redacted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a spec's dict with the values of secret-looking variables and flags masked."""
    return {str(key): _redacted(value, str(key)) for key, value in spec.items()}


def _redacted(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        if key == "env":
            return {k: MASK if looks_secret(str(k)) else v for k, v in value.items()}
        copy = {str(k): _redacted(v, str(k)) for k, v in value.items()}
        if looks_secret(str(copy.get("name", ""))) and isinstance(copy.get("value"), str):
            copy["value"] = MASK
        return copy
    if isinstance(value, (list, tuple)):
        if key in {"args", "command"}:
            return redacted_argv(value)
        return [_redacted(item, "") for item in value]
    return value


def redacted_argv(argv: Sequence[Any]) -> list[Any]:
    """The arguments with `--token=x` and `--token x` masked."""
    out: list[Any] = []
    for argument in argv:
        name, equals, _ = str(argument).partition("=")
        if out and equals == "" and not name.startswith("-") and _is_secret_flag(out[-1]):
            out.append(MASK)
        elif equals and _is_secret_flag(name):
            out.append(f"{name}={MASK}")
        else:
            out.append(argument)
    return out


def _is_secret_flag(argument: Any) -> bool:
    return _SECRET_FLAG.fullmatch(str(argument)) is not None


def is_secret_path(path: Sequence[str | int]) -> bool:
    """Whether the value at this path of a spec must not be shown."""
    keys = [part for part in path if isinstance(part, str)]
    return any(
        looks_secret(key) and (key not in _REFERENCES or "env" in keys[:index])
        for index, key in enumerate(keys)
    )


def masked_line(lines: Sequence[str], index: int) -> str:
    """Line `index` of a YAML text, fit to be shown: a secret's value is masked.

    A value that continues on later lines belongs to the key above it with less indentation.
    """
    line = lines[index]
    owners = _owner_keys(lines, index)
    if is_secret_path(owners) or (index and _ENDS_IN_SECRET.search(lines[index - 1])):
        return line[: len(line) - len(line.lstrip())] + MASK
    for found in _SECRET_NAME.finditer(line):
        rest = _REST_OF_KEY.match(line, found.end())
        if rest is not None:
            start = _START_OF_KEY.search(line[max(0, found.start() - 100) : found.start()])
            key = (start[0] if start else "") + line[found.start() : rest.end()].rstrip(" \t:=\"'")
            if key not in _REFERENCES or "env" in owners:
                return line[: rest.end()] + MASK
    return line


def _owner_keys(lines: Sequence[str], index: int) -> list[str]:
    """The keys that line `index` is nested under, outermost first."""
    owners: list[str] = []
    indent = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        if indent == 0:
            break
        match = _KEY.match(line)
        if match is not None and len(match[1]) < indent:
            owners.insert(0, match[2])
            indent = len(line) - len(line.lstrip())
    return owners
