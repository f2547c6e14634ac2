"""A secret that reaches programs in containers is in nothing that Docker or tfcluster shows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.docker.test_render import plan_of
from tests.launchers import until
from tests.runs.canary import CANARY, SAYS, everything_printed, leaks, write_spec
from tfcluster.cli import main
from tfcluster.render import render_plan


def inspected(engine, job: str) -> str:
    """Every container of a job and every command that was run in it, as the engine shows them."""
    found = engine.api.containers(all=True, filters={"label": f"io.tfcluster.job={job}"})
    assert found
    details = [engine.api.inspect_container(item["Id"]) for item in found]
    details += [engine.api.exec_inspect(i) for d in details for i in d.get("ExecIDs") or ()]
    return json.dumps(details)


@pytest.fixture
def run(home, tmp_path, monkeypatch, capfd):
    """A command line in an empty folder; what it prints."""
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> str:
        main(list(words))
        return "".join(capfd.readouterr())

    yield call
    main(["down", "--all"])
    main(["rm", "canary", "--yes"])


def test_a_secret_is_in_nothing_that_is_printed_or_inspected(run, engine, tmp_path):
    write_spec(tmp_path, "python3", "docker", image="python:3.11-slim")
    printed = everything_printed(run)
    until(lambda: SAYS in run("logs", "worker-0"), "the program to have got it")
    printed["inspect"] = inspected(engine, "canary")
    assert leaks(printed) == {}
    show = "import os; print([os.environ[n][-4:] for n in ('FROM_FILE', 'API_KEY')])"
    # Beside the task there is all that the task has; the engine is shown nothing of it.
    hold = f"{show[:-1]}, flush=True); import time; time.sleep(600)"
    command = [
        sys.executable,
        "-m",
        "tfcluster",
        "exec",
        "-T",
        "worker-0",
        "--",
        "python3",
        "-c",
        hold,
    ]
    beside = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert beside.stdout.readline() == "['7c3f', '7c3f']\n"
        assert CANARY not in inspected(engine, "canary")
        listed = engine.api.top("canary-worker-0")["Processes"]
        # The program's own arguments are the person's choice.
        assert [
            line for line in listed if CANARY in line[-1] and "--api-token" not in line[-1]
        ] == []
    finally:
        beside.kill()
        beside.communicate()


def test_a_rendered_script_shows_no_value_of_a_file(tmp_path, engine, home):
    (tmp_path / "my secret.env").write_text(f"export FROM_FILE='{CANARY}'\n")
    program = "import os, time; print(os.environ['FROM_FILE'][-4:], flush=True); time.sleep(3)"
    plan = plan_of(
        tmp_path,
        command=["python3", "-c", program],
        env_from=[{"file": "my secret.env"}],
        roles={"worker": {}},
    )
    text = render_plan(plan, "docker")
    assert CANARY not in text and CANARY not in render_plan(plan, "compose")
    script = tmp_path / "drawn.sh"
    script.write_text(text)
    started = subprocess.Popen(["sh", str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert started.stdout.readline().startswith("Started")
        assert CANARY not in inspected(engine, "drawn")
        said, _ = started.communicate(timeout=120)
        assert "drawn-worker-0: exit code 0" in said
        logs = subprocess.run(["docker", "logs", "drawn-worker-0"], capture_output=True, text=True)
        assert logs.stdout == "7c3f\n"
        (tmp_path / "my secret.env").unlink()
        refused = subprocess.run(["sh", str(script)], capture_output=True, text=True)
        assert refused.returncode == 1 and "cannot read" in refused.stderr
    finally:
        started.kill()
        subprocess.run(["sh", str(script), "down"], check=True)
        engine.api.remove_volume(f"tfcluster-drawn-{plan.content_id}", force=True)
