"""A sweep with real jobs on this machine."""

from __future__ import annotations

import json
import signal

import pytest

from tests.launchers import until

PROGRAM = """
import json, pathlib, sys, time
flags = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
rate = float(flags["lr"])
with open(pathlib.Path(__file__).parent.parent / "began", "a") as file:
    file.write(flags["lr"] + " ")
if rate > 1:
    raise ValueError("too fast")
if rate == 0.7:
    time.sleep(300)
print("tfcluster-result " + json.dumps({"accuracy": 1 - abs(rate - 0.1)}), flush=True)
"""
SPEC = """
name: tries
command: [python3, code/program.py]
args: [--seed=1]
restarts: 0
stop_grace: 1s
roles: {worker: }
"""


@pytest.fixture
def swept(tfcluster):
    (tfcluster.folder / "code").mkdir()
    (tfcluster.folder / "code" / "program.py").write_text(PROGRAM)
    (tfcluster.folder / "cluster.yaml").write_text(SPEC)
    return tfcluster


def began(cli) -> list[str]:
    return (cli.folder / "began").read_text().split()


def test_cells_are_ranked_failed_ones_named_and_what_is_done_is_not_done_again(swept):
    done = swept("sweep", "--arg", "lr=0.5,0.2,3")
    assert done.returncode == 5, done.stderr
    header, best, second, failed = done.stdout.splitlines()
    assert header.split()[:4] == ["RANK", "lr", "ACCURACY", "STATE"]
    assert best.split()[:4] == ["1", "0.2", "0.900", "succeeded"]
    assert second.split()[:4] == ["2", "0.5", "0.600", "succeeded"]
    assert failed.split()[:2] == ["3", "failed"] and "worker-0: exit code 1" in failed
    assert """--set 'args=["--seed=1", "--lr=0.2"]'""" in done.stderr
    assert sorted(began(swept)) == ["0.2", "0.5", "3"]
    again = swept("sweep", "--arg", "lr=0.5,0.2,3", "-o", "json")
    cells = json.loads(again.stdout)["cells"]
    assert [(cell["settings"]["lr"], cell["value"]) for cell in cells] == [
        ("0.2", 0.9),
        ("0.5", 0.6),
        ("3", None),
    ]
    assert sorted(began(swept)) == ["0.2", "0.5", "3", "3"]


def test_ctrl_c_ends_what_runs_and_the_sweep_goes_on_when_called_again(swept):
    words = ("sweep", "-n", "1", "--arg", "lr=0.2,0.7,0.5")
    sweep = swept.start(*words)
    until(lambda: (swept.folder / "began").exists() and "0.7" in began(swept), "the second job")
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, err
    assert "The same command goes on" in err and "0.900" in out
    assert swept.left_behind() == []
    program = (swept.folder / "code" / "program.py").read_text()
    (swept.folder / "code" / "program.py").write_text(program.replace("300", "0"))
    done = swept(*words)
    assert done.returncode == 0, done.stderr
    assert began(swept) == ["0.2", "0.7", "0.7", "0.5"]


def test_a_grid_that_the_spec_refuses_starts_nothing(swept):
    done = swept("sweep", "--grid", "roles.worker.replicas=1,none")
    assert done.returncode == 2
    assert "roles.worker.replicas=none" in done.stderr
    assert swept.processes() == []
