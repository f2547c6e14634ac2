"""Every parameter-server algorithm makes the same parameters as NumPy, with distinct batches.

Workers here are real servers and sessions inside this process. Those that wait for nobody are
stepped one after the other, so that what comes out is known; those that wait, at the same time.
Tolerance: 2e-5 in each of 15,910 parameters, after about ten steps in float32 against float64.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pytest

from tests.launchers import until
from tests.trainer import reference_ps
from tests.trainer.reference import Optimizer, loss_and_gradient
from tests.trainer.servers import Workers

pytestmark = pytest.mark.tensorflow

ETA = 0.2


def workers_of(algorithm: str, workers: int = 2, **settings: Any) -> Workers:
    return Workers(
        workers, **{"algorithm": algorithm, "learning_rate": ETA, "steps_per_call": 1, **settings}
    )


def reference_of(kind: type, run: Workers, **values: Any) -> Any:
    """The same algorithm in NumPy, from the same start and with the same batches."""

    def gradient(worker: int, number: int, x: np.ndarray) -> np.ndarray:
        shapes = run.graphs[0].model.shapes
        return loss_and_gradient(x, shapes, "sigmoid", *run.batch(worker, number))[1]

    made = kind(run.start, gradient, len(run.graphs), ETA)
    for name, value in values.items():
        setattr(made, name, value)
    return made


def agree(run: Workers, expected: Any) -> None:
    np.testing.assert_allclose(run.parameters(), expected.centre, atol=2e-5)


def rule(name: str, run: Workers, rate: float = ETA) -> Optimizer:
    return Optimizer(name, rate, len(run.start))


# Those that wait for nobody.


@pytest.mark.parametrize("ps", [1, 2])
def test_agn(ps: int) -> None:
    run = workers_of("agn", ps=ps, window=3)
    expected = reference_of(reference_ps.Agn, run)
    for worker in (0, 1, 1, 0):
        run.exchange(worker)
        expected.exchange(worker, 3)
    agree(run, expected)
    short = run.graphs[0].short_call(run.sessions[0])(run.next[0], 2)
    expected.exchange(0, 2)  # what is left at the end of a run divides by its own length
    agree(run, expected)
    assert (short.updates, short.steps.tolist(), len(short.losses)) == (5, [8, 6], 2)


@pytest.mark.parametrize(("n_push", "n_fetch"), [(3, 3), (2, 4), (4, 2), (2, 3)])
def test_downpour_sgd(n_push: int, n_fetch: int) -> None:
    run = workers_of("downpour-sgd", n_push=n_push, n_fetch=n_fetch)
    expected = reference_of(reference_ps.Downpour, run, rule=rule("sgd", run))
    turn = int(np.lcm(n_push, n_fetch))
    for worker in (0, 1, 0):
        outcome = run.exchange(worker)
        expected.exchange(worker, turn, n_push, n_fetch)
    agree(run, expected)
    assert outcome.updates == 3 * turn // n_push
    assert outcome.steps.tolist() == [2 * turn, turn]


def test_downpour_has_adagrad_on_the_parameter_servers() -> None:
    run = workers_of("downpour", ps=2, window=3, learning_rate=0.05, local_learning_rate=ETA)
    expected = reference_of(reference_ps.Downpour, run, rule=rule("adagrad", run, 0.05))
    for worker in (0, 1, 0):
        run.exchange(worker)
        expected.exchange(worker, 3, 3, 3)
    agree(run, expected)


@pytest.mark.parametrize("ps", [1, 2])
def test_dynsgd(ps: int) -> None:
    run = workers_of("dynsgd", ps=ps, window=3)
    expected = reference_of(reference_ps.Dynsgd, run)
    for worker in (0, 1, 0):
        outcome = run.exchange(worker)
        expected.exchange(worker, 3)
    agree(run, expected)
    assert outcome.staleness.tolist() == [0]


def test_dynsgd_divides_by_the_staleness_plus_one() -> None:
    import tensorflow as tf

    from trainer.algorithms import dynsgd
    from trainer.lock import Lock
    from trainer.optimizers import optimizer_from
    from trainer.settings import settings_from
    from trainer.state import SharedState

    with tf.Graph().as_default() as graph:
        device = "/device:CPU:0"
        state = SharedState(4, optimizer_from(settings_from()), [device], workers=1, replica=0)
        lock = Lock("dynsgd", device)
        pulled = dynsgd.pull(lock, state, [])
        r = tf.constant([4.0, 8.0, 12.0, 16.0])
        staleness, pushed = dynsgd.push(lock, state, r, pulled, 1)
    with tf.compat.v1.Session(graph=graph) as session:
        state.fill(session, state.first_snapshot(np.zeros(4, np.float32)), started=0.0)
        for update in range(3):  # each of them pulls and pushes: nothing in between
            assert session.run([staleness, pushed])[0] == 0
            assert state.counters(session).updates == update + 1
        before = state.snapshot(session).parameters
        np.testing.assert_allclose(before, [12, 24, 36, 48])
        # The same push, by a worker that had pulled when there had been no update yet.
        assert session.run([staleness, pushed], {pulled.updates: 0})[0] == 3
        np.testing.assert_allclose(state.snapshot(session).parameters - before, [1, 2, 3, 4])


def test_the_staleness_of_dynsgd_adds_up_when_workers_run_at_the_same_time() -> None:
    run = workers_of("dynsgd", workers=3, window=1)

    def several(worker: int) -> list[int]:
        return [int(run.exchange(worker).staleness[0]) for _ in range(15)]

    outcomes: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda i=i: outcomes.update({i: several(i)})) for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.graphs[0].state.counters(run.sessions[0]).updates == 45
    assert all(0 <= value < 45 for values in outcomes.values() for value in values)
    assert sum(map(sum, outcomes.values())) > 0, "the workers did not run at the same time"


@pytest.mark.parametrize(("algorithm", "ps", "delta"), [("aeasgd", 2, 0.0), ("aeamsgd", 1, 0.8)])
def test_aeasgd_and_aeamsgd(algorithm: str, ps: int, delta: float) -> None:
    run = workers_of(algorithm, ps=ps, window=3, rho=1.5, momentum=0.8)
    expected = reference_of(reference_ps.Elastic, run, alpha=1.5 * ETA, delta=delta)
    expected.begin()
    for worker in (0, 1, 1, 0, 1):
        before = expected.centre + expected.own[worker]
        measured = run.parameters() + run.own(worker)
        run.exchange(worker)
        expected.exchange(worker, 3)
        if not delta:
            # The exchange itself keeps x + x~: only the local steps change it.
            moved = expected.centre + expected.own[worker] - before
            now = run.parameters() + run.own(worker)
            np.testing.assert_allclose(now - measured, moved, atol=2e-5)
    agree(run, expected)
    for worker in (0, 1):
        np.testing.assert_allclose(run.own(worker), expected.own[worker], atol=2e-5)


# Those that wait for each other.


@pytest.mark.parametrize(("optimizer", "ps"), [("sgd", 2), ("momentum", 1), ("adam", 2)])
def test_sync_over_two_workers_equals_one_with_the_batch_of_both(optimizer: str, ps: int) -> None:
    rate = {"sgd": ETA, "momentum": 0.05, "adam": 0.001}[optimizer]
    run = workers_of("sync", ps=ps, optimizer=optimizer, learning_rate=rate, steps_per_call=2)
    x, one = run.start.astype(np.float64), rule(optimizer, run, rate)
    run.together([0, 1])
    outcomes = run.together([0, 1], 2)
    for number in range(3):
        both = [run.batch(worker, number) for worker in (0, 1)]
        images, labels = (np.concatenate(each) for each in zip(*both, strict=True))
        shapes = run.graphs[0].model.shapes
        x = one.update(x, loss_and_gradient(x, shapes, "sigmoid", images, labels)[1])
    np.testing.assert_allclose(run.parameters(), x, atol=2e-5)
    assert [(o.updates, o.steps.tolist()) for o in outcomes] == [(3, [3, 3])] * 2
    assert run.graphs[0].collector.tally(run.sessions[0]).dropped == 0


def test_sync_with_a_learning_rate_for_each_worker() -> None:
    run = workers_of("sync", learning_rates=[0.1, 0.4])
    expected = reference_of(reference_ps.Sync, run)
    for _ in range(3):
        run.together([0, 1])
        expected.exchange([0, 1], rates=[0.1, 0.4])
    agree(run, expected)


def test_sync_with_a_backup_goes_on_without_a_worker() -> None:
    run = workers_of("sync", workers=3, backups=1)
    expected = reference_of(reference_ps.Sync, run, rule=rule("sgd", run))
    for _ in range(3):
        run.together([0, 1])
        expected.exchange([0, 1])
    agree(run, expected)
    run.together([1, 2])
    expected.exchange([1, 2])
    agree(run, expected)


def test_sync_with_a_backup_uses_exactly_n_gradients_per_update() -> None:
    run = workers_of("sync", workers=4, backups=1, steps=12)

    def several(worker: int) -> None:
        while run.exchange(worker).updates < 12:
            pass

    threads = [threading.Thread(target=several, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = run.graphs[0].state.counters(run.sessions[0])
    tally = run.graphs[0].collector.tally(run.sessions[0])
    assert now.updates == 12
    assert tally.used == 3 * 12
    assert tally.used + tally.dropped == now.steps.sum()
    assert tally.dropped > 0


def test_a_worker_that_comes_again_counts_once_and_stopping_wakes_those_who_wait() -> None:
    run = workers_of("sync")
    expected = reference_of(reference_ps.Sync, run, rule=rule("sgd", run))
    tally = functools.partial(run.graphs[1].collector.tally, run.sessions[1])

    def start(first: int) -> threading.Thread:
        thread = threading.Thread(target=lambda: run.calls[0][1](first))
        thread.start()
        return thread

    waiting = [start(0)]
    state = run.graphs[1].state
    until(lambda: state.counters(run.sessions[1]).steps[0] == 1, "the first gradient")
    assert run.graphs[1].collector.missing(run.sessions[1]) == [1]
    waiting.append(start(1))  # as if worker 0 had been killed while it waited, and restarted
    until(lambda: tally().dropped == 1, "the second gradient to be dropped")
    run.exchange(1)
    expected.exchange([0, 1])
    agree(run, expected)
    assert tally().used == 2
    run.graphs[1].state.tell_to_stop(run.sessions[1])
    for thread in waiting:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize(("optimizer", "ps"), [("sgd", 1), ("adagrad", 2)])
def test_sagn(optimizer: str, ps: int) -> None:
    run = workers_of("sagn", ps=ps, window=3, optimizer=optimizer)
    expected = reference_of(reference_ps.Sagn, run, rule=rule(optimizer, run))
    for _ in range(3):
        outcomes = run.together([0, 1])
        expected.exchange([0, 1], 3)
    agree(run, expected)
    assert [o.updates for o in outcomes] == [3, 3]


@pytest.mark.parametrize("window", [1, 3])
def test_easgd_and_its_mean(window: int) -> None:
    run = workers_of("easgd", window=window, rho=1.5)
    expected = reference_of(reference_ps.Easgd, run, alpha=1.5 * ETA)
    expected.begin()
    for _ in range(3):
        before = expected.centre + sum(expected.own)
        measured = run.parameters() + run.own(0) + run.own(1)
        run.together([0, 1])
        expected.exchange(window)
        # The elastic part keeps the sum of all the x_i and x~: only gradients change it.
        moved = expected.centre + sum(expected.own) - before
        now = run.parameters() + run.own(0) + run.own(1)
        np.testing.assert_allclose(now - measured, moved, atol=2e-5)
    agree(run, expected)
    for worker in (0, 1):
        np.testing.assert_allclose(run.own(worker), expected.own[worker], atol=2e-5)


# One worker alone.


@pytest.mark.parametrize(
    ("algorithm", "window"),
    [("sync", None), ("downpour-sgd", 3), ("dynsgd", 3), ("agn", 1), ("sagn", 1)],
)
def test_one_worker_equals_plain_sgd(algorithm: str, window: int | None) -> None:
    settings = {"window": window} if window else {}
    run = workers_of(algorithm, workers=1, **settings)
    expected = reference_of(reference_ps.Sync, run, rule=rule("sgd", run))
    for _ in range(2):
        run.exchange(0)
    for _ in range(2 * (window or 1)):
        expected.exchange([0])
    agree(run, expected)
