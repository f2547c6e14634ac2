"""Results on their way back: what is chosen, what is refused, what is written down."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.unit.kube import SMALL, plan_of
from tests.unit.specs import problems
from tfcluster.errors import TfclusterError, UsageError
from tfcluster.fetching import LEFT_OUT, Fetched, Output, Wanted, receive
from tfcluster.launch.handover import Steady, send_files, time_to_stay, written_files
from tfcluster.launch.plan import output_of, program_env
from tfcluster.plan import Plan
from tfcluster.render import render_plan


def made(folder, files):
    for name, size in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    return str(folder)


def sent(folder: str, *patterns: str, limit: int = 1 << 30) -> bytes:
    buffer = io.BytesIO()
    send_files(folder, patterns or ("*",), limit, buffer)
    return buffer.getvalue()


def pieces(data: bytes, size: int = 700) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_files_arrive_as_they_were_in_pieces_of_any_size(tmp_path):
    source = made(tmp_path / "a", {"model.txt": 10, "deep/er/log.csv": 5000, "empty": 0})
    for size in (1, 700, 1 << 20):
        target = tmp_path / f"target-{size}"
        found = receive(Output(pieces(sent(source), size)), target, Wanted())
        assert (found.files, found.size) == (3, 5010)
        assert (target / "deep/er/log.csv").read_bytes() == b"x" * 5000


def test_patterns_are_of_paths_or_of_names(tmp_path):
    source = made(tmp_path / "a", {"a.txt": 1, "deep/b.txt": 1, "deep/c.bin": 1, "d.bin": 1})
    assert [path for _, path in written_files(source, ["*.txt"])] == ["a.txt", "deep/b.txt"]
    assert [path for _, path in written_files(source, ["deep/*"])] == ["deep/b.txt", "deep/c.bin"]
    found = receive(Output([sent(source)]), tmp_path / "b", Wanted(("d.*",)))
    assert found.files == 1 and (tmp_path / "b" / "d.bin").exists()


def test_the_smallest_come_first_and_the_rest_is_named(tmp_path):
    source = made(tmp_path / "a", {"large": 900, "small": 10, "middle": 100})
    found = receive(Output([sent(source, limit=200)]), tmp_path / "b", Wanted())
    assert (found.files, found.left_out) == (2, ("large",))
    assert not (tmp_path / "b" / LEFT_OUT).exists()
    other = receive(Output([sent(source)]), tmp_path / "c", Wanted(limit=200))
    assert other.left_out == ("large",)
    assert "1 left out: too large" in other.text


def test_links_are_not_sent(tmp_path):
    source = made(tmp_path / "a", {"real": 1})
    (tmp_path / "a" / "link").symlink_to("/etc/passwd")
    (tmp_path / "a" / "folder").symlink_to("/etc")
    assert [path for _, path in written_files(source, ["*"])] == ["real"]


def hostile(name: str, link: str = "") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        if link:
            info.type, info.linkname = tarfile.SYMTYPE, link
        else:
            info.size = 3
        archive.addfile(info, io.BytesIO(b"bad"))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil-result", "a/../../evil", "top/../../evil"])
def test_a_task_cannot_write_outside_the_folder(tmp_path, name):
    target = tmp_path / "in" / "target"
    with pytest.raises(TfclusterError, match="did not arrive whole"):
        receive(Output([hostile(name)], "top"), target, Wanted())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_link_in_an_archive_is_left_out(tmp_path):
    found = receive(Output([hostile("a", "/etc/passwd")]), tmp_path / "b", Wanted())
    assert found.files == 0 and not (tmp_path / "b").exists()


def test_half_an_archive_is_an_error_and_none_is_nothing(tmp_path):
    source = made(tmp_path / "a", {"large": 100_000})
    with pytest.raises(TfclusterError, match="did not arrive whole"):
        receive(Output([sent(source)[:30_000]]), tmp_path / "b", Wanted())
    assert receive(Output([]), tmp_path / "c", Wanted()) == Fetched(str(tmp_path / "c"))


def test_a_file_that_shrinks_while_it_is_sent_keeps_its_length(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with Steady(str(path)) as file:
        path.write_bytes(b"y" * 10)
        assert len(file.read()) == 100


def planned(**changes: object) -> Plan:
    return plan_of({**SMALL, **changes})


def test_a_pod_stays_only_if_it_has_something_that_is_wanted(tmp_path):
    launch = planned(results={"files": ["*.txt"], "wait": "7s"}).launch("run")
    launch["logdir"] = str(tmp_path)
    assert time_to_stay(launch, "worker-0") == 0.0
    folder = output_of(launch, "worker-0")
    made(tmp_path / "tasks" / "worker-0", {"model.bin": 3})
    assert time_to_stay(launch, "worker-0") == 0.0
    made(tmp_path / "tasks" / "worker-0", {"model.txt": 3})
    assert time_to_stay(launch, "worker-0") == 7.0
    assert program_env(launch, "worker", 0)["TFCLUSTER_OUTPUT"] == folder


def test_what_is_rendered_for_others_cannot_bring_results_back():
    with pytest.raises(UsageError, match="results: nothing brings them back"):
        render_plan(planned(results=["*"]), "jobset")
    assert '"wait": 60.0' in render_plan(planned(results=["*"]), "kubernetes")


def test_results_take_part_in_what_a_task_is():
    first, second = planned(results=["*"]), planned(results=["*.txt"])
    assert first.role("worker").digest != second.role("worker").digest
    assert Plan.from_dict(first.to_dict()).results == first.results


@pytest.mark.parametrize(
    ("value", "message"),
    [("3", "expected a list or a mapping"), ("{too: x}", 'unknown key "too"')],
)
def test_mistakes_in_results(value, message):
    text = f"name: own\ncommand: [x]\nroles: {{worker: {{}}}}\nresults: {value}\n"
    assert any(message in problem for problem in problems(text))
