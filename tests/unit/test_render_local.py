"""The rendered script: runs by itself, and keeps hostile values values."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from tests.launchers import SERVE_FOR_EVER
from tfcluster.backends import load_backend
from tfcluster.cli import main
from tfcluster.errors import UsageError
from tfcluster.render import render_plan
from tfcluster.spec.loader import load_spec_text

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['WORD']]))"


def rendered(folder, **changes) -> str:
    spec = {
        "name": "rendered",
        "command": [sys.executable, "-c", SHOW],
        "roles": {
            "ps": {"command": [sys.executable, "-c", SERVE_FOR_EVER]},
            "worker": {"replicas": 2, "restarts": 0},
        },
        **changes,
    }
    loaded = load_spec_text(json.dumps(spec))
    plan = load_backend("local").plan(loaded.spec, None, folder)
    return render_plan(plan, "local")


def run(script: str, folder) -> subprocess.CompletedProcess[str]:
    (folder / "run.sh").write_text(script)
    return subprocess.run(["sh", "run.sh"], cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "word",
    [
        "plain",
        "$(touch pwned)",
        "`touch pwned`",
        "'; touch pwned; '",
        '"; touch pwned; "',
        "TFCLUSTER_PLAN\ntouch pwned",
        "back\\slash $HOME ${HOME} é 漢",
    ],
)
def test_the_script_runs_the_job_and_hostile_values_stay_values(tmp_path, word):
    done = run(rendered(tmp_path, args=[word, "$(TASK)"], env={"WORD": word}), tmp_path)
    assert done.returncode == 0, done.stderr
    for index in (0, 1):
        log = (tmp_path / "rendered-logs" / f"worker-{index}.log").read_text()
        assert json.loads(log) == [[word, f"worker-{index}"], word]
    assert not (tmp_path / "pwned").exists()


def test_its_exit_code_is_that_of_the_first_task_that_failed(tmp_path):
    code = (
        "import os, sys, time; "
        "sys.exit(7) if os.environ['TFCLUSTER_INDEX'] == '1' else time.sleep(600)"
    )
    done = run(rendered(tmp_path, command=[sys.executable, "-c", code]), tmp_path)
    assert done.returncode == 7


def test_the_same_spec_gives_the_same_script_whatever_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(
        "name: a\ncommand: [sleep, '600']\nroles: {worker: {replicas: 2}}"
    )

    def script() -> str:
        assert main(["render"]) == 0
        return capsys.readouterr().out

    try:
        first = script()
        assert script() == first
        assert main(["up", "-d"]) == 0
        capsys.readouterr()
        assert script() == first
    finally:
        main(["down", "--grace", "0s"])


def test_the_script_says_that_no_ports_are_left(tmp_path):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        script = rendered(tmp_path).replace("20000-32000", f"{port}-{port}")
        done = run(script, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"error: no free ports are left in {port}-{port}\n"


def test_an_unknown_target_lists_the_known_ones(tmp_path):
    loaded = load_spec_text("name: a\ncommand: [sleep, '1']\nroles: {worker: {}}")
    plan = load_backend("local").plan(loaded.spec, None, tmp_path)
    with pytest.raises(UsageError) as error:
        render_plan(plan, "nomad")
    assert "local" in (error.value.hint or "")
