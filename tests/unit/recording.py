"""A backend that plans as the local one does, starts nothing, and writes down what it is told."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfcluster.archive import Run
from tfcluster.backends.local.backend import LocalBackend
from tfcluster.backends.records import settle_stopped
from tfcluster.changes import Change
from tfcluster.events import JobStatus, Observed, Progress, job_state
from tfcluster.plan import Plan, stored_plan


class RecordingBackend(LocalBackend):
    """Every task of an applied run is running, except those in `succeeded`."""

    def __init__(self, name: str = "local") -> None:
        self.name = name
        self.calls: list[tuple[str, str, tuple[Change, ...]]] = []
        self.succeeded: set[str] = set()
        self.step: int | None = None

    def check(self, spec: Any, base: Path) -> None:
        pass

    def plan(self, spec: Any, run: Run | None, base: Path, code: Any = None) -> Plan:
        return replace(super().plan(spec, run, base, code), backend=self.name)

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        self.calls.append(("apply", run.id, tuple(changes)))

    def observe(self, run: Run) -> JobStatus:
        final, plan = run.final_status(), stored_plan(run)
        if final is not None or plan is None:
            return final or JobStatus(run.job, run.id, self.name, "pending")
        tasks = tuple(self.seen(task) for task in plan.task_names)
        return JobStatus(run.job, run.id, self.name, job_state(tasks), tasks, started=1.0)

    def seen(self, task: str) -> Observed:
        role, _, index = task.rpartition("-")
        state = "succeeded" if task in self.succeeded else "running"
        progress = Progress(step=self.step, total=1200) if self.step is not None else None
        return Observed(task, role, int(index), state, progress=progress)

    def delete(self, run: Run, **_: Any) -> None:
        self.calls.append(("delete", run.id, ()))
        settle_stopped(run, self.observe(run))


def write_checkpoint(folder: Path, number: int, step: int, **meta: Any) -> None:
    """A file as the trainer writes it, without the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {"run": "earlier", "finished": False, "model": "mlp", "hidden": [100], **meta}
    arrays = {"meta": np.array(json.dumps(said)), "updates": np.array(step, np.int64)}
    with zipfile.ZipFile(folder / f"checkpoint-{number:06d}.npz", "w") as file:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, array)
            file.writestr(f"{name}.npy", data.getvalue())
