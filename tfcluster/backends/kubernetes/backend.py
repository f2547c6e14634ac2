"""Tasks as pods. State lives in labels and in the API server; a keeper remembers it here.

The cluster runs the job by itself: everything it needs is in the manifests that `render` prints.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run
from tfcluster.backends import Backend
from tfcluster.backends.keeping import sole_reader, stale, stop_keeper, watched
from tfcluster.backends.kubernetes.run import documents, is_slow, obstacle_of, selector_of
from tfcluster.backends.kubernetes.site import site_of
from tfcluster.backends.logfiles import read_logs
from tfcluster.backends.records import read_records, refuse_ended, run_status, settle_stopped
from tfcluster.backends.start import start_keeper
from tfcluster.errors import MissingError, TfclusterError
from tfcluster.events import JobStatus, LogLine, LogQuery
from tfcluster.place import place_of
from tfcluster.plan import Plan, stored_plan
from tfcluster.results import Results

if TYPE_CHECKING:
    from tfcluster.backends.kubernetes.api import Cluster
    from tfcluster.belongings import Belonging
    from tfcluster.changes import Change, ObjectChange
    from tfcluster.checkpoints import CheckpointFolder
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.fetching import Output, Wanted
    from tfcluster.spec.model import JobSpec

KEEPER = "tfcluster.backends.kubernetes.keeper"
KEEPER_PAUSE = 30.0
LAST_LINES = 10.0  # how long `down` waits for the keeper to have read everything


class KubernetesBackend(Backend):
    """See `tfcluster.backends.Backend` for what each method promises."""

    detaches = True
    reapplies = True

    def __init__(self) -> None:
        self._next_try = 0.0  # when a keeper that could not be started may be tried again

    def check(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.kubernetes.apply import ensure_gang
        from tfcluster.backends.kubernetes.plan import check

        check(spec)
        cluster = self._cluster(spec.kubernetes.context, spec.kubernetes.namespace)
        if spec.kubernetes.gang is not None:
            ensure_gang(cluster, spec.kubernetes.gang)

    def plan(
        self, spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None
    ) -> Plan:
        from tfcluster.backends.kubernetes.plan import plan

        return plan(spec, run, base, code)

    def checkpoint_folder(
        self, spec: JobSpec, run: Run | None, base: Path
    ) -> CheckpointFolder | None:
        from tfcluster.backends.kubernetes.plan import checkpoint_folder

        return checkpoint_folder(spec, run)

    def ensure_free(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.kubernetes.claim import ensure_free

        cluster = self._cluster(spec.kubernetes.context, spec.kubernetes.namespace)
        ensure_free(cluster, place_of(spec.name, base))

    def target(self, spec: JobSpec) -> str:
        """Where the job would go, for people to see before it does."""
        cluster = self._cluster(spec.kubernetes.context, spec.kubernetes.namespace)
        return f"context {cluster.context}, namespace {cluster.namespace}"

    def prepare(self, spec: JobSpec, base: Path, say: Callable[[str], None]) -> None:
        """Say where the job goes before it does."""
        say(f"Target: {self.target(spec)}")
        if spec.requirements is not None:
            from tfcluster.backends.kubernetes.requirements import provide_requirements

            cluster = self._cluster(spec.kubernetes.context, spec.kubernetes.namespace)
            provide_requirements(spec, base, cluster.context, say)

    def _cluster(self, context: str | None, namespace: str | None) -> Cluster:
        from tfcluster.backends.kubernetes.connect import connect

        return connect(context, namespace)

    def _cluster_of(self, run: Run) -> Cluster:
        """The cluster that the run was brought up in, whatever the current context is now."""
        return self._cluster(run.record.context, run.record.namespace)

    # -- apply

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        from tfcluster.backends.kubernetes import apply, claim
        from tfcluster.backends.kubernetes.render import render_kubernetes

        site = site_of(plan)
        cluster = self._cluster(site.context, site.namespace)
        run.update(context=cluster.context, namespace=cluster.namespace)
        text = render_kubernetes(plan, run.files.require_key())
        run.files.write_manifests(text)
        docs = documents(text)
        fresh = all(change.action == "create" for change in changes)
        kept = all(change.action == "keep" for change in changes)
        try:
            claim.claim(cluster, run)
            if fresh:
                claim.refuse_running(cluster, run.place)
                apply.make_room(cluster, run, site.gang)
                apply.ensure_free(cluster, docs, run)
            if not kept:
                self._retire(cluster, run, plan, changes)
            apply.apply_all(cluster, docs)
            wanted = [*map(cluster.path_of, docs), claim.claim_path(cluster, run.job)]
            apply.remove(cluster, selector_of(run), site.gang, wanted)
        except BaseException as error:
            self._undo(cluster, run, error, fresh)
            raise
        if not kept:
            start_keeper(run, KEEPER)

    def review(self, run: Run | None, plan: Plan) -> list[ObjectChange]:
        """What the API server would change, as it says itself in a dry run."""
        from tfcluster.backends.kubernetes import review
        from tfcluster.backends.kubernetes.render import render_kubernetes

        site = site_of(plan)
        if run is not None:
            cluster = self._cluster_of(run)
        else:
            cluster = self._cluster(site.context, site.namespace)
        docs = documents(render_kubernetes(plan, run.files.require_key() if run else None))
        selector = selector_of(run) if run else None
        return review.review(cluster, docs, selector, site.gang)

    def _retire(self, cluster: Cluster, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        """End the Jobs of changed roles, their logs kept by the keeper that still watches."""
        from tfcluster.backends.kubernetes.apply import remove_jobs
        from tfcluster.backends.kubernetes.kueue import group_of

        gone = [change.task for change in changes if change.action in ("replace", "remove")]
        roles = sorted({task.rpartition("-")[0] for task in gone})
        names = [f"{plan.job}-{role}" for role in roles]
        if names:
            run.files.mark_ending()
            group = group_of(plan) if len(roles) == len(plan.roles) else None
            remove_jobs(cluster, selector_of(run), names, grace=plan.stop_grace, group=group)
            time.sleep(0.5)
        stop_keeper(run)
        run.files.unmark_ending()
        run.files.forget_tasks(gone)

    def _undo(self, cluster: Cluster, run: Run, error: BaseException, fresh: bool) -> None:
        """Leave nothing half-started behind; a run that never began has failed."""
        from tfcluster.backends.kubernetes.apply import remove

        if not fresh:
            return
        plan = stored_plan(run)
        with contextlib.suppress(TfclusterError):
            remove(cluster, selector_of(run), site_of(plan).gang if plan else None)
        reason = getattr(error, "message", type(error).__name__)
        run.note("failed", f"could not be started: {reason}")
        run.settle(JobStatus(run.job, run.id, "kubernetes", "failed", ended=time.time()))

    # -- observe

    def observe(self, run: Run) -> JobStatus:
        final = run.final_status()
        if final is not None:
            return final
        plan = stored_plan(run)
        if plan is None or not run.record.context:
            state = "stopped" if stale(run) else "pending"
            return JobStatus(run.job, run.id, "kubernetes", state)
        # A cluster that is away leaves what was known last, and a warning among the events.
        with contextlib.suppress(TfclusterError):
            self._ensure_keeper(run)
        return run.final_status() or run_status(run, plan)

    def _ensure_keeper(self, run: Run) -> None:
        """Have somebody watch who can say what is true now."""
        if watched(run) or not stale(run):
            return
        with sole_reader(run, wait=False) as free:
            busy = not free
        if busy or run.final_status() is not None or time.monotonic() < self._next_try:
            return
        try:
            start_keeper(run, KEEPER)
        except TfclusterError as error:
            self._next_try = time.monotonic() + KEEPER_PAUSE
            run.note("warning", f"{error.message} {' '.join(error.evidence[-1:])}".strip())
            raise

    def stuck(self, run: Run) -> TfclusterError | None:
        """What keeps the job from starting, once it is clear that waiting will not help."""
        plan = stored_plan(run)
        if plan is None or run.final_status() is not None:
            return None
        # A container that takes its time says less than any other problem.
        records = sorted(read_records(run, plan).items(), key=lambda item: is_slow(item[1]))
        found = (obstacle_of(run, plan, task, record) for task, record in records)
        return next((error for error in found if error is not None), None)

    # -- logs, exec, restart

    def logs(self, run: Run, query: LogQuery) -> Iterator[LogLine]:
        self.observe(run)
        return read_logs(run.logs, query, lambda: self.observe(run).over)

    def exec(self, run: Run, task: str, argv: Sequence[str], *, terminal: bool = False) -> int:
        from tfcluster.backends.kubernetes.exec import run_inside, running_pod

        cluster = self._cluster_of(run)
        pod = running_pod(cluster, selector_of(run), task)
        return run_inside(cluster, pod, task.rpartition("-")[0], argv, terminal=terminal)

    def send_output(self, run: Run, task: str, wanted: Wanted) -> Output:
        from tfcluster.backends.kubernetes.exec import running_pod
        from tfcluster.backends.kubernetes.output import pod_output

        if run.final_status() is not None:
            raise MissingError(
                f"the pod of {task} has ended, and its files cannot be read any more",
                hint="results: in the spec brings them back before that",
            )
        cluster = self._cluster_of(run)
        return pod_output(cluster, running_pod(cluster, selector_of(run), task), task, wanted)

    def restart(self, run: Run, tasks: Sequence[str]) -> None:
        from tfcluster.backends.kubernetes.exec import running_pod, tell

        refuse_ended(self.observe(run), tasks)
        cluster = self._cluster_of(run)
        for task in tasks:
            pod = running_pod(cluster, selector_of(run), task)
            tell(cluster, pod, task.rpartition("-")[0], {"tell": "restart"})

    def tensorboard(
        self, run: Run, port: int, announce: Callable[[], None], say: Callable[[str], None]
    ) -> int:
        """Show the job's TensorBoard, which runs in the cluster, on a port of this machine."""
        from tfcluster.backends.kubernetes.forward import tensorboard

        return tensorboard(self._cluster_of(run), run, port, announce, say)

    def shows_board(self, run: Run) -> bool:
        """Pods take with them what they wrote, unless a TensorBoard runs beside them."""
        plan = stored_plan(run)
        return plan is not None and site_of(plan).tensorboard

    def suspend(self, run: Run, wanted: bool) -> None:
        """Stop the job's pods and free their nodes, or start them again."""
        from tfcluster.backends.kubernetes.apply import suspend_job

        cluster = self._cluster_of(run)
        jobs, _ = cluster.listed(cluster.path("Job", api="batch/v1"), selector_of(run))
        for job in jobs:
            suspend_job(cluster, job["metadata"]["name"], wanted)
        run.note("suspended" if wanted else "resumed", "")

    # -- delete

    def leftovers(self, run: Run) -> bool:
        """Whether an ended run still has objects in the cluster, for `down` to take away."""
        return bool(run.record.context) and not run.record.cleaned

    def delete(
        self, run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True
    ) -> None:
        from tfcluster.backends.kubernetes.apply import remove, remove_jobs
        from tfcluster.backends.kubernetes.kueue import group_of

        if run.record.cleaned:
            return
        plan = stored_plan(run)
        if plan is None or not run.record.context:
            if run.final_status() is None:
                settle_stopped(run, run_status(run, None))
            return
        try:
            cluster, selector = self._cluster_of(run), selector_of(run)
        except MissingError as error:
            # A context that is gone from the kubeconfig: nothing of it can be reached any more.
            run.note("warning", f"left alone in the cluster: {error.message}")
            stop_keeper(run)
            if run.final_status() is None:
                settle_stopped(run, run_status(run, plan))
            return
        names = [f"{plan.job}-{role.role}" for role in plan.roles]
        if run.final_status() is None:
            run.files.mark_ending()
            with contextlib.suppress(TfclusterError):
                self._ensure_keeper(run)
            remove_jobs(
                cluster,
                selector,
                names,
                grace=grace,
                keep_going=keep_going,
                group=group_of(plan),
            )
            self._await_keeper(run)
            settle_stopped(run, run_status(run, plan))
        else:
            remove_jobs(cluster, selector, names, grace=1.0, group=group_of(plan))
        remove(cluster, selector, site_of(plan).gang)
        run.update(cleaned=True)

    def results(self, plan: Plan, run: Run) -> tuple[Results, ...]:
        from tfcluster.backends.kubernetes.results import results_of

        site, record = site_of(plan), run.files.read_record()
        context = (record.context if record else None) or site.context or ""
        namespace = (record.namespace if record else None) or site.namespace or ""
        return results_of(plan, context, namespace)

    # -- what runs leave behind

    def hosts(self, run: Run) -> list[str]:
        from tfcluster.backends.kubernetes.belongings import host_name

        record = run.record
        if not record.context or not record.namespace:
            return []
        return [host_name(record.context, record.namespace)]

    def survey(self, host: str, runs: Sequence[Run]) -> list[Belonging]:
        from tfcluster.backends.kubernetes.belongings import survey

        return survey(host, runs)

    def remove(self, host: str, belongings: Sequence[Belonging]) -> None:
        from tfcluster.backends.kubernetes.belongings import remove

        remove(host, belongings)

    def _await_keeper(self, run: Run) -> None:
        """Until the keeper has read the last lines; it ends when every task is over."""
        deadline = time.monotonic() + LAST_LINES
        while watched(run) and time.monotonic() < deadline:
            time.sleep(0.05)
        stop_keeper(run)


BACKEND = KubernetesBackend()
