"""The Python API, with real processes: what the commands do, and nothing printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tfcluster
from tfcluster.errors import JobFailed, MissingError, SpecProblems, UsageError, WaitTimeout

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import os, sys
from part import WORD
task = os.environ["TFCLUSTER_TASK"]
print(WORD, task, *sys.argv[1:], flush=True)
with open(os.environ["TFCLUSTER_OUTPUT"] + "/said.txt", "w") as file:
    file.write(WORD)
if task == "worker-0":
    print('tfcluster-result {"accuracy": 0.5}', flush=True)
"""
SPEC = """
name: nap
command: [sleep, "{{ seconds }}"]
roles: {worker: {replicas: 2}}
restarts: 0
"""


@pytest.fixture
def folder(tmp_path, home, monkeypatch, capfd):
    """A folder to work in; what is brought up there is ended, and nothing was printed."""
    made = tmp_path / "work"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.delenv("TFCLUSTER_BACKEND", raising=False)
    yield made
    for name in ("train", "nap", "small"):
        try:
            tfcluster.find(name).down(grace=1)
        except MissingError:
            continue
    assert capfd.readouterr() == ("", "")


def test_a_program_runs_and_its_lines_result_and_files_are_there(folder):
    (folder / "train.py").write_text(PROGRAM)
    (folder / "part.py").write_text("WORD = 'own'\n")
    said: list[str] = []
    job = tfcluster.run("train.py", workers=2, args=["--lr", 0.1], say=said.append)
    lines = list(job.logs("worker-1", follow=True))
    assert [(line.task, line.text) for line in lines] == [("worker-1", "own worker-1 --lr 0.1")]
    assert job.wait(timeout=60).state == "succeeded"
    assert job.result == {"accuracy": 0.5}
    fetched = job.fetch("worker-0", to="back")
    assert fetched.files == 1 and Path("back/worker-0/said.txt").read_text() == "own"
    assert any(line.startswith("Code: 2 files") for line in said)
    again = tfcluster.find()
    assert again == job and again.tasks == ("worker-0", "worker-1")


def test_a_running_job_is_changed_only_with_yes_and_ends_with_down(folder):
    Path("cluster.yaml").write_text(SPEC)
    job = tfcluster.up(variables={"seconds": 300}, backend="local")
    with pytest.raises(WaitTimeout, match="has not ended"):
        job.wait(timeout=0)
    with pytest.raises(UsageError, match="would end run") as refused:
        tfcluster.up(variables={"seconds": 301})
    assert "yes=True" in str(refused.value.hint) and "--yes" not in str(refused.value.hint)
    more = tfcluster.up(variables={"seconds": 300}, overrides={"stop_grace": 3}, yes=True)
    assert more.run != job.run and not more.status().over
    more.down(grace=1)
    more.down()
    assert more.status().state == "stopped"
    with pytest.raises(JobFailed):
        more.wait()


def test_mistakes_are_exceptions_with_all_that_the_command_would_say(folder):
    with pytest.raises(MissingError, match="there is no job"):
        tfcluster.find("nothing")
    Path("cluster.yaml").write_text("name: small\nrole: {}\n")
    with pytest.raises(SpecProblems) as wrong:
        tfcluster.up()
    assert 2 in {problem.line for problem in wrong.value.problems}
    Path("cluster.yaml").write_text("name: small\ncommand: ['false']\nroles: {worker: {}}\n")
    job = tfcluster.up(overrides=["restarts=0"])
    with pytest.raises(JobFailed, match="worker-0 failed: exit code 1"):
        job.wait(timeout=60)
    with pytest.raises(MissingError, match='no task or role "ps"'):
        job.logs("ps")


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook.ipynb", "exec"), names)
    assert names["status"].state == "succeeded"  # type: ignore[attr-defined]
    assert names["mean"] == 1.5
    assert names["nap"].status().state == "stopped"  # type: ignore[attr-defined]
