"""Damaged and deleted state of a job that runs: `down` ends every process, `up` works again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

# A worker with a child that has forgotten its environment: neither mark nor record tells of it.
PROGRAM = "import subprocess; subprocess.call(['env', '-i', '/bin/sleep', '600'])"
SPEC = f"""
name: hurt
stop_grace: 1s
command: ["{sys.executable}", -c, "{PROGRAM}"]
roles: {{worker: {{replicas: 2}}}}
"""
DAMAGES = {
    "half": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "other JSON": lambda text: '{"hello": "world"}',
    "other version": lambda text: text.replace('ersion": ', 'ersion": 99'),
    "gone": None,
}
FILES = ("record.json", "plan.json", "launch.json", "keeper.json", "tasks/worker-0.json")


@pytest.fixture
def up(tfcluster):
    """Brings the job up; its run folder."""
    (tfcluster.folder / "cluster.yaml").write_text(SPEC)

    def start() -> Path:
        done = tfcluster("up", "--wait")
        assert done.returncode == 0, done.stderr
        (run,) = [path.parent for path in tfcluster.home.rglob("keeper.json")]
        return run

    return start


def damage(path: Path, how: str) -> None:
    change = DAMAGES[how]
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))


def end(tfcluster) -> str:
    for command in ("status", "logs"):
        done = tfcluster(command)
        assert "Traceback" not in done.stderr and "bug" not in done.stderr
        assert done.returncode in (0, 1, 3), done.stderr
    done = tfcluster("down")
    assert done.returncode == 0, done.stderr
    assert tfcluster.left_behind() == []
    return done.stderr


def test_down_ends_every_process_of_a_run_whose_files_are_all_damaged(tfcluster, up):
    run = up()
    for name, how in zip(FILES, DAMAGES, strict=True):
        damage(run / name, how)
    assert "Stopped 2 tasks" in end(tfcluster)
    shutil.rmtree(tfcluster.home)
    assert up()


def test_a_run_whose_folder_was_deleted_is_named_and_ended(tfcluster, up):
    up()
    shutil.rmtree(tfcluster.home)
    for command in (["status"], ["up", "-d"]):
        done = tfcluster(*command)
        assert done.returncode == 1
        assert 'of job "hurt" still runs 2 tasks, but its folder is gone' in done.stderr
        assert "hint: end them: tfcluster down" in done.stderr
    assert "Stopped 2 tasks" in end(tfcluster)
    assert up()


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_down_ends_every_process_whatever_is_damaged(tfcluster, up, name, how):
    run = up()
    damage(run / name, how)
    assert "Stopped 2 tasks" in end(tfcluster)
    again = tfcluster("up", "--wait")
    assert again.returncode == 0, again.stderr
