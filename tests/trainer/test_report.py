"""Log lines in the forms that people's scripts read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from trainer.cluster import ClusterInfo
from trainer.graph import Outcome
from trainer.phase import during, enter
from trainer.report import Report
from trainer.settings import settings_from


def report(form: str, logdir: Path | None = None) -> Report:
    settings = settings_from(
        {"log_format": form, "log_every": 100, "log_seconds": 0, "tensorboard": False}
    )
    made = Report(settings, ClusterInfo(), logdir)
    made.begin(graph=None, per_epoch=550, own=0)
    return made


def outcome(own: int) -> Outcome:
    losses, staleness = np.array([2.5, 2.25]), np.array([0, 3])
    return Outcome(losses, staleness, own * 2, np.array([own]), stop=False)


def test_the_default_form_fits_80_columns_with_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    lines = report(settings_from({}).log_format)
    lines.step(outcome(54_100), total=55_000)
    line = re.sub(r"\d+ steps", "9999 steps", capsys.readouterr().out.splitlines()[0])
    assert re.fullmatch(r"step 108200, epoch 99, batch 200 of 550, cost 2.2500, 9999 steps/s", line)
    assert len("worker-10 | " + line) <= 80


def test_the_epochs_form(capsys: pytest.CaptureFixture[str]) -> None:
    lines = report("epochs")
    for own in (98, 100, 150, 700):
        lines.step(outcome(own), total=1100)
    lines.ended(1400, accuracy=0.42, validation_cost=None)
    out = re.sub(r"\d+\.\d+(ms|s)", r"T\1", capsys.readouterr().out)
    assert out == (
        "Step: 201,  Epoch:  1,  Batch: 100 of 550,  Cost: 2.2500,  AvgTime: Tms\n"
        "Step: 1401,  Epoch:  2,  Batch: 150 of 550,  Cost: 2.2500,  AvgTime: Tms\n"
        "Test-Accuracy: 0.4200\nTotal Time: Ts\nFinal Cost: 2.2500\ndone\n"
    )


def test_the_steps_form(capsys: pytest.CaptureFixture[str]) -> None:
    lines = report("steps")
    lines.step(outcome(100), total=None)
    lines.ended(200, accuracy=0.5, validation_cost=1147.88)
    out = capsys.readouterr().out
    assert re.search(
        r"^\d+\.\d{6}: Worker 0: training step 100 done \(global step:200\)$", out, re.M
    )
    assert re.search(r"^Training ends @ \d+\.\d+$", out, re.M)
    assert re.search(r"^Training elapsed time:\d+\.\d{6} s$", out, re.M)
    assert "\nAfter 200 training step(s), validation cross entropy = 1147.88\n" in out


def test_the_json_form(capsys: pytest.CaptureFixture[str]) -> None:
    report("json").step(outcome(100), total=None)
    line = json.loads(capsys.readouterr().out)
    assert (line["task"], line["step"], line["global_step"]) == ("worker-0", 100, 200)
    assert (line["loss"], line["staleness"]) == (2.25, 1.5)


def test_progress_only_under_the_launcher(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report("epochs").step(outcome(10), total=10)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TFCLUSTER_TASK", "worker-0")
    report("epochs").step(outcome(10), total=10)
    began, stepped = capsys.readouterr().out.splitlines()
    assert began == 'tfcluster-progress {"phase": "training"}'
    name, _, text = stepped.partition(" ")
    assert name == "tfcluster-progress"
    assert json.loads(text)["step"] == json.loads(text)["total"] == 10


def test_a_phase_that_lasts_a_moment_leads_back_to_the_one_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TFCLUSTER_TASK", raising=False)
    enter("importing")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TFCLUSTER_TASK", "worker-0")
    enter("training")
    with during("saving"):
        pass
    said = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    phases = [json.loads(text)["phase"] for text in said]
    assert phases == ["training", "saving", "training"]


def test_marks_survive_a_restart_and_a_line_cut_in_half(tmp_path: Path) -> None:
    first = report("epochs", tmp_path)
    first.evaluated(100, seconds=1.5, accuracy=0.91, cost=0.3)
    first.close()
    with open(tmp_path / "worker-0" / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"global_step": 150, "sec')
    second = report("epochs", tmp_path)
    second.evaluated(200, seconds=2.5, accuracy=0.95, cost=0.2)
    assert second.time_to_accuracy() == {"0.90": 1.5, "0.95": 2.5}


def test_staleness_is_summed_up() -> None:
    lines = report("epochs")
    lines.step(outcome(2), total=None)
    lines.step(outcome(4), total=None)
    assert lines.staleness == [6.0, 3.0, 4.0]
