"""What the elastic averaging algorithms have in common: a worker's own x, tied to the centre x~."""

from __future__ import annotations

from trainer.algorithms.needs import need_ps, need_sgd
from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.settings import Settings

USUAL_RHO = 1.0


def alpha_of(settings: Settings) -> float:
    """The elasticity: alpha = eta rho."""
    return settings.learning_rate * (settings.rho or USUAL_RHO)


def check_elastic(
    name: str, cluster: ClusterInfo, settings: Settings, most: float, instead: str
) -> None:
    """Plain SGD, and an elasticity with which neither side jumps beyond the other."""
    need_ps(name, cluster)
    need_sgd(name, settings, "its local steps are part of the rule", instead)
    alpha = alpha_of(settings)
    if alpha > most:
        raise SettingsError(
            f"algorithm {name}: the elasticity learning_rate * rho is {alpha:g} and must be at "
            f"most {most:g} here; set a smaller rho"
        )
