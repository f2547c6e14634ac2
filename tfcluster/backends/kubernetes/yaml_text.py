"""YAML text from plain data: stable, readable, and read the same by every YAML parser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# Plain only where YAML 1.1 (kubectl) and YAML 1.2 agree that it is a string.
PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(?::[A-Za-z0-9_./-]+)*")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def scalar(value: Any) -> str:
    """One value, quoted if anybody could take it for something else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in WORDS:
        return text
    return '"' + "".join(ESCAPES.get(char) or escaped(char) for char in text) + '"'


def escaped(char: str) -> str:
    # JSON's pairs of surrogates are not YAML, and not every printable is one to YAML.
    if char.isprintable() and char != "\ufeff":
        return char
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def flow(value: Any) -> str:
    """Data on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return scalar(value)


def block(value: Any, indent: int = 0) -> str:
    """Data over several lines, each but the first indented; ends without a line end."""
    return ("\n" + " " * indent).join(lines(value))


def lines(value: Any) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [line for key, item in value.items() for line in entry(f"{scalar(key)}:", item)]
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        out = []
        for item in value:
            first, *rest = lines(item)
            out += [f"- {first}", *(f"  {line}" for line in rest)]
        return out
    return [flow(value)]


def entry(head: str, value: Any) -> list[str]:
    if isinstance(value, str | int | float | bool) or not value:
        return [f"{head} {flow(value)}"]
    return [head, *(f"  {line}" for line in lines(value))]


def literal(text: str, indent: int) -> str:
    """A text as the lines of a literal block (`|`), all indented; empty lines stay empty."""
    pad = " " * indent
    return "\n".join(f"{pad}{line}" if line else "" for line in text.rstrip("\n").split("\n"))


def merged(base: Any, over: Any) -> Any:
    """`over` laid over `base`, in place, as Kubernetes merges pods.

    Mappings are merged key by key and null removes a key. Lists of named things are merged by name
    (mounts by path, ports by number); other lists are replaced.
    """
    for key, value in over.items():
        if value is None:
            base.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            merged(base[key], value)
        elif isinstance(value, list) and isinstance(base.get(key), list):
            merge_lists(base, key, value)
        else:
            base[key] = value
    return base


def merge_lists(base: Any, key: str, over: list[Any]) -> None:
    name = {"volumeMounts": "mountPath", "ports": "containerPort"}.get(key, "name")
    known = {item[name]: item for item in base[key] if isinstance(item, Mapping) and name in item}
    named = all(isinstance(item, Mapping) and name in item for item in over)
    if not (known and named):
        base[key] = over
        return
    for item in over:
        if item[name] in known:
            merged(known[item[name]], item)
        else:
            base[key].append(item)
