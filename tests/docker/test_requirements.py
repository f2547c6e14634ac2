"""Requirements on a real engine: a layer that is built once, and removed by prune."""

from __future__ import annotations

from tests.launchers import until
from tfcluster.backends.docker.layers import inspected, is_current
from tfcluster.cli import main
from tfcluster.layers import Layer
from tfcluster.requirements import Requirements

PROGRAM = "import iniconfig; print('found', iniconfig.__name__, flush=True)"


def test_a_requirement_is_built_into_a_layer_once_and_pruned(job, engine, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    wanted = Requirements(("iniconfig==2.0.0",), "requirements")
    layer = Layer("python:3.11-slim", wanted)
    job.up(job.spec(PROGRAM, workers=1, ps=None, requirements=list(wanted.lines)))
    job.says("worker-0", b"found iniconfig")
    assert job.over().state == "succeeded" and is_current(engine, layer)
    until(lambda: job.run.final_status() is not None, "the run to be settled")
    assert main(["prune", "--keep", "0", "--yes"]) == 0
    assert inspected(engine, layer.image) is None
    job.run = None
