"""The benchmarks run, compare what they say they compare, and draw their chart."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """A module beside the benchmarks; they are scripts and find each other by their folder."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])

    def load_module(name: str) -> ModuleType:
        if name != "trainer":
            return importlib.import_module(name)
        # There is a package of that name; this is the script.
        spec = importlib.util.spec_from_file_location("bench_trainer", BENCHMARKS / "trainer.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "bench_trainer", module)
        spec.loader.exec_module(module)
        return module

    return load_module


def run(script: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints as JSON."""
    command = [sys.executable, str(BENCHMARKS / script), *arguments, "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_median_is_held_to_its_limit(load: Load) -> None:
    table = load("table")
    row = table.Row("case", "other", table.Limit("m", least=2.0), [2.0, 9.0, 1.0], [1.0, 1.0, 1.0])
    assert row.ratio == 2.0
    assert row.passed and str(row).endswith("PASS")
    missed = table.Row("case", "other", table.Limit("m", most=0.5), [2.0], [1.0])
    assert not missed.passed and str(missed).endswith("FAIL")
    shown = table.Row("case", "other", table.Limit("m"), [2.0], [1.0])
    assert shown.passed and not str(shown).endswith("PASS")


def test_steps_are_read_from_the_lines_of_either_side(load: Load) -> None:
    steps_in = load("clusters").steps_in
    line = "Step: 1203,  Epoch:  2,  Batch:  50 of 550,  Cost: 1.2345,  AvgTime: 3.21ms"
    assert steps_in(line) == 600
    assert steps_in('{"task": "worker-0", "step": 100, "global_step": 190}') == 100
    assert steps_in('{"task": "worker-0", "done": true}') is None
    assert steps_in("Test-Accuracy: 0.97") is None


def test_every_comparison_is_one_that_the_trainer_can_run(load: Load) -> None:
    bench, accuracy, cnn = load("trainer"), load("accuracy"), load("cnn")
    sides = [side for case in bench.cases() for side in (case.ours, case.other)]
    sides += [*accuracy.our_sides(), *cnn.sides(50), *cnn.sides(1000)]
    assert {side.name: bench.why_not(side) for side in sides if bench.why_not(side)} == {}


@pytest.mark.parametrize("stalls", ["ours", "other"])
def test_only_the_old_style_gets_a_second_chance(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalls: str
) -> None:
    bench, clusters = load("trainer"), load("clusters")
    case = bench.cases()[0]
    stalled = getattr(case, stalls)
    tried = []

    def take_turns(self: Any, given: Any) -> list[str]:
        tried.append(given)
        if len(tried) == 1:
            raise clusters.SideFailed(stalled, "too few steps")
        return ["a row"]

    monkeypatch.setattr(bench.Bench, "_take_turns", take_turns)
    made = bench.Bench(tmp_path, 1, 0.1)
    rows = list(made._compare([case]))
    if stalled.old_style:
        assert (rows, tried, made.failed) == (["a row"], [case, case], {})
    else:
        assert (rows, tried, list(made.failed)) == ([], [case], [case.name])


def test_learning_rates_are_chosen_on_images_that_nobody_trains_on(
    load: Load, tmp_path: Path
) -> None:
    from trainer.data import load_mnist

    chosen_on = load_mnist(str(load("accuracy").held_out_data(tmp_path / "data")))
    shipped = load_mnist()
    assert (chosen_on.test.images == shipped.validation.images).all()
    assert (chosen_on.test.labels == shipped.validation.labels).all()
    assert (chosen_on.train.images == shipped.train.images).all()


def test_the_chart_has_a_panel_for_each_batch_size_and_a_line_for_each_side(load: Load) -> None:
    svg = load("svg")
    lines = {"one process": [(0.0, 0.0), (3.0, 8.0)], "two workers": [(0.0, 0.0), (5.0, 8.0)]}
    drawn = svg.draw([svg.Panel("50", lines), svg.Panel("1,000", lines)], "images", "seconds")
    texts = [node.text for node in ElementTree.fromstring(drawn).iter() if node.text]
    assert texts.count("two workers") == 2
    assert "1,000" in texts and "images" in texts


@pytest.mark.slow
@pytest.mark.tensorflow
def test_hogwild_and_the_old_style_take_turns() -> None:
    found = run("trainer.py", "--only", "hogwild", "--pairs", "1", "--quick")
    assert {row["limit"]["measure"] for row in found["rows"]} == {"steps/s", "CPU s/step"}
    for row in found["rows"]:
        assert row["against"] == "baseline"
        assert row["ours"][0] > 0 and row["other"][0] > 0
    assert found["failed"] == {}


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_table_of_system_2_has_a_row_for_each_number_of_workers() -> None:
    found = run("system2.py", "--epochs", "1", "--workers", "1")
    assert [(row["workers"], row["global_step"]) for row in found["rows"]] == [(1, 550)]


def test_logs_are_measured_and_none_is_missing() -> None:
    command = [sys.executable, str(BENCHMARKS / "logs.py"), "--lines", "50", "--pairs", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "missing" not in ended.stderr and ended.returncode in (0, 1), ended.stderr
    assert "up, live" in ended.stdout and "logs, afterwards" in ended.stdout
