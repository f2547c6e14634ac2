"""What a task tells while it trains: log lines, progress, metrics.jsonl, TensorBoard, result.json.

Log formats (`--log_format`), one line every `log_every` steps:

    short   step 101, epoch 1, batch 100 of 550, cost 2.2345, 312 steps/s
    epochs  Step: 101,  Epoch:  1,  Batch: 100 of 550,  Cost: 2.2345,  AvgTime: 3.21ms
    steps   1524487685.116428: Worker 0: training step 8054 done (global step:9960)
    json    {"task": "worker-0", "step": 100, "global_step": 100, "loss": 2.2345, ...}

Under the launcher (TFCLUSTER_TASK is set) there are also progress lines, at most two per second:

    tfcluster-progress {"step": 640, "total": 1200, "rate": 412.0, "loss": 0.291}
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainer.checkpoint import write_whole
from trainer.cluster import ClusterInfo
from trainer.errors import TrainerError, warn
from trainer.graph import Outcome
from trainer.phase import enter
from trainer.settings import Settings

PROGRESS_SECONDS = 0.5
METRICS_SECONDS = 1.0
MARKS = (0.90, 0.95, 0.97, 0.98, 0.99)


class Report:
    """One task's voice. Nothing here changes how training goes."""

    def __init__(
        self, settings: Settings, cluster: ClusterInfo, logdir: Path | None, shared: bool = False
    ) -> None:
        self._settings = settings
        self._shared = shared or settings.steps is not None  # all count to the same global step
        self._cluster = cluster
        self._folder = logdir / cluster.task if logdir else None
        self._metrics = Metrics(self._folder)
        self._board: TensorBoard | None = None
        self._per_epoch = 1
        self._began = time.monotonic()
        self._log = Pace(settings.log_seconds)
        self._progress = Pace(PROGRESS_SECONDS)
        self._measure = Pace(METRICS_SECONDS)
        self._under_launcher = "TFCLUSTER_TASK" in os.environ
        self.cost = float("nan")
        self.problem = ""  # what is wrong although training goes on
        self.staleness = [0.0, 0.0, 0.0]  # sum, maximum, number

    def begin(self, graph: Any, per_epoch: int, own: int) -> None:
        """Training starts (again) at this worker's step `own`."""
        enter("training")
        self._per_epoch = per_epoch
        for pace in (self._log, self._progress, self._measure):
            pace.restart(own)
        if self._board is None and self._folder and self._settings.tensorboard:
            self._board = TensorBoard(self._folder, graph)

    def step(self, outcome: Outcome, total: int | None) -> None:
        """One call is done; say so if it is time."""
        own = int(outcome.steps[self._cluster.replica])
        self.cost = float(outcome.losses[-1])
        self._count_staleness(outcome.staleness)
        if self._log.due(own, self._settings.log_every):
            self._say(self._line(own, outcome, self._log.rate))
        if self._progress.due(own) or own == total:
            self._say_progress(own, outcome, total, self._progress.rate)
        if self._measure.due(own):
            self._record(own, outcome, self._measure.rate)

    def evaluated(self, updates: int, seconds: float, accuracy: float, cost: float) -> None:
        """The chief has evaluated the shared parameters on the test set."""
        record = {"global_step": updates, "seconds": round(seconds, 3)}
        self._metrics.write({**record, "test_accuracy": accuracy, "test_cost": cost})
        if self._board:
            self._board.write(updates, {"accuracy": accuracy, "test_cost": cost})

    def ended(self, updates: int, accuracy: float | None, validation_cost: float | None) -> None:
        """This task has done its part; the chief also knows the accuracy."""
        seconds = time.monotonic() - self._began
        if self._settings.log_format == "json":
            lines = [json.dumps({"task": self._cluster.task, "done": True, "accuracy": accuracy})]
        elif self._settings.log_format == "steps":
            lines = [
                f"Training ends @ {time.time():.6f}",
                f"Training elapsed time:{seconds:.6f} s",
            ]
            if validation_cost is not None:
                text = f"{updates} training step(s), validation cross entropy"
                lines.append(f"After {text} = {validation_cost:g}")
            if accuracy is not None:
                lines.append(f"Test-Accuracy: {accuracy:.4f}")
        else:
            lines = [f"Test-Accuracy: {accuracy:.4f}"] if accuracy is not None else []
            lines += [f"Total Time: {seconds:.2f}s", f"Final Cost: {self.cost:.4f}", "done"]
        for line in lines:
            self._say(line)

    def result(self, path: Path | None, result: Mapping[str, Any]) -> None:
        """Put result.json on disk, and tell the launcher what is in it."""
        if path is not None:
            text = json.dumps(result, indent=2) + "\n"
            write_whole(path, lambda file: file.write(text.encode()))
        if self._under_launcher:
            self._say(f"tfcluster-result {json.dumps(result)}")

    def close(self) -> None:
        """Everything said so far is on disk."""
        self._metrics.close()
        if self._board:
            self._board.close()

    def time_to_accuracy(self) -> dict[str, float]:
        """Seconds to each mark, from all evaluations of this run, earlier attempts included."""
        reached: dict[str, float] = {}
        for mark in MARKS:
            times = [s for s, accuracy in self._metrics.evaluations if accuracy >= mark]
            if times:
                reached[f"{mark:.2f}"] = min(times)
        return reached

    def forget_earlier_runs(self) -> None:
        """Training starts from nothing: evaluations of another run do not count."""
        self._metrics.evaluations.clear()

    def _count_staleness(self, values: np.ndarray) -> None:
        self.staleness[0] += float(values.sum())
        self.staleness[1] = max(self.staleness[1], float(values.max()))
        self.staleness[2] += values.size

    def _line(self, own: int, outcome: Outcome, rate: float) -> str:
        if self._settings.log_format == "json":
            return json.dumps({"task": self._cluster.task, **self._values(own, outcome, rate)})
        if self._settings.log_format == "steps":
            return (
                f"{time.time():.6f}: Worker {self._cluster.replica}: training step {own} done "
                f"(global step:{outcome.updates})"
            )
        epoch, batch = divmod(own - 1, self._per_epoch)
        if self._settings.log_format == "short":
            place = f"step {outcome.updates}, epoch {epoch + 1}, batch {batch + 1}"
            return f"{place} of {self._per_epoch}, cost {self.cost:.4f}, {rate:.0f} steps/s"
        return (
            f"Step: {outcome.updates + 1},  Epoch: {epoch + 1:2d},  "
            f"Batch: {batch + 1:3d} of {self._per_epoch:3d},  "
            f"Cost: {self.cost:.4f},  AvgTime: {1000 / rate:3.2f}ms"
        )

    def _values(self, own: int, outcome: Outcome, rate: float) -> dict[str, Any]:
        return {
            "step": own,
            "global_step": outcome.updates,
            "loss": round(self.cost, 4),
            "rate": round(rate, 1),
            "staleness": round(float(outcome.staleness.mean()), 2),
        }

    def _say_progress(self, own: int, outcome: Outcome, total: int | None, rate: float) -> None:
        if not self._under_launcher:
            return
        line: dict[str, Any] = {"step": outcome.updates if self._shared else own}
        if total is not None:
            line["total"] = total
        line |= {"rate": round(rate, 1), "loss": round(self.cost, 4)}
        if self.problem:
            line["problem"] = self.problem
        self._say(f"tfcluster-progress {json.dumps({**line, 'global_step': outcome.updates})}")

    def _record(self, own: int, outcome: Outcome, rate: float) -> None:
        values = self._values(own, outcome, rate)
        self._metrics.write({"seconds": round(time.monotonic() - self._began, 3), **values})
        if self._board:
            scalars = {"cost": self.cost, "steps_per_second": rate}
            self._board.write(outcome.updates, {**scalars, "staleness": values["staleness"]})

    def _say(self, line: str) -> None:
        print(line, flush=True)


class Pace:
    """Says when something is due again, and how fast steps went since it was due last."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart(0)

    def restart(self, step: int) -> None:
        """Count from here."""
        self._step, self._time = step, time.monotonic()
        self.rate = 1e-9  # steps per second

    def due(self, step: int, every: int = 1) -> bool:
        """Whether a multiple of `every` and enough time have passed; if so, count from here."""
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-9)
        if step > self._step:
            self.rate = (step - self._step) / elapsed
        if step // every <= self._step // every or elapsed < self._seconds:
            return False
        self._step, self._time = step, now
        return True


class Metrics:
    """metrics.jsonl: one JSON object per line, appended to, read again after a restart."""

    def __init__(self, folder: Path | None) -> None:
        self.evaluations: list[tuple[float, float]] = []  # (seconds, accuracy)
        self._file: int | None = None
        self._lost = 0  # records that could not be written
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "metrics.jsonl"
            if path.exists():
                self._remember(path)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise TrainerError(f"cannot write to {folder}: {error.strerror}") from error

    def write(self, record: Mapping[str, Any]) -> None:
        if "test_accuracy" in record:
            self.evaluations.append((record["seconds"], record["test_accuracy"]))
        if self._file is None:
            return
        try:
            os.write(self._file, f"{json.dumps(record)}\n".encode())
        except OSError as error:  # a full disk is no reason to stop training
            self._lost += 1
            if self._lost == 1:
                warn(f"metrics.jsonl cannot be written: {error.strerror}")

    def close(self) -> None:
        if self._file is None:
            return
        if self._lost:
            warn(f"{self._lost} records are missing from metrics.jsonl")
        with contextlib.suppress(OSError):  # what could not be written was said before
            os.fsync(self._file)
        os.close(self._file)
        self._file = None

    def _remember(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # the line that a killed process was writing
                continue
            if "test_accuracy" in record:
                self.evaluations.append((record["seconds"], record["test_accuracy"]))


class TensorBoard:
    """Scalars and the graph, for `tensorboard --logdir`."""

    def __init__(self, folder: Path, graph: Any) -> None:
        import tensorflow as tf

        self._summary = tf.compat.v1.Summary
        with graph.as_default():  # this writer wants graph mode; it writes from its own thread
            self._writer = tf.compat.v1.summary.FileWriter(str(folder), graph=graph)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=t, simple_value=v) for t, v in scalars.items()]
        self._writer.add_summary(self._summary(value=values), step)

    def close(self) -> None:
        self._writer.close()
