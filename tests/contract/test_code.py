"""A person's code reaches every task on every backend, without an image of their own."""

from __future__ import annotations

import os

import pytest

from tests.contract.jobs import Job
from tfcluster.errors import UsageError

TELL = """
import os, sys
import own.part
print(own.part.WORD, os.getcwd() == os.path.realpath(os.environ["TFCLUSTER_CODE"]), flush=True)
print(" ".join(sorted(os.listdir("."))), open("link").read(), os.access("tool.sh", os.X_OK))
open("mark-" + os.environ["TFCLUSTER_TASK"], "w").close()
"""


@pytest.fixture
def program(job: Job) -> Job:
    """A program of several files, beside the spec."""
    (job.folder / "own").mkdir()
    (job.folder / "own" / "part.py").write_text("WORD = 'first'\n")
    (job.folder / "train.py").write_text(TELL)
    (job.folder / "text").write_text("linked")
    (job.folder / "link").symlink_to("text")
    (job.folder / "tool.sh").write_text("#!/bin/sh\n")
    (job.folder / "tool.sh").chmod(0o755)
    (job.folder / ".gitignore").write_text("ignored\n")
    (job.folder / "ignored").write_text("not sent")
    return job


def spec_of(job: Job, script: str = "train.py", **settings: object) -> dict:
    worker = {"replicas": 2, "command": [job.surroundings.python, script]}
    return job.spec_of({"worker": worker}, code=".", **settings)


def test_every_task_has_the_same_files_in_its_working_folder(program):
    program.up(spec_of(program))
    assert program.over().state == "succeeded"
    for task in ("worker-0", "worker-1"):
        first, second = program.log(task).decode().splitlines()
        assert first == "first True"
        *names, linked, executable = second.split()
        sent = [name for name in names if not name.startswith(("mark-", "__pyc"))]
        assert sent == [".gitignore", "link", "own", "text", "tool.sh", "train.py"]
        assert (linked, executable) == ("linked", "True")
    assert not list(program.folder.glob("mark-*")), "a task wrote into the person's own folder"


def test_edited_code_replaces_every_task_and_the_same_code_none(program):
    (program.folder / "train.py").write_text(TELL + "import time; time.sleep(600)\n")
    begun = program.up(spec_of(program))
    program.says("worker-0", b"first True")
    assert program.up(spec_of(program)).unchanged
    (program.folder / "own" / "part.py").write_text("WORD = 'second'\n")
    made = program.up(spec_of(program))
    assert made.run.id != begun.run.id
    program.says("worker-1", b"second True")


def test_a_task_whose_launcher_was_killed_has_the_same_code_again(program):
    """What was edited since then does not reach a task of a running job."""
    (program.folder / "train.py").write_text(TELL + "import time; time.sleep(600)\n")
    program.up(spec_of(program))
    program.says("worker-0", b"first True")
    (program.folder / "own" / "part.py").write_text("WORD = 'second'\n")
    program.kill_launcher("worker-0")
    program.becomes(lambda _: program.log("worker-0").count(b" True\n") >= 4, "a second start")
    assert b"second" not in program.log("worker-0")


def test_a_relative_workdir_is_inside_the_code(program):
    (program.folder / "own" / "inside.py").write_text("import part; print(part.WORD, 'inside')\n")
    program.up(spec_of(program, "inside.py", workdir="own"))
    assert program.over().state == "succeeded"
    assert program.log("worker-0") == b"first inside\n"


def test_five_megabytes_in_300_files_reach_three_tasks(program):
    (program.folder / "many").mkdir()
    for number in range(300):
        (program.folder / "many" / f"{number}.bin").write_bytes(os.urandom(17_500))
    count = "import os; print(sum(os.path.getsize('many/' + n) for n in os.listdir('many')))"
    command = [program.surroundings.python, "-c", count]
    program.up(program.spec_of({"worker": {"replicas": 3, "command": command}}, code="."))
    assert program.over(120).state == "succeeded"
    for task in ("worker-0", "worker-1", "worker-2"):
        assert program.log(task) == b"5250000\n"


def test_too_much_is_refused_before_anything_starts(program):
    with (program.folder / "data.bin").open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(UsageError) as refused:
        program.up(spec_of(program))
    assert "190.7MiB, and the limit is 100MiB" in refused.value.message
    assert any("data.bin" in row for row in refused.value.evidence)
    assert "volumes" in (refused.value.hint or "") and "image" in (refused.value.hint or "")
    assert program.run is None
