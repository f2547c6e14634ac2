"""How an algorithm's workers exchange: how often, and whether they wait for each other.

Most algorithms exchange at every step and wait for nobody. One that does not says so by a function
`scheme(cluster, settings)` in its module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.cluster import ClusterInfo
from trainer.settings import Settings

USUAL_WINDOW = 10


@dataclass(frozen=True)
class Scheme:
    """The rhythm of the exchanges."""

    window: int = 1  # steps of a worker between two exchanges
    updates: int = 1  # that one such exchange makes
    needed: int = 0  # contributions that make up one update; 0: everyone updates alone

    @property
    def lockstep(self) -> bool:
        """Whether the workers make every update together, and so all stop at the same update."""
        return self.needed > 0

    def total(self, settings: Settings, per_epoch: int) -> int:
        """What to count to: updates, or else a worker's own steps."""
        if settings.steps:
            return settings.steps
        steps = settings.epochs * per_epoch
        return -(-steps // self.window) if self.lockstep else steps


def scheme_of(algorithm: Any, settings: Settings, cluster: ClusterInfo) -> Scheme:
    """The scheme that the algorithm asks for, or the usual one."""
    own = getattr(algorithm, "scheme", None)
    return own(cluster, settings) if own else Scheme()


def window_of(settings: Settings) -> int:
    """The window of an algorithm that makes local steps."""
    return settings.window or USUAL_WINDOW
