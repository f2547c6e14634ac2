"""The scalars of YAML 1.2's core schema: what a bare word or number means.

Numbers remember how they were written, because `VERSION: 1.10` in `env` means "1.10".
"""

from __future__ import annotations

import re
from typing import Any

_MAX_DIGITS = 100
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


class YamlInt(int):
    """An integer that remembers how it was written: `08080`."""

    text: str


class YamlFloat(float):
    """A number that remembers how it was written: `1.10`."""

    text: str


TOO_LONG = object()


def core_scalar(text: str) -> Any:
    """The value of a plain scalar by YAML 1.2's core schema."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if not (_INT.fullmatch(text) or _FLOAT.fullmatch(text)):
        return text
    if len(text) > _MAX_DIGITS:
        return TOO_LONG
    number: YamlInt | YamlFloat
    if _INT.fullmatch(text):
        number = YamlInt(text, {"0x": 16, "0o": 8}.get(text[:2], 10))
    else:
        number = YamlFloat(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    number.text = text
    return number


def core_text(value: Any) -> str:
    """How a scalar was, or would be, written in YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "text", value))


def plain(value: Any) -> Any:
    """A copy made of Python's own types only."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, YamlInt):
        return int(value)
    return float(value) if isinstance(value, YamlFloat) else value
