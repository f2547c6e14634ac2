"""What to do next, from what is known of the first failure."""

from __future__ import annotations

import pytest

from tfcluster.commands.outcome import advice
from tfcluster.events import Cause


@pytest.mark.parametrize(
    ("code", "reason", "lines", "part"),
    [
        (137, "killed by SIGKILL (exit code 137)", (), "ran out of memory"),
        (137, "out of memory: used 3 MiB of a limit of 2 MiB", (), "roles.worker.memory"),
        (127, "cannot start 'trian'", (), "on PATH"),
        (126, "exit code 126", (), "executable"),
        (121, "waited 5 s for ps-0 at 127.0.0.1:2 (and 1 more): refused", (), "logs ps-0"),
        (121, "nothing listens on port 2222 after 5 s", (), "logs worker-1"),
        (124, "the job's deadline of 5 s passed", (), "deadline"),
        (1, "exit code 1", ("ModuleNotFoundError: No module named 'tensorflow'",), "pip install"),
        (1, "exit code 1", ("ModuleNotFoundError: No module named 'mine.data'",), "mine.data"),
        (3, "exit code 3", ("boom",), "tfcluster logs worker-1"),
    ],
)
def test_the_hint_fits_the_failure(code, reason, lines, part):
    assert part in advice(Cause("worker-1", code, reason, lines))
