"""Where a bracket, a quote or a tag was opened that is never closed.

Readers notice it much later, where what follows makes no sense, and that is where they point to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tfcluster.spec.places import Mistake, Span

_PAIRS = {"[": "]", "{": "}"}
# Quoted texts and comments, in which brackets mean nothing; then the brackets.
_YAML_TOKEN = re.compile(
    r"""(?<!\w)"(?:[^"\\]|\\.)*"|(?<!\w)'[^']*'|(?<!\S)\#[^\n]*|[\[\]{}]""", re.DOTALL
)
_TAG = re.compile(r"\{\{|\{#|\{%[-+]?\s*(\w*)")
_CLOSES = {"{{": "}}", "{%": "%}", "{#": "#}"}
_INSIDE_TAG = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[{%]|[}%]\}""", re.DOTALL)
_END_OF_RAW = re.compile(r"\{%[-+]?\s*endraw")
_BLOCKS = {"if", "for", "macro", "call", "filter", "block", "with", "set", "raw"}


def is_closed(text: str, opening: int) -> bool:
    """Whether the bracket at this place of a YAML text has its counterpart."""
    expected: list[str] = []
    for found in _YAML_TOKEN.finditer(text, opening):
        token = found[0]
        if token in _PAIRS:
            expected.append(_PAIRS[token])
        elif token in _PAIRS.values():
            if expected.pop() != token:
                return False
            if not expected:
                return True
    return False


def unclosed_at(text: str, opening: int, noticed: int) -> Mistake | None:
    """The mistake, if the bracket or quote at `opening` of a YAML text is never closed."""
    sign, place = text[opening : opening + 1], Span(opening, opening + 1)
    # On one line the place where it was noticed says more: [a, b}
    later = "\n" in text[opening:noticed] or noticed >= len(text)
    if sign in _PAIRS and later and not is_closed(text, opening):
        message = f'"{sign}" is opened here and never closed'
        return Mistake(message, place, f'close it with "{_PAIRS[sign]}"')
    if sign in ("'", '"') and noticed >= len(text.rstrip()):
        return Mistake(f"a quote ({sign}) is opened here and never closed", place)
    return None


@dataclass(frozen=True)
class _Tag:
    kind: str  # {{, {% or {#
    word: str  # the first in a block
    start: int
    end: int | None  # None if it is not closed
    inside: str = ""


def unclosed_tag(source: str, lineno: int) -> Mistake | None:
    """The first tag or block of a template that is opened by this line and not closed."""
    open_blocks: list[_Tag] = []
    for tag in _tags(source):
        if source.count("\n", 0, tag.start) >= lineno:
            break
        if tag.end is None:
            closing = _CLOSES[tag.kind]
            message = f'"{tag.kind}" is opened here and never closed'
            return Mistake(message, Span(tag.start, tag.start + 2), f'close it with "{closing}"')
        if tag.word in _BLOCKS and not (tag.word == "set" and "=" in tag.inside):
            open_blocks.append(tag)
        elif tag.word.startswith("end") and open_blocks:
            if open_blocks[-1].word != tag.word[3:]:
                break
            open_blocks.pop()
    if not open_blocks:
        return None
    opened = open_blocks[-1]
    message = f'"{{% {opened.word} %}}" is opened here and never closed'
    hint = f'close it with "{{% end{opened.word} %}}"'
    return Mistake(message, Span(opened.start, opened.end or opened.start + 2), hint)


def _tags(source: str) -> Iterator[_Tag]:
    """Every tag up to the first that is not closed."""
    position = 0
    while (found := _TAG.search(source, position)) is not None:
        kind, word = found[0][:2], found[1] or ""
        closed = _closing(source, found.end(), kind)
        if closed is None:
            yield _Tag(kind, word, found.start(), None)
            return
        yield _Tag(kind, word, found.start(), closed + 2, source[found.end() : closed])
        position = closed + 2
        if word == "raw":
            raw = _END_OF_RAW.search(source, position)
            position = raw.start() if raw else len(source)


def _closing(source: str, position: int, kind: str) -> int | None:
    """Where the tag is closed; None if another one is opened first."""
    if kind == "{#":
        found = source.find("#}", position)
        return None if found < 0 else found
    for token in _INSIDE_TAG.finditer(source, position):
        if token[0] == _CLOSES[kind]:
            return token.start()
        if token[0] in _CLOSES:
            return None
    return None
