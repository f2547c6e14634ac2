"""The grid of a sweep, the names of its jobs, and how results are ranked."""

from __future__ import annotations

import pytest

from tfcluster.errors import UsageError
from tfcluster.sweeps import (
    Measure,
    cell_name,
    choose_measure,
    make_cells,
    parse_axis,
    rank,
)


def test_every_combination_is_a_cell_and_the_last_axis_changes_fastest():
    cells = make_cells([parse_axis("train.learning_rate=0.1,0.2"), parse_axis("train.window=1,2")])
    assert [cell.label for cell in cells] == [
        "train.learning_rate=0.1 train.window=1",
        "train.learning_rate=0.1 train.window=2",
        "train.learning_rate=0.2 train.window=1",
        "train.learning_rate=0.2 train.window=2",
    ]


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("a=1", ("1",)),
        ("a=1, 2", ("1", "2")),
        ("a=[1,2],[3]", ("[1,2]", "[3]")),
        ("a={x: 1, y: 2},{}", ("{x: 1, y: 2}", "{}")),
        ("a='x,y',z", ("'x,y'", "z")),
    ],
)
def test_commas_in_brackets_and_quotes_part_nothing(written, values):
    assert parse_axis(written).values == values


@pytest.mark.parametrize("written", ["", "a", "=1", "a=", "a=1,,2", "a=1,1"])
def test_an_axis_that_makes_no_sense_is_refused_with_an_example(written):
    with pytest.raises(UsageError) as refused:
        parse_axis(written)
    assert refused.value.hint


@pytest.mark.parametrize("axes", [[], ["a=1", "a=2"], ["a=" + ",".join(map(str, range(1001)))]])
def test_no_axis_one_named_twice_and_too_many_cells_are_refused(axes):
    with pytest.raises(UsageError):
        make_cells([parse_axis(text) for text in axes])


def test_flags_of_a_program_come_after_those_it_has_anyway():
    (cell,) = make_cells([parse_axis("--lr=0.1", argument=True), parse_axis("restarts=0")])
    assert cell.overrides(("--data", "a b")) == (
        "restarts=0",
        'args=["--data", "a b", "--lr=0.1"]',
    )


def test_a_cell_has_the_same_name_only_for_the_same_spec_and_code():
    spec = {"name": "mnist", "train": {"learning_rate": 0.1}}
    name = cell_name("mnist", spec, "code1")
    assert name == cell_name("mnist", dict(reversed(spec.items())), "code1")
    others = {
        cell_name("mnist", spec, "code2"),
        cell_name("mnist", {**spec, "train": {"learning_rate": 0.2}}, "code1"),
        cell_name("other", spec, "code1"),
    }
    assert len(others) == 3 and name not in others
    assert len(cell_name("x" * 63, spec, "")) <= 39


@pytest.mark.parametrize(
    ("wanted", "results", "measure"),
    [
        (None, [{"loss": 0.1, "accuracy": 0.9}], Measure("accuracy")),
        (None, [{}, {"steps": 3, "val_loss": 0.1}], Measure("steps")),
        (None, [{"loss": 0.1}], Measure("loss", lowest=True)),
        (None, [{"word": "yes"}, {}], None),
        ("val_loss", [], Measure("val_loss", lowest=True)),
        ("-steps", [], Measure("steps", lowest=True)),
        ("+loss", [], Measure("loss")),
    ],
)
def test_what_cells_are_ranked_by(wanted, results, measure):
    assert choose_measure(wanted, results) == measure


def test_best_first_and_what_has_no_number_last():
    values = [0.5, None, float("nan"), 0.9]
    assert rank(values, lowest=False) == [3, 0, 1, 2]
    assert rank(values, lowest=True) == [0, 3, 1, 2]


def test_a_number_that_json_lacks_is_no_measure():
    assert Measure("a").of({"a": "nan"}) is None
    assert Measure("a").of({"a": True}) is None
    assert Measure("a").of({"a": 2}) == 2.0
    assert Measure("a").of(None) is None
