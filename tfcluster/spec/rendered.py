"""A template's output, and the way back from it to the source.

Imports no template engine: most specs are plain YAML, and need none.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from tfcluster.spec.places import Span


@dataclass(frozen=True)
class Value:
    """A stretch of the output that came from `--var` or `env()`, and not from the template."""

    start: int
    end: int
    origin: str  # as messages call it: the variable "x"
    json: bool = False  # written by tojson: a whole YAML value


@dataclass(frozen=True)
class Rendered:
    """What a template printed."""

    text: str
    source: str
    _starts: tuple[int, ...]
    _places: tuple[tuple[int, int | None], ...]
    values: tuple[Value, ...] = ()

    @classmethod
    def literally(cls, source: str) -> Rendered:
        """A source that is its own output."""
        return cls(source, source, (0,), ((0, None),))

    def origin(self, span: Span) -> Span:
        """The stretch of the source that this stretch of the output was written by."""
        index = bisect.bisect_right(self._starts, span.start) - 1
        if index < 0:
            return Span(0, 0)
        offset, length = self._places[index]
        if length is not None:
            return Span(offset, offset + length)
        start = min(offset + span.start - self._starts[index], len(self.source))
        end = self._end(span, index)
        return Span(start, max(start, min(end, len(self.source))))

    def _end(self, span: Span, first: int) -> int:
        """Where the span ends, following it over `{{ … }}` that continue the same text."""
        index = max(first, bisect.bisect_left(self._starts, span.end) - 1)
        offset, length = self._places[index]
        return offset + (span.end - self._starts[index] if length is None else length)
