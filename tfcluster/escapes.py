"""Text that others wrote, made fit for a terminal: no control characters, no escape sequences.

Specs, logs, engines, file names and variables can contain sequences that move the cursor, change
the window's title or answer as if typed. Whoever shows such text passes it through here first.
"""

from __future__ import annotations

import re

REPLACEMENT = "�"
SEQUENCE = (
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement, erasing
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS and other strings: titles, links
    r"|\x1b[ -/]*[0-~]?"  # the rest
)
# Besides ASCII's: C1, which terminals obey as well, half characters, what breaks lines in some
# programs, and what turns the direction of text around.
CONTROL = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
SGR = re.compile(r"\x1b\[[0-9;:]*m")
ESCAPE = re.compile(f"{SEQUENCE}|{CONTROL}")
_CONTROL = re.compile(CONTROL)
_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def visible(text: str) -> str:
    """One line in which every character can be seen."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else REPLACEMENT for char in text)


def disarmed(text: str) -> str:
    """The text with its lines and tabs, and with a mark in place of every escape sequence."""
    return ESCAPE.sub(REPLACEMENT, text) if _CONTROL.search(text) else text


def stripped(text: str) -> str:
    """What a program printed, without its escape sequences."""
    return ESCAPE.sub("", text)


def disarmed_json(text: str) -> str:
    """JSON that means the same and that a terminal can be given."""
    return _JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
