"""What the algorithms ask of a cluster and of the settings, said the same way by all of them."""

from __future__ import annotations

from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.settings import Settings

# Settings that mean something to some algorithms only.
USED_BY = {
    "learning_rates": ("sync",),
    "local_learning_rate": ("downpour", "sagn"),
    "window": (
        *("downpour", "downpour-sgd", "agn", "sagn", "dynsgd"),
        *("easgd", "aeasgd", "aeamsgd"),
    ),
    "n_push": ("downpour", "downpour-sgd"),
    "n_fetch": ("downpour", "downpour-sgd"),
    "backups": ("sync", "sagn"),
    "rho": ("easgd", "aeasgd", "aeamsgd"),
}


def refuse_unused(name: str, settings: Settings) -> None:
    """A setting that the algorithm would not look at is a mistake, not a wish."""
    for setting, algorithms in USED_BY.items():
        if getattr(settings, setting) is not None and name not in algorithms:
            raise SettingsError(
                f"{setting} means nothing to algorithm {name}; it is for {', '.join(algorithms)}"
            )


def need_ps(name: str, cluster: ClusterInfo) -> None:
    """At least one parameter server."""
    if not cluster.ps:
        raise SettingsError(
            f"algorithm {name} keeps its parameters on parameter servers, but there is no ps; "
            "add a ps to the cluster, or use single"
        )


def need_sgd(name: str, settings: Settings, reason: str, instead: str = "") -> None:
    """No other optimizer than sgd, for a reason."""
    if settings.optimizer != "sgd":
        raise SettingsError(
            f"algorithm {name} works with optimizer sgd only, not {settings.optimizer}: {reason}"
            f"{f'; {instead}' if instead else ''}"
        )


def needed_of(name: str, cluster: ClusterInfo, settings: Settings) -> int:
    """How many contributions make an update: one from each worker, without the backups."""
    workers, backups = len(cluster.trainers), settings.backups or 0
    if backups >= workers:
        raise SettingsError(
            f"algorithm {name} with {backups} backups needs at least {backups + 1} workers, "
            f"but there are {workers}"
        )
    return workers - backups
