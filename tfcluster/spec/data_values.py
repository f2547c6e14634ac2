"""Whether YAML reads every value of `--var` and `env()` as the value that it is.

A value must not become structure: a line end in it would add keys to the spec. So the output is
parsed twice, as it is and with a harmless word in place of every value. Both must have the same
structure, and every text must be the same with the words replaced by the values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import YAMLError

from tfcluster.spec.places import Mistake, Span
from tfcluster.spec.rendered import Rendered, Value

# Such a value is one word wherever it stands.
_HARMLESS = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./-]*")
_MOST_EVENTS = 40_000  # more than a spec can have
_BREAKS = "\n\r\x85\u2028\u2029"


def check_values(rendered: Rendered) -> list[Mistake]:
    """A mistake if some value would not be read as what it is: the first such value."""
    text = rendered.text
    risky = [value for value in rendered.values if not _is_harmless(value, text)]
    if not risky:
        return []
    swapped = _Swapped.of(text, risky)
    place = swapped.first_difference()
    if place is None:
        return []
    value = swapped.culprit(place)
    written = text[value.start : value.end]
    message = f"{value.origin} {_reason(written)}: YAML would not read it as one value here"
    hint = "write {{ … | tojson }} without quotes around it; to change the structure, use --set"
    return [Mistake(message, Span(value.start, value.end), hint)]


def _is_harmless(value: Value, text: str) -> bool:
    if value.json or text[max(0, value.start - 1) : value.start] == "\\":
        return False
    return _HARMLESS.fullmatch(text, value.start, value.end) is not None


def _reason(written: str) -> str:
    """What it is about a value that YAML takes as more than a value."""
    if any(char in _BREAKS for char in written):
        return "has a line end"
    for part in (": ", " #"):
        if part in written:
            return f'has "{part}" in it'
    found = re.search(r"""[]\[{},"'\\:#&*!|>%@`-]""", written)
    return f"has {found[0]} in it" if found else "is empty or blank"


@dataclass(frozen=True)
class _Swapped:
    """The output with a word in place of every value."""

    actual: str
    text: str
    word: re.Pattern[str]
    values: list[Value]
    starts: list[int]  # of the words

    @classmethod
    def of(cls, actual: str, values: list[Value]) -> _Swapped:
        nonce = next(n for n in itertools.count() if f"Q{n}Q" not in actual)
        parts, starts, position, size = [], [], 0, 0
        for number, value in enumerate(values):
            before, word = actual[position : value.start], f"Q{nonce}Q{number}Q"
            starts.append(size + len(before))
            size += len(before) + len(word)
            parts += [before, word]
            position = value.end
        text = "".join([*parts, actual[position:]])
        return cls(actual, text, re.compile(f"Q{nonce}Q([0-9]+)Q"), values, starts)

    def first_difference(self) -> int | None:
        """Where in `text` the structure or a text differs first; None if nowhere."""
        wanted, found = _events(self.text), _events(self.actual)
        end = 0
        for _ in range(_MOST_EVENTS):
            here = next(wanted, None)
            whole = self._whole_value(here)
            if whole is not None and whole.json:
                same = self._same_json(whole, here, found)
            else:
                same = self._same(here, next(found, None))
            if here is None or isinstance(here, _Unreadable):
                return None if same else end
            end = here.end_mark.index
            if not same:
                return int(end)
        return None

    def _same(self, wanted: Any, found: Any) -> bool:
        if type(wanted) is not type(found):
            return False
        if wanted is None or isinstance(wanted, _Unreadable):
            return True
        for name in ("anchor", "tag", "style", "flow_style", "explicit"):
            if self._filled(getattr(wanted, name, None)) != _plain(getattr(found, name, None)):
                return False
        if not isinstance(wanted, ev.ScalarEvent):
            return True
        if not wanted.style:
            # White space around a plain value is not part of it.
            text = self._filled(wanted.value).strip(" \t")
            return bool(text == found.value) and (text != "<<" or wanted.value == "<<")
        return bool(self._filled(wanted.value) == found.value)

    def _filled(self, text: Any) -> Any:
        """The text with the values themselves."""
        if text is None or isinstance(text, bool):
            return text
        return self.word.sub(lambda match: self._written(self.values[int(match[1])]), str(text))

    def _written(self, value: Value) -> str:
        return self.actual[value.start : value.end]

    def _whole_value(self, event: Any) -> Value | None:
        """The value that is all of a plain scalar."""
        if not isinstance(event, ev.ScalarEvent) or event.style:
            return None
        match = self.word.fullmatch(event.value)
        return self.values[int(match[1])] if match else None

    def _same_json(self, value: Value, wanted: Any, found: Iterator[Any]) -> bool:
        """Whether what tojson wrote is there as the value that it was made from."""
        inner = list(_events(self._written(value)))[2:-2]
        for number, part in enumerate(inner):
            event = next(found, None)
            if type(event) is not type(part) or isinstance(event, _Unreadable):
                return False
            if getattr(event, "value", None) != getattr(part, "value", None):
                return False
            outer = (wanted.anchor, wanted.tag) if number == 0 else (None, None)
            given = (getattr(event, "anchor", None), getattr(event, "tag", None))
            if tuple(map(self._filled, outer)) != tuple(map(_plain, given)):
                return False
        return True

    def culprit(self, end: int) -> Value:
        """The value to name for a difference that was seen before `end`."""
        before = [
            value for value, start in zip(self.values, self.starts, strict=True) if start < end
        ]
        return before[-1] if before else self.values[0]


class _Unreadable:
    """Stands for the place where a text stops being YAML."""


def _events(text: str) -> Iterator[Any]:
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except (YAMLError, RecursionError, ValueError, IndexError):
        yield _Unreadable()


def _plain(text: Any) -> Any:
    return text if text is None or isinstance(text, bool) else str(text)
