"""Packages that a program needs: installed once, seen by every task, removed by prune."""

from __future__ import annotations

import pytest

from tests.wheels import write_wheel

PROGRAM = """
import os
import ruamel.yaml  # of the Python below
import part, tinyword
print(part.WORD, tinyword.WORD, os.path.basename(os.environ["VIRTUAL_ENV"]), flush=True)
with open(os.environ["TFCLUSTER_OUTPUT"] + "/word.txt", "w") as file:
    file.write(tinyword.WORD)
"""


@pytest.fixture
def program(tfcluster):
    write_wheel(tfcluster.home.parent / "wheels", "tinyword", "WORD = 'small'\n")
    tfcluster.env |= {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tfcluster.home.parent / "wheels"),
    }
    (tfcluster.folder / "train.py").write_text(PROGRAM)
    (tfcluster.folder / "part.py").write_text("WORD = 'own'\n")
    (tfcluster.folder / "requirements.txt").write_text("tinyword==1.0  # tiny\n")
    return tfcluster


def test_requirements_are_installed_once_for_all_tasks_and_go_with_the_last_run(program):
    first = program("run", "--workers", "2", "train.py")
    assert first.returncode == 0, first.stderr
    assert "Requirements: requirements.txt, beside the program" in first.stderr
    assert "Installing 1 requirement of requirements.txt (once)" in first.stderr
    (made,) = (path for path in (program.home / "environments").iterdir() if path.is_dir())
    for task in ("worker-0", "worker-1"):
        assert f"{task} | own small {made.name}" in first.stdout
        (word,) = program.folder.glob(f"results/*/{task}/word.txt")
        assert word.read_text() == "small"

    (program.folder / "part.py").write_text("WORD = 'edited'\n")
    program.env["PIP_FIND_LINKS"] = "/nowhere"
    second = program("run", "--workers", "2", "train.py")
    assert second.returncode == 0, second.stderr
    assert "Installing" not in second.stderr and "edited small" in second.stdout

    assert program("prune", "--yes").returncode == 0
    assert made.is_dir(), "the run that was kept has it"
    pruned = program("prune", "--keep", "0", "--yes")
    assert pruned.returncode == 0 and f"environment {made.name}" in pruned.stderr
    assert not made.exists()


def test_what_cannot_be_installed_is_named_with_pip_s_own_words(program):
    (program.folder / "requirements.txt").write_text("tinyword\nno-such-thing>=2\n")
    done = program("run", "train.py")
    assert done.returncode == 1
    assert 'error: requirements: "no-such-thing>=2" of requirements.txt' in done.stderr
    assert "No matching distribution found for no-such-thing>=2" in done.stderr
    left = [path for path in (program.home / "environments").iterdir() if path.is_dir()]
    assert left == [] and program("ps", "-a").stdout == ""
    without = program("run", "--no-requirements", "train.py")
    assert without.returncode == 5 and "No module named 'tinyword'" in without.stderr
