from __future__ import annotations

import pytest

from tests.contract.jobs import Job


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(params=["local"])
def job(request, tmp_path, home):
    """A job on each backend; later backends join the list of params."""
    made = Job(request.param, tmp_path)
    yield made
    made.down()
