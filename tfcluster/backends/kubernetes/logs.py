"""From a pod's log to the run's folder, through lost connections, with no line lost or repeated.

The kubelet gives both streams of a container as one, each line with its time. Times are nearly but
not quite in order, and a log can only be asked for from a whole second on; so after a gap what was
read before is told apart by its time and content.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from tfcluster.archive import Run
from tfcluster.backends.keeping import next_attempt
from tfcluster.backends.kubernetes.api import ApiError, Cluster, Unreachable
from tfcluster.backends.kubernetes.state import has_started
from tfcluster.backends.kubernetes.view import View
from tfcluster.backends.records import TaskRecord
from tfcluster.backends.reports import verify
from tfcluster.events import ENDED
from tfcluster.launch.lines import UNENDED
from tfcluster.launch.system import write_all

MOST_STREAMS = 100  # tasks beyond that are read when they have ended
OVERLAP = timedelta(seconds=2)
TAIL = 1 << 22  # bytes of a log file in which the overlap surely lies
READ_TIMEOUT = 60.0
RECONNECT_EVERY = 0.5
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
EPOCH = "1970-01-01T00:00:00.000000000Z"


@dataclass(frozen=True)
class Line:
    """One line of a pod's log, with its line end unless it is the last and has none."""

    stamp: str  # 2026-01-31T12:00:00.000000001Z, always this long
    data: bytes


def parse_line(line: bytes) -> Line | None:
    """`2026-01-31T12:00:00.5+01:00 text`; None for what the kubelet says itself."""
    match = STAMP.match(line)
    if match is None:
        return None
    whole, fraction, zone = (part.decode() if part else "" for part in match.groups())
    if zone != "Z":
        moment = datetime.fromisoformat(whole + zone).astimezone(timezone.utc)
        whole = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return Line(f"{whole}.{fraction:0<9}Z", line[match.end() :])


def read_lines(cluster: Cluster, pod: str, since: str, *, follow: bool) -> Iterator[Line]:
    """A pod's log from a time on; with follow until its container has ended."""
    query = {
        "container": "task",
        "timestamps": "true",
        "follow": "true" if follow else None,
        "sinceTime": since or None,
    }
    path = f"{cluster.path('Pod', pod)}/log"
    for text in cluster.stream(path, query, read_timeout=READ_TIMEOUT):
        line = parse_line(text)
        if line is not None:
            yield line


class PodReader(TaskRecord):
    """Takes in the logs of a task's pods, one pod after the other."""

    def __init__(self, run: Run, task: str):
        super().__init__(run, task)
        self.attempt = max(0, next_attempt(run, task) - 1)
        self.recent: deque[tuple[str, int]] = deque()
        self.again: Counter[tuple[str, int]] = Counter()
        self.markers: Counter[int] = Counter()
        self.cut: Line | None = None
        self.load_recent()

    # -- What was read before

    def load_recent(self) -> None:
        """What an earlier reader of the same pod wrote last."""
        path = self.run.files.log_file(self.task, self.attempt)
        if not path.exists():
            return
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            for record in file:
                stamp, _, rest = record.rstrip(b"\n").partition(b" ")
                parts = rest.split(b" ", 2)
                if len(parts) == 3 and len(stamp) == len(EPOCH):
                    self.remember(stamp.decode("ascii", "replace"), parts[2])

    def remember(self, stamp: str, line: bytes) -> None:
        self.recent.append((stamp, zlib.crc32(line)))
        oldest = earlier(stamp, 2 * OVERLAP)
        while self.recent and self.recent[0][0] < oldest:
            self.recent.popleft()

    def reopen(self) -> str:
        """From when on to read again, a little too early; what comes twice is then left out."""
        self.again = Counter(self.recent)
        self.markers.clear()
        self.cut = None
        newest = max((stamp for stamp, _ in self.recent), default="")
        return earlier(newest, OVERLAP) if newest else ""

    def is_known(self, line: Line) -> bool:
        key = (line.stamp, zlib.crc32(content(line)))
        if self.again[key] > 0:
            self.again[key] -= 1
            return True
        return False

    @property
    def is_replaced(self) -> bool:
        """Whether the task had another pod before this one, whose attempts are counted on."""
        return self.record.get("base", 0) > 0

    def begin_pod(self, uid: str) -> None:
        """From now on the lines of another pod come in; its attempts are counted on."""
        if self.record.get("container") != uid:
            self.recent.clear()
            base = next_attempt(self.run, self.task)
            self.update(container=uid, base=base, offset=None, stateStamp="")
            self.final = None

    # -- What lines mean

    def feed(self, line: Line) -> None:
        state = verify(line.data.removesuffix(b"\n"), self.key, self.task)
        if state is not None:
            self.take_state(line.stamp, state)
        elif not line.data.endswith(b"\n"):
            self.cut = line  # it comes again, whole, unless this is the end
        elif not self.is_known(line):
            self.take_line(line)

    def take_line(self, line: Line) -> None:
        text = content(line)
        whole = line.data.endswith(b"\n") and not line.data.endswith(UNENDED + b"\n")
        head = f"{line.stamp} stdout {'F' if whole else 'P'} ".encode()
        write_all(self.file(self.attempt), head + text + b"\n")
        self.remember(line.stamp, text)
        self.understand(text, self.attempt)

    def drain(self) -> None:
        """Keep what was written last, without a line end, by a container that was killed."""
        if self.cut is not None and not self.is_known(self.cut):
            self.take_line(self.cut)
        self.cut = None

    def take_state(self, stamp: str, state: dict[str, Any]) -> None:
        if "begin" in state:
            self.take_begin(int(state["begin"]))
        elif "end" not in state and stamp > self.record.get("stateStamp", ""):
            if state.get("state") in ("running", "serving"):
                self.begin(int(state.get("attempt", 0)))
            kind = state.pop("event", None) or state.get("state")
            if state.get("state") in ENDED:
                # Whether that is the task's end, and not only this pod's, is for others to say.
                self.final = state
            else:
                self.update(**state, stateStamp=stamp)
                self.run.note(str(kind), str(state.get("reason", "")), self.task)

    def take_begin(self, attempt: int) -> None:
        """An attempt begins once both streams say so: until then lines may be of the one before."""
        if self.record.get("offset") is None:
            self.update(offset=max(0, self.record.get("base", 0) - attempt))
            self.begin(attempt)
        self.markers[attempt] += 1
        if self.markers[attempt] > 1:
            self.begin(attempt)

    def begin(self, attempt: int) -> None:
        self.attempt = max(self.attempt, attempt + (self.record.get("offset") or 0))
        self.begin_lines(self.attempt)
        self.file(self.attempt)


def content(line: Line) -> bytes:
    """What the program wrote: without our mark, without the line end."""
    return line.data.removesuffix(b"\n").removesuffix(UNENDED)


def earlier(stamp: str, span: timedelta) -> str:
    """An earlier time, in whole seconds, which is what can be asked for."""
    moment = datetime.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S") - span
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Follower(threading.Thread):
    """Follows one pod's log until its container has ended and everything is read."""

    def __init__(
        self, cluster: Cluster, reader: PodReader, pod: str, uid: str, ended: Callable[[], bool]
    ):
        super().__init__(daemon=True)
        self.cluster, self.reader, self.pod, self.uid = cluster, reader, pod, uid
        self.ended = ended  # whether the container is known to have ended, or the pod is gone
        self.drained = False
        self.stopped = threading.Event()

    def run(self) -> None:
        self.reader.begin_pod(self.uid)
        while not self.drained and not self.stopped.is_set():
            self.read_on()
            self.reader.flush()
            if not self.drained:
                self.stopped.wait(RECONNECT_EVERY)

    def read_on(self) -> None:
        """Read until the stream ends; if the container had ended before, that was all."""
        over = self.ended()
        try:
            since = self.reader.reopen()
            for line in read_lines(self.cluster, self.pod, since, follow=not over):
                if self.stopped.is_set():
                    return
                self.reader.feed(line)
            if over:
                self.reader.drain()
                self.drained = True
        except Unreachable:
            pass
        except ApiError as error:
            # 400: the container is not there yet; 404: the pod is there no more.
            self.drained = error.status == 404 or (over and error.status == 400)


class Streams:
    """The logs of a run's pods, each read once; of those that run, so many at a time."""

    def __init__(self, cluster: Cluster, view: View, readers: Mapping[str, PodReader]):
        self.cluster, self.view, self.readers = cluster, view, readers
        self.followers: dict[str, Follower] = {}  # by uid of the pod

    def __contains__(self, uid: str) -> bool:
        return uid in self.followers

    def read(self, task: str) -> bool:
        """Read the logs of the task's pods, one after the other; whether all are read."""
        reader = self.readers[task]
        read = reader.record.get("read", [])
        for pod in self.view.pods_of(task):
            uid = pod["metadata"]["uid"]
            if uid in read or not has_started(pod):
                continue
            if uid not in self.followers:
                if self.is_busy() and not self.view.has_ended(pod):
                    return False
                self.followers[uid] = self.follow(task, pod)
            if not self.followers[uid].drained:
                return False
            reader.update(read=[*read, uid])
            read = reader.record["read"]
        return True

    def is_busy(self) -> bool:
        return sum(not follower.drained for follower in self.followers.values()) >= MOST_STREAMS

    def follow(self, task: str, pod: Mapping[str, Any]) -> Follower:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        follower = Follower(
            self.cluster,
            self.readers[task],
            name,
            uid,
            ended=lambda: self.view.ended_now(task, uid),
        )
        follower.start()
        return follower
