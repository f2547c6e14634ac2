"""Rendered scripts and compose files: readable, stable, and values stay values."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from tfcluster.backends import load_backend
from tfcluster.code.snapshot import snapshot_of
from tfcluster.errors import UsageError
from tfcluster.launch.bundle import source
from tfcluster.render import render_files, render_plan
from tfcluster.spec.loader import load_spec

pytestmark = pytest.mark.usefixtures("home")  # keys of rendered jobs are made from one in there
SCHEMA = json.loads((Path(__file__).parent / "schemas" / "compose-spec.json").read_text())
HOSTILE = """a'b"c$(touch pwned)`touch pwned`$HOME;&|<>\\ 'TFCLUSTER_PLAN' \t é {{ x }} # * ~"""
FAKE_DOCKER = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done >> "$RECORD"
printf '\\n\\0' >> "$RECORD"
case $1 in wait) echo 0;; run) case " $* " in *interactive*) cat >> "$RECORD.input";; esac;; esac
case "$1 $2" in "volume inspect") exit 1;; esac
"""


def plan_of(folder: Path, **changes):
    spec = {
        "name": "drawn",
        "backend": "docker",
        "image": "python:3.11-slim",
        "command": ["python3", "-c", "print('hello', flush=True)"],
        "start_timeout": 30,
        "roles": {
            "ps": {"command": ["python3", "-m", "http.server", "$(PORT)"]},
            "worker": {"replicas": 2},
        },
        **changes,
    }
    path = folder / "cluster.yaml"
    given = json.dumps({key: value for key, value in spec.items() if value is not None})
    path.write_text("{% raw %}" + given + "{% endraw %}")
    loaded = load_spec(path)
    return load_backend("docker").plan(loaded.spec, None, folder, snapshot_of(loaded))


def trained(folder: Path, **changes):
    return plan_of(folder, image=None, command=None, train={}, **{"roles": ROLES, **changes})


ROLES = {"ps": {}, "worker": {"replicas": 2}}
GPUS = {"ps": {}, "worker": {"replicas": 2, "gpus": 2, "cpu": 1.5, "memory": "1Gi"}}
HOSTS = {
    "hosts": [
        {"name": "one", "engine": "ssh://one", "address": "10.0.0.1", "tasks": ["ps"]},
        {"name": "two", "engine": "ssh://two", "address": "10.0.0.2", "tasks": ["worker"]},
    ]
}


def compose_of(plan) -> dict:
    return YAML(typ="safe").load(render_plan(plan, "compose"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shm": "64Mi", "docker": {"network": "mine", "runtime": "nvidia"}},
        {"env": {"X": HOSTILE}, "args": [HOSTILE], "env_from": [{"file": "my.env"}]},
        {"volumes": [{"name": "data", "target": "/data", "read_only": True}], "logdir": "out"},
    ],
)
def test_compose_passes_the_published_schema(tmp_path, changes):
    for plan in (plan_of(tmp_path, **changes), plan_of(tmp_path, image="a:b", **changes)):
        jsonschema.validate(compose_of(plan), SCHEMA)


def test_compose_of_the_trainer_with_gpus_is_hardened_and_uses_composes_own_words(tmp_path):
    found = compose_of(trained(tmp_path, roles=GPUS))
    jsonschema.validate(found, SCHEMA)
    worker = found["services"]["worker-1"]
    assert worker["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "device_ids": ["2", "3"], "capabilities": ["gpu"]}
    ]
    assert (worker["mem_limit"], worker["cpus"]) == (1 << 30, 1.5)
    assert worker["read_only"] and worker["cap_drop"] == ["ALL"]
    assert "deploy" not in found["services"]["ps-0"]
    assert "configs" not in found


def test_own_images_are_held_to_few_capabilities_and_a_number_of_processes(tmp_path):
    plan = plan_of(tmp_path, docker={"capabilities": ["SYS_PTRACE"], "pids_limit": 99})
    worker = compose_of(plan)["services"]["worker-1"]
    assert worker["cap_drop"] == ["ALL"] and worker["pids_limit"] == 99
    assert {"DAC_OVERRIDE", "SYS_PTRACE"} < set(worker["cap_add"])
    assert "NET_RAW" not in worker["cap_add"]
    calls = [call for call in run_with_fake(render_plan(plan, "docker"), tmp_path) if call]
    runs = [call for call in calls if call[0] == "run"]
    assert all(call[call.index("--cap-drop") + 1] == "ALL" for call in runs)
    assert all("--pids-limit" in call and "no-new-privileges" in call for call in runs)
    task = next(call for call in runs if "drawn-worker-1" in call)
    added = {word for flag, word in itertools.pairwise(task) if flag == "--cap-add"}
    assert added == set(worker["cap_add"])
    assert not any("--cap-add" in call for call in runs if "--detach" not in call)


def test_compose_values_stay_values(tmp_path):
    """Compose replaces $NAME and turns $$ into $; nothing else may differ."""
    found = compose_of(plan_of(tmp_path, env={"X": HOSTILE}, args=[HOSTILE]))
    launch = json.loads(found["x-launch"].replace("$$", "$"))
    assert launch["roles"]["worker"]["env"]["X"] == HOSTILE
    assert launch["roles"]["worker"]["argv"][-1] == HOSTILE
    content = found["configs"]["launcher"]["content"].replace("$$", "$")
    assert content == source()


def test_compose_mounts_files_with_variables_as_secrets(tmp_path):
    """As `env_file` the values would be in `docker inspect`."""
    (tmp_path / "my.env").write_text("A=b\n")
    found = compose_of(plan_of(tmp_path, env_from=[{"file": "my.env"}]))
    assert found["secrets"] == {"env-0": {"file": str(tmp_path / "my.env")}}
    assert all(one["secrets"] == ["env-0"] for one in found["services"].values())
    launch = json.loads(found["x-launch"].replace("$$", "$"))
    assert launch["roles"]["worker"]["env_files"] == ["/run/secrets/env-0"]
    assert "env_file" not in found["services"]["ps-0"]


def test_compose_has_one_engine(tmp_path):
    with pytest.raises(UsageError, match="several hosts"):
        render_plan(plan_of(tmp_path, docker=HOSTS), "compose")


def run_with_fake(script: str, folder: Path, *names: str) -> list[list[str]]:
    """Run a script in a real sh; every call of docker as the words it got."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in ("docker", *names):
        (bin_folder / name).write_text(FAKE_DOCKER)
        (bin_folder / name).chmod(0o755)
    (folder / "run.sh").write_text(script)
    env = {
        **os.environ,
        "RECORD": str(folder / "record"),
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["sh", str(folder / "run.sh")], env=env, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    words = (folder / "record").read_text().split("\0")[:-1]
    calls: list[list[str]] = [[]]
    for word in words:
        if word == "\n":
            calls.append([])
        else:
            calls[-1].append(word)
    return calls


def test_hostile_values_stay_values_in_a_real_sh(tmp_path):
    source = tmp_path / "a 'b\" $(touch pwned),c;d"
    source.mkdir()
    plan = plan_of(
        tmp_path,
        env={"X": HOSTILE},
        args=[HOSTILE],
        volumes=[{"source": str(source), "target": "/data"}],
    )
    calls = run_with_fake(render_plan(plan, "docker"), tmp_path)
    worker = next(call for call in calls if "drawn-worker-1" in call and call[0] == "run")
    mount = worker[worker.index("--mount") + 1]
    quoted = str(source).replace('"', '""')
    assert mount == f'type=bind,"source={quoted}",target=/data'
    sent = (tmp_path / "record.input").read_text()
    launch = json.loads(sent[: sent.index("\n}\n") + 2])
    assert launch["roles"]["worker"]["env"]["X"] == HOSTILE
    assert launch["roles"]["worker"]["argv"][-1] == HOSTILE
    assert not (tmp_path / "pwned").exists()


def test_gpus_become_an_option_or_nvidia_dockers_variable(tmp_path):
    plan = trained(tmp_path, roles=GPUS)
    text = render_plan(plan, "docker")
    assert "--gpus '\"device=2,3\"'" in text and "nvidia-docker" not in text
    legacy = render_plan(plan, "docker", legacy=True)
    assert "NV_GPU=2,3 nvidia-docker run" in legacy and "--gpus" not in legacy
    calls = run_with_fake(legacy, tmp_path, "nvidia-docker")
    assert sum(call[:1] == ["run"] and "--detach" in call for call in calls) == 3


def test_gpus_named_in_the_spec_are_the_ones_divided(tmp_path):
    plan = trained(tmp_path, roles=GPUS, docker={"gpus": [1, 3, "GPU-8f1c", 7]})
    text = render_plan(plan, "docker")
    assert "--gpus '\"device=1,3\"'" in text
    assert "--gpus '\"device=GPU-8f1c,7\"'" in text
    with pytest.raises(UsageError, match="worker-1 asks for 2 GPUs"):
        trained(tmp_path, roles=GPUS, docker={"gpus": [1, 3]})


def test_every_host_has_a_script_with_its_tasks_and_addresses(tmp_path):
    plan = plan_of(tmp_path, docker=HOSTS)
    files = render_files(plan, "docker")
    assert sorted(files) == ["one.sh", "two.sh"]
    assert "--publish 10.0.0.1:2222:2222" in files["one.sh"]
    assert "drawn-worker-0" not in files["one.sh"].partition("TFCLUSTER_LAUNCHER\n\n")[2]
    assert "--publish 10.0.0.2:2224:2224" in files["two.sh"]
    with pytest.raises(UsageError, match="2 hosts"):
        render_plan(plan, "docker")


def test_the_scripts_of_several_hosts_share_a_key_and_a_single_script_makes_its_own(tmp_path):
    """A job of another spec, or of another person, has another one."""
    keys = [
        set(re.findall(r"TFCLUSTER_KEY:-([0-9a-f]{64})", text))
        for plan in (plan_of(tmp_path, docker=HOSTS), plan_of(tmp_path, docker=HOSTS, shm="1Gi"))
        for text in render_files(plan, "docker").values()
    ]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert [len(found) for found in keys] == [1] * 4
    single = render_plan(plan_of(tmp_path), "docker")
    assert re.search("[0-9a-f]{64}", single) is None
    run_with_fake(single, tmp_path)
    sent = (tmp_path / "record.input").read_text()
    assert re.match("[0-9a-f]{64}", sent[sent.index("\n}\n") + 3 :])


def test_compose_takes_another_key_from_its_environment(tmp_path):
    services = compose_of(plan_of(tmp_path))["services"].values()
    keys = {service["environment"]["TFCLUSTER_KEY"] for service in services}
    assert len(keys) == 1 and re.fullmatch(r"\$\{TFCLUSTER_KEY:-[0-9a-f]{64}\}", keys.pop())


def test_rendering_is_stable(tmp_path):
    for target in ("docker", "compose"):
        first, second = (render_plan(plan_of(tmp_path, shm="1Gi"), target) for _ in range(2))
        assert first == second


def test_a_rendered_script_runs_the_job_as_it_is(tmp_path, engine):
    script = tmp_path / "drawn.sh"
    plan = plan_of(tmp_path, args=["", HOSTILE])
    script.write_text(render_plan(plan, "docker"))
    try:
        done = subprocess.run(["sh", str(script)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "drawn-ps-0: exit code 0" in done.stdout
        logs = subprocess.run(["docker", "logs", "drawn-worker-1"], capture_output=True, text=True)
        assert logs.stdout == "hello\n"
    finally:
        subprocess.run(["sh", str(script), "down"], check=True)
        engine.api.remove_volume(f"tfcluster-drawn-{plan.content_id}")
    left = engine.api.containers(all=True, filters={"label": "io.tfcluster.job=drawn"})
    assert left == []


def test_a_rendered_script_carries_the_code(tmp_path, engine, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "train.py").write_text("import part; print(part.WORD)\n")
    (tmp_path / "program" / "part.py").write_text("WORD = 'carried'\n")
    plan = plan_of(tmp_path, command=["python3", "train.py"], code="program", roles={"worker": {}})
    script = tmp_path / "drawn.sh"
    script.write_text(render_plan(plan, "docker"))
    try:
        done = subprocess.run(["sh", str(script)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        logs = subprocess.run(["docker", "logs", "drawn-worker-0"], capture_output=True, text=True)
        assert logs.stdout == "carried\n"
    finally:
        subprocess.run(["sh", str(script), "down"], check=True)
        engine.api.remove_volume(f"tfcluster-drawn-{plan.content_id}")
    with pytest.raises(UsageError, match="code: compose has no way"):
        render_plan(plan, "compose")


def compose(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = ["docker", "compose", "--file", str(folder / "compose.yaml"), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("code", [0, 3])
def test_a_rendered_compose_file_runs_the_job_as_it_is(tmp_path, engine, code):
    if compose(tmp_path, "version").returncode != 0:
        pytest.skip("docker has no compose here; install its plugin to run this")
    program = "import sys; print(sys.argv[1:], flush=True); sys.exit(int(sys.argv[1]))"
    plan = plan_of(tmp_path, command=["python3", "-c", program, str(code), HOSTILE], restarts=0)
    (tmp_path / "compose.yaml").write_text(render_plan(plan, "compose"))
    try:
        up = compose(tmp_path, "up", "--abort-on-container-failure")
        assert (up.returncode == 0) == (code == 0), up.stdout + up.stderr
        said = compose(tmp_path, "logs", "--no-log-prefix", "worker-1").stdout.splitlines()
        assert said[0] == str([str(code), HOSTILE])
        ended = json.loads(compose(tmp_path, "ps", "--all", "--format", "json", "ps-0").stdout)
        assert ended["ExitCode"] == (0 if code == 0 else 120)
    finally:
        compose(tmp_path, "down", "--volumes")
    left = engine.api.containers(all=True, filters={"label": "io.tfcluster.job=drawn"})
    assert left == []
