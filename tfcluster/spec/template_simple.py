"""Templates that need no watching, because they can do no more than a little work.

Most specs ask for a few variables and do some arithmetic. Their cost is known from their text, so
they are rendered on the spot; whatever loops, repeats or builds is rendered in a child process.
"""

from __future__ import annotations

from jinja2 import TemplateSyntaxError, nodes

from tfcluster.spec.template_sandbox import SpecEnvironment

_MAX_SOURCE = 2**16
_MAX_NODES = 500  # of those that compute something
_FILTERS = frozenset(
    {
        *(
            "abs",
            "capitalize",
            "count",
            "d",
            "default",
            "float",
            "int",
            "length",
            "lower",
            "replace",
        ),
        *("round", "string", "title", "tojson", "trim", "upper"),
    }
)
_FREE = (nodes.Output, nodes.TemplateData)
_CHEAP = (
    *(nodes.Add, nodes.And, nodes.Compare, nodes.Concat, nodes.CondExpr, nodes.Const, nodes.Dict),
    *(nodes.Div, nodes.FloorDiv, nodes.If, nodes.Keyword, nodes.List, nodes.Mod, nodes.Mul),
    *(nodes.Name, nodes.Neg, nodes.Not, nodes.Operand, nodes.Or, nodes.Pair, nodes.Pos, nodes.Sub),
    *(nodes.Test, nodes.Tuple),
)


def is_simple(source: str) -> bool:
    """Whether rendering this takes a moment at most, whatever the variables are."""
    if len(source) > _MAX_SOURCE or source.count("{{") + source.count("{%") > _MAX_NODES:
        return False
    try:
        found = list(SpecEnvironment({}).parse(source).find_all(nodes.Node))
    except (TemplateSyntaxError, RecursionError, MemoryError):
        return False
    work = [node for node in found if not isinstance(node, _FREE)]
    return len(work) <= _MAX_NODES and all(map(_is_cheap, work))


def _is_cheap(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter):
        return node.name in _FILTERS
    if isinstance(node, nodes.Call):
        return isinstance(node.node, nodes.Name) and node.node.name == "env"
    return isinstance(node, _CHEAP)
