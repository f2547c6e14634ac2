"""The Jinja2 environment of specs: no way out, no endless work, no surprising conversions.

Jinja2's own sandbox keeps a template away from Python's internals. It does not keep it from
building gigabytes (`"x" * 10**9`) or looping for hours, so work and sizes are limited here.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, cast

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfcluster.spec.template_marks import MARK_CLOSE, MARK_OPEN

MAX_WORK = 200_000
MAX_TEXT = 4 * 2**20
MAX_RANGE = 20_000
MAX_VALUES = 10_000
MAX_SECONDS = 20.0
_MAX_BITS = 4096
_MAX_INDENT = 100

# Everything else in Jinja2's set either pads to any width or writes Python or HTML, not YAML.
_SAFE_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "items", "last"),
    *("length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse"),
    *("round", "select", "selectattr", "sort", "sum", "title", "trim", "unique", "upper"),
)
_SAFE_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        {
            *("capitalize", "count", "endswith", "find", "isalnum", "isalpha", "isdigit"),
            *("lower", "lstrip", "removeprefix", "removesuffix", "rsplit", "rstrip", "split"),
            *("splitlines", "startswith", "strip", "title", "upper"),
        }
    ),
    dict: frozenset({"get", "items", "keys", "values"}),
    list: frozenset({"index", "count"}),
    tuple: frozenset({"index", "count"}),
    int: frozenset(),
    float: frozenset(),
}
# Names that a template cannot spell, for the nodes that `guard_tree` puts in.
COUNTED = "counted by tfcluster"
JOINED = "joined by tfcluster"


class TemplateRefused(Exception):
    """The template asks for something that specs do not allow."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


class MissingVariable(TemplateRefused):
    """`env("NAME")` of a variable that is not set."""

    def __init__(self, name: str):
        hint = f'set it, or give a default: env("{name}", "value")'
        super().__init__(f"the environment variable {name} is not set", hint)
        self.name = name


class SpecEnvironment(ImmutableSandboxedEnvironment):
    """One rendering's environment; it counts the work done and stops at a limit."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__(
            undefined=StrictUndefined,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            optimized=False,
            finalize=scalar_text,
        )
        self._environ = environ
        self._work = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        namespace = self.globals["namespace"]
        self.globals = {
            "range": self._range,
            "env": self._env,
            "namespace": namespace,
            "dict": dict,
        }
        self.filters = {name: FILTERS[name] for name in _SAFE_FILTERS}
        self.filters.update(_own_filters())
        self.filters.update({COUNTED: self._counted, JOINED: _concatenated})

    def spend(self, work: int = 1) -> None:
        """Counts `work` steps; raises TemplateRefused when the template has used up its share."""
        self._work += work
        if self._work > MAX_WORK or time.monotonic() > self._deadline:
            raise TemplateRefused(
                f"the template does too much work (more than {MAX_WORK:,} steps)",
                "a spec describes replicas with a number, it need not loop over them",
            )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.spend()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_binop(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        for kind, names in _SAFE_METHODS.items():
            if isinstance(obj, kind):
                return attr in names
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Refuses `"{:999999999}".format(…)`, which Jinja2's sandbox lets through."""
        return None

    def _range(self, *bounds: int) -> range:
        numbers = range(*bounds)
        if len(numbers) > MAX_RANGE:
            raise TemplateRefused(f"range() is limited to {MAX_RANGE:,} numbers")
        return numbers

    def _env(self, name: str, default: Any = None) -> Any:
        value = self._environ.get(name, default)
        if value is None:
            raise MissingVariable(name)
        return value

    def _counted(self, items: Any) -> Any:
        if isinstance(items, Sized):
            self.spend(len(items))
            return items
        return self._counting(items)

    def _counting(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self.spend()
            yield item


def guard_tree(tree: nodes.Template) -> None:
    """Makes loops count their turns and `~` check its result's size."""
    for loop in tree.find_all(nodes.For):
        loop.iter = _filtered(cast(nodes.Expr, loop.iter), COUNTED)
    for parent in [tree, *tree.find_all(nodes.Node)]:
        for field, value in parent.iter_fields():
            if isinstance(value, nodes.Concat):
                setattr(parent, field, _joined(value))
            elif isinstance(value, list):
                value[:] = [_joined(v) if isinstance(v, nodes.Concat) else v for v in value]


def _joined(concat: nodes.Concat) -> nodes.Filter:
    return _filtered(nodes.List(concat.nodes, lineno=concat.lineno), JOINED)


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def scalar_text(value: Any) -> str:
    """What `{{ value }}` prints, in YAML's words; a list or a mapping is refused."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (str, Undefined)):
        return str(value)
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


def _check_binop(operator: str, left: Any, right: Any) -> None:
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
        _check_size(sizes[0] * sizes[1] if all(isinstance(n, int) for n in sizes) else 0)
    if operator == "+" and isinstance(left, Sized) and isinstance(right, Sized):
        _check_size(len(left) + len(right))


def _check_size(size: int) -> None:
    if size > MAX_TEXT:
        raise TemplateRefused(f"the template builds a text of more than {MAX_TEXT // 2**20} MiB")


def _concatenated(parts: Iterable[Any], separator: str = "") -> str:
    texts = [scalar_text(part) for part in parts]
    _check_size(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _replaced(value: Any, old: str, new: str) -> str:
    text, new = scalar_text(value), scalar_text(new)
    _check_size(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _indented(value: Any, width: int = 4, first: bool = False) -> str:
    text = scalar_text(value)
    if not 0 <= width <= _MAX_INDENT:
        raise TemplateRefused(f"indent takes a width from 0 to {_MAX_INDENT}")
    _check_size(len(text) + (text.count("\n") + 1) * width)
    return (" " * width if first else "") + text.replace("\n", "\n" + " " * width)


def _number(kind: Callable[[Any], Any], noun: str) -> Callable[..., Any]:
    """A filter that refuses `two` instead of turning it into 0, as Jinja2's own does."""

    def convert(value: Any, default: Any = None) -> Any:
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            if default is not None and not isinstance(value, Undefined):
                return default
            raise TemplateRefused(f'"{scalar_text(value)}" is not {noun}') from None

    return convert


_UNPRINTABLE = re.compile(
    f"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff{MARK_OPEN}{MARK_CLOSE}]"
)


def as_json(value: Any) -> str:
    """JSON that YAML reads back as the same value, whatever it contains."""
    _check_values(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise TemplateRefused(f"tojson cannot write {_kind(value)} of this kind") from None
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _check_values(value: Any) -> None:
    """Refuses a value that is too large when written out; shared parts count each time."""
    count = size = 0
    pending = [value]
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, Mapping):
            pending.extend((*item.keys(), *item.values()))
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        if count > MAX_VALUES:
            raise TemplateRefused(f"tojson writes no more than {MAX_VALUES:,} values")
        _check_size(size)


def _own_filters() -> dict[str, Callable[..., Any]]:
    return {
        "int": _number(int, "an integer"),
        "float": _number(float, "a number"),
        "string": scalar_text,
        "join": lambda items, separator="": _concatenated(items, separator),
        "replace": _replaced,
        "indent": _indented,
        "tojson": as_json,
    }
