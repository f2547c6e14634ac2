"""TensorFlow's notices: lines of its C++ parts that say nothing about how a program fares.

They are folded away where people read, and kept in every log file. The table is a list of what is
known to be harmless: a line that is not in it is shown, and so is everything that can explain a
failure or a wait ("CreateSession still waiting", status messages, out of memory).
"""

from __future__ import annotations

import collections
import re
from typing import Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Pattern

# Both forms that TensorFlow writes:
#   I0000 00:00:1794961994.700112   30791 port.cc:153] oneDNN custom operations are on. …
#   2026-01-31 12:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations …
NOTICE_HEAD = re.compile(
    rb"(?:([IWE])\d{4} \d\d:\d\d:[\d.]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: ([IWE]) )"
    rb"(?:[\w.+-]+/)*([\w.+-]+):\d+\] (.*)",
    re.DOTALL,
)
NOTICE_STARTS = b"IWE2"
ABSL = b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
PROTO_TEXT = rb"(?: *[\w.\[\]/]+(?: \{|: .*)| *\}|)$"
FEW_NOTICES = 5


class Notice(NamedTuple):
    """Lines of one source file, of these levels, that begin like this."""

    source: bytes
    levels: bytes
    text: bytes
    follows: Optional[bytes] = None  # what lines look like that belong to it
    without_gpu: bool = False  # a notice only to a task that asks for no GPU


NOTICES = (
    Notice(b"port.cc", b"I", rb"oneDNN custom operations are on"),
    Notice(
        b"cpu_feature_guard.cc",
        b"I",
        rb"This TensorFlow binary is optimized ",
        follows=rb"To enable the following instructions: ",
    ),
    Notice(b"grpc_server_lib.cc", b"I", rb"Started server with target: "),
    Notice(b"grpc_channel.cc", b"I", rb"Initialize GrpcChannelCache for job "),
    Notice(b"master.cc", b"I", rb"Scanning workers for devices: "),
    Notice(b"mlir_graph_optimization_pass.cc", b"I", rb"MLIR V1 optimization pass is not enabled"),
    Notice(
        b"mlir_graph_optimization_pass.cc", b"I", rb"None of the MLIR [Oo]ptimization [Pp]asses"
    ),
    Notice(b"coordination_service.cc", b"I", rb"Initializing CoordinationService"),
    Notice(b"coordination_service.cc", b"I", rb"Waiting for 0/\d+ tasks to connect"),
    Notice(b"coordination_service.cc", b"I", rb"Barrier\(.*\) has passed with status: OK"),
    Notice(b"coordination_service.h", b"I", rb"\S+ has connected to coordination service"),
    Notice(b"coordination_service.cc", b"I", rb"\S+ has connected to coordination service"),
    Notice(
        b"coordination_service_agent.cc", b"I", rb"Coordination agent has successfully connected"
    ),
    Notice(b"eager_service_impl.cc", b"I", rb"Creating (?:a?sync )?eager service context"),
    Notice(b"eager_service_impl.cc", b"I", rb"SessionOptions: ", follows=PROTO_TEXT),
    Notice(b"kernel_and_device.cc", b"I", rb"Ignoring error status when releasing multi-device"),
    Notice(
        b"local_rendezvous.cc",
        b"IW",
        rb"Local rendezvous is aborting with status: ABORTED: Cleanup",
    ),
    Notice(
        b"local_rendezvous.cc",
        b"IW",
        rb"Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
    ),
    Notice(b"service.cc", b"I", rb"XLA service 0x\w+ initialized for platform "),
    Notice(b"service.cc", b"I", rb"  StreamExecutor device \(\d+\): Host"),
    Notice(b"device_compiler.h", b"I", rb"Compiled cluster using XLA!"),
    Notice(b"computation_placer.cc", b"WE", rb"computation placer already registered"),
    Notice(b"cuda_dnn.cc", b"E", rb"Unable to register cuDNN factory: Attempting to register"),
    Notice(b"cuda_fft.cc", b"E", rb"Unable to register cuFFT factory: Attempting to register"),
    Notice(b"cuda_blas.cc", b"E", rb"Unable to register cuBLAS factory: Attempting to register"),
    Notice(b"py_utils.cc", b"W", rb"TF-TRT Warning: Could not find TensorRT"),
    # To a task with GPUs these say why it has none.
    Notice(b"cudart_stub.cc", b"I", rb"Could not find cuda drivers", without_gpu=True),
    Notice(b"gpu_device.cc", b"W", rb"Cannot dlopen some GPU libraries", without_gpu=True),
    Notice(b"cuda_platform.cc", b"E", rb"failed call to cuInit: ", without_gpu=True),
    Notice(b"cuda_driver.cc", b"E", rb"failed call to cuInit: ", without_gpu=True),
    Notice(b"cuda_diagnostics.cc", b"I", rb"", without_gpu=True),
)


class KnownNotice(NamedTuple):
    """A row of the table, ready to be compared."""

    levels: bytes
    text: Pattern[bytes]
    follows: Optional[Pattern[bytes]]
    without_gpu: bool


def notices_by_source() -> Dict[bytes, List[KnownNotice]]:
    found: Dict[bytes, List[KnownNotice]] = {}
    for row in NOTICES:
        follows = re.compile(row.follows) if row.follows is not None else None
        known = KnownNotice(row.levels, re.compile(row.text), follows, row.without_gpu)
        found.setdefault(row.source, []).append(known)
    return found


KNOWN_NOTICES = notices_by_source()


class NoticeReader:
    """Tells the notices in one stream of a task; some of them go on over several lines."""

    def __init__(self, has_gpu: bool):
        self.has_gpu = has_gpu
        self.follows: Optional[Pattern[bytes]] = None

    def is_notice(self, line: bytes) -> bool:
        if self.follows is not None:
            if self.follows.match(line.rstrip(b"\r")):
                return True
            self.follows = None
        if not line or line[0] not in NOTICE_STARTS:
            return False
        line = line.rstrip(b"\r")
        found = self.find(line)
        if found is not None:
            self.follows = found.follows
        return found is not None or line == ABSL

    def find(self, line: bytes) -> Optional[KnownNotice]:
        head = NOTICE_HEAD.match(line)
        if head is None:
            return None
        level = head.group(1) or head.group(2)
        for known in KNOWN_NOTICES.get(head.group(3), ()):
            matches = level in known.levels and known.text.match(head.group(4))
            if matches and not (known.without_gpu and self.has_gpu):
                return known
        return None


class LastLines:
    """The last lines of a program, its notices left out unless there is nothing else."""

    def __init__(self, most: int, has_gpu: bool, before: Iterable[str] = ()):
        self.lines: Deque[str] = collections.deque(before, maxlen=most)
        self.notices: Deque[str] = collections.deque(maxlen=FEW_NOTICES)
        self.has_gpu = has_gpu
        self.readers: Dict[str, NoticeReader] = {}

    def add(self, stream: str, line: bytes) -> None:
        reader = self.readers.setdefault(stream, NoticeReader(self.has_gpu))
        kept = self.notices if reader.is_notice(line) else self.lines
        kept.append(line[:500].decode("utf-8", "replace").rstrip("\r"))

    def clear(self) -> None:
        """Another attempt begins."""
        self.lines.clear()
        self.notices.clear()
        self.readers.clear()

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.lines or self.notices))
