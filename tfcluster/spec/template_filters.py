"""What specs' templates can do with values: the filters of our own, and how much they may build."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sized
from typing import Any

from jinja2 import Undefined

from tfcluster.redaction import MASK, looks_secret
from tfcluster.spec.template_values import Given, TemplateRefused

MAX_TEXT = 2**20
MAX_VALUES = 10_000
_MAX_BITS = 4096
_MAX_INDENT = 100


def scalar_text(value: Any) -> str:
    """What `{{ value }}` prints, in YAML's words; a list or a mapping is refused."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (str, Undefined)):
        return value if isinstance(value, Given) else str(value)
    if isinstance(value, (int, float)):
        return repr(value)
    raise TemplateRefused(
        f"{{{{ … }}}} gives {_kind(value)}, not a string or a number",
        "write {{ … | tojson }} to insert a list or a mapping",
    )


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, (list, tuple, range)) else "something else"


def check_binop(operator: str, left: Any, right: Any) -> None:
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if operator == "%" and not numbers:
        raise TemplateRefused("% formats no text in a spec", "join texts with ~")
    if operator == "**" and not (numbers and abs(left) <= 1e6 and abs(right) <= 64):
        raise TemplateRefused("** is limited to small numbers")
    if operator == "*" and numbers:
        bits = sum(n.bit_length() for n in (left, right) if isinstance(n, int))
        if bits > _MAX_BITS:
            raise TemplateRefused("the result of * is too large")
    elif operator == "*":
        sizes = [len(v) if isinstance(v, Sized) else v for v in (left, right)]
        size = sizes[0] * sizes[1] if all(isinstance(n, int) for n in sizes) else 0
        check_size(size, left if isinstance(left, Sized) else right)
    if operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
        check_size(len(left) + len(right), left)


def check_size(size: int, value: Any = "") -> None:
    if not isinstance(value, str) and size > MAX_VALUES:
        raise TemplateRefused(f"the template builds a list of more than {MAX_VALUES:,} values")
    if size > MAX_TEXT:
        raise TemplateRefused(f"the template builds a text of more than {MAX_TEXT // 2**20} MiB")


def _replaced(value: Any, old: str, new: str) -> str:
    text, new = scalar_text(value), scalar_text(new)
    check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indented(value: Any, width: int = 4, first: bool = False) -> str:
    text = scalar_text(value)
    if not 0 <= width <= _MAX_INDENT:
        raise TemplateRefused(f"indent takes a width from 0 to {_MAX_INDENT}")
    check_size(len(text) + (text.count("\n") + 1) * width)
    return (" " * width if first else "") + text.replace("\n", "\n" + " " * width)


def _number(kind: Callable[[Any], Any], noun: str) -> Callable[..., Any]:
    """A filter that refuses `two` instead of turning it into 0, as Jinja2's own does."""

    def convert(value: Any, default: Any = None) -> Any:
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            if default is not None and not isinstance(value, Undefined):
                return default
            secret = isinstance(value, Given) and looks_secret(value.origin)
            shown = MASK if secret else scalar_text(value)
            raise TemplateRefused(f'"{shown}" is not {noun}') from None

    return convert


_UNPRINTABLE = re.compile(
    "[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff\ue000-\ue003]"  # with our own marks
)


def as_json(value: Any) -> str:
    """JSON that YAML reads back as the same value, whatever it contains."""
    origin = _check_values(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise TemplateRefused(f"tojson cannot write {_kind(value)} of this kind") from None
    text = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text if origin is None else Given(text, origin, json=True)


def _check_values(value: Any) -> str | None:
    """Refuses a value that is too large when written out; shared parts count each time.

    The origin of a person's value in it, if there is one.
    """
    count = size = 0
    origin = None
    pending = [value]
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, str):
            size += len(item)
            origin = item.origin if isinstance(item, Given) else origin
        elif isinstance(item, Mapping):
            pending.extend((*item.keys(), *item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        if count > MAX_VALUES:
            raise TemplateRefused(f"tojson writes no more than {MAX_VALUES:,} values")
        check_size(size)
    return origin


OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "int": _number(int, "an integer"),
    "float": _number(float, "a number"),
    "string": scalar_text,
    "replace": _replaced,
    "indent": _indented,
    "tojson": as_json,
}
