"""DOWNPOUR with SGD on the parameter servers: simpler, and with the same step size everywhere.

    every n_fetch steps   x <- x~
    every step            g = grad(x);  a += g;  x -= eta g
    every n_push steps    x~ <- x~ - eta a;  a <- 0

Paper: J. Dean et al., "Large Scale Distributed Deep Networks", 2012 (NIPS), algorithm 1.

Deviations: those of downpour.py, and plain SGD instead of Adagrad, with one `learning_rate` for
local steps and pushes. A push is thus exactly the way that its worker went; with one worker it is
plain SGD.
"""

from __future__ import annotations

from trainer.algorithms.downpour import check_turn, scheme, step
from trainer.algorithms.needs import need_ps, need_sgd
from trainer.cluster import ClusterInfo
from trainer.settings import Settings

__all__ = ["check", "scheme", "step"]


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks; plain SGD."""
    need_ps("downpour-sgd", cluster)
    need_sgd("downpour-sgd", settings, "that is its name", "downpour takes the others")
    check_turn(settings)
