"""One cluster and one namespace over plain HTTP, with the kubernetes client's configuration.

The client's own API classes are not used: they cost a second to import, and hide what a watch or a
log stream that breaks needs to know.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from tfcluster.errors import MissingError, TfclusterError

MANAGER = "tfcluster"
PATIENCE = 15.0  # how long a command bears an API server that does not answer
CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 30.0
PASSING = frozenset({429, 500, 502, 503, 504})  # answers that are worth asking again
PAGE = 500
JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PLURALS = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "Event": "events",
    "Job": "jobs",
    "NetworkPolicy": "networkpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "PodGroup": "podgroups",
    "Secret": "secrets",
    "Service": "services",
    "Workload": "workloads",
}


class ApiError(TfclusterError):
    """The API server's own refusal."""

    def __init__(self, status: int, message: str, reason: str = "", **more: Any):
        super().__init__(message, **more)
        self.status, self.reason = status, reason
        self.exit_code = MissingError.exit_code if status in (401, 403) else self.exit_code


class Unreachable(MissingError):
    """No answer from the API server."""


@dataclass
class Cluster:
    """A namespace of a cluster. Every method may raise ApiError or Unreachable."""

    configuration: Any
    pool: Any
    context: str
    namespace: str
    patience: float = PATIENCE
    requests: int = field(default=0, compare=False)

    # -- Requests

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        content: str = JSON,
        accept: str = JSON,
        read_timeout: float = READ_TIMEOUT,
    ) -> Any:
        """An open response; what passes (429, 5xx, no connection) is tried again for a while."""
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(asked)}" if asked else path
        headers = {"Accept": accept, "Content-Type": content}
        deadline, pause = time.monotonic() + self.patience, 0.2
        while True:
            try:
                return self.request_once(method, target, body, headers, read_timeout)
            except (ApiError, Unreachable) as error:
                passing = isinstance(error, Unreachable) or error.status in PASSING
                if not passing or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 5.0)

    def request_once(
        self,
        method: str,
        target: str,
        body: Any,
        headers: Mapping[str, str],
        read_timeout: float,
    ) -> Any:
        import urllib3

        self.requests += 1
        try:
            response = self.pool.request(
                method,
                f"{self.configuration.host}{target}",
                body=None if body is None else json.dumps(body).encode(),
                headers={**headers, **self.auth()},
                timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout),
                preload_content=False,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(
                f"the API server of {self.context} does not answer",
                evidence=[f"  {self.configuration.host}: {plain(error)}"],
                hint="is the cluster up? tfcluster doctor looks closer",
            ) from None
        if response.status >= 400:
            raise self.refusal(response.status, response.read(), method, target.partition("?")[0])
        return response

    def auth(self) -> dict[str, str]:
        """Asked anew for each request: tokens expire, and the client knows how to renew them."""
        settings = self.configuration.auth_settings().values()
        return {entry["key"]: entry["value"] for entry in settings if entry["in"] == "header"}

    def refusal(self, status: int, data: bytes, method: str, path: str) -> ApiError:
        try:
            answer = json.loads(data)
            message, reason = answer.get("message", ""), answer.get("reason", "")
        except ValueError:
            message, reason = data[:500].decode("utf-8", "replace").strip(), ""
        where = f"context {self.context}, namespace {self.namespace}"
        if status == 401:
            return ApiError(
                status,
                f"not logged in to the cluster ({where})",
                reason,
                evidence=[f"  {message}"],
                hint="renew your credentials, then see: kubectl auth whoami",
            )
        if status == 403 and ("cannot" in message or not message):
            return ApiError(
                status,
                f"not allowed ({where})",
                reason,
                evidence=[f"  {message or f'{method} {path}'}"],
                hint="the least Role that tfcluster needs: tfcluster rbac | kubectl apply -f -",
            )
        return ApiError(status, message or f"HTTP {status} for {method} {path}", reason)

    def json(self, method: str, path: str, **options: Any) -> Any:
        response = self.request(method, path, **options)
        try:
            return json.loads(response.read() or b"null")
        finally:
            response.release_conn()

    # -- Objects

    def path(self, kind: str, name: str = "", *, api: str = "v1") -> str:
        base = "/api/v1" if api == "v1" else f"/apis/{api}"
        found = f"{base}/namespaces/{quote(self.namespace)}/{PLURALS[kind]}"
        return f"{found}/{quote(name)}" if name else found

    def path_of(self, doc: Mapping[str, Any]) -> str:
        return self.path(doc["kind"], doc["metadata"]["name"], api=doc["apiVersion"])

    def get(self, path: str) -> dict[str, Any] | None:
        """The object, or None if there is none."""
        try:
            found: dict[str, Any] = self.json("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def listed(self, path: str, selector: str = "") -> tuple[list[dict[str, Any]], str]:
        """Every object that matches, and the version of the list, to watch from."""
        items: list[dict[str, Any]] = []
        query = {"labelSelector": selector or None, "limit": PAGE, "continue": None}
        while True:
            page = self.json("GET", path, query=query)
            items += page.get("items") or []
            query["continue"] = page["metadata"].get("continue") or None
            if query["continue"] is None:
                return items, page["metadata"]["resourceVersion"]

    def apply(
        self, doc: Mapping[str, Any], *, dry_run: bool = False, force: bool = False
    ) -> dict[str, Any]:
        """Server-side apply: ours are the fields in `doc`, and nobody else's are touched."""
        query = {"fieldManager": MANAGER, "force": "true" if force else None}
        query["dryRun"] = "All" if dry_run else None
        try:
            made: dict[str, Any] = self.json(
                "PATCH",
                self.path_of(doc),
                query=query,
                body=doc,
                content="application/apply-patch+yaml",
            )
        except ApiError as error:
            if error.status == 409 and "conflict" in error.message.lower():
                raise conflict(doc, error) from None
            raise
        return made

    def labels_of(self, kind: str, name: str) -> dict[str, str] | None:
        """The labels of an object that may not be read, or None if there is none.

        A change of nothing, tried out: the answer is the object as it is, and only its metadata.
        """
        found: dict[str, Any] = self.json(
            "PATCH",
            self.path(kind, name),
            query={"fieldManager": f"{MANAGER}-look", "dryRun": "All"},
            body={"apiVersion": "v1", "kind": kind, "metadata": {"name": name}},
            content="application/apply-patch+yaml",
            accept=METADATA,
        )
        is_there = "resourceVersion" in found["metadata"]
        return found["metadata"].get("labels", {}) if is_there else None

    def delete(self, path: str, *, grace: int | None = None) -> bool:
        """Delete an object and what belongs to it; whether it was there."""
        body = {"propagationPolicy": "Background", "gracePeriodSeconds": grace}
        try:
            self.json("DELETE", path, body={k: v for k, v in body.items() if v is not None})
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    # -- Streams

    def watch(self, path: str, version: str, selector: str, seconds: int) -> Iterator[Any]:
        """Changes since a version, until the server or the network ends it."""
        query = {
            "watch": "true",
            "labelSelector": selector or None,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        }
        for line in self.stream(path, query, read_timeout=seconds + 15):
            yield json.loads(line)

    def stream(
        self, path: str, query: Mapping[str, Any], *, read_timeout: float
    ) -> Iterator[bytes]:
        """The lines of a response, each with its line end; the last may have none."""
        import urllib3

        response = self.request("GET", path, query=query, read_timeout=read_timeout)
        rest = b""
        try:
            for chunk in chunks(response):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line + b"\n"
            if rest:
                yield rest
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"the connection broke: {plain(error)}") from None
        finally:
            response.close()
            response.release_conn()


def chunks(response: Any) -> Iterator[bytes]:
    """What has come, as it comes."""
    while True:
        chunk = response.read1(1 << 16)
        if not chunk:
            return
        yield chunk


def conflict(doc: Mapping[str, Any], error: ApiError) -> ApiError:
    return ApiError(
        409,
        f'{doc["kind"]} "{doc["metadata"]["name"]}" was changed by somebody else',
        "Conflict",
        evidence=[f"  {line}" for line in error.message.splitlines()[:8]],
        hint="undo that change, or end the job and start it again: tfcluster down, tfcluster up",
    )


def plain(error: BaseException) -> str:
    """A network error in few words."""
    text = str(getattr(error, "reason", None) or error)
    return text.rpartition(": ")[2] if "object at 0x" in text else text
