"""Several machines with an engine each, by socket and by ssh."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.contract.jobs import Job
from tests.docker.conftest import HOSTS, remove_volumes
from tests.launchers import until
from tfcluster.backends.docker.engines import Engine
from tfcluster.errors import MissingError, TfclusterError, UsageError

pytestmark = pytest.mark.skipif(
    HOSTS is None,
    reason="needs three machines with Docker; set TFCLUSTER_TEST_HOSTS to the testbed's folder",
)
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
SHOW = "import os; print(os.environ['TF_CONFIG'], flush=True)"


def sockets() -> list[str]:
    return [f"unix://{HOSTS}/{number}/docker.sock" for number in (1, 2, 3)]


def by_ssh() -> list[str]:
    return [f"ssh://root@172.28.0.1{number}" for number in (1, 2, 3)]


def hosts(engines: list[str], tasks=(["ps"], ["worker-0"], ["worker-1"])) -> dict:
    return {
        "hosts": [
            {
                "name": f"host-{number}",
                "engine": engine,
                "address": f"172.28.0.1{number}",
                **({"tasks": tasks[number - 1]} if tasks else {}),
            }
            for number, engine in enumerate(engines, 1)
        ]
    }


@pytest.fixture
def spread(engine, tmp_path, home, monkeypatch):
    """A job over three hosts; nothing of it may be left on any of them."""
    ssh = f"ssh -i {HOSTS}/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    monkeypatch.setenv("TFCLUSTER_SSH", f"{ssh} -o LogLevel=ERROR")
    made = Job("docker", tmp_path, name="spread")
    yield made
    made.down()
    assert left_behind(made) == []
    for reference in sockets():
        remove_volumes(Engine(reference), made)


def left_behind(job) -> list[str]:
    found = []
    for reference in sockets():
        api = Engine(reference).api
        own = {"label": f"io.tfcluster.job={job.name}"}
        found += [str(item["Names"]) for item in api.containers(all=True, filters=own)]
        found += [item["Name"] for item in api.networks(filters=own)]
    return found


@pytest.mark.parametrize("engines", [sockets, by_ssh])
def test_a_job_runs_over_three_hosts_with_their_addresses(spread, engines):
    spread.up(spread.spec(SHOW, docker=hosts(engines())))
    assert spread.over().state == "succeeded"
    cluster = json.loads(spread.log("worker-1"))["cluster"]
    assert cluster == {
        "ps": ["172.28.0.11:2222"],
        "worker": ["172.28.0.12:2222", "172.28.0.13:2222"],
    }


def test_ports_are_published_on_the_hosts_address_only_and_commands_reach_tasks(spread, capfd):
    spread.up(spread.spec(SLEEP, docker=hosts(by_ssh())))
    spread.says("worker-1", b"up")
    details = Engine(sockets()[2]).api.inspect_container("spread-worker-1")
    assert details["HostConfig"]["PortBindings"] == {
        "2222/tcp": [{"HostIp": "172.28.0.13", "HostPort": "2222"}],
        "2223/tcp": [{"HostIp": "172.28.0.13", "HostPort": "2223"}],
    }
    assert spread.backend.exec(spread.run, "worker-1", ["hostname"]) == 0
    assert capfd.readouterr().out == "spread-worker-1\n"
    before = spread.identity_of_running("worker-1")
    spread.backend.restart(spread.run, ["worker-1"])
    until(lambda: spread.identity("worker-1") != before, "another process")


def test_tasks_without_a_place_are_dealt_out_in_turn_with_ports_of_their_own(spread):
    spec = spread.spec(SHOW, workers=4, docker=hosts(sockets()[:2], tasks=None))
    spread.up(spec)
    assert spread.over().state == "succeeded"
    cluster = json.loads(spread.log("worker-3"))["cluster"]
    assert cluster["ps"] == ["172.28.0.11:2222"]
    assert cluster["worker"] == [
        "172.28.0.12:2222",
        "172.28.0.11:2224",
        "172.28.0.12:2224",
        "172.28.0.11:2226",
    ]


def test_a_host_that_is_down_is_named_and_nothing_is_started(spread):
    engines = [*sockets()[:2], "unix:///nowhere/docker.sock"]
    with pytest.raises(MissingError, match='host "host-3"') as caught:
        spread.up(spread.spec(SLEEP, docker=hosts(engines)))
    assert caught.value.hint
    assert left_behind(spread) == []


def test_an_ssh_host_that_is_down_shows_what_ssh_said(spread):
    engines = [*by_ssh()[:2], "ssh://root@127.0.0.1:9"]
    with pytest.raises(MissingError, match="cannot be reached over ssh") as caught:
        spread.up(spread.spec(SLEEP, docker=hosts(engines)))
    assert "Connection refused" in "".join(caught.value.evidence)


def test_a_port_that_is_taken_is_named_and_nothing_half_started_stays(spread):
    api = Engine(sockets()[2]).api
    blocker = api.create_container(
        "python:3.11-slim",
        ["sleep", "60"],
        ports=[2222],
        host_config=api.create_host_config(port_bindings={2222: 2222}),
    )
    api.start(blocker["Id"])
    try:
        with pytest.raises(MissingError, match=r"port 2222 is taken on host \"host-3\""):
            spread.up(spread.spec(SLEEP, docker=hosts(sockets())))
        assert left_behind(spread) == []
    finally:
        api.remove_container(blocker["Id"], force=True)


def test_a_task_with_no_host_or_two_hosts_is_refused(spread):
    with pytest.raises(UsageError, match="no host is there for worker-1"):
        tasks = (["ps"], ["worker-0"], ["ps-0"])
        spread.up(spread.spec(SLEEP, docker=hosts(sockets(), tasks)))
    with pytest.raises(UsageError, match="worker-0 is given to"):
        tasks = (["ps", "worker-0"], ["worker-0"], ["worker"])
        spread.up(spread.spec(SLEEP, docker=hosts(sockets(), tasks)))


def test_an_engine_that_restarts_loses_no_line_and_the_job_goes_on(spread):
    code = (
        "import os, time; n, i = os.environ['TFCLUSTER_ATTEMPT'], os.environ['TFCLUSTER_INDEX']\n"
        "for line in range(600 if n == '0' and i == '1' else 5):\n"
        "    print(n, line, flush=True); time.sleep(0.05)\n"
        "while i == '0' and not os.path.exists('/tmp/go'): time.sleep(1)"
    )
    spread.up(spread.spec(code, restarts=0, start_timeout=120, docker=hosts(sockets())))
    spread.says("worker-1", b"0 20\n")
    subprocess.run(["docker", "restart", "-t", "30", "host-3"], check=True, capture_output=True)
    spread.says("worker-1", b"1 4\n")
    spread.backend.exec(spread.run, "worker-0", ["touch", "/tmp/go"])
    status = spread.over()
    assert status.state == "succeeded", status
    lines = [line.split() for line in spread.log("worker-1").decode().splitlines()]
    first = [int(number) for attempt, number in lines if attempt == "0"]
    assert first == list(range(len(first))) and len(first) > 20
    assert [int(number) for attempt, number in lines if attempt == "1"] == list(range(5))


def test_the_only_engine_restarts_and_every_task_comes_back(spread):
    code = "import os, time; print('attempt', os.environ['TFCLUSTER_ATTEMPT'], flush=True); "
    code += "time.sleep(600 if os.environ['TFCLUSTER_ATTEMPT'] == '0' else 3)"
    only = hosts(sockets()[:1], tasks=None)
    spread.up(spread.spec(code, restarts=0, docker=only))
    spread.says("worker-0", b"attempt 0")
    spread.says("worker-1", b"attempt 0")
    subprocess.run(["docker", "restart", "-t", "30", "host-1"], check=True, capture_output=True)
    status = spread.over()
    assert status.state == "succeeded", status
    assert spread.log("worker-1") == b"attempt 0\nattempt 1\n"


def test_the_three_hosts_example_trains(spread):
    if not os.environ.get("TFCLUSTER_TEST_TRAINER"):
        pytest.skip("copies 1 GB to each host; set TFCLUSTER_TEST_TRAINER=1")
    root = Path(__file__).parent.parent.parent
    from tfcluster.converge import bring_down, deploy
    from tfcluster.spec.loader import load_spec

    for engines in (sockets(), by_ssh()):
        variables = {"epochs": "2"}
        for letter, number, engine in zip("abc", (1, 2, 3), engines, strict=True):
            variables |= {f"engine_{letter}": engine, f"address_{letter}": f"172.28.0.1{number}"}
        loaded = load_spec(root / "examples" / "three-hosts.yaml", variables=variables)
        made = deploy(loaded, folder=root)
        try:
            until(lambda made=made: spread.backend.observe(made.run).over, "the end", timeout=300)
            status = spread.backend.observe(made.run)
        finally:
            bring_down(made.run, grace=3)
        assert status.state == "succeeded", status
        assert status.result["accuracy"] >= 0.93


def test_what_cannot_be_made_on_one_host_is_undone_on_all(spread):
    spec = spread.spec(SLEEP, docker=hosts(sockets()))
    spec["roles"]["worker"]["gpus"] = 1
    with pytest.raises(TfclusterError, match="no GPU runtime"):
        spread.up(spec)
    assert left_behind(spread) == []


def test_a_change_of_hosts_forgets_no_host(spread):
    spread.up(spread.spec(SLEEP, docker=hosts(sockets())))
    spread.says("worker-1", b"up")
    moved = hosts([*sockets()[:2], sockets()[1]], (["ps"], ["worker"], []))
    moved["hosts"].pop()
    spread.up(spread.spec(SLEEP, docker=moved), same_run=True)
    spread.task_is("worker-1", "running")
    assert Engine(sockets()[2]).api.containers(filters={"label": "io.tfcluster.job=spread"}) == []


def test_a_change_that_cannot_be_made_ends_the_run_and_leaves_nothing(spread):
    spread.up(spread.spec(SLEEP, docker=hosts(sockets())))
    spread.says("worker-1", b"up")
    with pytest.raises(TfclusterError, match="no GPU runtime"):
        changed = spread.spec(SLEEP, docker=hosts(sockets()), roles={"worker": {"gpus": 1}})
        spread.up(changed, same_run=True)
    assert spread.status().state == "failed"
    assert left_behind(spread) == []
