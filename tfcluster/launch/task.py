"""The life of a task: wait for peers, run the program, restart it, end by rule."""

from __future__ import annotations

import argparse
import queue
import signal
import time
from typing import Any, Callable, Dict, Optional, Set, Tuple

from tfcluster.launch.attempt import enforce_memory, explain_end, start_program
from tfcluster.launch.edges import edge_patience, watch_edges, watch_own_port
from tfcluster.launch.exits import (
    CANNOT_START,
    DEADLINE,
    EXIT_DEADLINE,
    EXIT_KILLED,
    EXIT_NOT_STARTED,
    EXIT_PEER_FAILED,
    EXIT_STALLED,
    FINISHED,
    GIVEN_UP,
    JOB_DONE,
    LINGER,
    MODULE_MISSING,
    NO_RESOURCES,
    OUT_OF_MEMORY,
    PEER_FAILED,
    PEER_MISSING,
    PORT_TAKEN,
    RESTARTING,
    SIGNALLED,
    SILENCE,
    STALLED,
    UNREACHABLE,
    WAITING,
    Stop,
    may_restart,
)
from tfcluster.launch.handover import is_fetched, make_output, time_to_stay
from tfcluster.launch.plan import LaunchPlan, control_address
from tfcluster.launch.program import Program, reap
from tfcluster.launch.python import missing_module
from tfcluster.launch.record import given_up
from tfcluster.launch.standing import Standing
from tfcluster.launch.system import EXHAUSTED, adopt_orphans, oom_kills, start_thread
from tfcluster.launch.unpack import unpack_code
from tfcluster.launch.waiting import Peers

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # between restarts, doubling
PLACE_PATIENCE = 10.0  # how long a launcher that replaces another waits to hear from the others
LOOK_EVERY = 1.0
MEMORY_EVERY = 0.2


class Task(Standing):
    """One task. The main thread decides; other threads put what they see into `inbox`."""

    def __init__(self, plan: LaunchPlan, task: str, key: bytes, options: argparse.Namespace):
        super().__init__(plan, task, key, options)
        self.ready: Set[str] = set()
        self.verdict: Optional[Dict[str, Any]] = None
        self.looked = 0.0
        self.peers = Peers(plan, task, key, self.control.job_table)

    # -- The life of a task, from top to bottom

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda got, _frame: self.hear("signal", got))
        adopt_orphans()
        try:
            self.output.begin_attempt(self.attempt)
            self.open_control()
            needs = self.entry.get("needs", [])
            self.become("starting", WAITING if needs else "", "waiting for peers" if needs else "")
            self.find_place()
            self.take_code()
            self.wait_for_peers()
            self.run_until_over()
        except Stop as stop:
            self.finish(stop)
        return self.final_code()

    def open_control(self) -> None:
        try:
            self.control.start()
        except OSError as error:
            port = control_address(self.plan, self.task)[1]
            reason = f"control port {port} cannot be used: {error.strerror}"
            if error.errno in EXHAUSTED:
                raise Stop("failed", EXIT_NOT_STARTED, NO_RESOURCES, str(error.strerror)) from None
            raise Stop("failed", EXIT_NOT_STARTED, PORT_TAKEN, reason) from None

    def final_code(self) -> int:
        """Our own exit code.

        Where killed containers are replaced (`--final`), 128+n has to mean that we were killed or
        told to go, and not that the program was, for the last time.
        """
        code = self.exit_code or 0
        return EXIT_KILLED if self.options.final and self.state == "failed" and code > 128 else code

    def find_place(self) -> None:
        """In the place of a launcher that was killed: first hear whether the task has finished."""
        if self.attempt == 0 or self.entry.get("serves"):
            return
        until = time.monotonic() + PLACE_PATIENCE
        while not self.control.has_place() and time.monotonic() < until:
            self.handle(self.next_message(0.05))
        self.idle(0.1)

    def take_code(self) -> None:
        """Put the program's own files in their place, once for all its attempts."""
        make_output(self.plan, self.task)
        code = self.plan.get("code")
        if not code:
            return
        try:
            unpack_code(code)
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or str(error)
            reason = f"cannot put the code into {code['target']}: {words}"
            self.say(reason)
            raise Stop("failed", EXIT_NOT_STARTED, CANNOT_START, reason) from None

    def wait_for_peers(self) -> None:
        """Until every needed launcher was there (and, with `barrier: ports`, programs listen)."""
        timeout = self.plan["start_timeout"]
        deadline = time.monotonic() + timeout
        next_notice = time.monotonic() + 2
        came = False
        while True:
            if not came and self.peers.have_come(self.ready):
                came = True
                # A peer whose program does not listen says so itself: it has the cause.
                deadline = time.monotonic() + edge_patience(self.plan)
            due = time.monotonic() > min(next_notice, deadline)
            waits_for = self.peers.missing(self.ready, due)
            if waits_for is None:
                return
            if waits_for:
                first = waits_for[0]
                more = f" (and {len(waits_for) - 1} more)" if len(waits_for) > 1 else ""
                if time.monotonic() > deadline:
                    waited = edge_patience(self.plan) if came else timeout
                    reason = f"waited {waited:g} s for {self.peers.explain(first)}{more}"
                    kind = UNREACHABLE if came else PEER_MISSING
                    raise Stop("failed", EXIT_NOT_STARTED, kind, reason, first)
                next_notice = time.monotonic() + 10
                words = f"waiting for {self.peers.explain(first)}{more}"
                self.say(words)
                self.become("starting", WAITING, words, waits_for=tuple(waits_for[:10]))
            self.handle(self.next_message(min(0.2, timeout / 4)))

    def run_until_over(self) -> None:
        self.watch(watch_edges, self.plan, self.task, lambda: self.ended is not None, self.stop)
        rule = self.entry["restarts"]
        pause = FIRST_PAUSE
        while True:
            code, kind, reason = self.run_program()
            if code is None:
                self.attempt += 1
                self.say("restarting on request")
                words = "restarting on request"
                self.become("starting", RESTARTING, words, event="restarting")
                continue
            if code == 0:
                raise Stop("succeeded", 0, FINISHED, "finished")
            only = (
                None if kind == STALLED else rule.get("on")
            )  # that it restarts is on_stall's word
            if not may_restart(rule["limit"], only, self.failures, code, kind):
                raise Stop("failed", code, kind, reason)
            self.failures += 1
            self.attempt += 1
            self.say(f"{reason}; restart {self.failures} of {rule['limit']}")
            words = f"restarting after {reason}"
            self.become("starting", RESTARTING, words, event="restarting")
            self.idle(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def run_program(self) -> Tuple[Optional[int], str, str]:
        """Run the program once, to its end: exit code, kind of end and reason.

        The code is None if a restart was asked for.
        """
        killed_at = oom_kills()
        ended = lambda program: self.hear("exit", program)  # noqa: E731
        program = start_program(self.plan, self.task, self.attempt, self.output, ended)
        self.program = program
        self.stalls.told = False
        too_much = ""
        try:
            self.begin_state(program)
            while True:
                kind, value = self.next_message(self.look_pause())
                if kind == "exit" and value is program:
                    break
                if kind == "restart":
                    return None, "", ""
                if kind == "stalled":
                    return EXIT_STALLED, STALLED, value
                if kind == "listening" and value is program:
                    self.become("serving")
                self.handle((kind, value))
                too_much = too_much or enforce_memory(program, self.entry.get("memory_limit"))
        finally:
            program.stop(self.plan["stop_grace"], self.say)
        code = program.exit_code
        if too_much:
            return code, OUT_OF_MEMORY, too_much
        killed = oom_kills() > killed_at
        return (code, *explain_end(self.entry, program, killed, self.output.lines))

    def begin_state(self, program: Program) -> None:
        if self.entry.get("listens"):
            if self.kind == WAITING:
                self.become("starting")  # the program runs, but does not listen yet
            over = lambda: program is not self.program or self.ended is not None  # noqa: E731
            listening = lambda: self.hear("listening", program)  # noqa: E731
            self.watch(watch_own_port, self.plan, self.task, program, over, listening, self.stop)
        else:
            self.become("serving" if self.entry.get("serves") else "running")

    def finish(self, stop: Stop) -> None:
        """Settle the final state, put it on disk, then stay while others need to hear of it."""
        self.exit_code, self.ended = stop.code, time.time()
        if stop.state == "failed":
            self.say(f"failed: {stop.reason}")
            self.cause = {
                "task": self.task,
                "kind": stop.kind,
                "exitCode": stop.code,
                "reason": stop.reason,
                "lines": list(self.output.lines),
                "time": self.ended,
                "peer": stop.peer,
            }
            if stop.kind == MODULE_MISSING and self.program:
                self.cause["module"] = missing_module(self.output.lines)
                self.cause["python"] = self.program.python
        elif self.verdict is not None:
            self.cause = self.verdict.get("cause")
        self.become(stop.state, stop.kind, stop.reason)
        self.reporter.final(self.snapshot())
        self.output.end()
        if not self.control.running:
            return
        cause = dict(self.cause) if self.cause else None
        self.control.settle(stop.state, cause, given_up(self.output.result))
        self.stay_for_record()
        stays = 0.5 if stop.kind == SIGNALLED else max(LINGER, self.plan["start_timeout"]) + 5
        self.control.say_goodbye(stays)
        if stop.kind != SIGNALLED:
            self.hand_over()

    def hand_over(self) -> None:
        """Where files go with the container: stay for a while, until they have been fetched."""
        until = time.monotonic() + time_to_stay(self.plan, self.task)
        while time.monotonic() < until and not is_fetched():
            if self.next_message(0.2)[0] == "signal":
                return

    # -- Messages, and what follows from them

    def next_message(self, timeout: float) -> Tuple[str, Any]:
        try:
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            return ("tick", None)

    def idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.handle(self.next_message(max(0.0, until - time.monotonic())))

    def handle(self, message: Tuple[str, Any]) -> None:
        """Take in what happened. Raises Stop if it, or the clock, ends the task."""
        kind, value = message
        if kind == "signal":
            name = signal.Signals(value).name
            raise Stop("stopped", 128 + value, SIGNALLED, f"stopped by {name}")
        if kind == "stop":
            raise value
        if kind == "verdict":
            self.obey(value)
        elif kind == "finished":
            if self.program is None:
                raise Stop("succeeded", 0, FINISHED, "finished before its launcher was replaced")
            raise Stop("succeeded", 0, GIVEN_UP, "given up: the job was completed without it")
        elif kind == "ready":
            self.ready = value
        elif kind == "silent":
            self.hear_silent(value)
        elif kind == "progress":
            self.take_progress()
        self.look_at_clock()

    def obey(self, verdict: Dict[str, Any]) -> None:
        """The hub has said how the job ends."""
        self.verdict = verdict
        if verdict["state"] == "succeeded":
            raise Stop("succeeded", 0, JOB_DONE, "the job is done")
        first = verdict["cause"]
        reason = f"stopped because {first['task']} failed ({first['reason']})"
        raise Stop("stopped", EXIT_PEER_FAILED, PEER_FAILED, reason, first["task"])

    def look_at_clock(self) -> None:
        """What time alone brings: the deadline, silence of the others, a program that stands."""
        deadline = self.plan.get("deadline")
        if deadline is not None and time.time() - self.started > deadline:
            reason = f"the job's deadline of {deadline:g} s passed"
            raise Stop("failed", EXIT_DEADLINE, DEADLINE, reason)
        if time.monotonic() - self.looked < LOOK_EVERY:
            return
        self.looked = time.monotonic()
        timeout = self.plan["start_timeout"]
        if self.entry.get("serves") and self.control.unheard() > timeout:
            names = ", ".join(self.control.open_required()[:3])
            reason = f"{names} did not answer for {timeout:g} s"
            raise Stop("failed", EXIT_NOT_STARTED, SILENCE, reason)
        reap(self.program.pid if self.program else None)
        if self.output.untold:
            self.output.untold = False
            self.take_progress()
        self.output.look()
        self.reporter.catch_up(self.snapshot())
        self.watch_progress()
        self.watch_stall()
        self.watch_silent()

    # -- Watching

    @staticmethod
    def watch(action: Callable[..., None], *arguments: Any) -> None:
        try:
            start_thread(action, *arguments)
        except OSError as error:
            raise Stop("failed", EXIT_NOT_STARTED, NO_RESOURCES, str(error.strerror)) from None

    def stop(self, found: Stop) -> None:
        self.hear("stop", found)

    def look_pause(self) -> float:
        return MEMORY_EVERY if self.entry.get("memory_limit") else LOOK_EVERY
