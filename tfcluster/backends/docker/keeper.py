"""Watches over a run on Docker: follows its logs, replaces containers that were killed.

It plays for containers the part that the kubelet plays elsewhere. It owns nothing that is not on
disk or in the engines: a later keeper of the same run goes on where this one was.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.docker.containers import container_of
from tfcluster.backends.docker.engines import Engine, Unreachable, translated
from tfcluster.backends.docker.exec import tell
from tfcluster.backends.docker.logs import TaskReader, read_frames
from tfcluster.backends.docker.site import (
    clean_site,
    create,
    engines,
    remove_container,
    run_engines,
    start,
)
from tfcluster.backends.docker.status import containers_of, death_of
from tfcluster.backends.keeping import announce_keeper, sole_reader
from tfcluster.backends.records import run_status
from tfcluster.errors import TfclusterError
from tfcluster.plan import Plan, stored_plan

LOOK_EVERY = 0.4
RECONNECT_EVERY = 0.5
DOUBT = 5.0  # within this an engine that shuts down stops to answer
ENGINE_PATIENCE = 600.0  # how long an engine may be away before its tasks are given up


class Follower:
    """Follows one container's log in a thread of its own, through lost connections."""

    def __init__(self, engine: Engine, reader: TaskReader, container: str):
        self.engine, self.reader, self.container = engine, reader, container
        self.drained = False
        self.stop = False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self) -> None:
        self.reader.begin_container(self.container)
        while not self.drained and not self.stop:
            try:
                for frame in read_frames(self.engine, self.container, self.reader.since, True):
                    self.reader.feed(frame)
                self.reader.flush()
                self.drained = not self.is_running()
            except Unreachable:
                pass
            except TfclusterError:
                self.drained = True  # the container is gone
            if not self.drained:
                time.sleep(RECONNECT_EVERY)

    def is_running(self) -> bool:
        with translated(self.engine):
            state = self.engine.api.inspect_container(self.container)["State"]
        return bool(state["Running"])


class Keeper:
    """Watches every task of one run until all of them are over."""

    def __init__(self, run: Run, plan: Plan):
        self.run, self.plan = run, plan
        self.engines = engines(plan)
        self.readers = {task: TaskReader(run, task) for task in plan.task_names}
        self.followers: dict[str, Follower] = {}
        self.lost: dict[str, float] = {}  # hosts whose engine is away, since when
        self.doubts: dict[str, float] = {}  # tasks that somebody stopped: until when to wait
        self.back: set[str] = set()  # hosts whose engine was away at the last look

    @property
    def open(self) -> list[str]:
        return [task for task, reader in self.readers.items() if not reader.over]

    def host_of(self, task: str) -> str:
        role, _, index = task.rpartition("-")
        return str(self.plan.role(role).container["hosts"][int(index)])

    def keep(self) -> None:
        announced = False
        while self.open:
            for host, engine in self.engines.items():
                self.look(host, engine)
            if not announced:
                announce_keeper(self.run)
                announced = True
            time.sleep(LOOK_EVERY)
        if not announced:
            announce_keeper(self.run)

    def look(self, host: str, engine: Engine) -> None:
        """One look at one engine."""
        tasks = [task for task in self.open if self.host_of(task) == host]
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
        since = self.lost.setdefault(host, time.monotonic())
        if since == self.lost[host] and time.monotonic() - since < LOOK_EVERY / 2:
            self.run.note("engine", error.message)
        if time.monotonic() - since > ENGINE_PATIENCE:
            for task in tasks:
                self.fail(task, 125, f"{error.message} (for {ENGINE_PATIENCE:g} s)")

    @staticmethod
    def is_running(container: dict[str, Any] | None) -> bool:
        return container is not None and container["State"] == "running"

    def look_at(
        self, task: str, engine: Engine, container: dict[str, Any] | None, engine_restarted: bool
    ) -> None:
        reader, follower = self.readers[task], self.followers.get(task)
        following = follower is not None and follower.thread.is_alive()
        if container is not None:
            known = follower is not None and follower.container == container["Id"]
            if not known or (self.is_running(container) and not following):
                self.followers[task] = Follower(engine, reader, container["Id"])
                return
        if self.is_running(container) or following:
            return
        if reader.was_stopped:
            if engine_restarted:
                reader.final = None
            elif time.monotonic() < self.doubts.setdefault(task, time.monotonic() + DOUBT):
                return
        self.doubts.pop(task, None)
        reader.settle()
        if not reader.over:
            # One that was never started is what a killed keeper left, and nobody's failure.
            never_ran = container is not None and container["State"] == "created"
            self.replace(task, engine, container, not (engine_restarted or never_ran))

    # -- Replacing

    def replace(
        self, task: str, engine: Engine, container: dict[str, Any] | None, counted: bool
    ) -> None:
        """Put another container in the place of one that ended without a word."""
        record = self.readers[task].record
        code, reason = death_of(engine, container)
        if not counted:
            reason = "it was stopped by its engine"
        failures = record.get("failures", 0) + (1 if counted else 0)
        role = self.plan.role(task.rpartition("-")[0])
        allowed = role.restart_on is None or code in role.restart_on
        started = bool(record.get("state"))  # a launcher that never spoke will not do better
        if counted and not (started and allowed and failures <= role.restarts):
            self.fail(task, code, reason)
            return
        self.run.note("restarting", f"{reason}; replaced", task)
        attempt = record.get("attempt", 0) + 1
        self.readers[task].update(
            state="starting", reason=f"restarting after {reason}", exitCode=None, ended=None
        )
        self.readers[task].final = None
        try:
            if container is not None:
                remove_container(engine, container["Id"])
            made = container_of(self.plan, self.run.id, task, attempt=attempt, failures=failures)
            start(engine, made, create(engine, made))
        except Unreachable:
            return  # tried again at the next look
        except TfclusterError as error:
            evidence = " ".join(line.strip() for line in error.evidence)
            self.fail(task, code, f"{reason}, and cannot be replaced: {error.message} {evidence}")

    def fail(self, task: str, code: int, reason: str) -> None:
        """Say for the launcher what it can no longer say itself."""
        now = time.time()
        reader = self.readers[task]
        cause = {"task": task, "exitCode": code, "reason": reason, "time": now}
        cause["lines"] = list(reader.lines)
        reader.update(
            state="failed",
            reason=reason,
            exitCode=code,
            ended=now,
            cause=reader.record.get("cause") or cause,
        )
        self.run.note("failed", reason, task)
        message = {"tell": "failed", "cause": cause}
        peers = self.open
        if peers:
            with ThreadPoolExecutor(min(8, len(peers))) as pool:
                list(pool.map(lambda peer: self.tell(peer, message), peers))

    def tell(self, task: str, message: dict[str, Any]) -> None:
        try:
            tell(self.engines[self.host_of(task)], self.plan, task, message)
        except TfclusterError as error:
            self.run.note("warning", f"could not be told: {error.message}", task)

    # -- The end

    def finish(self) -> None:
        """Remove what the run does not need any more, then write down how it ended."""
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
            return 0  # somebody ended the run before it was watched
        keeper = Keeper(run, plan)
        keeper.keep()
        keeper.finish()
    return 0
