"""docs/spec.md is what the schema says."""

from __future__ import annotations

from tfcluster.spec.docs import TARGET, spec_docs


def test_the_page_is_up_to_date() -> None:
    written = TARGET.read_text(encoding="utf-8")
    assert written == spec_docs(), "run: python -m tfcluster.spec.docs"
