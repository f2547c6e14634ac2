"""The Jinja2 environment of specs: no way out, no endless work, no surprising conversions.

Jinja2's own sandbox keeps a template away from Python's internals. It does not keep it from
building gigabytes (`"x" * 10**9`) or looping for hours, so work and sizes are limited here, with
messages that say what is wrong. What slips through is ended by `tfcluster.spec.template_child`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, cast

from jinja2 import StrictUndefined, nodes
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tfcluster.spec.template_filters import OWN_FILTERS, check_binop, check_size, scalar_text
from tfcluster.spec.template_values import Printer, TemplateRefused, derived, follows, given

MAX_WORK = 200_000
MAX_RANGE = 20_000

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
CAPTURED = "captured by tfcluster"
PRINTED = "printed by tfcluster"


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
            finalize=self._printed,
        )
        self.printer = Printer()
        self._environ = environ
        self._work = 0
        namespace = self.globals["namespace"]
        self.globals = {
            "range": self._range,
            "env": self._env,
            "namespace": namespace,
            "dict": dict,
        }
        filters = {name: FILTERS[name] for name in _SAFE_FILTERS} | OWN_FILTERS
        self.filters = {name: follows(function) for name, function in filters.items()}
        self.filters |= {"join": self._joined, COUNTED: self._counted, JOINED: self._joined}
        self.filters |= {CAPTURED: self.printer.captured, PRINTED: self._printed}

    def spend(self, work: int = 1) -> None:
        """Counts `work` steps; raises TemplateRefused when the template has used up its share."""
        self._work += work
        if self._work > MAX_WORK:
            raise TemplateRefused(
                f"the template does too much work (more than {MAX_WORK:,} steps)",
                "a spec describes replicas with a number, it need not loop over them",
            )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.spend()
        result = super().call(context, obj, *args, **kwargs)
        if type(result) is str and "caller" not in kwargs:  # what {% call %} gets is printed as is
            result = self.printer.captured(result)
        return derived(result, getattr(obj, "__self__", None))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        check_binop(operator, left, right)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return self._joined([left, right])
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
        return given(value, f"the environment variable {name}") if name in self._environ else value

    def _printed(self, value: Any) -> str:
        return self.printer.text(scalar_text(value))

    def _joined(self, parts: Any, separator: Any = "") -> str:
        texts = [scalar_text(part) for part in self._counted(parts)]
        check_size(sum(map(len, texts)) + len(separator) * len(texts))
        return self.printer.joined(texts, scalar_text(separator))

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
    for kind in (nodes.AssignBlock, nodes.FilterBlock):
        for block in tree.find_all(kind):
            _capture(cast("nodes.AssignBlock | nodes.FilterBlock", block))
    for parent in [tree, *tree.find_all(nodes.Node)]:
        for field, value in parent.iter_fields():
            if isinstance(value, nodes.Concat):
                setattr(parent, field, _joined(value))
            elif isinstance(value, list):
                value[:] = [_joined(v) if isinstance(v, nodes.Concat) else v for v in value]


def _capture(block: nodes.AssignBlock | nodes.FilterBlock) -> None:
    """Makes filters see a block's text without marks, and a filter block print it with them."""
    captured = nodes.Filter(None, CAPTURED, [], [], None, None, lineno=block.lineno)
    inner = block.filter
    while inner is not None and inner.node is not None:
        inner = cast(nodes.Filter, inner.node)
    if inner is None:
        block.filter = captured
    else:
        inner.node = captured
    if isinstance(block, nodes.FilterBlock):
        block.filter = _filtered(block.filter, PRINTED)


def _joined(concat: nodes.Concat) -> nodes.Filter:
    return _filtered(nodes.List(concat.nodes, lineno=concat.lineno), JOINED)


def _filtered(node: nodes.Expr, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
