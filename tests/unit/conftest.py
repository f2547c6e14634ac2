from __future__ import annotations

import pytest

from tests.unit.fake_kube import FakeApi
from tfcluster.archive import create_run


@pytest.fixture
def api():
    """An API server that misbehaves on request."""
    made = FakeApi()
    yield made
    made.close()


@pytest.fixture
def kube_run(tmp_path, monkeypatch):
    """A new run on Kubernetes, in a state folder of the test's own."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))
    there = {"folder": tmp_path, "base": tmp_path, "spec": None, "source": "", "variables": {}}
    return create_run("small", backend="kubernetes", **there)
