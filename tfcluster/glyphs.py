"""The few characters of ours that are not ASCII, and what stands for them where only ASCII is.

`LANG=C` says that a terminal shows nothing else; Python writes UTF-8 to it all the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

ASCII = {
    "✓": "ok",
    "✗": "no",
    "…": "...",
    "→": "->",
    "━": "=",
    "╸": "-",
    "�": "?",
}
PLAIN_LOCALES = ("C", "POSIX")
# What Python itself sets where LANG is C, so that it says nothing about the terminal.
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")

_ascii = False
_TABLE = str.maketrans(ASCII)


def choose_glyphs(*streams: TextIO) -> None:
    """Use ASCII for the rest of this process if the locale or one of these streams wants it."""
    global _ascii
    _ascii = is_plain_locale(os.environ) or not all(map(takes_glyphs, streams))


def is_plain_locale(environ: Mapping[str, str]) -> bool:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name)
        if value and not (name == "LC_CTYPE" and value in COERCED):
            return value in PLAIN_LOCALES
    return False


def takes_glyphs(stream: TextIO) -> bool:
    try:
        "".join(ASCII).encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def glyph(character: str) -> str:
    """A character of ASCII's table, or what stands for it here."""
    return ASCII[character] if _ascii else character


def with_glyphs(text: str) -> str:
    """A text of ours, with what stands here for the characters in it that are not ASCII."""
    return text.translate(_TABLE) if _ascii and not text.isascii() else text
