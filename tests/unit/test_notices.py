"""TensorFlow's notices are folded away; what can explain a failure or a wait never is."""

from __future__ import annotations

import pytest

from tests.unit.records import plan, write_run
from tfcluster import tail
from tfcluster.cli import main
from tfcluster.events import LogLine, Observed
from tfcluster.folding import Folding
from tfcluster.launch.notices import NOTICES, LastLines, NoticeReader

ABSL = "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
NEW = "{level}0000 00:00:1794961994.700112   30791 {source}:153] {text}"
OLD = "2026-01-31 12:00:00.123456: {level} external/local_xla/xla/tsl/{source}:153] {text}"

# One real message for every row of the table, in its order: level, source, message.
EXAMPLES = [
    ("I", "port.cc", "oneDNN custom operations are on. You may see slightly different results"),
    ("I", "cpu_feature_guard.cc", "This TensorFlow binary is optimized to use available CPU"),
    ("I", "grpc_server_lib.cc", "Started server with target: grpc://127.0.0.1:28498"),
    ("I", "grpc_channel.cc", "Initialize GrpcChannelCache for job ps -> {0 -> localhost:2222}"),
    ("I", "master.cc", "Scanning workers for devices: 3 total workers"),
    ("I", "mlir_graph_optimization_pass.cc", "MLIR V1 optimization pass is not enabled"),
    (
        *("I", "mlir_graph_optimization_pass.cc"),
        "None of the MLIR Optimization Passes are enabled (registered 2)",
    ),
    ("I", "coordination_service.cc", "Initializing CoordinationService"),
    ("I", "coordination_service.cc", "Waiting for 0/2 tasks to connect."),
    ("I", "coordination_service.cc", "Barrier(WaitForAllTasks::23::0) has passed with status: OK"),
    (
        *("I", "coordination_service.h"),
        "/job:worker/replica:0/task:1 has connected to coordination service. Incarnation: 15",
    ),
    (
        *("I", "coordination_service.cc"),
        "/job:worker/replica:0/task:1 has connected to coordination service. Incarnation: 15",
    ),
    ("I", "coordination_service_agent.cc", "Coordination agent has successfully connected."),
    ("I", "eager_service_impl.cc", "Creating sync eager service context with rendezvous_id on"),
    ("I", "eager_service_impl.cc", "SessionOptions: goo.gle/debugonly   "),
    ("I", "kernel_and_device.cc", "Ignoring error status when releasing multi-device function"),
    (
        *("W", "local_rendezvous.cc"),
        "Local rendezvous is aborting with status: ABORTED: Cleanup 124897579811628209",
    ),
    (
        *("I", "local_rendezvous.cc"),
        "Local rendezvous is aborting with status: OUT_OF_RANGE: End of sequence",
    ),
    (
        "I",
        "service.cc",
        "XLA service 0x7f2c initialized for platform Host (this does not guarantee",
    ),
    ("I", "service.cc", "  StreamExecutor device (0): Host, Default Version"),
    ("I", "device_compiler.h", "Compiled cluster using XLA!  This line is logged at most once"),
    (
        *("E", "computation_placer.cc"),
        "computation placer already registered. Please check linkage and avoid linking the same",
    ),
    *(
        (
            *("E", f"cuda_{name.lower()}.cc"),
            f"Unable to register cu{name} factory: Attempting to register factory for plugin",
        )
        for name in ("DNN", "FFT", "BLAS")
    ),
    ("W", "py_utils.cc", "TF-TRT Warning: Could not find TensorRT"),
    ("I", "cudart_stub.cc", "Could not find cuda drivers on your machine, GPU will not be used."),
    ("W", "gpu_device.cc", "Cannot dlopen some GPU libraries. Please make sure the missing"),
    ("E", "cuda_platform.cc", "failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR (303)"),
    ("E", "cuda_driver.cc", "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device"),
    ("I", "cuda_diagnostics.cc", "retrieving CUDA diagnostic information for host: laptop"),
]


def lines_of(level: str, source: str, text: str) -> list[bytes]:
    return [form.format(level=level, source=source, text=text).encode() for form in (NEW, OLD)]


def test_every_row_of_the_table_has_an_example():
    assert len(EXAMPLES) == len(NOTICES)


@pytest.mark.parametrize(("row", "example"), list(zip(NOTICES, EXAMPLES, strict=True)))
def test_a_notice_is_known_in_both_of_its_forms(row, example):
    level, source, text = example
    assert row.source.decode() == source and level.encode() in row.levels
    for line in lines_of(level, source, text):
        assert NoticeReader(has_gpu=False).is_notice(line)
        assert NoticeReader(has_gpu=True).is_notice(line) is not row.without_gpu


def test_the_word_of_absl_is_a_notice():
    assert NoticeReader(has_gpu=True).is_notice(ABSL.encode())


@pytest.mark.parametrize(
    ("level", "source", "text"),
    [
        ("I", "master.cc", "CreateSession still waiting for response from worker: /job:ps/task:0"),
        ("I", "coordination_service.cc", "Waiting for 1/2 tasks to connect."),
        ("I", "coordination_service.cc", "Barrier(X) has passed with status: DEADLINE_EXCEEDED"),
        ("E", "coordination_service_agent.cc", "Polled an error from coordination service"),
        ("E", "coordination_service_agent.cc", "Coordination agent has successfully connected."),
        ("E", "grpc_server_lib.cc", "UNKNOWN: Could not start gRPC server"),
        ("W", "local_rendezvous.cc", "Local rendezvous is aborting with status: UNAVAILABLE: ps"),
        ("W", "bfc_allocator.cc", "Allocator (GPU_0_bfc) ran out of memory trying to allocate"),
        ("W", "cpu_allocator_impl.cc", "Allocation of 4000000 exceeds 10% of free system memory."),
        ("E", "cuda_dnn.cc", "Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"),
        ("W", "op_kernel.cc", "OP_REQUIRES failed at matmul_op.cc: RESOURCE_EXHAUSTED: OOM"),
        ("I", "gpu_device.cc", "Created device /job:localhost/replica:0/task:0/device:GPU:0"),
        ("F", "port.cc", "oneDNN custom operations are on"),
        ("I", "mine.cc", "oneDNN custom operations are on"),
    ],
)
def test_what_can_explain_a_failure_or_a_wait_is_shown(level, source, text):
    for line in lines_of(level, source, text):
        assert not NoticeReader(has_gpu=False).is_notice(line)


@pytest.mark.parametrize(
    "line",
    ["", "step 20", "Traceback (most recent call last):", "I0000 like this", "2026-01-31 hello"],
)
def test_lines_of_programs_are_no_notices(line):
    assert not NoticeReader(has_gpu=False).is_notice(line.encode())


OPTIONS = NEW.format(level="I", source="eager_service_impl.cc", text="SessionOptions: goo.gle/x")
BINARY = NEW.format(
    level="I", source="cpu_feature_guard.cc", text="This TensorFlow binary is optimized to"
)


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ([OPTIONS, "device_count {", '  key: "CPU"', "  value: 1", "}", "", "20.0"], ["20.0"]),
        ([BINARY, "To enable the following instructions: AVX2, rebuild", "hi"], ["hi"]),
        (["To enable the following instructions: read"], None),
        (["}", "device_count {"], None),
        ([OPTIONS, "loss 0.5", "}"], ["loss 0.5", "}"]),
    ],
)
def test_a_notice_of_several_lines_ends_with_the_first_that_is_not_its_own(lines, shown):
    reader = NoticeReader(has_gpu=False)
    found = [line for line in lines if not reader.is_notice(line.encode())]
    assert found == (lines if shown is None else shown)


def test_streams_of_tasks_are_read_apart():
    folding = Folding(plan(ps=1, worker=1))
    lines = [
        LogLine("worker-0", 0, 0.0, "stderr", BINARY.encode()),
        LogLine("ps-0", 0, 0.0, "stderr", b"To enable the following instructions: mine"),
        LogLine("worker-0", 0, 0.0, "stdout", b"To enable the following instructions: mine"),
        LogLine("worker-0", 0, 0.0, "stderr", b"To enable the following instructions: AVX2"),
    ]
    assert list(tail.select(lines, tail.Filter(), folding)) == lines[1:3]
    assert folding.summary() == "2 TensorFlow notices hidden; --all shows them"


def test_the_last_lines_of_a_program_are_its_own_and_not_notices():
    last = LastLines(3, has_gpu=False)
    last.add("stderr", ABSL.encode())
    assert list(last) == [ABSL]
    for line in (b"Traceback", b"  File", b"KeyError: 'x'"):
        last.add("stderr", line)
    for _ in range(30):
        last.add("stderr", lines_of("W", *EXAMPLES[16][1:])[0])
    assert list(last) == ["Traceback", "  File", "KeyError: 'x'"]


# `tfcluster logs`


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    one = Observed("worker-0", "worker", 0, "succeeded")
    write_run(observed=(one,), logs={"worker-0.0": [ABSL, "hello", BINARY]})


def test_logs_fold_notices_and_say_how_many(run, capsys):
    assert main(["logs"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "worker-0 | hello\n"
    assert shown.err == "2 TensorFlow notices hidden; --all shows them\n"


@pytest.mark.parametrize(
    "options", [["--all"], ["-o", "raw"], ["-o", "json"], ["--include", "absl|hello|binary"]]
)
def test_every_line_is_there_for_who_asks_for_it(run, capsys, options):
    assert main(["logs", *options]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    assert shown.err == ""


def test_nothing_is_said_where_nothing_is_hidden(run, capsys):
    assert main(["logs", "--exclude", "absl|binary"]) == 0
    assert capsys.readouterr().err == ""
