"""docs/commands.md says what the program says."""

from __future__ import annotations

from pathlib import Path

from tfcluster.cli_docs import document

PAGE = Path(__file__).parent.parent.parent / "docs" / "commands.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == document(), "run: python -m tfcluster.cli_docs > docs/commands.md"
