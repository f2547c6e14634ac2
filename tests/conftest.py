"""The order of the tests, their locale, and what keeps them from disturbing each other."""

from __future__ import annotations

import os
import signal
import time

import pytest

os.environ["LC_ALL"] = "C.UTF-8"  # with LANG=C the marks of the output are others

# What takes longest begins first, so that it is not left alone at the end.
LONGEST_FIRST = (
    "tests/contract/test_hub.py",
    "tests/runs/test_mnist.py",
    "tests/trainer/test_examples",
    "tests/wheel/",
    "tests/trainer/test_cluster_runs.py",
    "tests/trainer/",
    "tests/terminal/",
    "tests/runs/",
)

# A shell lets what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Tests of one group share an engine, a cluster or an environment that takes long to make."""
    if config.getoption("dist", "no") == "loadgroup" and pytest.version_tuple >= (9, 2):
        raise pytest.UsageError("xdist keeps no group of tests together with this pytest: use <9.2")


def place(item: pytest.Item) -> int:
    return next((n for n, name in enumerate(LONGEST_FIRST) if name in item.nodeid), 99)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place)


@pytest.fixture
def nepal(monkeypatch):
    """A zone whose offset no other zone has."""
    monkeypatch.setenv("TZ", "<+0545>-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
