"""A disk that is full, read-only or too small: said, and it ends no program."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

from tests.launchers import until
from tests.runs.cli import Cli

PROGRAM = """
import pathlib, time
for number in range(100000):
    print("line", number, "x" * 600, flush=True)
    time.sleep(0.02)
    if pathlib.Path("finish").exists():
        break
print('tfcluster-result {"accuracy": 0.9}', flush=True)
"""
SPEC = f"""
name: full
stop_grace: 1s
command: ["{sys.executable}", program.py]
roles: {{worker: {{replicas: 2}}}}
"""


@pytest.fixture
def disk(tmp_path):
    """Mounts a small disk; a Cli whose state folder is there."""
    home = tmp_path / "disk"
    home.mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "cluster.yaml").write_text(SPEC)
    (folder / "program.py").write_text(PROGRAM)
    cli = Cli(folder, home)

    def mount(size: str) -> Cli:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tfcluster-test", str(home)],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"this user cannot mount a small disk: {done.stderr.strip()}")
        return cli

    yield mount
    cli("down", "--all")
    left = cli.left_behind()
    subprocess.run(["umount", "-l", str(home)], capture_output=True)
    assert left == []


def fill(cli: Cli) -> None:
    with contextlib.suppress(OSError), open(cli.home / "ballast", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1024)


def test_a_disk_that_is_full_at_the_start_is_named_and_nothing_is_left(disk):
    cli = disk("16k")
    done = cli("up", "-d")
    assert done.returncode == 1
    assert f"error: {cli.home}/jobs/" in done.stderr and "No space left" in done.stderr
    assert "hint: free some room there" in done.stderr
    assert cli.processes() == []
    assert not list(cli.home.rglob("runs/*"))


def test_a_disk_that_fills_up_ends_nothing_and_the_end_is_known_all_the_same(disk):
    cli = disk("1m")
    assert cli("up", "--wait").returncode == 0
    fill(cli)

    def complains() -> bool:
        done = cli("status")
        return "cannot write" in done.stdout and "No space left" in done.stderr

    until(complains, "the launchers to say that the disk is full", timeout=60)
    status = cli.status()
    assert [task["state"] for task in status["tasks"]] == ["running", "running"]
    assert [task["restarts"] for task in status["tasks"]] == [0, 0]
    # The job ends, and what it ended with is known although it cannot be written down.
    (cli.folder / "finish").touch()
    done = cli("wait")
    assert done.returncode == 0, done.stderr
    assert "0.9" in done.stdout and "waits to be written down" in done.stderr
    (cli.home / "ballast").unlink()
    until(lambda: list(cli.home.rglob("status.json")), "the end to be written down", timeout=60)
    assert cli.status()["state"] == "succeeded"
    assert cli.left_behind() == []
    logs = cli("logs", "worker-0").stdout
    assert "lines could not be written here: No space left on device" in logs
    assert "killed" not in cli("events").stdout


def test_down_ends_everything_on_a_full_disk_and_says_that_it_cannot_write_it_down(disk):
    cli = disk("256k")
    assert cli("up", "-d").returncode == 0
    fill(cli)
    done = cli("down")
    assert done.returncode == 0, done.stderr
    assert "Stopped 2 tasks" in done.stderr
    assert cli.left_behind() == []
    (cli.home / "ballast").unlink(missing_ok=True)
    assert cli("up", "-d").returncode == 0
    assert "killed" not in cli("status").stdout


def test_a_state_folder_that_becomes_read_only_keeps_down_from_nothing(disk):
    cli = disk("1m")
    assert cli("up", "-d").returncode == 0
    subprocess.run(["mount", "--bind", str(cli.home), str(cli.home)], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(cli.home)], check=True)
    try:
        done = cli("up", "-d")
        assert done.returncode == 1
        assert "Read-only file system" in done.stderr and "TFCLUSTER_HOME" in done.stderr
        done = cli("down")
        assert done.returncode == 0, done.stderr
        assert "Read-only file system" in done.stderr and "Stopped 2 tasks" in done.stderr
        assert cli.left_behind() == []
    finally:
        subprocess.run(["umount", "-l", str(cli.home)], check=True)
