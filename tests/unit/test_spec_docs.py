"""docs/spec.md is what the schema says; the specs of docs/launcher.md are valid."""

from __future__ import annotations

import re

from tfcluster.spec.docs import TARGET, spec_docs
from tfcluster.spec.loader import load_spec_text


def test_the_page_is_up_to_date() -> None:
    written = TARGET.read_text(encoding="utf-8")
    assert written == spec_docs(), "run: python -m tfcluster.spec.docs"


def test_the_jobs_of_the_launchers_page_end_with_the_roles_that_it_says() -> None:
    page = (TARGET.parent / "launcher.md").read_text(encoding="utf-8")
    specs = [load_spec_text(text).spec for text in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    assert [spec.success_roles for spec in specs] == [("learner",), ("trainer",)]
