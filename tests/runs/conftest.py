from __future__ import annotations

import pytest

from tests.runs.cli import Cli


@pytest.fixture
def tfcluster(tmp_path):
    """The command line, in an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    cli = Cli(folder, tmp_path / "home")
    yield cli
    cli("down", "--all")
    assert cli.left_behind() == []
