"""Which parts of a template's output are values that a person gave, and which the template's own.

A value of `--var` or `env()` is data. It enters the template as `Given`, a text that remembers
where it came from; whatever is made from it is `Given` too. When it is printed, marks go around
it, so that the loader can see whether YAML reads it as one value (`tfcluster.spec.data_values`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex, TypeVar

from tfcluster.spec.template_marks import MARK_CLOSE, RESERVED, VALUE_END, VALUE_OPEN

_VALUE_MARK = re.compile(f"{VALUE_OPEN}([0-9]{{1,9}}){MARK_CLOSE}|{VALUE_END}")

Filter = TypeVar("Filter", bound=Callable[..., Any])


class TemplateRefused(Exception):
    """The template asks for something that specs do not allow."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


class Given(str):
    """A text that comes from a person's value; `marked` is what it prints, if only parts do."""

    origin: str
    json: bool
    marked: str | None

    def __new__(
        cls, text: str, origin: str, *, json: bool = False, marked: str | None = None
    ) -> Given:
        made = super().__new__(cls, text)
        made.origin, made.json, made.marked = origin, json, marked
        return made

    def like(self, text: str) -> Given:
        """Another text that was made from this one."""
        return Given(text, self.origin)

    def __getitem__(self, key: SupportsIndex | slice) -> Given:
        return self.like(super().__getitem__(key))

    def __iter__(self) -> Iterator[Given]:
        return (self.like(char) for char in str(self))

    def __mul__(self, count: SupportsIndex) -> Given:
        return self.like(super().__mul__(count))

    __rmul__ = __mul__


def given(text: Any, origin: str) -> Any:
    """The same, if it is a text, as a person's value."""
    if isinstance(text, str) and not isinstance(text, Given):
        return Given(text, origin)
    return text


def derived(result: Any, source: Any) -> Any:
    """What was made from `source`: a person's value if that was one."""
    if not isinstance(source, Given):
        return result
    if isinstance(result, (list, tuple)):
        return type(result)(given(item, source.origin) for item in result)
    return given(result, source.origin)


def follows(function: Filter) -> Filter:
    """The filter, so that what it makes from a person's value stays one."""

    @functools.wraps(function)
    def followed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        sources = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Given)]
        if not sources or isinstance(result, Given):
            return result
        source = sources[0]
        if source.marked is None or not isinstance(result, str):
            return derived(result, source)
        # A text of which only parts are values: if the filter leaves the marks alone, so it stays.
        marked = function(*(getattr(arg, "marked", None) or arg for arg in args), **kwargs)
        kept = isinstance(marked, str) and unmarked(marked) == result
        return Given(result, source.origin, marked=marked if kept else None)

    return followed  # type: ignore[return-value]


class Printer:
    """Prints values with marks around them, and remembers what each of them is."""

    def __init__(self) -> None:
        self.printed: list[tuple[str, bool]] = []

    def text(self, value: str) -> str:
        """What `{{ value }}` prints."""
        if isinstance(value, Given) and value.marked is not None:
            return value.marked
        if RESERVED.search(value):
            what = value.origin if isinstance(value, Given) else "an expression"
            hint = "write {{ … | tojson }} to insert any text"
            raise TemplateRefused(
                f"{what} contains a character that cannot be used in a spec", hint
            )
        if not isinstance(value, Given):
            return value
        self.printed.append((value.origin, value.json))
        return f"{VALUE_OPEN}{len(self.printed) - 1}{MARK_CLOSE}{value!s}{VALUE_END}"

    def joined(self, parts: Iterable[str], separator: str = "") -> str:
        """The parts as one text, of which some may be values."""
        texts = list(parts)
        between = self.text(separator)
        return self.captured(between.join(self.text(text) for text in texts))

    def captured(self, printed: str) -> str:
        """What a macro or a block has printed, as a text that can be looked at."""
        match = _VALUE_MARK.search(printed)
        if match is None:
            return printed
        origin, _ = self.printed[int(match[1])]
        return Given(unmarked(printed), origin, marked=printed)


def unmarked(text: str) -> str:
    return _VALUE_MARK.sub("", text)
