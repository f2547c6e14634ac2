from __future__ import annotations

import json
import sys

import pytest

from tests.runs.cli import Cli
from tests.terminal.screen import Terminal

WORKER = """
import json, os, sys, time
steps = int(os.environ["STEPS"])
for step in range(1, steps + 1):
    report = {"step": step, "total": steps, "rate": 20.0, "loss": 1 / step}
    print("tfcluster-progress " + json.dumps(report), flush=True)
    if step % 5 == 0:
        print("step", step, flush=True)
    if os.environ.get("FAIL") == os.environ["TFCLUSTER_TASK"]:
        sys.exit("boom")
    time.sleep(0.05)
if os.environ["TFCLUSTER_INDEX"] == "0":
    print("tfcluster-result " + json.dumps({"accuracy": 0.97123, "global_step": 2 * steps}))
"""
PHASES = """
import json, pathlib, time
def say(**progress):
    print("tfcluster-progress " + json.dumps(progress), flush=True)
def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.05)
say(phase="importing")
wait_for("train")
say(step=1, total=40, rate=1.0)
wait_for("save")
say(phase="saving")
wait_for("never")
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))
print("here", flush=True)
while True:
    time.sleep(0.1)
"""


class World(Cli):
    """The command line with a job of small programs, piped or on a terminal."""

    def write(self, program: str = WORKER, *, steps: int = 20, **settings: object) -> None:
        """cluster.yaml: two workers that run this program."""
        (self.folder / "program.py").write_text(program)
        spec = {
            "name": "toy",
            "command": [sys.executable, "program.py"],
            "env": {"STEPS": str(steps)},
            "restarts": 0,
            "roles": {"worker": {"replicas": 2}},
            **settings,
        }
        (self.folder / "cluster.yaml").write_text(json.dumps(spec))

    def terminal(self, *args: str, **more) -> Terminal:
        return Terminal(self.argv(*args), env=self.env, cwd=self.folder, **more)


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    cli = World(folder, tmp_path / "home")
    del cli.env["NO_COLOR"]
    yield cli
    cli("down", "--all", "--grace", "1s")
    assert cli.left_behind() == []
