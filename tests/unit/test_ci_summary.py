"""The closing lines of .ci/run: nothing that failed at first is hidden."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "summary.py"


@pytest.fixture
def summary(monkeypatch):
    spec = importlib.util.spec_from_file_location("ci_summary", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ci_summary", module)
    spec.loader.exec_module(module)
    return module


def write_suite(folder: Path, name: str, **tries: dict[str, str]) -> None:
    """`first={"test_a": "failure"}`: the element that JUnit has for it; "" for a pass."""
    (folder / name).mkdir()
    for number, cases in tries.items():
        inner = "".join(
            f'<testcase classname="tests.x" name="{case}">{f"<{kind}/>" if kind else ""}</testcase>'
            for case, kind in cases.items()
        )
        text = f"<testsuites><testsuite>{inner}</testsuite></testsuites>"
        (folder / name / f"{number}.xml").write_text(text)


def test_suites_are_summed_in_one_closing_line(summary, tmp_path):
    write_suite(tmp_path, "test", first={"a": "", "b": "", "c": "skipped"})
    write_suite(tmp_path, "docker", first={"a": ""})
    (tmp_path / "parts").write_text("make test\t75\t0\ndocker suite\t5\t0\n")
    lines, is_well = summary.summarise(tmp_path)
    assert lines[-1] == "3 passed, 0 failed, 1 skipped" and is_well
    assert "  1:15 make test" in lines and "  0:05 docker suite" in lines


def test_what_passed_only_at_the_second_try_is_named(summary, tmp_path):
    write_suite(tmp_path, "kind", first={"a": "failure", "b": ""}, second={"a": ""})
    lines, is_well = summary.summarise(tmp_path)
    assert lines[lines.index("== passed only at the second try") + 1] == "kind: tests.x::a"
    assert lines[-1] == "2 passed, 0 failed, 0 skipped" and is_well


def test_the_group_that_xdist_adds_to_a_name_does_not_hide_its_second_try(summary, tmp_path):
    write_suite(tmp_path, "test", first={"a@tensorflow": "failure"}, second={"a": ""})
    lines, is_well = summary.summarise(tmp_path)
    assert "test: tests.x::a" in lines
    assert lines[-1] == "1 passed, 0 failed, 0 skipped" and is_well


def test_seven_second_tries_are_too_many_whatever_the_suite(summary, tmp_path):
    six = "abcdef"
    write_suite(tmp_path, "test", first=dict.fromkeys(six, "error"), second=dict.fromkeys(six, ""))
    write_suite(tmp_path, "kind", first={"a": "failure"}, second={"a": ""})
    lines, is_well = summary.summarise(tmp_path)
    assert lines[-1] == "7 passed, 1 failed, 0 skipped" and not is_well
    assert "7 tests needed a second try; at most 6 may" in lines


@pytest.mark.parametrize("second", [{"a": "failure"}, {"a": "skipped"}, {}])
def test_what_does_not_pass_at_the_second_try_has_failed(summary, tmp_path, second):
    write_suite(tmp_path, "test", first={"a": "failure", "b": ""}, second=second)
    lines, is_well = summary.summarise(tmp_path)
    assert lines[-1] == "1 passed, 1 failed, 0 skipped" and not is_well


def test_a_part_that_broke_without_a_failing_test_is_a_failure(summary, tmp_path):
    write_suite(tmp_path, "test", first={"a": ""})
    (tmp_path / "parts").write_text("make test\t75\t0\ntestbed\t3\t1\n")
    lines, is_well = summary.summarise(tmp_path)
    assert lines[-1] == "1 passed, 1 failed, 0 skipped" and not is_well
    assert "testbed: exit code 1" in lines
