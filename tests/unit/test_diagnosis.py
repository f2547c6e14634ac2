"""Why a job failed: each kind of cause from what a real program leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tfcluster.diagnosis.diagnose import diagnose
from tfcluster.diagnosis.evidence import Evidence, Limits, Line, StartProblem
from tfcluster.diagnosis.stalls import diagnose_stall
from tfcluster.diagnosis.tracebacks import find_raised
from tfcluster.events import Cause, Event, JobStatus, Observed, Progress
from tfcluster.launch import exits

NOW = 1_000_000.0
SITE = "/usr/lib/python3.11/site-packages"
NOISE = [
    "2026-01-31 12:00:00.000001: I tensorflow/core/platform/cpu_feature_guard.cc:210] This",
    "I0000 00:00:1 1 coordination_service_agent.cc:630] Coordination agent has",
]
USER_ERROR = [
    "Traceback (most recent call last):",
    '  File "/home/me/train.py", line 40, in <module>',
    "    main()",
    '  File "/home/me/train.py", line 31, in main',
    "    model.fit(data)",
    f'  File "{SITE}/keras/src/utils/traceback_utils.py", line 122, in error_handler',
    "    raise e.with_traceback(filtered_tb) from None",
    "ValueError: shapes (3,) and (4,) not aligned",
]


def traceback(last: str) -> list[str]:
    return [*USER_ERROR[:-1], last]


def observed(task: str, state: str, **more) -> Observed:
    role, _, index = task.rpartition("-")
    return Observed(task=task, role=role, index=int(index), state=state, **more)


@dataclass(frozen=True)
class Case:
    """How worker-1 ended, and what ought to be said of it."""

    kind: str
    sentence: str
    lines: list[str] = field(default_factory=list)
    cause: str = exits.PROGRAM_EXIT
    code: int = 1
    reason: str = "exit code 1"
    where: str | None = None
    peer: str | None = None
    certain: bool = True
    blamed: str = "worker-1"
    events: tuple[Event, ...] = ()


OWN = "/home/me/train.py:31 in main"
CASES = {
    "an exception of one's own": Case("user-exception", "ValueError", USER_ERROR, where=OWN),
    "and noise after it": Case("user-exception", "ValueError", USER_ERROR + NOISE * 60, where=OWN),
    "an exception of a library": Case(
        "exception",
        "RuntimeError: no",
        [BEGIN := USER_ERROR[0], f'  File "{SITE}/x.py", line 2, in f', "RuntimeError: no"],
    ),
    "a module": Case(
        "missing-module",
        "cannot import pandas",
        traceback("ModuleNotFoundError: No module named 'pandas'"),
    ),
    "a file": Case(
        "missing-file",
        "/data/x.csv",
        traceback("FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'"),
    ),
    "a script": Case(
        "missing-file",
        "/home/me/trian.py",
        ["python: can't open file '/home/me/trian.py': [Errno 2] No such file or directory"],
        code=2,
    ),
    "a syntax error": Case(
        "syntax-error",
        "could not be compiled",
        ['  File "/home/me/train.py", line 3', "    def f(:", "          ^", "SyntaxError: bad"],
        where="/home/me/train.py:3",
    ),
    "a full disk": Case(
        "disk-full", "disk", traceback("OSError: [Errno 28] No space left on device")
    ),
    "too many files": Case(
        "too-many-files", "files", traceback("OSError: [Errno 24] Too many open files: 'x'")
    ),
    "memory of the machine": Case("out-of-memory", "MemoryError", traceback("MemoryError")),
    "memory of a tensor": Case(
        "out-of-memory",
        "ResourceExhaustedError",
        traceback("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when"),
    ),
    "memory beyond the limit": Case(
        "out-of-memory",
        "its limit is 256Mi",
        cause=exits.OUT_OF_MEMORY,
        code=137,
        reason="out of memory",
    ),
    "a loss that is no number": Case(
        "diverged",
        "cost became nan at step 12",
        ["trainer: error: the cost became nan at step 12 of worker-1 (learning_rate 9)"],
    ),
    "checkpoints": Case(
        "checkpoint-damaged",
        "none of the checkpoints in /c is whole",
        ["trainer: error: none of the checkpoints in /c is whole (3 tried); put a good one there"],
    ),
    "data": Case(
        "bad-data",
        "checksum",
        ["trainer: error: train-images.gz is not MNIST: its checksum does not match"],
    ),
    "a port": Case(
        "port-taken",
        "cannot listen",
        traceback("OSError: [Errno 98] Address already in use"),
    ),
    "a data set that ends": Case(
        "data-ended", "data set of worker-1", ["UserWarning: Your input ran out of data; stopping"]
    ),
    "a segmentation fault": Case(
        "segfault", "SIGSEGV", cause=exits.PROGRAM_KILLED, code=139, reason="killed by SIGSEGV"
    ),
    "killed from outside": Case(
        "killed", "SIGKILL", cause=exits.PROGRAM_KILLED, code=137, certain=False
    ),
    "told to go": Case("killed", "SIGTERM", cause=exits.SIGNALLED, code=143),
    "a peer that never came": Case(
        exits.PEER_MISSING,
        "ps-0 did not start in time",
        cause=exits.PEER_MISSING,
        peer="ps-0",
        code=121,
        blamed="ps-0",
    ),
    "a ps that never listened": Case(
        exits.NOT_LISTENING,
        "ps-0 never listened",
        cause=exits.NOT_LISTENING,
        peer="ps-0",
        code=121,
        blamed="ps-0",
    ),
    "a broken edge": Case(
        exits.UNREACHABLE,
        "worker-1 cannot reach ps-0 at 10.0.0.1:2222",
        cause=exits.UNREACHABLE,
        peer="ps-0",
        code=121,
    ),
    "the deadline": Case("deadline", "deadline", cause=exits.DEADLINE, code=124),
    "an evicted pod": Case(
        "evicted",
        "taken away",
        cause=exits.LAUNCHER_KILLED,
        code=137,
        events=(Event(NOW - 3, "Evicted", "The node was low on memory", "worker-1"),),
    ),
    "a worker that loses a ps that died": Case(
        "peer-died",
        "ps-0 went away (killed by SIGKILL",
        traceback("tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"),
        events=(Event(NOW - 9, "restarting", "killed by SIGKILL (exit code 137)", "ps-0"),),
        blamed="ps-0",
    ),
    "a worker that loses what nothing tells of": Case(
        "peer-lost",
        "lost the connection",
        traceback("tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"),
        certain=False,
    ),
    "a worker that waits for another": Case(
        "peer-slow",
        "waited too long for worker-0",
        ["trainer: error: worker-0 did not contribute to the next update within 20 s"],
        blamed="worker-0",
    ),
    "silence": Case("unknown", "did not say why", ["step 1", "step 2"], code=3, certain=False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_cause_is_named_with_its_evidence_and_what_to_do(name: str) -> None:
    case = CASES[name]
    verdict = diagnose(evidence_of(case))
    assert (verdict.kind, verdict.task) == (case.kind, case.blamed), verdict
    assert case.sentence in verdict.sentence
    assert verdict.certain == case.certain
    assert verdict.advice, "nothing to do next"
    if case.where is not None:
        assert verdict.where == case.where
    if case.lines and case.kind != "unknown":
        assert any(line in "\n".join(verdict.evidence) for line in case.lines[-1:] + case.lines)
    others = {"ps-0", "worker-0", "worker-1"} - {case.blamed}
    assert all(task in "\n".join(verdict.followed) for task in others)


def evidence_of(case: Case) -> Evidence:
    cause = Cause("worker-1", case.code, case.reason, (), NOW, case.cause, case.peer)
    tasks = (
        observed("ps-0", "running", address="10.0.0.1:2222"),
        observed(
            "worker-0", "stopped", kind=exits.PEER_FAILED, reason="stopped because worker-1 failed"
        ),
        observed("worker-1", "failed", kind=case.cause, reason=case.reason, exit_code=case.code),
    )
    return Evidence(
        status=JobStatus("j", "r", "local", "failed", tasks, cause=cause),
        logs={"worker-1": tuple(Line(NOW - 1, text) for text in case.lines)},
        events=case.events,
        limits={"worker": Limits(memory=256 << 20)},
    )


def test_the_cause_of_a_peer_that_never_came_is_what_the_peer_said() -> None:
    case = CASES["a ps that never listened"]
    found = evidence_of(case)
    lines = tuple(Line(NOW - 5, text) for text in CASES["a module"].lines)
    verdict = diagnose(Evidence(found.status, {"ps-0": lines}, limits=found.limits))
    assert (verdict.kind, verdict.task) == ("missing-module", "ps-0")


def test_what_is_not_known_shows_the_earliest_oddity_of_any_task() -> None:
    found = evidence_of(CASES["silence"])
    logs = {**found.logs, "ps-0": (Line(NOW - 50, "E: something failed here"),)}
    verdict = diagnose(Evidence(found.status, logs, limits=found.limits))
    assert verdict.kind == "unknown" and not verdict.certain
    assert verdict.evidence[0] == "ps-0: E: something failed here"


# -- Jobs that go on ---------------------------------------------------------------------------


def running(*tasks: Observed, **more) -> Evidence:
    return Evidence(status=JobStatus("j", "r", "local", "running", tasks), **more)


def test_a_task_that_stood_still_for_too_long_is_the_cause() -> None:
    words = "its program was stopped (SIGSTOP) 60 s ago; worker-0 waits for it"
    cause = Cause("ps-0", exits.EXIT_STALLED, words, kind=exits.STALLED)
    verdict = diagnose(Evidence(JobStatus("j", "r", "local", "failed", cause=cause)))
    assert (verdict.kind, verdict.task) == ("stalled", "ps-0")
    assert words in verdict.sentence


def test_a_problem_that_a_task_reports_is_told_while_it_goes_on() -> None:
    said = Progress(step=5, problem="no room on the disk")
    verdict = diagnose_stall(running(observed("worker-0", "running", progress=said)), NOW)
    assert (verdict.kind, verdict.task) == ("problem", "worker-0")
    assert "no room on the disk" in verdict.sentence


def test_a_stopped_task_is_blamed_and_not_those_that_wait() -> None:
    tasks = (
        observed("ps-0", "running", pid=42, progressed=None),
        observed("worker-0", "running", progressed=NOW - 90),
    )
    verdict = diagnose_stall(running(*tasks, doing={"ps-0": {"stopped": NOW - 9}}), NOW)
    assert (verdict.kind, verdict.task, verdict.time) == ("stopped-peer", "ps-0", NOW - 9)
    assert "kill -CONT 42" in verdict.advice[0]
    assert verdict.followed == ("worker-0: no progress for 90 s",)


def test_a_task_that_does_not_answer_is_blamed_before_those_without_progress() -> None:
    tasks = (
        observed("ps-0", "running", silent_since=NOW - 30),
        observed("worker-0", "running", progressed=NOW - 25),
    )
    verdict = diagnose_stall(running(*tasks), NOW)
    assert (verdict.kind, verdict.task, verdict.certain) == ("silent-peer", "ps-0", False)


def test_of_tasks_that_wait_the_one_that_waits_for_none_is_blamed() -> None:
    tasks = tuple(observed(name, "starting") for name in ("chief-0", "worker-0", "ps-0"))
    doing = {"chief-0": {"waitsFor": ["worker-0"]}, "worker-0": {"waitsFor": ["ps-0"]}}
    verdict = diagnose_stall(running(*tasks, doing=doing), NOW)
    assert (verdict.kind, verdict.task) == ("waiting", "ps-0")
    assert verdict.evidence == ("chief-0: waits for worker-0", "worker-0: waits for ps-0")


@pytest.mark.parametrize(
    ("code", "file"),
    [("/home/me", "train.py"), ("/home/m", "/home/me/train.py"), ("", "/home/me/train.py")],
)
def test_a_file_of_ones_own_code_is_named_as_one_knows_it(code, file) -> None:
    raised = find_raised(USER_ERROR)
    assert raised is not None
    assert raised.seen_from(code).where == f"{file}:31 in main"


def test_a_worker_that_waits_for_one_that_has_finished_is_told_about_device_filters() -> None:
    words = "I master.cc:221] CreateSession still waiting for response from worker: "
    lines = (Line(NOW, f"{words}/job:worker/replica:0/task:0"),)
    tasks = (observed("worker-0", "succeeded"), observed("worker-1", "running"))
    verdict = diagnose_stall(running(*tasks, logs={"worker-1": lines}), NOW)
    assert (verdict.kind, verdict.task) == ("finished-peer", "worker-0")
    assert "device_filters" in verdict.advice[0]


@pytest.mark.parametrize("kind", ["unschedulable", "image", "quota", "security", "mount"])
def test_a_pod_that_does_not_start_is_told_in_the_clusters_words(kind: str) -> None:
    problems = {"worker-0": StartProblem(kind, "0/3 nodes are available: no GPU")}
    verdict = diagnose_stall(running(observed("worker-0", "pending"), problems=problems), NOW)
    assert (verdict.kind, verdict.certain) == (kind, True)
    assert "0/3 nodes are available" in verdict.sentence
    assert verdict.advice


def test_a_job_without_trouble_is_not_given_any() -> None:
    verdict = diagnose_stall(running(observed("worker-0", "running", progressed=NOW - 1)), NOW)
    assert verdict.kind == "nothing-wrong"
    done = JobStatus("j", "r", "local", "succeeded", (observed("worker-0", "succeeded"),))
    assert diagnose(Evidence(done)).kind == "nothing-wrong"


# -- Tracebacks --------------------------------------------------------------------------------


def test_of_chained_exceptions_the_last_counts() -> None:
    lines = [
        *USER_ERROR,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/home/me/util.py", line 7, in load',
        "    raise KeyError(name)",
        "KeyError: 'x'",
    ]
    found = find_raised(lines)
    assert found is not None
    assert (found.text, found.where) == ("KeyError: 'x'", "/home/me/util.py:7 in load")


def test_a_traceback_that_was_cut_off_is_not_made_up() -> None:
    assert find_raised(USER_ERROR[:-1]) is None


def test_lines_of_other_threads_inside_a_traceback_are_passed_over() -> None:
    lines = [*USER_ERROR[:3], NOISE[0], *USER_ERROR[3:]]
    found = find_raised(lines)
    assert found is not None and found.name == "ValueError"
