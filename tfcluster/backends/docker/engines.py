"""Reaching Docker engines, and saying in our words what they and the SDK say in theirs.

The SDK is imported here and only when an engine is reached: it costs more than all of `--help`.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tfcluster.backends.docker.ssh import Tunnel
from tfcluster.errors import MissingError, TfclusterError

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
TIMEOUT = 60  # seconds for one answer of an engine
POOL = 64  # connections kept; every task's log holds one
START = "start it: sudo systemctl start docker, or open Docker Desktop"


def current_engine() -> str:
    """The engine that `docker` itself would use now, as something that stays true later."""
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    from docker.context.config import get_current_context_name

    name = os.environ.get("DOCKER_CONTEXT") or str(get_current_context_name())
    return DEFAULT_SOCKET if name == "default" else name


@dataclass
class Engine:
    """One Docker engine; connects when it is first used."""

    reference: str  # a URL or a context's name
    name: str = ""  # what the spec calls the host; empty for the only one
    address: str = ""  # how the other hosts reach it
    tunnel: Tunnel | None = None
    _api: Any = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """How messages call it."""
        if self.name:
            return f'host "{self.name}" ({self.reference})'
        return f"the Docker engine at {self.reference}"

    @property
    def is_local(self) -> bool:
        """Whether the engine sees this machine's folders, as far as its address tells."""
        return self.reference.startswith("unix://")

    @property
    def api(self) -> Any:
        """The SDK's client, connected."""
        if self._api is None:
            with translated(self):
                self._api = self.connect()
        return self._api

    def connect(self) -> Any:
        import docker

        settings = self.settings()
        if settings["base_url"].startswith("ssh://"):
            self.tunnel = self.tunnel or Tunnel(settings["base_url"])
            atexit.register(self.tunnel.close)
            settings["base_url"] = self.tunnel.url
        return docker.APIClient(version="auto", timeout=TIMEOUT, max_pool_size=POOL, **settings)

    def settings(self) -> dict[str, Any]:
        from docker.context import ContextAPI
        from docker.utils import kwargs_from_env

        if "://" in self.reference:
            given = kwargs_from_env() if self.reference == os.environ.get("DOCKER_HOST") else {}
            return {"base_url": self.reference, **{k: given[k] for k in ("tls",) if k in given}}
        context = ContextAPI.get_context(self.reference)
        if context is None or not context.Host:
            raise MissingError(
                f'there is no Docker context "{self.reference}"',
                hint="list them: docker context ls; make one: docker context create",
            )
        tls = {"tls": context.TLSConfig} if context.TLSConfig else {}
        return {"base_url": context.Host, **tls}

    def ping(self) -> None:
        """Raise, with the reason, unless the engine answers."""
        with translated(self):
            self.api.ping()


# -- Errors ------------------------------------------------------------------------------------


@contextmanager
def translated(engine: Engine, doing: str = "") -> Iterator[None]:
    """Whatever the SDK raises inside becomes one of our errors, with a hint."""
    import requests
    import urllib3
    from docker.errors import APIError, DockerException

    try:
        yield
    except TfclusterError:
        raise
    except APIError as error:
        raise refusal(engine, str(error.explanation or error), doing) from error
    except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise unreachable(engine, error) from error


class Unreachable(MissingError):
    """The engine does not answer."""


def unreachable(engine: Engine, error: BaseException) -> TfclusterError:
    """Not running, not permitted, or not there: three different things to do."""
    number = system_error(error)
    said = engine.tunnel.last_words() if engine.tunnel else []
    if engine.tunnel:
        return Unreachable(
            f"{engine.label} cannot be reached over ssh",
            evidence=said,
            hint=f"try: ssh {engine.reference.removeprefix('ssh://')} docker version",
        )
    if number in (errno.EACCES, errno.EPERM):
        return Unreachable(
            f"permission denied: {engine.label} is not for this user",
            hint="sudo usermod -aG docker $USER, then log in again",
        )
    if number in (errno.ENOENT, errno.ECONNREFUSED):
        there = "nothing listens there" if number == errno.ECONNREFUSED else "no such socket"
        return Unreachable(f"{engine.label} is not running: {there}", hint=START)
    return Unreachable(
        f"{engine.label} does not answer", evidence=[f"  {innermost(error)}"], hint=START
    )


def system_error(error: BaseException | None) -> int | None:
    """The errno deep inside what the SDK, requests and urllib3 have wrapped."""
    seen: list[Any] = [error]
    for found in seen:
        if isinstance(found, OSError) and found.errno is not None:
            return found.errno
        if isinstance(found, BaseException) and len(seen) < 50:
            seen += [found.__cause__, found.__context__, *found.args]
    return None


def innermost(error: BaseException) -> str:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return f"{type(error).__name__}: {error}"


def refusal(engine: Engine, said: str, doing: str) -> TfclusterError:
    """What the engine refused, in its own words, with what to do about it."""
    where = f" on {engine.label}" if engine.name else ""
    prefix = f"{doing}: " if doing else ""
    evidence = [f"  Docker says: {said.strip()}"]
    for pattern, message, hint in REFUSALS:
        found = re.search(pattern, said, re.IGNORECASE | re.DOTALL)
        if found:
            group = next((part for part in found.groups() if part), "")
            text = message.format(group)
            return MissingError(f"{prefix}{text}{where}", evidence=evidence, hint=hint)
    return TfclusterError(f"{prefix}refused{where}", evidence=evidence)


def in_one_line(error: TfclusterError) -> str:
    """An error with what the engine said, for an event or a reason."""
    return " ".join([error.message, *(line.strip() for line in error.evidence)])


REFUSALS = (
    (
        r"could not select device driver",
        "a GPU is asked for, and Docker has no GPU runtime",
        "install the NVIDIA driver and nvidia-container-toolkit, restart Docker; or set gpus: 0",
    ),
    (
        r"nvidia-container-cli: .*?(?:unknown device|device error)|no such device",
        "a GPU is asked for that is not there",
        "nvidia-smi -L lists the GPUs of the host; lower gpus",
    ),
    (
        r"unknown or invalid runtime name: (\S+)|unknown runtime specified (\S+)",
        'Docker has no runtime "{}"',
        "docker info lists the runtimes; for nvidia install nvidia-container-toolkit",
    ),
    (
        r"(?:bind for|listen tcp4?) \S*?:(\d+)(?: failed)?: "
        r"(?:port is already allocated|bind: address already in use)",
        "port {} is taken",
        "stop what listens there (docker ps, ss -ltnp), or choose others with `ports`",
    ),
    (
        r"cannot assign requested address",
        "the host does not have the address that the spec gives it",
        "docker.hosts[].address must be an address of the host's own",
    ),
    (
        r"no such image: (\S+)",
        'image "{}" is not there',
        "build it, or allow pulling with image_pull.policy: missing",
    ),
    (
        r'container name "/?([^"]+)" is already in use',
        'a container called "{}" exists already',
        "remove it, or give the job another name",
    ),
    (
        r'exec: "(\S+)": (?:executable file not found|stat)',
        'the image has no "{}"',
        "the launcher needs sh and Python 3.8 or later in the image",
    ),
    (
        r"bind source path does not exist: (\S+)",
        "there is no folder {} on the engine's machine",
        "create it there, or use a named volume",
    ),
    (
        r"non-overlapping IPv4 address pool|predefined address pools",
        "Docker has no addresses left for another network",
        "remove unused networks: docker network prune",
    ),
)
