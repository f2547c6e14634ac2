"""Watches over a run on Docker: follows its logs, replaces containers that were killed.

It plays for containers the part that the kubelet plays elsewhere. It owns nothing that is not on
disk or in the engines: a later keeper of the same run goes on where this one was.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import container_of
from tfcluster.backends.docker.decisions import Container, Seen, Step, decide, words_of
from tfcluster.backends.docker.engines import Engine, Unreachable, in_one_line
from tfcluster.backends.docker.exec import tell
from tfcluster.backends.docker.follow import Follower
from tfcluster.backends.docker.lifecycle import create, remove_container, start
from tfcluster.backends.docker.logs import TaskReader
from tfcluster.backends.docker.site import clean_site, engines, run_engines, tasks_on
from tfcluster.backends.docker.status import ALIVE, REMOVED, Ending, containers_of, words_for
from tfcluster.backends.jobend import Ends, JobWatch, ends_of
from tfcluster.backends.keeping import announce_keeper, sole_reader
from tfcluster.backends.records import run_status
from tfcluster.backends.reports import was_stopped
from tfcluster.errors import TfclusterError
from tfcluster.events import state_of_code
from tfcluster.fetching import bring_results
from tfcluster.launch import exits
from tfcluster.launch.record import Cause, TaskRecord
from tfcluster.plan import Plan, stored_plan

LOOK_EVERY = 0.4
DOUBT = 5.0  # within this an engine that shuts down stops to answer
ENGINE_PATIENCE = 600.0  # how long an engine may be away before its tasks are given up


class Keeper:
    """Watches every task of one run until all of them are over."""

    def __init__(self, run: Run, plan: Plan):
        self.run, self.plan = run, plan
        self.engines = engines(plan)
        self.hosts = {task: host for host in self.engines for task in tasks_on(plan, host)}
        self.readers = {task: TaskReader(run, task) for task in plan.task_names}
        self.followers: dict[str, Follower] = {}
        self.lost: dict[str, float] = {}  # hosts whose engine is away, since when
        self.doubts: dict[str, float] = {}  # tasks that a signal ended: until when to wait
        required = [task for task in plan.task_names if task.rpartition("-")[0] in plan.success]
        self.watch = JobWatch(required, plan.stop_grace)
        self.back: set[str] = set()  # hosts whose engine was away at the last look
        self.untold = ""  # why no launcher could be told, as it was said last

    @property
    def open(self) -> list[str]:
        return [task for task, reader in self.readers.items() if not reader.over]

    def keep(self) -> None:
        announced = False
        while self.open:
            for host, engine in self.engines.items():
                self.look(host, engine)
            self.look_at_job()
            if not announced:
                announce_keeper(self.run)
                announced = True
            time.sleep(LOOK_EVERY)
        if not announced:
            announce_keeper(self.run)

    def look(self, host: str, engine: Engine) -> None:
        """One look at one engine."""
        tasks = [task for task in self.open if self.hosts[task] == host]
        try:
            there = containers_of(engine, self.run)
        except Unreachable as error:
            self.engine_lost(host, tasks, error)
            return
        if host in self.lost:
            del self.lost[host]
            self.back.add(host)
            self.run.note("engine", f"{engine.label} answers again")
        for task in tasks:
            self.look_at(task, engine, there.get(task), engine_restarted=host in self.back)
        if all(self.is_running(there.get(task)) for task in tasks):
            self.back.discard(host)

    def engine_lost(self, host: str, tasks: list[str], error: TfclusterError) -> None:
        if host not in self.lost:
            self.lost[host] = time.monotonic()
            self.run.note("engine", error.message)
        if time.monotonic() - self.lost[host] > ENGINE_PATIENCE:
            for task in tasks:
                self.fail(task, 125, f"{error.message} (for {ENGINE_PATIENCE:g} s)")

    @staticmethod
    def is_running(container: dict[str, Any] | None) -> bool:
        return container is not None and container["State"] in ALIVE

    def look_at(
        self, task: str, engine: Engine, container: dict[str, Any] | None, engine_restarted: bool
    ) -> None:
        if self.is_being_read(task, engine, container):
            return
        ending = self.ending_of(task)
        seen = self.seen(task, container, ending, engine_restarted)
        step = decide(seen)
        if step is Step.WAIT:
            return
        self.doubts.pop(task, None)
        if step is Step.PUBLISH:
            self.readers[task].settle()
        elif step is Step.CONCLUDE:
            self.conclude(task, seen.code, ending.words)
        elif step is Step.FAIL:
            self.fail(task, seen.code, words_of(seen, ending.words))
        else:
            self.replace(task, engine, container, seen, step, words_of(seen, ending.words))

    def is_being_read(self, task: str, engine: Engine, container: dict[str, Any] | None) -> bool:
        """Whether more will be known of a task than now; starts to read what is not read yet."""
        follower = self.followers.get(task)
        if container is None:
            return follower is not None and not follower.done
        if container["State"] == "created":
            return False
        if follower is not None and follower.container == container["Id"]:
            if not follower.done:
                return True
            if follower.ending is not None and not self.is_running(container):
                return False
        self.followers[task] = Follower(engine, self.readers[task], container["Id"])
        return True

    def ending_of(self, task: str) -> Ending:
        """How the task's last container ended, as far as this keeper or an earlier one has seen."""
        follower, code = self.followers.get(task), self.readers[task].record.get("containerExit")
        if (
            follower is not None
            and follower.ending is not None
            and follower.ending.code is not None
        ):
            return follower.ending
        return REMOVED if code is None else Ending(code, words_for(code))

    def seen(
        self,
        task: str,
        container: dict[str, Any] | None,
        ending: Ending,
        engine_restarted: bool,
    ) -> Seen:
        reader, role = self.readers[task], self.plan.role(task.rpartition("-")[0])
        what = Container.GONE if container is None else Container.ENDED
        if container is not None and container["State"] == "created":
            what = Container.NEVER_RAN  # a keeper was killed before it could start it
        stopped = was_stopped(reader.final)
        now = time.monotonic()
        return Seen(
            container=what,
            exit_code=ending.code,
            announced=(reader.final or {}).get("state", ""),
            stopped=stopped,
            spoke=bool(reader.record.get("state")),
            engine_restarted=engine_restarted,
            waited=stopped and now > self.doubts.setdefault(task, now + DOUBT),
            failures=reader.record.get("failures", 0),
            restarts=role.restarts,
            restart_on=role.restart_on,
        )

    # -- Replacing

    def replace(
        self,
        task: str,
        engine: Engine,
        container: dict[str, Any] | None,
        seen: Seen,
        step: Step,
        reason: str,
    ) -> None:
        """Put another container in the place of one that was killed."""
        if step is Step.BRING_BACK:
            reason = "it was stopped by its engine"
        failures = seen.failures + (1 if step is Step.REPLACE else 0)
        self.run.note("restarting", f"{reason}; replaced", task)
        reader = self.readers[task]
        attempt = reader.record.get("attempt", 0) + 1
        reader.final = None
        reader.update(
            state="starting",
            kind=exits.RESTARTING,
            reason=f"restarting after {reason}",
            exitCode=None,
            ended=None,
        )
        try:
            if container is not None:
                remove_container(engine, container["Id"])
            made = container_of(self.plan, self.run.id, task, attempt=attempt, failures=failures)
            start(engine, made, create(engine, made))
            self.watch.note_replaced(task, time.monotonic())
        except Unreachable:
            return  # tried again at the next look
        except TfclusterError as error:
            words = f"{reason}, and cannot be replaced: {in_one_line(error)}"
            self.fail(task, seen.code, words)

    def conclude(self, task: str, code: int, words: str) -> None:
        """A launcher has ended, and its last report was not found: its exit code counts."""
        if state_of_code(code) == "failed":
            self.fail(task, code, words)
        else:
            self.readers[task].conclude(code)

    def fail(self, task: str, code: int, reason: str, kind: str = exits.LAUNCHER_KILLED) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
        reader = self.readers[task]
        cause: Cause = {"task": task, "kind": kind, "exitCode": code, "reason": reason, "time": now}
        cause["lines"] = list(reader.lines)
        reader.update(
            state="failed",
            kind=kind,
            reason=reason,
            exitCode=code,
            ended=now,
            cause=reader.record.get("cause") or cause,
        )
        self.run.note("failed", reason, task)
        self.speak(ends_of(self.records, self.watch.required), self.open)

    # -- The job as a whole

    @property
    def records(self) -> dict[str, TaskRecord]:
        return {task: reader.record for task, reader in self.readers.items()}

    def look_at_job(self) -> None:
        """Speak for the dead, and end what does not hear that the job is over."""
        duty = self.watch.look(self.records, time.monotonic())
        for task in duty.brief:
            self.speak(duty.ends, [task])
        if duty.tell:
            self.speak(duty.ends, duty.tell)
        for task in duty.end:
            rule = duty.ends.rule_for(task)
            self.readers[task].update(**rule)
            self.run.note(rule["state"], rule["reason"], task)

    def speak(self, ends: Ends, peers: Sequence[str]) -> None:
        """Tell one launcher that answers, and with it all, how tasks ended."""
        words = ""
        for peer in peers:
            try:
                for message in ends.messages():
                    tell(self.engines[self.hosts[peer]], self.plan, peer, message)
                self.untold = ""
                return
            except TfclusterError as error:
                words = in_one_line(error)
        if words and words != self.untold:
            self.untold = words
            self.run.note("warning", f"no launcher could be told how tasks ended: {words}")

    # -- The end

    def finish(self) -> None:
        """Remove what the run does not need any more, then write down how it ended."""
        from tfcluster.backends.docker.backend import BACKEND

        bring_results(BACKEND.send_output, self.run)
        for engine in run_engines(self.run, self.plan).values():
            try:
                clean_site(engine, self.run)
            except TfclusterError as error:
                self.run.note("warning", f"{engine.label} was not cleaned up: {error.message}")
        records = {task: reader.record for task, reader in self.readers.items()}
        status = run_status(self.run, self.plan, records)
        self.run.note(status.state, "", data=status.result)
        self.run.settle(status)


def main(path: str) -> int:
    folder = Path(path)
    run = Run.at(folder)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = stored_plan(run)
    if plan is None:
        return 2
    with sole_reader(run, wait=True):
        if run.final_status() is not None:
            return 0  # the run was ended before it was watched
        keeper = Keeper(run, plan)
        keeper.keep()
        keeper.finish()
    return 0
