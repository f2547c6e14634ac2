"""The rendered script: runs by itself, and keeps hostile values values."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.launchers import SERVE_FOR_EVER
from tfcluster.backends import load_backend
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


def test_the_same_plan_gives_the_same_script(tmp_path):
    loaded = load_spec_text("name: a\ncommand: [sleep, '1']\nroles: {worker: {}}")
    plan = load_backend("local").plan(loaded.spec, None, tmp_path)
    assert render_plan(plan, "local") == render_plan(plan, "local")


def test_an_unknown_target_lists_the_known_ones(tmp_path):
    loaded = load_spec_text("name: a\ncommand: [sleep, '1']\nroles: {worker: {}}")
    plan = load_backend("local").plan(loaded.spec, None, tmp_path)
    with pytest.raises(UsageError) as error:
        render_plan(plan, "nomad")
    assert "local" in (error.value.hint or "")
