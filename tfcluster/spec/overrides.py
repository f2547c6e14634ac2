"""`--set roles.worker.replicas=4`: edits to a spec's data, typed by its schema."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tfcluster.errors import Problem
from tfcluster.escapes import visible
from tfcluster.redaction import MASK, is_secret_path, masked_override
from tfcluster.similar import did_you_mean
from tfcluster.spec.findings import Path, dotted
from tfcluster.spec.schema_walk import SchemaNode, schema_at
from tfcluster.spec.wording import unknown_key_hint
from tfcluster.spec.yamldata import YamlMistake, read_yaml

_PART = re.compile(r'"(?P<quoted>[^"]+)"|(?P<index>[0-9]+)(?=[.\[\]]|$)|(?P<plain>[^."\[\]]+)')
_REMOVE = object()


@dataclass
class Edited:
    """The data after all edits; `flags` says which flag a path's value comes from."""

    data: dict[str, Any]
    flags: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def flag_of(self, path: Path) -> str | None:
        """The flag that the value at `path` comes from; None if it is the file's."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.flags:
                return self.flags[path[:length]]
        return None


class _BadEdit(Exception):
    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


def apply_overrides(
    data: dict[str, Any], overrides: Sequence[str], backend: str | None, schema: dict[str, Any]
) -> Edited:
    """A copy of the data with every `--set` and `--backend` applied, the last one winning."""
    edited = Edited(copy.deepcopy(data))
    for text in overrides:
        try:
            path, value = _parse(text, schema)
            _apply(edited, path, value, _flag(text, path), schema)
        except _BadEdit as error:
            where = f"--set {_shown(text)}"
            edited.problems.append(Problem(str(error), where, hint=error.hint))
    if backend is not None:
        edited.data["backend"] = backend
        edited.flags[("backend",)] = f"--backend {backend}"
    return edited


def _parse(text: str, schema: dict[str, Any]) -> tuple[Path, Any]:
    key, equals, written = text.partition("=")
    if '"' in key:
        # A quoted key may contain "=".
        match = re.match(r'((?:[^"=]|"[^"]*")*)=(.*)', text, re.DOTALL)
        key, equals, written = (match[1], "=", match[2]) if match else (text, "", "")
    if not equals or not key.strip():
        raise _BadEdit("expected KEY=VALUE", "for example roles.worker.replicas=4")
    path, node = _path(key.strip(), schema)
    if written == "null":
        return path, _REMOVE
    return path, written if node.is_text() else _yaml_value(written, path)


def _path(key: str, schema: dict[str, Any]) -> tuple[Path, SchemaNode]:
    """The path that `key` spells, and its place in the schema."""
    node = SchemaNode(schema, schema)
    path: Path = ()
    position = 0
    while position < len(key):
        match = _PART.match(key, position)
        if match is None:
            raise _BadEdit(f'"{key}" is not a path into the spec', 'quote odd keys: env."A B"=c')
        part: str | int = match["quoted"] or match[0]
        if match["index"] and node.items() is not None:
            part = int(match["index"])
        entries = node.entries()
        if entries is not None and entries.is_text() and not match["quoted"]:
            # Keys of labels contain dots, and nothing lies below a text: take all that is left.
            part, position = key[position:], len(key)
        else:
            position = _next_part(key, match.end())
        path = (*path, part)
        child = node.child(part)
        if child is None:
            message = f'unknown key "{part}"'
            raise _BadEdit(message, unknown_key_hint(path, schema))
        node = child
    return path, node


def _next_part(key: str, position: int) -> int:
    """Where the next part starts, past `.` or `[`…`]`."""
    while position < len(key) and key[position] in ".[]":
        position += 1
    return position


def _yaml_value(written: str, path: Path) -> Any:
    if not written.strip():
        raise _BadEdit(
            f"{dotted(path)}: expected a value after =", f"{dotted(path)}=null removes it"
        )
    try:
        read = read_yaml(written)
    except YamlMistake as error:
        mistake = error.mistakes[-1]
        raise _BadEdit(f"{dotted(path)}: {mistake.message}", mistake.hint) from None
    if read.mistakes:
        raise _BadEdit(f"{dotted(path)}: {read.mistakes[0].message}", read.mistakes[0].hint)
    return read.data


def _apply(edited: Edited, path: Path, value: Any, flag: str, schema: dict[str, Any]) -> None:
    place: Any = edited.data
    for depth, part in enumerate(path[:-1]):
        place = _enter(place, part, path[: depth + 1], schema)
    last = path[-1]
    if isinstance(place, list):
        _set_item(place, last, value, path)
    elif value is _REMOVE:
        fixed = schema_at(schema, path[:-1])
        if last not in place and (fixed is None or last not in fixed.known()):
            hint = did_you_mean(str(last), place)
            raise _BadEdit(f"{dotted(path)}: there is nothing to remove", hint)
        place.pop(last, None)
    else:
        place[last] = value
    for old in [old for old in edited.flags if old[: len(path)] == path]:
        del edited.flags[old]
    edited.flags[path] = flag


def _enter(place: Any, part: str | int, path: Path, schema: dict[str, Any]) -> Any:
    """The mapping or list at `part`, made if it is not there yet."""
    if isinstance(place, list):
        if not isinstance(part, int) or part >= len(place):
            raise _BadEdit(f"{dotted(path)}: the list has {len(place)} items, counted from 0")
    elif place.get(part) is None:
        node = schema_at(schema, path)
        place[part] = [] if node is not None and node.items() is not None else {}
    inner = place[part]
    if path[-1] == "restarts" and isinstance(inner, int):
        inner = place[part] = {"limit": inner}
    if not isinstance(inner, (dict, list)):
        raise _BadEdit(f"{dotted(path)} is neither a mapping nor a list in the spec")
    return inner


def _set_item(place: list[Any], index: str | int, value: Any, path: Path) -> None:
    if (
        not isinstance(index, int)
        or index > len(place)
        or (index == len(place) and value is _REMOVE)
    ):
        raise _BadEdit(f"{dotted(path)}: the list has {len(place)} items, counted from 0")
    if value is _REMOVE:
        del place[index]
    else:
        place[index : index + 1] = [value]


def _flag(text: str, path: Path) -> str:
    key, _, _ = text.partition("=")
    return f"--set {key}={MASK}" if is_secret_path(path) else f"--set {_shown(text)}"


def _shown(text: str) -> str:
    """The override on one line, not too long, without a secret."""
    line = visible(masked_override(text))
    return f"{line[:70]}…" if len(line) > 70 else line
