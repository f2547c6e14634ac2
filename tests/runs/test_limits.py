"""Too few descriptors or processes: said, and nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from pathlib import Path

import pytest

SPEC = "{name: limited, command: [sleep, '600'], roles: {worker: {replicas: 2}}}"
PIDS = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]


@pytest.fixture
def spec(tfcluster):
    (tfcluster.folder / "cluster.yaml").write_text(SPEC)


def up(tfcluster, prepare) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tfcluster.argv("up"),
        cwd=tfcluster.folder,
        env=tfcluster.env,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=prepare,
    )


@pytest.mark.parametrize("files", [8, 12])
def test_too_few_descriptors_are_said_and_nothing_is_left(tfcluster, spec, files):
    done = up(tfcluster, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert done.returncode in (1, 5), done.stderr
    assert "Too many open files" in done.stderr and "ulimit -n" in done.stderr
    assert "bug" not in done.stderr and "Traceback" not in done.stderr
    assert tfcluster.left_behind() == []


@pytest.fixture
def group():
    """A control group of our own that counts processes."""
    for parent in PIDS:
        folder = parent / f"tfcluster-test-{os.getpid()}"
        if (parent / "cgroup.procs").exists():
            with contextlib.suppress(OSError):
                folder.mkdir()
                (folder / "pids.max").write_text("max")
                break
    else:
        pytest.skip("this user cannot make a control group that counts processes")
    yield folder
    with contextlib.suppress(OSError):
        folder.rmdir()


@pytest.mark.parametrize("processes", [4, 9])
def test_too_few_processes_are_said_and_nothing_is_left(tfcluster, spec, group, processes):
    (group / "pids.max").write_text(str(processes))

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    done = up(tfcluster, enter)
    assert done.returncode in (1, 5), done.stderr
    assert "Resource temporarily unavailable" in done.stderr or "no thread can be" in done.stderr
    assert "pids.max" in done.stderr
    assert "bug" not in done.stderr and "Traceback" not in done.stderr
    assert tfcluster.left_behind() == []
