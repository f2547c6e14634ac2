"""What `tfcluster doctor` looks at. Each check looks, says what it saw, and how to mend it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfcluster.archive import home

DOCKER_SOCKET = "/var/run/docker.sock"
LITTLE_MEMORY = 1 << 30
GiB = 1 << 30


@dataclass(frozen=True)
class Check:
    """One finding. `fail`: every job needs it; `warn`: some jobs do."""

    name: str
    verdict: str  # ok | warn | fail
    message: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


def python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    inside = "a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    return Check("Python", "ok", f"{version}, {inside}")


def tensorflow_version() -> str | None:
    """The version installed here, without importing it."""
    import importlib.metadata
    import importlib.util

    if importlib.util.find_spec("tensorflow") is None:
        return None
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def tensorflow() -> Check:
    version = tensorflow_version()
    if version is not None:
        return Check("TensorFlow", "ok", version)
    fix = "pip install 'tfcluster[trainer]' (your own programs may bring their own)"
    return Check("TensorFlow", "warn", "not installed here; `train:` needs it", fix)


def home_folder() -> Check:
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fix = "set TFCLUSTER_HOME to a folder that can be written"
        return Check("Records", "fail", f"{folder}: {error.strerror}", fix)
    return Check("Records", "ok", str(folder))


def ports() -> Check:
    """Whether a task could listen on this machine and another could reach it."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2).close()
    except OSError as error:
        fix = "see whether a firewall or a sandbox forbids connections to 127.0.0.1"
        return Check("Ports", "fail", f"127.0.0.1 cannot be used: {error.strerror or error}", fix)
    return Check("Ports", "ok", "127.0.0.1 can be listened on and reached")


def resources() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = available_memory()
    if memory is None:
        return Check("Resources", "ok", f"{cores} cores")
    message = f"{cores} cores, {memory / GiB:.1f} GiB of memory free"
    if memory < LITTLE_MEMORY:
        return Check(
            "Resources", "warn", message, "close programs; a TensorFlow task takes 0.5 GiB"
        )
    return Check("Resources", "ok", message)


def available_memory() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def gpus() -> Check:
    if shutil.which("nvidia-smi") is None:
        return Check("GPUs", "ok", "none (no nvidia-smi); everything runs on CPUs")
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("GPUs", "warn", f"nvidia-smi does not answer: {error}", "reload the driver")
    if listing.returncode != 0:
        said = (listing.stdout + listing.stderr).strip().splitlines() or ["it said nothing"]
        return Check("GPUs", "warn", f"nvidia-smi failed: {said[0]}", "see to the NVIDIA driver")
    found = [line for line in listing.stdout.splitlines() if line.startswith("GPU ")]
    return Check("GPUs", "ok", f"{len(found)}: {'; '.join(line[:60] for line in found)}")


def docker() -> Check:
    """Not installed, not running and permission denied are three different things."""
    address = os.environ.get("DOCKER_HOST", f"unix://{DOCKER_SOCKET}")
    if address.startswith("unix://"):
        return docker_socket(address.removeprefix("unix://"))
    return Check("Docker", "ok", f"DOCKER_HOST={address} (not contacted)")


def docker_gpus() -> Check:
    """Whether containers could have the GPUs that this machine has."""
    path = os.environ.get("DOCKER_HOST", f"unix://{DOCKER_SOCKET}").removeprefix("unix://")
    try:
        runtimes = docker_answer(path, "/info").get("Runtimes") or {}
    except (OSError, ValueError):
        return Check("Docker GPUs", "ok", "not looked at: Docker does not answer")
    if "nvidia" in runtimes:
        return Check("Docker GPUs", "ok", "the nvidia runtime is there")
    if shutil.which("nvidia-smi") is None:
        return Check("Docker GPUs", "ok", "no nvidia runtime, and no GPU that would need it")
    fix = "install nvidia-container-toolkit, run: sudo nvidia-ctk runtime configure; restart Docker"
    return Check("Docker GPUs", "warn", "this machine has GPUs, Docker has no nvidia runtime", fix)


def docker_answer(path: str, question: str) -> dict[str, Any]:
    """What an engine answers to a GET, without the SDK: OSError or ValueError if it does not."""
    import http.client
    import json

    connection = http.client.HTTPConnection("docker", timeout=5)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(5)
    try:
        connection.sock.connect(path)
        connection.request("GET", question)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    except http.client.HTTPException as error:
        raise ValueError(str(error)) from None
    finally:
        connection.close()
    return answer


def docker_socket(path: str) -> Check:
    needed = "; `backend: docker` needs it"
    start = "start it: sudo systemctl start docker, or open Docker Desktop"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(3)
            client.connect(path)
            client.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = client.recv(100)
    except PermissionError:
        fix = "sudo usermod -aG docker $USER, then log in again"
        return Check("Docker", "warn", f"permission denied: {path}", fix)
    except FileNotFoundError:
        if shutil.which("docker") is None:
            fix = "install Docker Engine or Docker Desktop"
            return Check("Docker", "warn", f"not installed{needed}", fix)
        return Check("Docker", "warn", f"installed, but not running (no {path})", start)
    except OSError as error:
        message = f"installed, but not running ({path}: {error.strerror or error})"
        return Check("Docker", "warn", message, start)
    if b" 200 " not in answer:
        return Check("Docker", "warn", f"{path} answers, but not as Docker does", start)
    return Check("Docker", "ok", f"running at {path}")


def kubeconfig() -> Check:
    given = os.environ.get("KUBECONFIG")
    paths = [Path(part) for part in (given or "~/.kube/config").split(os.pathsep) if part]
    found = [path.expanduser() for path in paths if path.expanduser().is_file()]
    if found:
        return Check("Kubernetes", "ok", f"{found[0]} (not contacted)")
    where = f"KUBECONFIG={given}" if given else "~/.kube/config"
    fix = "write a kubeconfig, for example with: kind create cluster"
    message = f"no {where}; `backend: kubernetes` needs it"
    return Check("Kubernetes", "warn", message, fix)


CHECKS: tuple[Callable[[], Check], ...] = (
    python,
    tensorflow,
    home_folder,
    ports,
    resources,
    gpus,
    docker,
    docker_gpus,
    kubeconfig,
)
