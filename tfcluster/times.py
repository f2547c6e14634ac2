"""Moments as people read them: the time of this machine's zone, with its offset, everywhere."""

from __future__ import annotations

from datetime import datetime


def local(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds).astimezone()


def moment(seconds: float | None) -> str:
    """`2026-01-31 13:00:00+01:00`, for tables; nothing for no time."""
    return local(seconds).isoformat(" ", "seconds") if seconds else ""


def exact_moment(seconds: float) -> str:
    """`2026-01-31T13:00:00.123+01:00`, one word, for lines; `logs --since` takes it back."""
    return local(seconds).isoformat("T", "milliseconds")


def time_of_day(seconds: float) -> str:
    """`13:00:00+01:00`."""
    return local(seconds).timetz().isoformat("seconds")
