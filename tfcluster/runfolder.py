"""The folder of a run: every file in it, who writes it, how it is read.

    record.json     which job, from where, since when     `up`; the keeper, when it has ended
    record.lock     held while record.json is changed     whoever changes it
    spec.yaml       the spec as understood, masked        `up`
    plan.json       every task                            `up`
    launch.json     the same as launchers read it         `up`, on the local backend
    control.key     what launchers and commands know      `up`
    status.json     how the run ended, written once       the keeper, or `down`
    events.jsonl    a line per event                      commands, the keeper, launchers
    keeper.json     which process watches                 the keeper
    keeper.log      what that process printed             the keeper
    reader.lock     held by the only writer of tasks/     the keeper, or a command without one
    engines.json    the Docker engines it has been on     `up`
    manifests.yaml  what was applied                      `up`, on Kubernetes
    code.tar.gz     the code, as it was sent              `up`
    code/           the same, unpacked                    `up`, on the local backend
    results.json    what has come back                    the keeper
    ending          tells the keeper that a command       `up` and `down`, on Kubernetes
                    is ending tasks and will say so
    tasks/<task>.json           one task                  its launcher, or the keeper
    logs/<task>.<attempt>.log   what it printed           its launcher, or the keeper
    output/                     checkpoints, summaries    the programs, on the local backend

Nothing else knows these names. Each file is read by one function: it returns a declared type, None
if there is no such file, or raises DamagedFile. Nothing is half understood.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, cast

from tfcluster import files
from tfcluster.errors import DamagedFile, StateWarning
from tfcluster.events import SCHEMA_VERSION, Event, JobStatus
from tfcluster.launch import plan as launch
from tfcluster.launch import proof
from tfcluster.launch import record as task_record
from tfcluster.place import place_of
from tfcluster.runrecord import VERSION as RECORD_VERSION
from tfcluster.runrecord import RunRecord

KEEPER_VERSION = 1
ENGINES_VERSION = 1
RESULTS_VERSION = 1
T = TypeVar("T")
# What the launcher of this version writes.
LAUNCH_VERSIONS = (launch.PLAN_VERSION,)
TASK_VERSIONS = (task_record.RECORD_VERSION,)
NONE = type(None)
TASK_SHAPE: dict[str, tuple[type, ...]] = {
    "state": (str,),
    "progress": (dict, NONE),
    "result": (dict, NONE),
    "cause": (dict, NONE),
    "launcher": (dict, NONE),
    "program": (dict, NONE),
    "lines": (list,),
    "silent": (dict,),
    "doing": (dict,),
    "history": (list,),
}


class EngineHost(TypedDict):
    """A Docker engine that a run has been on."""

    name: str
    engine: str
    address: str


def log_name(task: str, attempt: int) -> str:
    return f"{task}.{attempt}.log"


def parse_log_name(name: str) -> tuple[str, int] | None:
    """Task and attempt of a log file; None for a file that is none."""
    task, _, attempt = name.removesuffix(".log").rpartition(".")
    return (task, int(attempt)) if name.endswith(".log") and attempt.isdecimal() else None


class RunFolder:
    """The files of one run. Folders have mode 0700, files 0600; no link in it is followed."""

    def __init__(self, path: Path):
        self.path = path
        self.logs = path / "logs"
        self.tasks = path / "tasks"
        self.output = path / "output"
        self.record_file = path / "record.json"
        self.record_lock = path / "record.lock"
        self.code = path / "code"
        self.code_archive = path / "code.tar.gz"
        self.spec_file = path / "spec.yaml"
        self.plan_file = path / "plan.json"
        self.launch_file = path / "launch.json"
        self.key_file = path / proof.KEY_FILE
        self.status_file = path / "status.json"
        self.events_file = path / "events.jsonl"
        self.keeper_file = path / "keeper.json"
        self.keeper_log = path / "keeper.log"
        self.reader_lock = path / "reader.lock"
        self.engines_file = path / "engines.json"
        self.manifests_file = path / "manifests.yaml"
        self.results_file = path / "results.json"
        self.ending_mark = path / "ending"

    def task_file(self, task: str) -> Path:
        return self.tasks / f"{task}.json"

    def log_file(self, task: str, attempt: int) -> Path:
        return self.logs / log_name(task, attempt)

    def make(self) -> None:
        """The folder, new, with those in it."""
        files.make_folder(self.path.parent)
        self.path.mkdir(mode=0o700)
        self.path.chmod(0o700)
        for folder in (self.logs, self.tasks):
            files.make_folder(folder)

    # -- What a run is, and how it ended

    def read_record(self) -> RunRecord | None:
        def parse(data: dict[str, Any]) -> RunRecord:
            record = RunRecord.from_dict(data)
            key = self.path.parent.parent.name
            # Older versions kept the runs of a job under its name alone.
            keys = (place_of(record.job, record.base).key, record.job)
            if key not in keys or record.run != self.path.name:
                raise ValueError(f'it belongs to run {record.run} of job "{record.job}"')
            return record

        return files.read_versioned(self.record_file, parse, versions=(RECORD_VERSION,))

    def write_record(self, record: RunRecord) -> None:
        files.write_object(self.record_file, record.to_dict())

    def read_status(self) -> JobStatus | None:
        def parse(data: dict[str, Any]) -> JobStatus:
            files.check_shape(data, {"job": (str,), "run": (str,), "state": (str,)})
            if data["run"] != self.path.name:
                raise ValueError(f"it belongs to run {data['run']}")
            return JobStatus.from_dict(data)

        return files.read_versioned(self.status_file, parse, versions=(SCHEMA_VERSION,))

    def write_status(self, status: JobStatus) -> None:
        files.write_object(self.status_file, status.to_dict())

    def write_results(self, results: Mapping[str, Any]) -> None:
        files.write_object(self.results_file, {"schemaVersion": RESULTS_VERSION, **results})

    def read_results(self, parse: Callable[[dict[str, Any]], T]) -> T | None:
        return files.read_versioned(self.results_file, parse, versions=(RESULTS_VERSION,))

    def append_event(self, event: Event) -> None:
        import json

        files.append(self.events_file, json.dumps(event.to_dict()))

    def read_events(self) -> Iterator[Event]:
        """Every whole event in order; a full disk can cut a line, which is then left out."""
        import json

        bad = 0
        with contextlib.suppress(*files.ABSENT):
            with os.fdopen(files.open_read(self.events_file), "rb") as file:
                for line in file:
                    try:
                        event = Event.from_dict(json.loads(line))
                    except (ValueError, KeyError, TypeError, AttributeError):
                        bad += line.endswith(b"\n")  # else it is being written
                        continue
                    yield event
        if bad:
            words = f"{self.events_file}: left out what cannot be read in it: {bad} lines"
            warnings.warn(words, StateWarning, stacklevel=2)

    # -- What is to be started

    def write_spec(self, text: str) -> None:
        files.write_bytes(self.spec_file, text.encode())

    def read_spec(self) -> str | None:
        """The spec as understood, as text."""
        data = files.read_bytes(self.spec_file)
        return None if data is None else data.decode("utf-8", "replace")

    def write_manifests(self, text: str) -> None:
        files.write_bytes(self.manifests_file, text.encode())

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        files.write_object(self.plan_file, plan)

    def read_launch(self) -> launch.LaunchPlan | None:
        """The launch plan; whoever needs it calls `require_launch`."""

        def parse(data: dict[str, Any]) -> launch.LaunchPlan:
            launch.check_plan(data)
            files.check_shape(data, {"run": (str,), "job": (str,), "roles": (dict,)})
            if data["run"] != self.path.name:
                raise ValueError(f"it belongs to run {data['run']}")
            return cast(launch.LaunchPlan, data)

        return files.read_versioned(
            self.launch_file, parse, versions=LAUNCH_VERSIONS, key="version"
        )

    def require_launch(self) -> launch.LaunchPlan:
        found = self.read_launch()
        if found is None:
            raise DamagedFile(self.launch_file, "is missing", hint="run: tfcluster up")
        return found

    def write_launch(self, plan: Mapping[str, Any]) -> None:
        files.write_object(self.launch_file, plan)

    def make_key(self) -> bytes:
        """The key that launchers and commands of this run share, made if there is none yet."""
        found = self.read_key()
        if found is None:
            found = proof.make_key()
            files.write_bytes(self.key_file, found.hex().encode() + b"\n")
        return found

    def read_key(self) -> bytes | None:
        text = files.read_bytes(self.key_file)
        if text is None:
            return None
        try:
            return proof.parse_key(text)
        except ValueError as error:
            raise DamagedFile(self.key_file, str(error)) from None

    def require_key(self) -> bytes:
        found = self.read_key()
        if found is None:
            raise DamagedFile(self.key_file, "is missing", hint="run: tfcluster up")
        return found

    # -- Tasks

    def read_task(self, task: str) -> task_record.TaskRecord | None:
        files.refuse_link(self.tasks)

        def parse(data: dict[str, Any]) -> task_record.TaskRecord:
            shape = {key: kinds for key, kinds in TASK_SHAPE.items() if key in data}
            files.check_shape(data, {"task": (str,), **shape})
            if data["task"] != task or data.get("run", self.path.name) != self.path.name:
                raise ValueError(f"it belongs to {data['task']} of run {data.get('run')}")
            return cast(task_record.TaskRecord, data)

        path = self.task_file(task)
        return files.read_versioned(path, parse, versions=TASK_VERSIONS, key="version")

    def write_task(self, task: str, record: Mapping[str, Any]) -> None:
        files.refuse_link(self.tasks)
        files.write_object(self.task_file(task), {**record, "version": task_record.RECORD_VERSION})

    def forget_tasks(self, tasks: Iterable[str]) -> None:
        """Before these tasks are started as new ones."""
        files.refuse_link(self.tasks)
        for task in tasks:
            self.task_file(task).unlink(missing_ok=True)

    def open_log(self, task: str, attempt: int) -> int:
        """A log file, open for appending."""
        files.refuse_link(self.logs)
        return files.open_append(self.log_file(task, attempt))

    def log_attempts(self, task: str) -> list[int]:
        """The attempts of a task that left a log, in order."""
        return sorted(attempt for name, attempt, _ in log_files(self.logs) if name == task)

    # -- Who watches, and where

    def read_keeper(self) -> task_record.Process | None:
        def parse(data: dict[str, Any]) -> task_record.Process:
            files.check_shape(data, {"pid": (int,), "start": (str, NONE)})
            return {"pid": data["pid"], "start": data["start"]}

        return files.read_versioned(self.keeper_file, parse, versions=(KEEPER_VERSION,))

    def write_keeper(self, process: task_record.Process) -> None:
        files.write_object(self.keeper_file, {"schemaVersion": KEEPER_VERSION, **process})

    def forget_keeper(self) -> None:
        self.keeper_file.unlink(missing_ok=True)

    def read_engines(self) -> list[EngineHost]:
        def parse(data: dict[str, Any]) -> list[EngineHost]:
            for host in data["engines"]:
                files.check_shape(host, dict.fromkeys(("name", "engine", "address"), (str,)))
            return cast(list[EngineHost], data["engines"])

        return files.read_versioned(self.engines_file, parse, versions=(ENGINES_VERSION,)) or []

    def write_engines(self, engines: Sequence[Mapping[str, Any]]) -> None:
        data = {"schemaVersion": ENGINES_VERSION, "engines": list(engines)}
        files.write_object(self.engines_file, data)

    def mark_ending(self) -> None:
        os.close(files.open_append(self.ending_mark))

    def unmark_ending(self) -> None:
        self.ending_mark.unlink(missing_ok=True)

    @property
    def is_ending(self) -> bool:
        return self.ending_mark.exists()


def log_files(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """Task, attempt and path of every log in a folder `logs`; other files are left out."""
    files.refuse_link(folder)
    for path in folder.glob("*.log"):
        found = parse_log_name(path.name)
        if found is not None:
            yield (*found, path)
