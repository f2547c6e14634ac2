from __future__ import annotations

import os
import shutil

import pytest

from tests.kind import cluster
from tests.kind.jobs import ClusterJob

ENABLE = "TFCLUSTER_KIND_TESTS=1 python -m pytest tests/kind"


def missing() -> str:
    """Why these tests cannot run, if they cannot."""
    if not os.environ.get("TFCLUSTER_KIND_TESTS"):
        return f"needs a kind cluster; run: {ENABLE}"
    # Asked for, so not to be passed over in silence.
    if shutil.which("kubectl") is None:
        pytest.exit("TFCLUSTER_KIND_TESTS is set, but there is no kubectl", returncode=3)
    if "ok" not in cluster.kubectl("get", "--raw", "/readyz", check=False):
        pytest.exit(f"TFCLUSTER_KIND_TESTS is set, but {cluster.CONTEXT} is away", returncode=3)
    return ""


def pytest_collection_modifyitems(items):
    here = [item for item in items if "tests/kind/" in str(item.path)]
    reason = missing() if here else ""
    for item in here:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        item.add_marker(pytest.mark.xdist_group("kind"))


@pytest.fixture(scope="session")
def tester(tmp_path_factory):
    """A kubeconfig with exactly the Role of `tfcluster rbac`, in a restricted namespace."""
    cluster.restricted(cluster.NAMESPACE)
    yield cluster.kubeconfig_of_tester(tmp_path_factory.mktemp("tester"))
    cluster.kubectl("delete", "namespace", cluster.NAMESPACE, "--wait=false")


@pytest.fixture
def home(tmp_path, monkeypatch, tester):
    """A state folder of the test's own."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", str(tester))
    return tmp_path / "home"


@pytest.fixture
def job(tmp_path, home):
    made = ClusterJob(tmp_path)
    yield made
    made.down()
    assert made.leftovers() == ""
