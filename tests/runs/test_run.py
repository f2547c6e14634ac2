"""`tfcluster run`: a program that has no spec, as a person runs it."""

from __future__ import annotations

import pytest

PROGRAM = """
import argparse, os, sys
import part
parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index")
parser.add_argument("--code", type=int, default=0)
given = parser.parse_args()
if given.job_name == "ps":
    import http.server
    host, _, port = given.ps_hosts.split(",")[0].rpartition(":")
    http.server.HTTPServer((host, int(port)), http.server.BaseHTTPRequestHandler).serve_forever()
print(part.WORD, given.job_name, given.task_index, len(given.worker_hosts.split(",")))
sys.exit(given.code)
"""


@pytest.fixture
def program(tfcluster):
    (tfcluster.folder / "train.py").write_text(PROGRAM)
    (tfcluster.folder / "part.py").write_text("WORD = 'own'\n")


def test_an_old_program_runs_as_it_is_and_its_spec_is_kept(tfcluster, program):
    done = tfcluster("run", "--workers", "3", "train.py", "--code", "0")
    assert done.returncode == 0, done.stderr
    assert "between-graph: 1 ps, 3 workers (--ps_hosts in train.py:5)" in done.stderr
    assert "Code: 2 files" in done.stderr
    lines = {line.partition(" | ")[2].strip() for line in done.stdout.splitlines()}
    assert {f"own worker {index} 3" for index in range(3)} <= lines
    (kept,) = tfcluster.home.glob("jobs/*/runs/*/spec.yaml")
    assert "--ps_hosts=$(PS_HOSTS)" in kept.read_text()
    assert tfcluster.status()["state"] == "succeeded", "status finds the job from its folder"


def test_a_program_that_fails_ends_with_5_and_says_why(tfcluster, program):
    done = tfcluster(
        "run", "--workers", "1", "--set", "restarts=0", "train.py", "--", "--code", "3"
    )
    assert done.returncode == 5
    assert "error: worker-0 failed: exit code 3" in done.stderr


def test_a_program_that_runs_is_replaced_only_if_that_is_said(tfcluster):
    nap = ["--name", "nap", "--no-code", "--", "sleep", "300"]
    assert tfcluster("run", "-d", *nap).returncode == 0
    refused = tfcluster("run", "-d", "--workers", "2", *nap)
    assert refused.returncode == 2 and "add --yes" in refused.stderr
    scaled = tfcluster("scale", "--job", "nap", "worker=2")
    assert scaled.returncode == 3 and "was started without a spec" in scaled.stderr
    done = tfcluster("run", "-d", "--yes", "--workers", "2", *nap)
    assert done.returncode == 0, done.stderr
    assert len(tfcluster.status()["tasks"]) == 2


def test_a_failure_names_the_line_of_the_program_as_it_lies_in_its_folder(tfcluster):
    (tfcluster.folder / "broken.py").write_text("first = 1\nraise ValueError('no good')\n")
    done = tfcluster("run", "--workers", "1", "--set", "restarts=0", "broken.py")
    assert done.returncode == 5
    assert "worker-0 raised ValueError: no good at broken.py:2" in done.stderr
