"""From YAML text to plain data that remembers where everything was written.

YAML 1.2 core schema: `no` is a text and `1:30` is a text. Built from the parser's events, so that
a hostile file is refused while it is read, before it has cost much.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from tfcluster.spec.places import Mistake, Span
from tfcluster.spec.unclosed import unclosed_at
from tfcluster.spec.yaml_scalars import TOO_LONG, core_scalar, core_text

Path = tuple[str | int, ...]

MAX_NODES = 10_000
MAX_DEPTH = 50
_TAG = "tag:yaml.org,2002:"
_HINTS = {
    "mapping values are not allowed": 'quote a string that contains ": "',
    "expected <block end>": "check the indentation of this line and the lines above",
    "could not find expected ':'": "check the indentation, and the line above for a missing colon",
    "found character '\\t'": "indent with spaces, not tabs",
    "cannot start any token": "quote a string that starts with this character",
}


class YamlMistake(Exception):
    """The text cannot be read any further; the last of `mistakes` is why."""

    def __init__(self, *mistakes: Mistake):
        super().__init__(mistakes[-1].message)
        self.mistakes = mistakes


@dataclass
class _Node:
    """A value as parsed; `size` counts everything below it with aliases written out."""

    span: Span
    value: Any
    size: int = 1


@dataclass
class YamlData:
    """Plain data, where its keys and values are, and mistakes that did not stop the reading."""

    data: Any
    keys: dict[Path, Span] = field(default_factory=dict)
    values: dict[Path, Span] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)


def read_yaml(text: str) -> YamlData:
    """The one document in `text`; YamlMistake where it cannot be read at all."""
    builder = _Builder(text)
    try:
        root = builder.document()
    except YamlMistake as error:
        raise YamlMistake(*builder.mistakes, *error.mistakes) from None
    except ReaderError as error:
        span = Span(error.position, error.position + 1)
        message = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise YamlMistake(Mistake(message, span)) from None
    except MarkedYAMLError as error:
        raise YamlMistake(*builder.mistakes, _syntax_mistake(error, text)) from None
    except (YAMLError, RecursionError, ValueError, IndexError) as error:
        raise YamlMistake(Mistake(f"this is not YAML: {error}".split("\n")[0])) from None
    out = YamlData(None, mistakes=builder.mistakes)
    out.data = _plain(root, (), out)
    return out


def write_yaml(data: Any) -> str:
    """Plain data as YAML, in the order it has."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


class _Builder:
    """Builds one document's nodes from parser events, within limits."""

    def __init__(self, text: str):
        self.mistakes: list[Mistake] = []
        self._events: Iterator[Any] = iter(YAML(typ="safe", pure=True).parse(text))
        self._anchors: dict[str, _Node | None] = {}
        self._count = 0

    def document(self) -> _Node:
        next(self._events)
        event = next(self._events)
        if isinstance(event, ev.StreamEndEvent):
            raise YamlMistake(Mistake("the file is empty", hint="tfcluster init writes one"))
        root = self._node(next(self._events), 0)
        next(self._events)
        event = next(self._events)
        if not isinstance(event, ev.StreamEndEvent):
            message = "a spec is one YAML document, and here a second one starts"
            raise YamlMistake(Mistake(message, _span(event), 'remove "---" and what follows it'))
        return root

    def _node(self, event: Any, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            message = f"nested more than {MAX_DEPTH} levels deep"
            raise YamlMistake(Mistake(message, _span(event)))
        if isinstance(event, ev.AliasEvent):
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, ev.ScalarEvent):
            node = _Node(_span(event), self._scalar(event))
        elif isinstance(event, ev.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._spend(1, node.span)
        return node

    def _spend(self, size: int, span: Span) -> None:
        self._count += size
        if self._count > MAX_NODES:
            message = f"more than {MAX_NODES:,} values, with aliases written out"
            raise YamlMistake(Mistake(message, span))

    def _alias(self, event: Any) -> _Node:
        node = self._anchors.get(event.anchor, None)
        if node is None:
            inside = event.anchor in self._anchors
            what = "contains itself" if inside else "is not defined above"
            raise YamlMistake(Mistake(f'the alias "*{event.anchor}" {what}', _span(event)))
        self._spend(node.size, _span(event))
        return node

    def _scalar(self, event: Any) -> Any:
        tag = str(event.tag) if event.tag is not None else None
        if tag not in (None, "!", _TAG + "str"):
            self._refuse_tag(event, tag)
            return event.value
        if tag is not None or event.style:
            return event.value
        value = core_scalar(event.value)
        if value is TOO_LONG:
            self.mistakes.append(Mistake("this number has too many digits", _span(event)))
            return 0
        return value

    def _refuse_tag(self, event: Any, tag: str | None) -> None:
        shown = (tag or "").replace(_TAG, "!!")
        message = f'the YAML tag "{shown}" is not allowed'
        self.mistakes.append(Mistake(message, _span(event), "write the plain value"))

    def _sequence(self, event: Any, depth: int) -> _Node:
        if event.tag not in (None, _TAG + "seq"):
            self._refuse_tag(event, str(event.tag))
        items: list[_Node] = []
        while not isinstance(inner := next(self._events), ev.SequenceEndEvent):
            items.append(self._node(inner, depth + 1))
        return _Node(_span(event), items, 1 + sum(item.size for item in items))

    def _mapping(self, event: Any, depth: int) -> _Node:
        if event.tag not in (None, _TAG + "map"):
            self._refuse_tag(event, str(event.tag))
        own: dict[str, tuple[_Node, _Node]] = {}
        merged: dict[str, tuple[_Node, _Node]] = {}
        size = 1
        while not isinstance(inner := next(self._events), ev.MappingEndEvent):
            key = self._node(inner, depth + 1)
            value = self._node(next(self._events), depth + 1)
            size += key.size + value.size
            if key.value == "<<" and isinstance(inner, ev.ScalarEvent) and not inner.style:
                self._merge(value, merged)
            elif not isinstance(key.value, str):
                self._refuse_key(key)
            elif key.value in own:
                self._refuse_duplicate(key, own[key.value][0])
            else:
                own[key.value] = (key, value)
        rest = {name: pair for name, pair in merged.items() if name not in own}
        return _Node(_span(event), {**own, **rest}, size)

    def _merge(self, value: _Node, into: dict[str, tuple[_Node, _Node]]) -> None:
        parts = value.value if isinstance(value.value, list) else [value]
        for part in parts:
            if not isinstance(part.value, dict):
                message = '"<<" takes a mapping or a list of mappings'
                self.mistakes.append(Mistake(message, part.span))
                continue
            for name, pair in part.value.items():
                into.setdefault(name, pair)

    def _refuse_key(self, key: _Node) -> None:
        if isinstance(key.value, (dict, list)):
            self.mistakes.append(
                Mistake(
                    "a key must be a string, not a list or a mapping",
                    key.span,
                    'template expressions are written "{{ name }}", with two braces',
                )
            )
        else:
            written = core_text(key.value)
            message = f"the key {written} is not a string"
            self.mistakes.append(Mistake(message, key.span, f'quote it: "{written}"'))

    def _refuse_duplicate(self, key: _Node, first: _Node) -> None:
        message = f'the key "{key.value}" is here twice'
        hint = "remove one of the two"
        self.mistakes.append(Mistake(message, key.span, hint, first=first.span))


def _span(event: Any) -> Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, (ev.SequenceStartEvent, ev.MappingStartEvent)):
        end = max(end, start + 1)
    return Span(start, max(end, start))


def _syntax_mistake(error: MarkedYAMLError, text: str) -> Mistake:
    mark, opened = error.problem_mark or error.context_mark, error.context_mark
    if mark is not None and opened is not None:
        unclosed = unclosed_at(text, opened.index, mark.index)
        if unclosed is not None:
            return unclosed
    problem = str(error.problem or error.context or "this is not YAML")
    if "\\t" in problem:
        message = "a tab cannot be used for indentation"
    else:
        context = f" {error.context}" if error.context and error.problem else ""
        message = f"YAML: {problem}{context}"
    hint = next((words for part, words in _HINTS.items() if part in problem), None)
    span = None if mark is None else Span(mark.index, mark.index + 1)
    return Mistake(message, span, hint)


def _plain(node: _Node, path: Path, out: YamlData) -> Any:
    """The node's plain value; the places of everything in it go into `out`."""
    out.values[path] = node.span
    if isinstance(node.value, list):
        return [_plain(item, (*path, index), out) for index, item in enumerate(node.value)]
    if not isinstance(node.value, dict):
        return node.value
    data = {}
    for name, (key, value) in node.value.items():
        below = (*path, name)
        out.keys[below] = key.span
        data[name] = _plain(value, below, out)
    return data
