"""The first cause of a failure: what the launcher knows, what the program said, how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfcluster.diagnosis.clues import Match, find_clue
from tfcluster.diagnosis.evidence import Evidence
from tfcluster.diagnosis.tracebacks import Raised, find_raised
from tfcluster.diagnosis.verdict import UNKNOWN, Verdict, fold
from tfcluster.events import Cause
from tfcluster.launch import exits
from tfcluster.quantities import format_bytes
from tfcluster.tables import state_text

SHOWN_LINES = 10
BEFORE = 120.0  # seconds before a failure in which another task's end may have caused it
SIGNALS_OF_A_CRASH = {
    signal.SIGSEGV: "segfault",
    signal.SIGBUS: "segfault",
    signal.SIGABRT: "aborted",
    signal.SIGFPE: "aborted",
    signal.SIGILL: "aborted",
}
# Kinds of events by which a cluster says that it took a pod or its node away.
TAKEN_AWAY = {
    "Evicted": ("evicted", "its node was short of resources and evicted the pod"),
    "Preempted": ("preempted", "a pod of higher priority took its place"),
    "NodeNotReady": ("node-lost", "its node stopped answering"),
    "TaintManagerEviction": ("node-lost", "its node stopped answering"),
    "evicted": ("preempted", "the queue took its place away"),
}


@dataclass(frozen=True)
class Suspect:
    """The task that failed first, with everything that it left."""

    evidence: Evidence
    cause: Cause

    @property
    def task(self) -> str:
        return self.cause.task

    @property
    def role(self) -> str:
        return self.task.rpartition("-")[0]

    @cached_property
    def lines(self) -> list[str]:
        return self.evidence.texts(self.task) or list(self.cause.lines)

    @cached_property
    def raised(self) -> Raised | None:
        found = find_raised(self.lines)
        return found.seen_from(self.evidence.code) if found else None

    @property
    def signal(self) -> int | None:
        code = self.cause.exit_code
        return code - 128 if code is not None and 128 < code < 128 + 65 else None

    def verdict(self, kind: str, sentence: str, *advice: str, certain: bool = True) -> Verdict:
        where = self.raised.where if self.raised else ""
        return Verdict(
            kind,
            sentence,
            task=self.task,
            where=where,
            time=self.cause.time or None,
            evidence=self.shown_lines(),
            advice=(*advice, f"tfcluster logs {self.task}"),
            certain=certain,
        )

    def shown_lines(self) -> tuple[str, ...]:
        """The lines that tell of the exception, or the last ones."""
        end = self.raised.at + 1 if self.raised else len(self.lines)
        begin = self.raised.begin if self.raised else 0
        return tuple(self.lines[max(begin, end - SHOWN_LINES) : end])


def diagnose_failure(evidence: Evidence, cause: Cause) -> Verdict:
    """The verdict on a job of which a task has failed for the last time."""
    suspect = Suspect(evidence, cause)
    verdict = (
        by_kind(suspect) or by_events(suspect) or by_words(suspect) or by_exit(suspect)
    ) or unknown(suspect)
    rest = [task for task in evidence.status.tasks if task.task != verdict.task]
    followed = fold((task.task, state_text(task)) for task in rest)
    return replace(verdict, followed=followed)


# -- What the launcher knows -------------------------------------------------------------------


def by_kind(suspect: Suspect) -> Verdict | None:
    """Kinds that are not a matter of opinion."""
    decide = KINDS.get(suspect.cause.kind)
    return decide(suspect) if decide else None


def out_of_memory(suspect: Suspect) -> Verdict:
    limit = suspect.evidence.limit(suspect.task)
    words = f": its limit is {format_bytes(limit)}" if limit else ""
    return suspect.verdict(
        "out-of-memory",
        f"{suspect.task} ran out of memory{words}",
        f"raise roles.{suspect.role}.memory, or use smaller batches",
    )


def cannot_start(suspect: Suspect) -> Verdict:
    return suspect.verdict(
        "cannot-start",
        f"{suspect.task} could not be started: {suspect.cause.reason}",
        f"tfcluster plan {suspect.task} shows what is started, and where",
    )


def no_resources(suspect: Suspect) -> Verdict:
    return suspect.verdict(
        "no-resources",
        f"the system had nothing left for {suspect.task}: {suspect.cause.reason}",
        "raise ulimit -u and ulimit -n, or pids.max of the control group (docker.pids_limit),"
        " or run fewer tasks",
    )


def port_taken(suspect: Suspect) -> Verdict:
    return suspect.verdict(
        "port-taken",
        f"{suspect.task} cannot use its port: {suspect.cause.reason}",
        "end the process that has it, or choose others with ports or local.port_range",
    )


def deadline(suspect: Suspect) -> Verdict:
    return suspect.verdict(
        "deadline",
        "the job's deadline passed before it was done",
        "give it more time with deadline, or leave it out",
    )


def stood_still(suspect: Suspect) -> Verdict:
    return suspect.verdict(
        "stalled",
        f"{suspect.task} stood still: {suspect.cause.reason}",
        "more time: stall_timeout; another attempt instead: on_stall: restart",
    )


def not_reached(suspect: Suspect) -> Verdict:
    """One end of an edge says that the other is missing: the other may say why."""
    peer = suspect.cause.peer
    other = suspect.evidence.task(peer) if peer else None
    if other is None or peer is None:
        return suspect.verdict("peer-missing", f"{suspect.task}: {suspect.cause.reason}")
    raised = find_raised(suspect.evidence.texts(peer))
    if raised is not None:
        inner = Suspect(suspect.evidence, replace(suspect.cause, task=peer, kind=""))
        told = by_words(inner)
        if told is not None:
            return told
    words = {
        exits.NOT_LISTENING: f"{peer} never listened on its port",
        exits.UNREACHABLE: f"{suspect.task} cannot reach {peer} at {other.address}",
        exits.SILENCE: f"{peer} stopped answering",
    }.get(suspect.cause.kind, f"{peer} did not start in time")
    state = f" ({peer}: {state_text(other)})" if other.state != "running" else ""
    verdict = suspect.verdict(
        suspect.cause.kind,
        f"{words}{state}",
        f"see what {peer} does: tfcluster logs {peer}",
        "if it only needs longer, raise start_timeout",
    )
    return replace(verdict, task=peer if suspect.cause.kind != exits.UNREACHABLE else suspect.task)


KINDS: Mapping[str, Callable[[Suspect], Verdict]] = {
    exits.OUT_OF_MEMORY: out_of_memory,
    exits.CANNOT_START: cannot_start,
    exits.NO_RESOURCES: no_resources,
    exits.PORT_TAKEN: port_taken,
    exits.DEADLINE: deadline,
    exits.STALLED: stood_still,
    exits.PEER_MISSING: not_reached,
    exits.NOT_LISTENING: not_reached,
    exits.UNREACHABLE: not_reached,
    exits.SILENCE: not_reached,
}


# -- What the cluster says ---------------------------------------------------------------------


def by_events(suspect: Suspect) -> Verdict | None:
    """A pod that was taken away says nothing itself; the cluster's events do."""
    if suspect.cause.kind not in (exits.LAUNCHER_KILLED, exits.SIGNALLED, exits.PROGRAM_KILLED):
        return None
    for event in reversed(suspect.evidence.events):
        if event.task == suspect.task and event.kind in TAKEN_AWAY:
            kind, words = TAKEN_AWAY[event.kind]
            verdict = suspect.verdict(kind, f"{suspect.task} was taken away: {words}")
            return replace(verdict, evidence=(event.message,), time=event.time)
    return None


# -- What the program said ---------------------------------------------------------------------


def by_words(suspect: Suspect) -> Verdict | None:
    """A known kind of exception or message; else the exception itself."""
    match = find_clue(suspect.raised, suspect.lines)
    if match is not None and match.clue.of_peer:
        return by_peer(suspect, match)
    if match is not None:
        return told(suspect, match)
    raised = suspect.raised
    if raised is None:
        return None
    place = f" at {raised.where}" if raised.where else ""
    kind = "user-exception" if raised.own else "exception"
    return suspect.verdict(kind, f"{suspect.task} raised {raised.text}{place}")


def told(suspect: Suspect, match: Match) -> Verdict:
    names = {"task": suspect.task, "role": suspect.role}
    names["where"] = (suspect.raised.where if suspect.raised else "") or "the program"

    def fill(text: str) -> str:
        return text.format(match.found, **names)

    advice = [fill(text) for text in match.clue.advice]
    verdict = suspect.verdict(match.clue.kind, fill(match.clue.words), *advice)
    if match.line not in verdict.evidence and suspect.raised is None:
        verdict = replace(verdict, evidence=(match.line, *verdict.evidence[-SHOWN_LINES // 2 :]))
    return verdict


def by_peer(suspect: Suspect, match: Match) -> Verdict:
    """The program blames another task: whatever ended before it is the better explanation."""
    earlier = [
        event
        for event in suspect.evidence.events
        if event.task not in (None, suspect.task)
        and event.kind in ("restarting", "failed")
        and 0 <= (suspect.cause.time or event.time) - event.time <= BEFORE
    ]
    verdict = told(suspect, match)
    named = match.found.partition(",")[0]
    if suspect.evidence.task(named) is not None:
        return replace(verdict, task=named)
    if not earlier:
        return replace(verdict, certain=False)
    first = min(earlier, key=lambda event: event.time)
    return Verdict(
        "peer-died",
        f"{first.task} went away ({first.message}), and {suspect.task} did not get over it",
        task=first.task,
        time=first.time,
        evidence=(f"{first.task}: {first.message}", *verdict.evidence[-3:]),
        advice=(f"tfcluster logs {first.task} --previous", f"tfcluster logs {suspect.task}"),
    )


# -- How it ended ------------------------------------------------------------------------------


def by_exit(suspect: Suspect) -> Verdict | None:
    number, task = suspect.signal, suspect.task
    if suspect.cause.kind == exits.SIGNALLED:
        return suspect.verdict("killed", f"{task} was told to stop from outside (SIGTERM)")
    if number is None and suspect.cause.kind != exits.LAUNCHER_KILLED:
        return None
    if number in SIGNALS_OF_A_CRASH:
        name = signal.Signals(number).name
        kind = SIGNALS_OF_A_CRASH[signal.Signals(number)]
        advice = "run it with PYTHONFAULTHANDLER=1 under env: it then says where"
        return suspect.verdict(kind, f"{task} crashed inside native code ({name})", advice)
    if number == signal.SIGKILL:
        return suspect.verdict(
            "killed",
            f"{task} was killed from outside (SIGKILL)",
            "the system kills the largest process when memory is short: see dmesg, or set"
            f" roles.{suspect.role}.memory so that tfcluster can tell",
            certain=False,
        )
    return suspect.verdict("killed", f"{task} was ended from outside: {suspect.cause.reason}")


def unknown(suspect: Suspect) -> Verdict:
    """Not known: say so, and show what was odd first, wherever it was."""
    earliest = first_oddity(suspect.evidence)
    verdict = suspect.verdict(
        UNKNOWN,
        f"{suspect.task} failed ({suspect.cause.reason}) and did not say why",
        certain=False,
    )
    if earliest is None:
        return verdict
    return replace(verdict, evidence=(f"{earliest[0]}: {earliest[1]}", *verdict.evidence))


ODD = ("error", "exception", "fatal", "failed", "abort")


def first_oddity(evidence: Evidence) -> tuple[str, str] | None:
    """The earliest line of any task that tells of something wrong."""
    found: Sequence[tuple[float, str, str]] = [
        (line.time, task, line.text)
        for task, lines in evidence.logs.items()
        for line in lines
        if any(word in line.text.lower() for word in ODD)
    ]
    if not found:
        return None
    _, task, text = min(found)
    return task, text
