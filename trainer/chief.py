"""What the chief does besides training: fill in, save, evaluate, and write the result.

The chief is worker 0, or the task of role chief if there is one. If it dies, the others train on;
restarted, it finds the parameters on the ps as they are. If a ps dies, the chief fills everything
in again from the newest checkpoint, and the others wait for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from trainer.algorithms import algorithm_name
from trainer.checkpoint import Checkpoint, Checkpoints, NoneWhole, write_arrays
from trainer.collector import Tally
from trainer.errors import TrainerError, warn
from trainer.export import save_model
from trainer.graph import WorkerGraph
from trainer.job import Job
from trainer.models import Judged, evaluate
from trainer.phase import during, enter
from trainer.report import Report
from trainer.state import Counters, Snapshot

SAVE_AGAIN_SECONDS = 5.0  # after a save that failed; doubled each time, up to a minute
LAST_SAVE_SECONDS = 30.0  # how long the last save is tried


class Chief:
    """The one that looks after the run."""

    def __init__(self, job: Job, worker: WorkerGraph, report: Report) -> None:
        self._job = job
        self._settings = job.settings
        self._state = worker.state
        self._model = worker.model
        self._collector = getattr(worker, "collector", None)
        self._tally: Tally | None = None
        self._batches = worker.layout.batches  # that one step uses
        self._report = report
        self._folder = (
            Checkpoints(job.checkpoints, job.settings.keep_checkpoints) if job.checkpoints else None
        )
        self._filled_before = False
        self._complete = 0
        self._started = 0.0
        self._next_evaluation = 0
        self._saved_at, self._saved_updates = time.monotonic(), 0
        self._failed_saves = 0  # since the last one that worked
        self.without: tuple[str, ...] = ()  # the workers that were given up
        self._result: tuple[Snapshot, Counters, float] | None = None

    def prepare(self, session: Any) -> None:
        """Make sure that the shared state is filled in: live, from a checkpoint, or new."""
        if not self._state.is_ready(session):
            found = self._usable_checkpoint()
            if found:
                snapshot = self._fitted(found)
                started = self._started or time.time() - float(found.meta["seconds"])
                print(f"Resuming at global step {snapshot.updates} from {found.path}", flush=True)
            else:
                if self._filled_before:
                    warn("the parameters are lost and there is no checkpoint: starting over")
                first = self._model.initial(self._settings.seed, self._settings.init)
                snapshot, started = self._state.first_snapshot(first), 0.0
                self._forget_earlier_runs()
            self._state.fill(session, snapshot, started)
            if not found:
                self.save(session)
        self._filled_before = True
        self._complete = 0
        self._saved_at = time.monotonic()
        now = self._state.counters(session)
        self._started = now.started
        self._saved_updates = now.updates
        self._schedule_evaluation(now.updates)

    def start_clock(self, session: Any) -> None:
        """Training begins, unless it has begun in an earlier attempt."""
        if not self._started:
            self._started = time.time()
            self._state.set_started(session, self._started)

    def keep_house(self, session: Any, updates: int, complete: int) -> bool:
        """Evaluate and save if it is time; True if training is to end early.

        `complete` is the number of workers that have made all their steps: when one more has, and
        may be gone in a moment, a lost ps must not take its last steps back.
        """
        stop = False
        if self._settings.eval_every and updates >= self._next_evaluation:
            self._schedule_evaluation(updates)
            with during("evaluating"):
                accuracy = self._evaluate(self._state.snapshot(session))
            target = self._settings.target_accuracy
            stop = target is not None and accuracy >= target
        if self._settings.max_seconds and self._seconds() >= self._settings.max_seconds:
            stop = True
        if stop:
            self._state.tell_to_stop(session)
        if complete > self._complete or self._save_due(updates):
            self._complete = complete
            with during("saving"):
                self.save(session)
        return stop

    def _save_due(self, updates: int) -> bool:
        since = time.monotonic() - self._saved_at
        if self._failed_saves:
            return since >= min(60.0, SAVE_AGAIN_SECONDS * 2 ** (self._failed_saves - 1))
        every, seconds = self._settings.checkpoint_steps, self._settings.checkpoint_seconds
        if seconds and since >= seconds:
            return True
        return bool(every) and updates // every > self._saved_updates // every

    def save(self, session: Any) -> None:
        """Save a checkpoint now. A full disk is no reason to stop training, but one to say so."""
        self._saved_at = time.monotonic()
        if self._folder is None:
            return
        snapshot = self._state.snapshot(session)
        self._refuse_nan(snapshot)
        try:
            self._folder.save(snapshot, self._meta(finished=False))
        except TrainerError as error:
            self._failed_saves += 1
            self._report.problem = f"no checkpoint since global step {self._saved_updates}: {error}"
            warn(f"{self._report.problem}; trying again")
            return
        if self._failed_saves:
            print(f"Checkpoint saved again at global step {snapshot.updates}", flush=True)
        self._failed_saves, self._report.problem = 0, ""
        self._saved_updates = snapshot.updates

    def take_result(self, session: Any) -> None:
        """The last thing that needs the parameter servers; they may end."""
        snapshot = self._state.snapshot(session)
        self._refuse_nan(snapshot)
        self._result = snapshot, self._state.counters(session), self._seconds()
        if self._collector:
            self._tally = self._collector.tally(session)
        self._state.release(session)

    def conclude(self) -> None:
        """Evaluate the final parameters and put everything on disk."""
        assert self._result is not None
        snapshot, counters, seconds = self._result
        settings, job = self._settings, self._job
        enter("evaluating")
        judged = self._judge(snapshot)
        accuracy, cost = evaluate(judged.model, judged.vector, job.data.test)
        self._report.evaluated(snapshot.updates, seconds, accuracy, cost)
        enter("saving")
        if self._folder:
            self._insist(partial(self._folder.save, snapshot, self._meta(finished=True)))
        weights = job.checkpoints or job.logdir
        if weights:
            path = weights / f"{settings.weights_name}.npz"
            meta = {**self._meta(finished=True), **judged.meta}
            self._insist(partial(write_arrays, path, {"parameters": judged.vector}, meta))
            if settings.saved_model:
                save_model(weights / settings.weights_name, judged.model, judged.vector)
        self._report.ended(snapshot.updates, accuracy, self._validation_cost(judged))
        result = self._summary(snapshot, counters, seconds, accuracy, cost) | judged.details
        self._report.result(job.logdir / "result.json" if job.logdir else None, result)

    def _insist(self, write: Callable[[], object]) -> None:
        """Write what the run was for; a disk that is full now may have room in a moment."""
        deadline = time.monotonic() + LAST_SAVE_SECONDS
        while True:
            try:
                write()
                return
            except TrainerError as error:
                if time.monotonic() > deadline:
                    raise
                warn(f"{error}; trying again")
                time.sleep(SAVE_AGAIN_SECONDS)

    def _summary(
        self, snapshot: Snapshot, counters: Counters, seconds: float, accuracy: float, cost: float
    ) -> dict[str, Any]:
        steps = int(snapshot.steps.sum())
        samples = steps * self._settings.batch_size * self._batches
        total, highest, number = (f(counters.staleness, axis=0) for f in (np.sum, np.max, np.sum))
        shares = {
            task: {"steps": int(own), "share": round(int(own) / max(1, steps), 4)}
            for task, own in zip(self._job.cluster.trainers, snapshot.steps, strict=True)
        }
        return {
            "accuracy": round(accuracy, 4),
            "cost": round(cost, 5),
            "global_step": snapshot.updates,
            "samples": samples,
            "train_seconds": round(seconds, 3),
            "updates_per_second": round(snapshot.updates / seconds, 1),
            "samples_per_second": round(samples / seconds, 1),
            "time_to_accuracy": self._report.time_to_accuracy(),
            "staleness": {
                "mean": round(float(total[0] / max(1.0, number[2])), 3),
                "max": int(highest[1]),
            },
            "per_task": shares,
            **({"without": list(self.without)} if self.without else {}),
            **({"gradients": asdict(self._tally)} if self._tally else {}),
            "algorithm": algorithm_name(self._settings, self._job.cluster),
            "settings": asdict(self._settings),
        }

    def _evaluate(self, snapshot: Snapshot) -> float:
        self._refuse_nan(snapshot)
        seconds = self._seconds()
        judged = self._judge(snapshot)
        accuracy, cost = evaluate(judged.model, judged.vector, self._job.data.test)
        self._report.evaluated(snapshot.updates, seconds, accuracy, cost)
        return accuracy

    def _judge(self, snapshot: Snapshot) -> Judged:
        """The network to evaluate: the only one, unless the algorithm trains several."""
        judge = getattr(self._job.algorithm, "judge", None)
        if judge is None:
            return Judged(self._model, snapshot.parameters)
        judged: Judged = judge(self._model, snapshot.parameters, self._job.data)
        return judged

    def _validation_cost(self, judged: Judged) -> float | None:
        """The summed cross entropy of the held-out images, as the `steps` format shows it."""
        held_out = self._job.data.validation
        if self._settings.log_format != "steps" or not len(held_out):
            return None
        return evaluate(judged.model, judged.vector, held_out)[1] * len(held_out)

    def _schedule_evaluation(self, updates: int) -> None:
        every = max(1, self._settings.eval_every)
        self._next_evaluation = (updates // every + 1) * every

    def _seconds(self) -> float:
        return max(time.time() - self._started, 1e-6)

    def _meta(self, finished: bool) -> dict[str, Any]:
        settings = self._settings
        return {
            "run": self._job.run,
            "finished": finished,
            "seconds": self._seconds() if self._started else 0.0,
            "model": settings.model,
            "hidden": list(settings.hidden),
            "activation": settings.activation,
            "optimizer": settings.optimizer,
        }

    def _usable_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint, if this run is to go on from it."""
        try:
            found = self._folder.newest() if self._folder else None
        except NoneWhole as error:
            if self._settings.resume != "never":
                raise
            warn(f"{error}; starting from the beginning")
            return None
        if found is None:
            return None
        own = found.meta["run"] == self._job.run
        cut_short = self._settings.resume == "auto" and not found.meta["finished"]
        return found if own or cut_short or self._settings.resume == "always" else None

    def _fitted(self, found: Checkpoint) -> Snapshot:
        """The checkpoint's snapshot, for as many workers as there are now."""
        mine = self._meta(finished=False)
        for name in ("model", "hidden", "activation", "optimizer"):
            there, here = found.meta[name], mine[name]
            if there != here:
                raise TrainerError(
                    f"{found.path} has {name} {there}, not {here}; "
                    "use another checkpoint folder, or --resume never"
                )
        if len(found.snapshot.parameters) != self._model.size:
            raise TrainerError(
                f"{found.path} has {len(found.snapshot.parameters)} parameters, not "
                f"{self._model.size}; use another checkpoint folder, or --resume never"
            )
        steps = np.zeros(len(self._job.cluster.trainers), np.int64)
        kept = min(len(steps), len(found.snapshot.steps))
        steps[:kept] = found.snapshot.steps[:kept]
        return replace(found.snapshot, steps=steps)

    def _forget_earlier_runs(self) -> None:
        self._report.forget_earlier_runs()
        if self._job.logdir:
            (self._job.logdir / "result.json").unlink(missing_ok=True)

    def _refuse_nan(self, snapshot: Snapshot) -> None:
        if not np.isfinite(snapshot.parameters).all():
            raise TrainerError(
                f"the parameters are no longer finite at global step {snapshot.updates} "
                f"(learning_rate {self._settings.learning_rate:g}); try a smaller learning_rate"
            )
