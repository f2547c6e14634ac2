"""What a launcher with --report writes into its own output, and how it is spoken to from inside."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.launchers import KEY, World, worker
from tfcluster.launch import lines

REPORT = ("--report",)


def states(data: bytes) -> list[dict]:
    """What the launcher reported, every line of it with its proof."""
    found = [line for line in data.split(b"\n") if line.startswith(lines.STATE)]
    read = [lines.read_state(KEY, "worker-0", line) for line in found]
    assert None not in read
    return [state for state in read if state is not None]


def plain(data: bytes) -> bytes:
    """The program's own bytes."""
    ours = (lines.STATE, b"tfcluster: ")
    own = [line for line in data.splitlines(True) if not line.startswith(ours)]
    return b"".join(line.replace(lines.UNENDED + b"\n", b"") for line in own)


def test_state_and_attempts_are_reported_and_the_programs_bytes_stay_its_own(tmp_path):
    code = (
        "import os, sys; n = os.environ['TFCLUSTER_ATTEMPT']; "
        "sys.stdout.write('half' + n); sys.stderr.write('line\\nhalf' + n); sys.exit(n == '0')"
    )
    roles = {"worker": worker(code, needs=[], restarts={"limit": 1, "on": None})}
    world = World(tmp_path, roles).start(extra=REPORT)
    assert world.codes() == {"worker-0": 0}
    out, err = world.out("worker-0"), world.err("worker-0").encode()
    assert plain(out) == b"half0half1"
    assert plain(err) == b"line\nhalf0line\nhalf1"
    begun = [state["begin"] for state in states(out) if "begin" in state]
    assert sorted(set(begun)) == [0, 1]
    assert states(out)[-1]["end"] and states(err)[-1]["end"]
    reported = [state for state in states(err) if "state" in state]
    assert [state["state"] for state in reported][-1] == "succeeded"


def test_nothing_is_reported_unless_asked_for(tmp_path):
    world = World(tmp_path, {"worker": worker("print('hi')", needs=[])}).start()
    world.codes()
    assert world.out("worker-0") == b"hi\n" and "tfcluster-state" not in world.err("worker-0")


def test_tell_speaks_to_the_launcher_of_the_same_machine(tmp_path):
    world = World(tmp_path, {"worker": worker("import time; time.sleep(600)", needs=[])}).start()
    try:
        world.state_becomes("worker-0", "running")
        argv = [sys.executable, str(world.launcher), "--plan", str(tmp_path / "launch.json")]
        argv += ["--task", "worker-0", "--tell"]
        done = subprocess.run([*argv, '{"ask": "state"}'], capture_output=True, text=True)
        assert json.loads(done.stdout)["state"] == "running"
        done = subprocess.run([*argv, "nonsense"], capture_output=True, text=True)
        assert done.returncode == 2 and "error" in done.stderr
    finally:
        world.close()
