"""Durations and sizes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfcluster.quantities import (
    BadQuantity,
    format_bytes,
    format_duration,
    parse_duration,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(90, 90.0), ("90", 90.0), ("90s", 90.0), ("2m", 120.0), ("1h30m", 5400.0), ("500ms", 0.5)],
)
def test_durations(written: str | int, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "soon", "1m1h", "-1s", -1, math.nan, math.inf, "1e9h", True]
)
def test_bad_durations(written: str | float) -> None:
    with pytest.raises(BadQuantity):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [("2Gi", 2**31), ("500M", 500_000_000), ("1.5Ki", 1536), ("1e3", 1000), (7, 7), ("1k", 1000)],
)
def test_sizes(written: str | int, size: int) -> None:
    assert parse_quantity(written) == size


@pytest.mark.parametrize("written", ["", "Gi", "2 Gi", "-1", 0, -5, True, "9Ei", 2**80, "1e99"])
def test_bad_sizes(written: str | int) -> None:
    with pytest.raises(BadQuantity):
        parse_quantity(written)


@pytest.mark.parametrize("written", ["512m", "2gb", "2GB", "2GiB", "2g"])
def test_a_wrong_unit_gets_the_right_ones(written: str) -> None:
    with pytest.raises(BadQuantity) as caught:
        parse_quantity(written)
    assert "did you mean" in caught.value.hint


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (9.84, "9.8s"), (59.99, "1m"), (120, "2m"), (5400, "1h30m"), (90061, "1d1h")],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(512, "512"), (2**31, "2Gi"), (1610612736, "1.5Gi")])
def test_sizes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_quantity):
        try:
            assert parse(text) >= 0
        except BadQuantity as error:
            assert error.hint


@given(st.floats(0, 1e8))
def test_a_written_duration_is_close_to_what_it_was(seconds: float) -> None:
    assert math.isclose(
        parse_duration(format_duration(seconds)), seconds, rel_tol=0.05, abs_tol=0.1
    )
