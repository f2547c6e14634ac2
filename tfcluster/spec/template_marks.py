"""Which place of the template a place of its output comes from.

Before rendering, invisible marks with a number go into the template's tree: one in front of every
literal text, and one in front of every `{{ … }}`. Afterwards they are taken out of
the output again, and each says where the text behind it was written. Text that the template looks
at itself (macros, `{% set %}…{% endset %}`, filter blocks) stays unmarked, so that marks never
change what a template does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, nodes

from tfcluster.spec.places import Span
from tfcluster.spec.rendered import Rendered, Value

MARK_OPEN, MARK_CLOSE = "\ue000", "\ue001"
# Around a person's value: VALUE_OPEN, a number, MARK_CLOSE, the value, VALUE_END.
VALUE_OPEN, VALUE_END = "\ue002", "\ue003"
RESERVED = re.compile("[\ue000-\ue003]")
_MARK = re.compile("\ue000([0-9]{1,9})\ue001|\ue002([0-9]{1,9})\ue001|\ue003")
_CAPTURING = (nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.AssignBlock, nodes.Block)


@dataclass
class Marks:
    """The marks given out so far; `length` is None where output follows the source literally."""

    places: list[tuple[int, int | None]] = field(default_factory=list)

    def new(self, offset: int, length: int | None = None) -> str:
        self.places.append((offset, length))
        return f"{MARK_OPEN}{len(self.places) - 1}{MARK_CLOSE}"


def mark_tree(env: Environment, tree: nodes.Template, source: str) -> Marks:
    """Puts marks into the tree of `source`; returns where each of them belongs."""
    literals, expressions = _spans(env, source)
    marks = Marks()
    _mark_node(tree, iter(literals), iter(expressions), marks, source, False)
    return marks


def take_marks_out(
    output: str, marks: Marks, source: str, printed: Sequence[tuple[str, bool]] = ()
) -> Rendered:
    """The output without its marks; `printed` says what the values are."""
    starts: list[int] = []
    places: list[tuple[int, int | None]] = []
    values: list[Value] = []
    texts: list[str] = []
    position = size = begin = 0
    origin, json = "", False
    for match in _MARK.finditer(output):
        texts.append(output[position : match.start()])
        size += match.start() - position
        position = match.end()
        if match[1] is not None:
            starts.append(size)
            places.append(marks.places[int(match[1])])
        elif match[2] is not None:
            begin, (origin, json) = size, printed[int(match[2])]
        else:
            values.append(Value(begin, size, origin, json))
    texts.append(output[position:])
    return Rendered("".join(texts), source, tuple(starts), tuple(places), tuple(values))


def unmarked_length(text: str) -> int:
    """How long the text is without its marks."""
    return len(text) - sum(len(match[0]) for match in _MARK.finditer(text))


def _spans(env: Environment, source: str) -> tuple[list[int], list[Span]]:
    """Where the literal texts start, and where the `{{ … }}` are, in order."""
    literals: list[int] = []
    expressions: list[Span] = []
    position = begin = 0
    for _, kind, value in env.lex(source):
        # `{%-` and lstrip_blocks drop white space in front of a tag from the tokens.
        while not source.startswith(value, position) and position < len(source):
            position += 1
        if kind == "data":
            literals.append(position)
        elif kind == "variable_begin":
            begin = position
        elif kind == "variable_end":
            expressions.append(Span(begin, position + len(value.rstrip())))
        position += len(value)
    return literals, expressions


def _mark_node(
    node: nodes.Node,
    literals: Iterator[int],
    expressions: Iterator[Span],
    marks: Marks,
    source: str,
    captured: bool,
) -> None:
    """Marks one node and those under it, in the order of the source."""
    if isinstance(node, nodes.Output):
        marked: list[nodes.Expr] = []
        for printed in node.nodes:
            if isinstance(printed, nodes.TemplateData):
                offset = next(literals)
                if not captured:
                    printed.data = marks.new(offset) + printed.data
            else:
                span = next(expressions)
                if not captured:
                    mark = marks.new(span.start, span.end - span.start)
                    marked.append(nodes.TemplateData(mark, lineno=printed.lineno))
            marked.append(printed)
        node.nodes = marked
        return
    inside = captured or isinstance(node, _CAPTURING)
    for child in list(node.iter_child_nodes()):
        _mark_node(child, literals, expressions, marks, source, inside)
    if not captured:
        _mark_blocks(node, marks, source)


def _mark_blocks(node: nodes.Node, marks: Marks, source: str) -> None:
    """Puts a mark in front of every block whose output comes as one piece."""
    for _, value in node.iter_fields():
        if not (isinstance(value, list) and any(isinstance(v, _CAPTURING) for v in value)):
            continue
        out: list[nodes.Node] = []
        for child in value:
            if isinstance(child, (nodes.CallBlock, nodes.FilterBlock, nodes.Block)):
                span = _line_span(source, child.lineno)
                mark = nodes.TemplateData(marks.new(span.start, span.end - span.start))
                out.append(nodes.Output([mark], lineno=child.lineno))
            out.append(child)
        value[:] = out


def _line_span(source: str, lineno: int) -> Span:
    lines = source.split("\n")
    start = sum(len(line) + 1 for line in lines[: lineno - 1])
    line = lines[lineno - 1]
    return Span(start + len(line) - len(line.lstrip()), start + len(line.rstrip()))
