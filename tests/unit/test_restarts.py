"""Which ends of a program are worth another attempt."""

from __future__ import annotations

import sys

import pytest

from tfcluster.backends.local.plan import check_programs
from tfcluster.errors import MissingError
from tfcluster.launch import exits
from tfcluster.launch.script import missing_script
from tfcluster.spec.loader import load_spec_text


@pytest.mark.parametrize(
    ("on", "failures", "code", "kind", "expected"),
    [
        (None, 0, 1, exits.PROGRAM_EXIT, True),
        (None, 3, 1, exits.PROGRAM_EXIT, False),
        (None, 0, 2, exits.PROGRAM_EXIT, True),
        (None, 0, 2, exits.CANNOT_START, False),
        (None, 0, 127, exits.CANNOT_START, False),
        (None, 0, 1, exits.MODULE_MISSING, False),
        ([127], 0, 127, exits.CANNOT_START, True),
        ([3], 0, 1, exits.PROGRAM_EXIT, False),
    ],
)
def test_ends_that_would_come_again_are_final_unless_their_code_is_listed(
    on, failures, code, kind, expected
):
    assert exits.may_restart(3, on, failures, code, kind) is expected


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["python", "gone.py"], "gone.py"),
        (["/usr/bin/python3.11", "-u", "-W", "ignore", "gone.py", "--x"], "gone.py"),
        (["sh", "-eu", "gone.sh"], "gone.sh"),
        (["python", "here.py", "gone.py"], None),
        (["python", "-m", "gone"], None),
        (["python", "-uc", "gone"], None),
        (["python", "-"], None),
        (["python", "--version"], None),
        (["python"], None),
        (["sh", "-c", "gone"], None),
        (["bash", "ls"], None),  # found on PATH
        (["torchrun", "gone.py"], None),
        (["./gone"], None),
    ],
)
def test_only_a_script_that_is_surely_named_and_surely_absent_is_missing(tmp_path, words, missing):
    (tmp_path / "here.py").touch()
    assert missing_script(words, str(tmp_path)) == (missing and str(tmp_path / missing))


def test_up_does_not_start_a_script_that_is_not_there(tmp_path):
    spec = load_spec_text("name: a\ncommand: [python, train.py]\nroles: {worker: {}}").spec
    with pytest.raises(MissingError, match=f"roles.worker: there is no file {tmp_path}/train.py"):
        check_programs(spec, tmp_path)
    (tmp_path / "train.py").touch()
    check_programs(spec, tmp_path)


def test_a_script_named_by_a_placeholder_is_left_to_the_start(tmp_path):
    text = f"name: a\ncommand: [{sys.executable}, $(ROLE).py]\nroles: {{worker: {{}}}}"
    check_programs(load_spec_text(text).spec, tmp_path)
