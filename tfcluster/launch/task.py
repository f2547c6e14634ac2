"""The life of a task: wait for peers, run the program, restart it, end by rule."""

from __future__ import annotations

import argparse
import os
import queue
import signal
import threading
import time
from typing import Any, Callable, Dict, NoReturn, Optional, Set, Tuple

from tfcluster.launch.control import Control
from tfcluster.launch.edges import watch_edges, watch_own_port
from tfcluster.launch.exits import (
    CANNOT_START,
    DEADLINE,
    EXIT_DEADLINE,
    EXIT_KILLED,
    EXIT_NOT_STARTED,
    EXIT_OUT_OF_MEMORY,
    EXIT_PEER_FAILED,
    FINISHED,
    JOB_DONE,
    OUT_OF_MEMORY,
    PEER_FAILED,
    PEER_MISSING,
    PORT_TAKEN,
    RESTARTING,
    SIGNALLED,
    SILENCE,
    WAITING,
    Stop,
    describe_exit,
    kind_of_exit,
    may_restart,
)
from tfcluster.launch.member import LINGER
from tfcluster.launch.output import Output
from tfcluster.launch.plan import (
    LaunchPlan,
    LaunchRole,
    control_address,
    program_argv,
    program_env,
    read_env_files,
    split_task,
)
from tfcluster.launch.program import Program, reap
from tfcluster.launch.record import RECORD_VERSION, Cause, Doing, TaskRecord
from tfcluster.launch.report import Reporter
from tfcluster.launch.system import adopt_orphans, is_stopped, oom_kills, process_start
from tfcluster.launch.waiting import Peers

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # between restarts, doubling
PLACE_PATIENCE = 10.0  # how long a launcher that replaces another waits to hear from the others
STALLED_AFTER = 20.0  # seconds without progress that are worth a word
LOOK_EVERY = 1.0
MEMORY_EVERY = 0.2
MIB = 1 << 20


class Task:
    """One task. The main thread decides; other threads put what they see into `inbox`."""

    def __init__(self, plan: LaunchPlan, task: str, key: bytes, options: argparse.Namespace):
        self.plan, self.task, self.options = plan, task, options
        self.role, self.index = split_task(plan, task)
        self.entry: LaunchRole = plan["roles"][self.role]
        self.inbox: "queue.SimpleQueue[Tuple[str, Any]]" = queue.SimpleQueue()
        self.output = Output(
            options.log, task, key if options.report else None, lambda: self.hear("progress", None)
        )
        self.reporter = Reporter(self.output, options.record, options.events, options.final)
        self.state, self.kind, self.reason = "pending", "", ""
        self.exit_code: Optional[int] = None
        self.attempt = options.attempt
        self.failures = options.restarts_used
        self.started = time.time()
        self.ended: Optional[float] = None
        self.program: Optional[Program] = None
        self.ready: Set[str] = set()
        self.verdict: Optional[Dict[str, Any]] = None
        self.cause: Optional[Cause] = None
        self.silent: Dict[str, float] = {}
        self.doing: Doing = {"state": "pending", "since": self.started}
        self.looked = 0.0
        self.running_since: Optional[float] = None
        self.identity = {"pid": os.getpid(), "start": process_start(os.getpid())}
        self.control = Control(plan, task, key, self.hear, self.describe)
        self.peers = Peers(plan, task, key, self.control.job_table)

    # -- What others may see

    def hear(self, kind: str, value: Any) -> None:
        self.inbox.put((kind, value))

    def snapshot(self) -> TaskRecord:
        program = self.program
        return {
            "version": RECORD_VERSION,
            "run": self.plan["run"],
            "job": self.plan["job"],
            "task": self.task,
            "state": self.state,
            "kind": self.kind,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "attempt": self.attempt,
            "restarts": max(self.attempt, self.failures),
            "failures": self.failures,
            "progress": self.output.progress,
            "progressed": self.output.progressed,
            "result": self.output.result,
            "lines": list(self.output.lines),
            "launcher": {"pid": self.identity["pid"], "start": self.identity["start"]},  # type: ignore[typeddict-item]
            "program": {
                "pid": program.pid if program else None,
                "start": program.start if program else None,
            },
            "started": self.started,
            "ended": self.ended,
            "cause": self.cause,
            "doing": self.doing,
            "silent": self.silent,
        }

    def describe(self) -> Dict[str, Any]:
        return dict(self.snapshot())

    def become(
        self,
        state: str,
        kind: str = "",
        reason: str = "",
        *,
        event: str = "",
        waits_for: Tuple[str, ...] = (),
    ) -> None:
        """Change state; the record on disk is written before anyone is told."""
        self.state, self.kind, self.reason = state, kind, reason
        self.doing = {"state": state, "since": time.time()}
        if waits_for:
            self.doing["waitsFor"] = list(waits_for)
        if self.ended is not None:
            self.doing["ended"] = True
        self.reporter.changed(self.snapshot(), event or state)
        self.control.report(dict(self.doing))

    def say(self, text: str) -> None:
        self.output.announce(f"tfcluster: {text}")

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

    def wait_for_peers(self) -> None:
        """Until every needed launcher was there (and, with `barrier: ports`, programs listen)."""
        timeout = self.plan["start_timeout"]
        deadline = time.monotonic() + timeout
        next_notice = time.monotonic() + 2
        while True:
            due = time.monotonic() > min(next_notice, deadline)
            waits_for = self.peers.missing(self.ready, due)
            if waits_for is None:
                return
            if waits_for:
                first = waits_for[0]
                more = f" (and {len(waits_for) - 1} more)" if len(waits_for) > 1 else ""
                if time.monotonic() > deadline:
                    reason = f"waited {timeout:g} s for {self.peers.explain(first)}{more}"
                    raise Stop("failed", EXIT_NOT_STARTED, PEER_MISSING, reason, first)
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
            if not may_restart(rule["limit"], rule.get("on"), self.failures, code):
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
        program = self.start_program()
        self.begin_state(program)
        too_much = ""
        try:
            while True:
                kind, value = self.next_message(self.look_pause())
                if kind == "exit" and value is program:
                    break
                if kind == "restart":
                    return None, "", ""
                if kind == "listening" and value is program:
                    self.become("serving")
                self.handle((kind, value))
                too_much = too_much or self.enforce_memory(program)
        finally:
            program.stop(self.plan["stop_grace"], self.say)
        code = program.exit_code
        if too_much:
            return code, OUT_OF_MEMORY, too_much
        if code == EXIT_OUT_OF_MEMORY and oom_kills() > killed_at:
            cap = self.entry.get("memory_cap")
            limit = f", limit {cap // MIB} MiB" if cap else ""
            words = f"out of memory: killed by the system (exit code 137{limit})"
            return code, OUT_OF_MEMORY, words
        return code, kind_of_exit(code), describe_exit(code)

    def begin_state(self, program: Program) -> None:
        self.running_since = time.time()
        if self.entry.get("listens"):
            over = lambda: program is not self.program or self.ended is not None  # noqa: E731
            listening = lambda: self.hear("listening", program)  # noqa: E731
            self.watch(watch_own_port, self.plan, self.task, program, over, listening, self.stop)
        else:
            self.become("serving" if self.entry.get("serves") else "running")

    def start_program(self) -> Program:
        argv = program_argv(self.plan, self.role, self.index)
        folder = self.entry.get("workdir") or None
        try:
            env = {**os.environ, **read_env_files(self.entry.get("env_files", []))}
            env.update(program_env(self.plan, self.role, self.index))
            env["TFCLUSTER_ATTEMPT"] = str(self.attempt)
            self.output.begin_attempt(self.attempt)
            cpus = self.entry.get("cpus", {}).get(str(self.index))
            self.program = Program(
                argv, env, folder, cpus, self.output, lambda program: self.hear("exit", program)
            )
            return self.program
        except (OSError, ValueError) as error:
            self.cannot_start(argv[0], folder, error)

    def cannot_start(self, command: str, folder: Optional[str], error: Exception) -> NoReturn:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        where = f" in {folder}" if folder else ""
        words = getattr(error, "strerror", None) or str(error)
        named = getattr(error, "filename", None)
        about = f"{words}: {named}" if named and named != command else words
        reason = f"cannot start {command!r}{where}: {about}"
        self.say(reason)
        raise Stop("failed", code, CANNOT_START, reason) from None

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
        elif self.verdict is not None:
            self.cause = self.verdict.get("cause")
        self.become(stop.state, stop.kind, stop.reason)
        self.reporter.final(self.snapshot())
        self.output.close()
        if stop.kind == PORT_TAKEN:
            return
        self.control.settle(stop.state, dict(self.cause) if self.cause else None)
        stays = 0.5 if stop.kind == SIGNALLED else max(LINGER, self.plan["start_timeout"]) + 5
        self.control.say_goodbye(stays)

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
            raise Stop("succeeded", 0, FINISHED, "finished before its launcher was replaced")
        elif kind == "ready":
            self.ready = value
        elif kind == "silent":
            self.silent = value
            self.reporter.changed(self.snapshot(), "silent")
        elif kind == "progress":
            self.reporter.refresh(self.snapshot())
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
        self.watch_progress()

    def watch_progress(self) -> None:
        """Tell the hub, and whoever reads the record, when the program stands still."""
        program, progressed = self.program, self.output.progressed
        if program is None or self.state != "running":
            return
        stalled = None
        if progressed is not None and time.time() - progressed > STALLED_AFTER:
            stalled = progressed
        stopped = is_stopped(program.pid)
        if stalled != self.doing.get("stalled") or stopped != self.doing.get("stopped", False):
            self.doing = {**self.doing, "stalled": stalled, "stopped": stopped}
            self.reporter.changed(self.snapshot(), "stalled" if stalled or stopped else "progress")
            self.control.report(dict(self.doing))

    # -- Watching

    @staticmethod
    def watch(action: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=action, args=arguments, daemon=True).start()

    def stop(self, found: Stop) -> None:
        self.hear("stop", found)

    def look_pause(self) -> float:
        return MEMORY_EVERY if self.entry.get("memory_limit") else LOOK_EVERY

    def enforce_memory(self, program: Program) -> str:
        """Kill the program if it uses more than its limit; the reason if so."""
        limit = self.entry.get("memory_limit")
        if not limit:
            return ""
        used = program.memory
        if used <= limit:
            return ""
        program.kill()
        return f"out of memory: used {used // MIB} MiB of a limit of {limit // MIB} MiB"
