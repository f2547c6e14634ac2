"""What only containers promise: limits, byte-exact logs, replacement, clear refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from tests.docker.conftest import alive_keeper, containers, networks
from tests.launchers import until
from tfcluster.errors import MissingError, UsageError

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def inspect(engine, job, task):
    return engine.api.inspect_container(f"{job.name}-{task}")


# -- Logs


def test_output_is_kept_byte_for_byte(job, tmp_path):
    data = bytes(range(256)) + b"\r\n\n" + b"x" * 100_000 + "\nnaïve ✓\n".encode() + b"no end"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data.bin").write_bytes(data)
    code = "import sys; sys.stdout.buffer.write(open('/code/data.bin', 'rb').read())"
    volume = {"source": "code", "target": "/code", "read_only": True}
    job.up(job.spec(code, workers=1, volumes=[volume]))
    assert job.over().state == "succeeded"
    assert job.log("worker-0") == data
    job.down()
    assert job.log("worker-0") == data


def test_the_two_streams_stay_apart_and_attempts_too(job):
    code = (
        "import os, sys; n = os.environ['TFCLUSTER_ATTEMPT']\n"
        "print('out', n, end='', flush=True)\n"
        "print('err', n, end='', file=sys.stderr, flush=True)\n"
        "sys.exit(n == '0')"
    )
    job.up(job.spec(code, workers=1, restarts=1))
    job.over()
    from tfcluster.events import LogQuery

    lines = [
        (line.attempt, line.stream, line.data, line.complete)
        for line in job.backend.logs(job.run, LogQuery(tasks=("worker-0",)))
        if not line.data.startswith(b"tfcluster:")
    ]
    assert sorted(lines) == [
        (0, "stderr", b"err 0", False),
        (0, "stdout", b"out 0", False),
        (1, "stderr", b"err 1", False),
        (1, "stdout", b"out 1", False),
    ]


# -- What a container is


def test_containers_are_labelled_named_and_in_a_network_of_their_own(job, engine):
    job.up(job.spec(SLEEP, roles={"worker": {"cpu": 0.5, "memory": "128Mi"}}, shm="32Mi"))
    found = inspect(engine, job, "worker-1")
    assert (
        found["Config"]["Labels"].items()
        >= {
            "io.tfcluster.job": job.name,
            "io.tfcluster.run": job.run.id,
            "io.tfcluster.task": "worker-1",
            "io.tfcluster.role": "worker",
            "io.tfcluster.index": "1",
        }.items()
    )
    host = found["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["ShmSize"]) == (500_000_000, 128 << 20, 32 << 20)
    assert host["PortBindings"] in ({}, None)
    assert "no-new-privileges" in host["SecurityOpt"]
    assert list(found["NetworkSettings"]["Networks"]) == [f"tfcluster-{job.name}"]
    assert "/var/run/docker.sock" not in json.dumps(found)
    job.down()
    assert networks(engine, job) == []
    assert not [v for v in engine.api.volumes()["Volumes"] or () if v["Name"].endswith("-launch")]


GUARDS = """
import os, time
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("caps", status["CapEff"].strip(), "bound", status["CapBnd"].strip())
print("nnp", status["NoNewPrivs"].strip())
paths = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
print("pids", next(open(path).read().strip() for path in paths if os.path.exists(path)))
open("/mine/made", "w").write("it")
os.chown("/mine/made", 1234, 1234)
os.setgid(1234); os.setuid(1234)
print("dropped", os.getuid(), flush=True)
time.sleep(600)
"""
KEPT = 0xEB  # CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID
SYS_PTRACE = 1 << 19


@pytest.mark.parametrize(
    ("asked", "mask", "limit"),
    [({}, KEPT, 4096), ({"capabilities": ["SYS_PTRACE"], "pids_limit": 99}, KEPT | SYS_PTRACE, 99)],
)
def test_an_own_image_is_held_to_few_capabilities_and_a_number_of_processes(
    job, engine, tmp_path, asked, mask, limit
):
    """Root in it still writes to another's folder, and a program that drops root can be ended."""
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    os.chown(mine, 1000, 1000)
    volume = {"source": "mine", "target": "/mine"}
    job.up(job.spec(GUARDS, ps=None, workers=1, volumes=[volume], docker=asked))
    job.says("worker-0", b"dropped 1234")
    said = job.log("worker-0").decode().splitlines()
    assert said[:3] == [f"caps {mask:016x} bound {mask:016x}", "nnp 1", f"pids {limit}"]
    assert ((mine / "made").read_text(), (mine / "made").stat().st_uid) == ("it", 1234)
    host = inspect(engine, job, "worker-0")["HostConfig"]
    assert (host["CapDrop"], host["PidsLimit"]) == (["ALL"], limit)
    # The launcher, which is root, ends a program that is not: that takes CAP_KILL.
    job.backend.restart(job.run, ["worker-0"])
    until(lambda: job.log("worker-0").count(b"dropped 1234") == 2, "its program to start again")


def test_ps_sees_no_gpu_and_secrets_from_files_are_not_in_inspect(job, engine, tmp_path):
    (tmp_path / "secret.env").write_text("PASSWORD=hunter2\n")
    show = "import os; print(os.environ['PASSWORD'], repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    job.up(job.spec(show + "; " + SLEEP, workers=1, env_from=[{"file": "secret.env"}]))
    job.says("worker-0", b"hunter2 ''")
    assert "hunter2" not in json.dumps(inspect(engine, job, "worker-0"))


def test_results_survive_in_a_volume_and_the_command_given_copies_them(job, engine, tmp_path):
    code = (
        "import os; open(os.path.join(os.environ['TFCLUSTER_LOGDIR'], 'made'), 'w').write('it'); "
        "print(os.getuid())"
    )
    job.up(job.spec(code, workers=1))
    assert job.over().state == "succeeded"
    job.down()
    name = f"tfcluster-{job.name}-{job.run.id}"
    assert engine.api.inspect_volume(name)["Labels"]["io.tfcluster.run"] == job.run.id
    place = job.status().results[0]
    assert (place.kind, place.name, place.path) == ("volume", name, "/output")
    subprocess.run(["sh", "-c", place.copy], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / f"{job.name}-{job.run.id}" / "made").read_text() == "it"


def test_a_folder_for_results_is_made_and_seen_here(job, tmp_path):
    code = "import os; open(os.path.join(os.environ['TFCLUSTER_LOGDIR'], 'made'), 'w').write('it')"
    plan = job.up(job.spec(code, workers=1, logdir="results")).plan
    assert job.over().state == "succeeded"
    assert plan.logdir == str(tmp_path / "results")
    assert (tmp_path / "results" / "made").read_text() == "it"


# -- Refusals


def test_a_gpu_that_docker_cannot_give_is_refused_in_its_words_and_nothing_is_left(job, engine):
    spec = job.spec(SLEEP, roles={"worker": {"gpus": 1}})
    with pytest.raises(MissingError, match="no GPU runtime") as caught:
        job.up(spec)
    assert "could not select device driver" in caught.value.evidence[0]
    assert "nvidia-container-toolkit" in caught.value.hint
    assert containers(engine, job) == {} and networks(engine, job) == []


def test_an_unknown_runtime_is_refused(job, engine):
    with pytest.raises(MissingError, match='no runtime "nvidia"'):
        job.up(job.spec(SLEEP, docker={"runtime": "nvidia"}))
    assert containers(engine, job) == {} and networks(engine, job) == []


def test_a_missing_image_is_refused_before_anything_starts(job, engine):
    with pytest.raises(MissingError, match="cannot be pulled") as caught:
        job.up(job.spec(SLEEP, image="tfcluster.invalid/no/such:image"))
    assert caught.value.hint
    with pytest.raises(MissingError, match=r"policy is never"):
        job.up(job.spec(SLEEP, image="no-such-image:1", image_pull={"policy": "never"}))
    assert job.run is None and containers(engine, job) == {}


def test_an_image_without_python_says_so(job):
    job.up(job.spec(SLEEP, workers=1, image="debian:bookworm-slim", start_timeout=5, restarts=0))
    cause = job.over().cause
    assert cause.exit_code == 127
    assert "no Python 3.8 or later" in cause.reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"volumes": [{"claim": "data", "target": "/data"}]}, "Kubernetes cluster"),
        ({"env_from": [{"secret": "keys"}]}, "Kubernetes cluster"),
        ({"image_pull": {"secrets": ["me"]}}, "Kubernetes cluster"),
        ({"workdir": "code"}, "not absolute"),
        ({"docker": {"network": "host"}}, "names"),
    ],
)
def test_what_docker_cannot_honour_is_refused(job, changes, message):
    with pytest.raises(UsageError, match=message):
        job.up(job.spec(SLEEP, **changes))


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("unix:///nowhere/docker.sock", "not running: no such socket"),
        ("tcp://127.0.0.1:9", "not running: nothing listens"),
        ("no-such-context", 'no Docker context "no-such-context"'),
    ],
)
def test_an_engine_that_is_not_there_is_named(job, host, message):
    hosts = [{"name": "one", "engine": host, "address": "127.0.0.1"}]
    with pytest.raises(MissingError, match=message) as caught:
        job.up(job.spec(SLEEP, docker={"hosts": hosts}))
    assert caught.value.hint


def test_a_socket_that_is_not_for_us_says_permission_denied(engine, tmp_path):
    """Run as another user: root may open any socket."""
    if os.getuid() != 0:
        pytest.skip("needs root, to become a user who may not use Docker")
    code = (
        "import os; from tfcluster.backends.docker.engines import Engine\n"
        "Engine('unix:///var/run/docker.sock').ping()\n"  # imports what is not for nobody
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: Engine('unix:///var/run/docker.sock').ping()\n"
        "except Exception as error: print(error.message, '|', error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "permission denied" in done.stdout and "usermod" in done.stdout, done.stderr


def test_nothing_is_left_when_the_job_has_ended(job, engine):
    job.up(job.spec("print('hi')"))
    job.over()
    until(lambda: job.run.final_status() is not None, "the run to be settled")
    assert containers(engine, job) == {} and networks(engine, job) == []
    until(lambda: not alive_keeper(job), "the keeper to be gone")


def test_a_slow_stop_is_cut_short_by_a_lack_of_patience(job):
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(600)"
    )
    job.up(job.spec(stubborn, workers=1, stop_grace=60))
    job.says("worker-0", b"up")
    begun = time.monotonic()
    job.backend.delete(job.run, grace=60, keep_going=lambda: time.monotonic() - begun < 1)
    assert job.status().state == "stopped"


def test_more_than_the_engines_machine_has_is_refused_before_anything_starts(job, engine):
    spec = job.spec(SLEEP, roles={"ps": {"memory": "9Ti"}, "worker": {"cpu": 4000}})
    with pytest.raises(MissingError, match="2 of the resources asked for") as caught:
        job.up(spec)
    assert "roles.ps.memory: 9Ti asked for, the Docker engine at" in caught.value.evidence[0]
    assert "roles.worker.cpu: 4000 cores" in caught.value.evidence[1]
    assert job.run is None and containers(engine, job) == {}
