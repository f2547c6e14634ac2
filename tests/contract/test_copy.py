"""`tfcluster cp`: files to a running task and back, on every backend."""

from __future__ import annotations

import os
import subprocess
import sys

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def cp(job, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tfcluster", "cp", *words]
    return subprocess.run(argv, cwd=job.folder, capture_output=True, text=True, timeout=120)


def test_files_and_folders_travel_both_ways_as_they_are(job, tmp_path):
    job.up(job.spec(SLEEP, workers=1, ps=None))
    job.says("worker-0", b"up")
    given = tmp_path / "given"
    (given / "deep").mkdir(parents=True)
    content = os.urandom(3 << 20)
    (given / "deep" / "data.bin").write_bytes(content)
    (given / "run me.sh").write_text("true\n")
    (given / "run me.sh").chmod(0o755)
    (given / "link").symlink_to("/etc/hostname")
    where = f"/tmp/{job.name}-{os.getpid()}"
    sent = cp(job, str(given), f"worker-0:{where}")
    assert sent.returncode == 0, sent.stderr
    assert "Copied 2 files, 3" in sent.stderr
    back = cp(job, f"worker-0:{where}", "back")
    assert back.returncode == 0, back.stderr
    assert (job.folder / "back" / "deep" / "data.bin").read_bytes() == content
    assert os.access(job.folder / "back" / "run me.sh", os.X_OK)
    assert not os.path.lexists(job.folder / "back" / "link")
    # Into a folder that is there, under its own name; and a single file under another name.
    assert cp(job, str(given / "run me.sh"), f"worker-0:{where}/deep").returncode == 0
    one = cp(job, f"worker-0:{where}/deep/run me.sh", "other.sh")
    assert one.returncode == 0, one.stderr
    assert (job.folder / "other.sh").read_text() == "true\n"


def test_what_cannot_be_copied_is_named(job):
    job.up(job.spec(SLEEP, workers=1, ps=None))
    job.says("worker-0", b"up")
    missing = cp(job, "worker-0:/nowhere/at all", ".")
    assert missing.returncode == 1
    assert "error: worker-0: there is no /nowhere/at all" in missing.stderr
    (job.folder / "a file").write_text("x")
    refused = cp(job, "a file", "worker-0:/proc/x/y")
    assert refused.returncode == 1 and "worker-0: cannot write /proc/x" in refused.stderr
    assert cp(job, "not here", "worker-0:x").returncode == 3
    assert cp(job, "worker-7:x", ".").returncode == 3
