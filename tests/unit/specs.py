"""Shared by the tests of specs: a settings table that stays as it is, and short specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfcluster.errors import SpecProblems
from tfcluster.spec.loader import LoadedSpec, load_spec_text

GOLDEN = Path(__file__).parent.parent / "golden" / "specs"
SETTINGS = GOLDEN / "settings.json"
SMALL = "name: small\ntrain: {}\nroles: {worker: {}}\n"


def load(text: str, **options: Any) -> LoadedSpec:
    return load_spec_text(text, **options)


def problems(text: str, **options: Any) -> list[str]:
    """`line:column message` of every problem; empty for a valid spec."""
    try:
        load(text, **options)
    except SpecProblems as error:
        return [f"{p.line or p.where}:{p.column or ''} {p.message}" for p in error.problems]
    return []


def report(text: str, **options: Any) -> str:
    """All that is said about a spec."""
    try:
        load(text, **options)
    except SpecProblems as error:
        return error.text()
    return ""
