"""DOWNPOUR: local steps, pushes of accumulated gradients, Adagrad on the parameter servers.

    every n_fetch steps   x <- x~
    every step            g = grad(x);  a += g;  x -= eta_local g
    every n_push steps    x~ <- Adagrad(x~, a);  a <- 0

Paper: J. Dean et al., "Large Scale Distributed Deep Networks", 2012 (NIPS), algorithm 1. `window`
sets n_push and n_fetch to the same number; they can also be set apart.

Deviations:
* The paper pushes and fetches in threads of their own while the model trains; here a worker waits
  for both.
* The paper's warm start with a single replica is left out.
* Local steps are plain SGD with `local_learning_rate` (left out: `learning_rate`).
* n_push and n_fetch repeat together after their least common multiple, one turn. A worker's last
  turn, if its steps are no multiple of it, is one fetch, the steps that are left, one push.
* With `optimizer` momentum or adam, that rule takes Adagrad's place; with sgd it is called
  downpour-sgd.

The global step counts pushes. Their staleness is the number of pushes by others since the last
fetch.
"""

from __future__ import annotations

import math
from typing import Any

from trainer.algorithms.needs import need_ps
from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.scheme import Scheme, window_of
from trainer.settings import Settings

MOST_EXCHANGES = 64  # in one turn: each has a graph of its own


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks; any optimizer but sgd, which has its own name."""
    need_ps("downpour", cluster)
    if settings.optimizer == "sgd":
        raise SettingsError("downpour with optimizer sgd is algorithm downpour-sgd; use that")
    check_turn(settings)


def check_turn(settings: Settings) -> None:
    """n_push and n_fetch must meet again before too long."""
    if len(exchanges(settings)) > MOST_EXCHANGES:
        push, fetch = lengths(settings)
        raise SettingsError(
            f"n_push {push} and n_fetch {fetch} meet only every {math.lcm(push, fetch)} steps; "
            "let one be a multiple of the other"
        )


def lengths(settings: Settings) -> tuple[int, int]:
    """(n_push, n_fetch)."""
    return settings.n_push or window_of(settings), settings.n_fetch or window_of(settings)


def exchanges(settings: Settings) -> list[int]:
    """The steps of a turn after which there is a push, a fetch, or both; the last ends the turn."""
    push, fetch = lengths(settings)
    turn = math.lcm(push, fetch)
    return sorted({*range(push, turn + 1, push), *range(fetch, turn + 1, fetch)})


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """An exchange, or several, in every turn."""
    push, fetch = lengths(settings)
    return Scheme(math.lcm(push, fetch), updates=math.lcm(push, fetch) // push)


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One turn: fetch, and then local steps with a push or a fetch in between where it is due."""
    import tensorflow as tf

    settings = worker.settings
    eta = settings.local_learning_rate or settings.learning_rate
    n_push, n_fetch = lengths(settings)
    plan = exchanges(settings) if worker.window is worker.scheme.window else [worker.window]

    def local(gradient: Any, x: Any, a: Any) -> tuple[Any, Any]:
        g = gradient(x)
        return x - eta * g, a + g

    fetched = worker.state.pull(after)
    x, a = fetched.vector, tf.zeros_like(fetched.vector)
    losses, staleness, before, pushed_at = [], [], 0, 0
    for place, now in enumerate(plan, 1):
        done = local_steps(worker, number + before, local, x, a, count=now - before)
        x, a = done.values
        losses.append(done.losses)
        last = place == len(plan)
        if last or now % n_push == 0:
            with tf.control_dependencies(after):
                pushed = worker.state.push(a, fetched, now - pushed_at)
            staleness.append(pushed.since(fetched))
            a, pushed_at, after = tf.zeros_like(a), now, [pushed.operation]
        if not last and now % n_fetch == 0:
            fetched = worker.state.pull([x, *after])
            x = fetched.vector
        before = now
    return Step(tf.concat(losses, axis=0), staleness, done=after)
