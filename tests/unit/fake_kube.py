"""A small API server that misbehaves on request: cuts connections, delays, answers 409 to 500.

It knows lists, watches, logs and server-side apply of what the tests put into it. That the real one
behaves as it does is what tests/kind is for.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlparse

import urllib3

from tfcluster.backends.kubernetes.api import Cluster


class FakeApi:
    """Objects by path, log lines by pod, and a list of faults that are used up one by one."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, dict[str, Any]] = {}
        self.changes: list[tuple[int, str, dict[str, Any]]] = []
        self.logs: dict[str, list[tuple[str, bytes]]] = {}
        self.ended: set[str] = set()
        self.faults: list[Any] = []  # (part of a path, fault)
        self.asked: list[tuple[str, str]] = []
        self.oldest = 0
        self.lock = threading.Condition()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.serve(self)

            do_PATCH = do_POST = do_DELETE = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def cluster(self, patience: float = 5.0) -> Cluster:
        host = f"http://127.0.0.1:{self.server.server_port}"
        configuration = SimpleNamespace(host=host, auth_settings=lambda: {})
        return Cluster(configuration, urllib3.PoolManager(), "fake", "default", patience)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # -- What the tests do to it

    def put(self, path: str, name: str, **content: Any) -> None:
        with self.lock:
            self.version += 1
            meta = {"name": name, "resourceVersion": str(self.version), "uid": name}
            known = f"{path}/{name}" in self.objects
            thing = {"metadata": meta, **content}
            self.objects[f"{path}/{name}"] = thing
            self.changes.append((self.version, "MODIFIED" if known else "ADDED", thing))
            self.lock.notify_all()

    def remove(self, path: str, name: str) -> None:
        with self.lock:
            self.version += 1
            thing = self.objects.pop(f"{path}/{name}")
            thing = {
                **thing,
                "metadata": {**thing["metadata"], "resourceVersion": str(self.version)},
            }
            self.changes.append((self.version, "DELETED", thing))
            self.lock.notify_all()

    def say(self, pod: str, stamp: str, line: bytes) -> None:
        with self.lock:
            self.logs.setdefault(pod, []).append((stamp, line))
            self.lock.notify_all()

    def end(self, pod: str) -> None:
        with self.lock:
            self.ended.add(pod)
            self.lock.notify_all()

    def fail(self, part: str, *faults: Any) -> None:
        """Faults for requests whose path holds `part`: a status, "cut", or ("cut", lines)."""
        self.faults += [(part, fault) for fault in faults]

    # -- Serving

    def fault_for(self, path: str) -> Any:
        with self.lock:
            for entry in self.faults:
                if entry[0] in path:
                    self.faults.remove(entry)
                    return entry[1]
        return None

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        url = urlparse(request.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.asked.append((request.command, request.path))
        fault = self.fault_for(request.path)
        if isinstance(fault, int):
            return self.answer(request, fault, {"message": f"fault {fault}", "code": fault})
        if fault == "cut":
            request.close_connection = True
            return request.connection.close()
        limit = fault[1] if isinstance(fault, tuple) else None
        if request.command != "GET":
            length = int(request.headers["Content-Length"] or 0)
            body = json.loads(request.rfile.read(length) or b"null")
            if request.command == "POST" and url.path.endswith("/configmaps"):
                return self.answer(request, self.create(url.path, body), body)
            if request.command == "DELETE":
                return self.answer(request, self.delete(url.path, body), body)
            return self.answer(request, 200, body)
        if url.path.endswith("/log"):
            return self.stream(request, self.log_lines(url.path.split("/")[-2], query), limit)
        if query.get("watch"):
            return self.stream(request, self.watch_lines(url.path, query), limit)
        with self.lock:
            if url.path in self.objects:
                return self.answer(request, 200, self.objects[url.path])
            items = [
                thing for key, thing in self.objects.items() if key.rpartition("/")[0] == url.path
            ]
            meta = {"resourceVersion": str(self.version)}
        return self.answer(request, 200, {"items": items, "metadata": meta})

    def create(self, path: str, body: dict[str, Any]) -> int:
        """The status of an answer: of two that create the same, one hears that it is there."""
        name = body["metadata"]["name"]
        with self.lock:
            if f"{path}/{name}" in self.objects:
                return 409
            self.version += 1
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            own = {"uid": str(self.version), "creationTimestamp": stamp}
            self.objects[f"{path}/{name}"] = {**body, "metadata": {**body["metadata"], **own}}
            return 201

    def delete(self, path: str, body: dict[str, Any]) -> int:
        with self.lock:
            found = self.objects.get(path)
            if found is None:
                return 404
            uid = ((body or {}).get("preconditions") or {}).get("uid")
            if uid not in (None, found["metadata"]["uid"]):
                return 409
            del self.objects[path]
            return 200

    def answer(self, request: BaseHTTPRequestHandler, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def stream(
        self, request: BaseHTTPRequestHandler, lines: Iterator[bytes], limit: int | None
    ) -> None:
        """Chunked; with a limit the connection breaks in the middle of the line after it."""
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        try:
            for number, line in enumerate(lines):
                if number == limit:
                    half = line[: len(line) // 2]
                    request.wfile.write(b"%x\r\n" % len(line) + half)
                    request.wfile.flush()
                    request.close_connection = True
                    return request.connection.close()
                request.wfile.write(b"%x\r\n" % len(line) + line + b"\r\n")
                request.wfile.flush()
            request.wfile.write(b"0\r\n\r\n")
        except (OSError, ValueError):
            request.close_connection = True

    def watch_lines(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        version = int(query["resourceVersion"])
        if version < self.oldest:
            error = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
            yield json.dumps(error).encode() + b"\n"
            return
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with self.lock:
                fresh = [change for change in self.changes if change[0] > version]
                if not fresh:
                    self.lock.wait(0.1)
            for number, kind, thing in fresh:
                version = number
                yield json.dumps({"type": kind, "object": thing}).encode() + b"\n"

    def log_lines(self, pod: str, query: dict[str, str]) -> Iterator[bytes]:
        since = query.get("sinceTime", "")[:19]  # whole seconds, as the real one
        sent = 0
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with self.lock:
                lines = self.logs.get(pod, [])[sent:]
                over = pod in self.ended or query.get("follow") != "true"
                if not lines and not over:
                    self.lock.wait(0.1)
            for stamp, line in lines:
                sent += 1
                if stamp[:19] >= since:
                    yield stamp.encode() + b" " + line
            if over and not lines:
                return
