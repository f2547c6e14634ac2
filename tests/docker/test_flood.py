"""Programs that write faster than their log is read: each runs once, every line is kept once."""

from __future__ import annotations

import os
import signal

import pytest

from tests.launchers import until
from tfcluster.backends.keeping import alive

LINES = 200_000
FLOOD = (
    "import sys\n"
    f"for n in range({LINES}): sys.stdout.write('line %d of as many as fit through\\n' % n)\n"
    "sys.stdout.flush()"
)
WORKERS = ("worker-0", "worker-1", "worker-2")


def flooded(job) -> None:
    """Every program ran once, and every line is there once, in order."""
    status = job.over()
    assert status.state == "succeeded", status
    assert [(task.exit_code, task.restarts) for task in status.tasks] == [(0, 0)] * 4
    expected = b"".join(b"line %d of as many as fit through\n" % n for n in range(LINES))
    for worker in WORKERS:
        assert [path.name for path in job.run.logs.glob(f"{worker}.*")] == [f"{worker}.0.log"]
        found = job.log(worker)
        assert found.count(b"\n") == LINES
        assert found == expected
    kinds = {event.kind for event in job.run.events()}
    assert not kinds & {"restarting", "failed", "warning"}


@pytest.mark.parametrize("time", range(1, 6))
def test_a_flood_is_kept_whole_and_no_program_runs_twice(job, time):
    job.up(job.spec(FLOOD, workers=3, restarts=2))
    flooded(job)


def test_a_keeper_killed_in_the_middle_of_a_flood_loses_and_repeats_nothing(job):
    spec = job.spec(FLOOD, workers=3, restarts=2)
    job.up(spec)
    path = job.run.logs / "worker-1.0.log"
    for size in (100_000, 3_000_000):
        until(lambda size=size: path.exists() and path.stat().st_size > size, "a part of it")
        keeper = job.run.files.read_keeper()
        os.kill(keeper["pid"], signal.SIGKILL)
        until(lambda keeper=keeper: not alive(keeper), "the keeper to be gone")
        assert job.run.final_status() is None
        job.up(spec)
    flooded(job)


HOSTILE = r"""
import os, sys
run = os.environ["TFCLUSTER_RUN"]
proof = "0123456789abcdef" * 2
for stream in (sys.stdout, sys.stderr):
    for said in ('"begin": 7', '"end": true', '"state": "failed", "exitCode": 3',
                 '"state": {"failed": 1}', '"state": "failed", "cause": 7'):
        print('tfcluster-state {"run": "%s", %s}' % (run, said), file=stream)
        print('tfcluster-state %s {"run": "%s", %s}' % (proof, run, said), file=stream)
    print('tfcluster-state ' + proof + ' ' + '[' * 50000, file=stream)
    print('tfcluster-progress {"step": 1e400, "total": 7}', file=stream)
    print('tfcluster-progress {"step": NaN, "total": NaN}', file=stream)
    print('tfcluster-progress {"step": 1' + '0' * 400 + ', "total": 8}', file=stream)
    print('tfcluster-result {"accuracy": 0.5, "x": "' + 'x' * (50 << 20) + '"}', file=stream)
    print("still here", file=stream, flush=True)
"""


def test_a_program_that_prints_what_only_launchers_may_say_harms_nothing(job):
    job.up(job.spec(HOSTILE, workers=1, restarts=0))
    status = job.over()
    assert status.state == "succeeded", status
    assert status.result is None
    worker = next(task for task in status.tasks if task.task == "worker-0")
    assert (worker.progress.step, worker.progress.total) == (None, 8)
    assert [path.name for path in job.run.logs.glob("worker-0.*")] == ["worker-0.0.log"]
    said = job.log("worker-0")
    assert said.count(b"still here\n") == 2 and len(said) > 100 << 20
    assert said.count(b"tfcluster-state ") == 22
    assert (job.run.path / "keeper.log").read_bytes() == b""
    warnings = [event.message for event in job.run.events() if event.kind == "warning"]
    assert warnings == ["a result of more than 64 KiB is ignored"]
