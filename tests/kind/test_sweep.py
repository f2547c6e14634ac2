"""A sweep on a real cluster: jobs of pods, as many at a time as there is room for."""

from __future__ import annotations

import json

import pytest

from tests.kind import cluster
from tests.runs.cli import Cli

PROGRAM = """
import json, sys, time
rate = float(sys.argv[1].partition("=")[2])
time.sleep(3)
print("tfcluster-result " + json.dumps({"accuracy": 1 - rate}), flush=True)
"""


@pytest.fixture
def cli(tmp_path, tester):
    """A command line in a folder with a spec of one pod."""
    made = Cli(tmp_path, tmp_path / "home")
    made.env["KUBECONFIG"] = str(tester)
    spec = {
        "name": "tries",
        "backend": "kubernetes",
        "image": "python:3.11-slim",
        "command": ["python3", "-c", PROGRAM],
        "restarts": 0,
        "roles": {"worker": {"cpu": 0.1, "memory": "64Mi"}},
    }
    (tmp_path / "cluster.yaml").write_text(json.dumps(spec))
    yield made
    made("down", "--all")


@pytest.mark.parametrize("sees_nodes", [True, False])
def test_jobs_of_a_sweep_share_the_cluster_and_leave_nothing(cli, sees_nodes):
    words = ["sweep", "--arg", "lr=0.1,0.3,0.2", "-o", "json"]
    if sees_nodes:
        del cli.env["KUBECONFIG"]
        space = {"context": cluster.CONTEXT, "namespace": cluster.NAMESPACE}
        words += ["--set", f"kubernetes={json.dumps(space)}"]
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert [(cell["settings"]["lr"], cell["value"]) for cell in cells] == [
        ("0.1", 0.9),
        ("0.2", 0.8),
        ("0.3", 0.7),
    ]
    lines = done.stderr.splitlines()
    begins = [number for number, line in enumerate(lines) if ": started" in line]
    first_end = next(number for number, line in enumerate(lines) if ": succeeded" in line)
    assert (begins[1] < first_end) == sees_nodes, done.stderr
    assert [
        pod for pod in cluster.listed("pods") if pod["metadata"]["name"].startswith("tries-")
    ] == []
