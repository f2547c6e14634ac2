"""The two shapes of cluster that algorithms ask for most, and what is said where they are not."""

from __future__ import annotations

from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError


def need_one_process(cluster: ClusterInfo, algorithm: str) -> None:
    """One worker and nobody else."""
    if len(cluster.trainers) > 1 or cluster.served:
        raise SettingsError(
            f"algorithm {algorithm} trains in one process, but this cluster has "
            f"{len(cluster.trainers)} worker(s) and {len(cluster.served)} that serve; "
            f"leave one worker"
        )


def need_chief_and_workers(cluster: ClusterInfo, algorithm: str) -> None:
    """A chief that drives, and at least one worker that serves."""
    if "chief" not in cluster.jobs:
        raise SettingsError(
            f"algorithm {algorithm} needs a chief, which drives the workers; add the role chief"
        )
    if "worker" not in cluster.jobs:
        raise SettingsError(f"algorithm {algorithm} needs workers, and there is none; add some")
