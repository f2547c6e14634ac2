"""What an algorithm cannot do it refuses, with the reason and what to do instead."""

from __future__ import annotations

import pytest

from trainer.algorithms import load_algorithm
from trainer.cluster import ClusterInfo, cluster_from
from trainer.errors import SettingsError
from trainer.settings import settings_from

PS_FAMILY = (
    *("sync", "downpour", "downpour-sgd", "agn", "sagn", "dynsgd"),
    *("easgd", "aeasgd", "aeamsgd"),
)
TWO = cluster_from(ps_hosts="p:1", worker_hosts="a:1,b:1", job_name="worker", task_index=0)


@pytest.mark.parametrize("algorithm", PS_FAMILY)
def test_without_a_ps_there_is_no_place_for_the_parameters(algorithm: str) -> None:
    with pytest.raises(SettingsError, match=f"{algorithm} keeps its parameters on .* is no ps"):
        load_algorithm(settings_from({"algorithm": algorithm}), ClusterInfo())


@pytest.mark.parametrize("algorithm", PS_FAMILY)
def test_every_model_and_two_workers_are_fine(algorithm: str) -> None:
    for model in ("softmax", "mlp"):
        load_algorithm(settings_from({"algorithm": algorithm, "model": model}), TWO)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "sync", "backups": 2}, "2 backups needs at least 3 workers, but there are"),
        ({"algorithm": "sync", "learning_rates": [0.1]}, "has 1 rates for 2 workers"),
        (
            {"algorithm": "sync", "learning_rates": [0.1, 0.2], "optimizer": "adam"},
            "works with optimizer sgd only, not adam: the others divide",
        ),
        ({"algorithm": "agn", "optimizer": "adam"}, "agn works with optimizer sgd only"),
        ({"algorithm": "dynsgd", "optimizer": "momentum"}, "dynsgd works with optimizer sgd only"),
        ({"algorithm": "downpour", "optimizer": "sgd"}, "is algorithm downpour-sgd; use that"),
        ({"algorithm": "downpour-sgd", "optimizer": "adagrad"}, "downpour takes the others"),
        ({"algorithm": "downpour", "n_push": 97, "n_fetch": 89}, "meet only every 8633 steps"),
        ({"algorithm": "aeasgd", "optimizer": "momentum"}, "aeamsgd has momentum"),
        ({"algorithm": "aeasgd", "rho": 3}, "learning_rate . rho is 1.5 and must be at most 1 "),
        ({"algorithm": "easgd", "rho": 1.1}, "is 0.55 and must be at most 0.5 here"),
        ({"algorithm": "hogwild", "window": 5}, "window means nothing to algorithm hogwild; it is"),
        ({"algorithm": "agn", "backups": 1}, "backups means nothing to algorithm agn; it is for"),
        ({"algorithm": "agn", "n_push": 3}, "n_push means nothing to algorithm agn; it is for"),
        ({"window": 5}, "window means nothing to algorithm hogwild"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_algorithm(settings_from(settings), TWO)
