"""Several exchanges in one call make the same parameters as one call for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainer.servers import Workers

pytestmark = pytest.mark.tensorflow

WINDOWED = ("downpour", "downpour-sgd", "agn", "sagn", "dynsgd", "easgd", "aeasgd", "aeamsgd")


@pytest.mark.parametrize("algorithm", WINDOWED)
def test_chained_exchanges_equal_single_ones(algorithm: str) -> None:
    settings = {"algorithm": algorithm, "learning_rate": 0.1, "steps_per_call": 3}
    if algorithm != "easgd":  # exchanges at every step
        settings["window"] = 4
    chained, single = Workers(1, **settings), Workers(1, **settings)
    losses = [chained.exchange(0, 3).losses]
    one_by_one = [single.exchange(0).losses for _ in range(3)]
    np.testing.assert_allclose(np.concatenate(losses), np.concatenate(one_by_one), atol=1e-5)
    np.testing.assert_allclose(chained.parameters(), single.parameters(), atol=1e-6)
