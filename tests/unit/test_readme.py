"""The README says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfcluster import errors
from tfcluster.cli import COMMANDS
from tfcluster.spec.loader import load_spec_text

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_table_names_every_command_and_no_other():
    table = README.split("## Commands")[1].split("| exit code |")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split("`")}
    assert named - {"", ", "} == set(COMMANDS)


def test_its_exit_codes_are_those_of_the_program():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.M)}
    known = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert codes == known | {143}


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", README, re.S))
def test_its_specs_are_valid(text):
    assert load_spec_text(text).spec.roles


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_its_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_make_demo_runs_the_command_that_the_readme_shows():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "tfcluster up examples/mnist.yaml" in makefile
