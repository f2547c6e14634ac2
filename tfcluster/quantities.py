"""Durations and sizes as people write them: `90s`, `1h30m`, `2Gi`, `500M`."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Decimal

LONGEST_SECONDS = 10 * 366 * 86400.0
LARGEST_BYTES = 2**63 - 1

_UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_DURATION = re.compile(
    rf"(?:({_NUMBER})d)?(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?(?:({_NUMBER})ms)?"
)
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_FACTORS = {"": 1, **_BINARY, **_DECIMAL}
_QUANTITY = re.compile(rf"({_NUMBER})(?:[eE]([0-9]{{1,2}})|([A-Za-z]*))")


class BadQuantity(ValueError):
    """A duration or size that cannot be read; `hint` says how to write it."""

    def __init__(self, message: str, hint: str):
        super().__init__(message)
        self.hint = hint


def parse_duration(value: str | int | float) -> float:
    """Seconds: `90`, `"90s"`, `"2m"`, `"1h30m"`, `"500ms"`; BadQuantity for anything else."""
    hint = "write seconds (90) or units (90s, 2m, 1h30m)"
    seconds: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value) if abs(value) <= LONGEST_SECONDS else math.inf
    elif isinstance(value, str):
        seconds = _duration_text(value.strip())
    if seconds is None or math.isnan(seconds):
        raise BadQuantity("expected a duration", hint)
    if seconds < 0:
        raise BadQuantity("a duration cannot be negative", hint)
    if seconds > LONGEST_SECONDS:
        raise BadQuantity("a duration cannot be longer than ten years", hint)
    return seconds


def _duration_text(text: str) -> float | None:
    if re.fullmatch(_NUMBER, text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        return None
    parts = zip(match.groups(), _UNIT_SECONDS.values(), strict=True)
    return math.fsum(float(number) * unit for number, unit in parts if number is not None)


def parse_quantity(value: str | int) -> int:
    """Bytes of a Kubernetes quantity (`2Gi`, `500M`, `1e9`, 1048576); BadQuantity otherwise."""
    hint = "write a size such as 512Mi, 2Gi or 500M"
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadQuantity("expected a size", hint)
    if isinstance(value, int):
        size = Decimal(value) if abs(value) <= LARGEST_BYTES else Decimal(LARGEST_BYTES + 1)
    else:
        size = _quantity_text(value.strip(), hint)
    if size < 1:
        raise BadQuantity("a size must be at least one byte", hint)
    if size > LARGEST_BYTES:
        raise BadQuantity("a size must be less than 8Ei", hint)
    return int(size.to_integral_value(ROUND_CEILING))


def _quantity_text(text: str, hint: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise BadQuantity("expected a size", hint)
    number, exponent, suffix = match.group(1), match.group(2), match.group(3) or ""
    if exponent is not None:
        return Decimal(number).scaleb(int(exponent))
    if suffix in _FACTORS:
        return Decimal(number) * _FACTORS[suffix]
    raise BadQuantity(f'unknown size unit "{suffix}"', _suffix_hint(number, suffix) or hint)


def _suffix_hint(number: str, suffix: str) -> str | None:
    """`512m`, `2gb`, `2GiB`: what was probably meant."""
    letter = suffix[:1].upper()
    if letter not in "KMGTPE" or suffix[1:].lower() not in {"", "b", "i", "ib"}:
        return None
    decimal = f"{number}{'k' if letter == 'K' else letter}"
    return f'did you mean "{number}{letter}i" (powers of 1024) or "{decimal}" (powers of 1000)?'


def format_bytes(size: int) -> str:
    """`2Gi`, `1.5Gi`, `512`: the largest binary unit, one decimal at most."""
    for suffix, factor in reversed(_BINARY.items()):
        if size >= factor:
            return f"{_short(size / factor)}{suffix}"
    return str(size)


def format_duration(seconds: float) -> str:
    """`1h30m`, `2m`, `9.8s`, `0.5s`: no more than the two largest units."""
    if seconds < 60 and (text := _short(seconds)) != "60":
        return f"{text}s"
    total = round(seconds)
    if total >= 3600:
        total = round(total / 60) * 60
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (left, "s")]
    return "".join([f"{count}{unit}" for count, unit in parts if count][:2])


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
