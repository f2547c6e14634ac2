"""One worker's part in a run: the verbs of the training loop."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from trainer.chief import Chief
from trainer.errors import PeerError, TrainerError, warn
from trainer.graph import Outcome, WorkerGraph
from trainer.job import Job
from trainer.layout import layout_of
from trainer.peers import name_silent
from trainer.phase import wait_for
from trainer.report import Report
from trainer.scheme import scheme_of
from trainer.session import POLL_SECONDS, Link, wait_until
from trainer.state import Counters

LAST_WORDS_SECONDS = 5.0  # for a worker that has made all its steps but not said so yet


class Run:
    """A worker that joins, steps, recovers and finishes; the chief among them does more."""

    def __init__(self, job: Job) -> None:
        self._settings = job.settings
        self._cluster = job.cluster
        layout = layout_of(job.algorithm, job.settings, job.cluster)
        scheme = scheme_of(job.algorithm, job.settings, job.cluster)
        self._worker = WorkerGraph(
            job.settings, job.cluster, job.data.train, job.algorithm.step, layout, scheme
        )
        self._state = self._worker.state
        self._link = Link(job.cluster, job.settings, self._state.initialised)
        self._calls: dict[int, Callable[[int], Outcome]] = {}
        self._data_loaded = False
        self._first_time = job.attempt == 0  # a restarted worker finds the others training
        self._steps = np.zeros(len(job.cluster.trainers), np.int64)
        self._updates = 0
        self._told_to_stop = False
        self.report = Report(job.settings, job.cluster, job.logdir, shared=self._shared)
        self._chief = Chief(job, self._worker, self.report) if job.cluster.is_chief else None

    @property
    def lost_errors(self) -> tuple[type[Exception], ...]:
        """The errors that `recover` can deal with."""
        return self._link.lost_errors

    @property
    def total(self) -> int:
        """What to count to: global steps if they are shared, else this worker's own."""
        return self._worker.total

    @property
    def _shared(self) -> bool:
        """Whether all workers count to the same number together."""
        return self._settings.steps is not None or self._worker.scheme.lockstep

    @property
    def _own(self) -> int:
        """How many steps this worker has made."""
        return int(self._steps[self._cluster.replica])

    def join(self) -> None:
        """Connect, get the shared state ready or wait until it is, and meet the others."""
        self._link.connect(self._patience)
        session = self._link.session
        if self._chief:
            self._chief.prepare(session)
        else:
            wait_for([self._cluster.trainers[0]])
            wait_until(
                lambda: self._state.is_ready(session),
                self._patience,
                lambda: f"the chief ({self._cluster.trainers[0]}) did not provide the parameters",
            )
        if not self._data_loaded:
            self._worker.load_data(session)
            self._data_loaded = True
        self._worker.local.reset(session)
        self._calls = self._worker.calls(session)
        self._state.mark_joined(session)
        now = self._state.counters(session)
        if self._first_time or now.updates == 0:
            self._wait_for_everyone()
        if self._chief:
            self._chief.start_clock(session)
        self._first_time = False
        self._steps, self._updates, self._told_to_stop = now.steps, now.updates, now.stop
        self.report.begin(self._worker.graph, self._worker.per_epoch, self._own)

    def done(self) -> bool:
        """Whether this worker has no step left to make."""
        count = self._updates if self._shared else self._own
        return self._told_to_stop or count >= self.total

    def step(self) -> Outcome:
        """Some steps in one call: as many as were chained, or one at a time near the end."""
        most, window = self._worker.most_steps, self._worker.scheme.window
        if not self._own:
            most = 1  # the first call prepares its graph, and that of one step is ready soonest
        exchanges = self._exchanges_left()
        if exchanges:
            outcome = self._calls[most if exchanges >= most else 1](self._own)
        else:
            outcome = self._worker.short_call(self._link.session)(self._own, self._left % window)
        self._refuse_nan(outcome)
        self._steps, self._updates = outcome.steps, outcome.updates
        self._told_to_stop = outcome.stop
        self._link.works()
        return outcome

    @property
    def _left(self) -> int:
        """The updates that are left for all, or else the steps that are left for this worker."""
        return self.total - (self._updates if self._shared else self._own)

    def _exchanges_left(self) -> int:
        """How many exchanges this worker can make without going too far."""
        if self._worker.scheme.lockstep:
            return self._left
        if self._shared:
            together = len(self._cluster.trainers) * self._worker.layout.updates
            together *= self._worker.scheme.updates
            return max(1, self._left // together)
        return self._left // self._worker.scheme.window

    def keep_house(self) -> None:
        """The chief saves, evaluates and calls it a day when that is due."""
        if self._chief:
            complete = 0 if self._shared else int(np.sum(self._steps >= self.total))
            stop = self._chief.keep_house(self._link.session, self._updates, complete)
            self._told_to_stop = self._told_to_stop or stop

    def finish(self) -> None:
        """Say that this worker is done; the chief waits for the others and takes the result."""
        session = self._link.session
        self._state.mark_finished(session, self.report.staleness)
        if self._chief:
            self._wait_for_the_rest()
            self._chief.take_result(session)

    def conclude(self) -> None:
        """Write down and say what came of it."""
        if self._chief:
            self._chief.conclude()
        else:
            self.report.ended(self._updates, accuracy=None, validation_cost=None)
        self.report.close()

    def recover(self, error: Exception) -> None:
        """After a lost contact: note it, or give up if it has lasted too long."""
        self._name_the_missing(error)
        self._link.lose(error)
        self._data_loaded = self._data_loaded and "worker" not in self._cluster.serving
        warn(f"{self._cluster.task} lost a parameter server at step {self._own}; joining again")

    def _name_the_missing(self, error: Exception) -> None:
        """Give up if it is known who kept this worker waiting: asking that task would only hang."""
        from tensorflow import errors

        collector = self._worker.collector
        if not isinstance(error, errors.DeadlineExceededError):
            return
        waited = self._settings.recovery_seconds
        if names := name_silent(self._cluster, self._cluster.served):
            raise PeerError(f"{names} did not answer within {waited:g} s")
        if collector is None:
            return
        try:
            missing = [self._cluster.trainers[i] for i in collector.missing(self._link.session)]
        except self.lost_errors:
            return
        if missing and self._cluster.task not in missing:
            raise PeerError(
                f"{', '.join(missing)} did not contribute to the next update within "
                f"{waited:g} s; with backups, updates do without"
            )

    @property
    def _patience(self) -> float:
        """How long to wait for others: longer before training than in the middle of it."""
        if self._first_time:
            return self._settings.start_seconds
        return self._settings.recovery_seconds

    def _wait_for_everyone(self) -> None:
        """The start line: nobody trains before everybody is there."""

        def missing() -> str:
            return self._without(self._state.counters(self._link.session).joined)

        if names := missing():
            wait_for(names.split(", "))
        wait_until(lambda: not missing(), self._patience, lambda: f"{missing()} did not join")

    def _wait_for_the_rest(self) -> None:
        """Until every worker has finished, or has made no steps for too long."""
        quiet_since = time.monotonic()
        waits_for = ""
        while True:
            now = self._state.counters(self._link.session)
            if now.finished.all():
                return
            if waits_for != self._without(now.finished):
                waits_for = self._without(now.finished)
                wait_for(waits_for.split(", "))
            if not np.array_equal(self._steps, now.steps):
                quiet_since = time.monotonic()
            self._steps, self._updates = now.steps, now.updates
            self.keep_house()
            if time.monotonic() - quiet_since > self._patience_with(now):
                warn(f"{waits_for} makes no more steps; ending without it")
                assert self._chief
                self._chief.without = tuple(waits_for.split(", "))
                return
            time.sleep(POLL_SECONDS)

    def _patience_with(self, now: Counters) -> float:
        """Little for workers that have made all their steps and only have to say so."""
        count = now.updates if self._shared else now.steps[~now.finished]
        patience = self._settings.recovery_seconds
        return min(LAST_WORDS_SECONDS, patience) if np.all(count >= self.total) else patience

    def _without(self, flags: np.ndarray) -> str:
        """The names of the workers whose flag is not set."""
        tasks = zip(self._cluster.trainers, flags, strict=True)
        return ", ".join(task for task, flag in tasks if not flag)

    def _refuse_nan(self, outcome: Outcome) -> None:
        bad = np.flatnonzero(~np.isfinite(outcome.losses))
        if len(bad):
            cost, step = outcome.losses[bad[0]], self._own + int(bad[0]) + 1
            raise TrainerError(
                f"the cost became {cost} at step {step} of {self._cluster.task} "
                f"(learning_rate {self._settings.learning_rate:g}); try a smaller learning_rate"
            )
