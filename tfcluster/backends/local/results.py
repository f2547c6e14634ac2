"""Where a run of local processes keeps its results: in folders of this machine."""

from __future__ import annotations

from tfcluster.results import FOLDER, Results


def results_of(logdir: str | None, checkpoints: str | None) -> tuple[Results, ...]:
    """Both folders: the run's own, or those that the spec names."""
    folders = (("logdir", logdir), ("checkpoints", checkpoints))
    return tuple(Results(holds, FOLDER, path) for holds, path in folders if path)
