"""`doctor` tells apart what needs different fixes."""

from __future__ import annotations

import json
import os
import socket

import pytest

from tfcluster import checks
from tfcluster.cli import main


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)


def test_docker_that_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "not installed" in checks.docker_socket(str(tmp_path / "docker.sock")).message


def test_docker_that_is_installed_but_not_running(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/docker")
    path = str(tmp_path / "docker.sock")
    assert "not running" in checks.docker_socket(path).message
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    found = checks.docker_socket(path)
    assert "not running" in found.message and "start" in found.fix


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect to any socket")
def test_docker_whose_socket_may_not_be_used(tmp_path):
    path = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        os.chmod(path, 0)
        found = checks.docker_socket(path)
    assert "permission denied" in found.message and "usermod" in found.fix


def test_a_denied_socket_is_told_from_one_that_does_not_run(monkeypatch, tmp_path):
    def denied(self, address):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", denied)
    assert "permission denied" in checks.docker_socket(str(tmp_path / "x")).message


def test_a_home_that_cannot_be_written_fails_with_a_fix(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "file" / "home"))
    assert main(["doctor"]) == 3
    assert "TFCLUSTER_HOME" in capsys.readouterr().out


def test_a_kubeconfig_is_looked_for_where_kubectl_looks(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert checks.kubeconfig().verdict == "warn"
    (tmp_path / "config").write_text("")
    assert checks.kubeconfig().verdict == "ok"


def test_the_findings_as_json(capsys):
    assert main(["doctor", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schemaVersion"] == 1
    assert {"Python", "TensorFlow", "Docker", "Kubernetes", "GPUs", "Ports"} <= {
        check["name"] for check in document["checks"]
    }
    assert all(check["fix"] for check in document["checks"] if check["verdict"] != "ok")
