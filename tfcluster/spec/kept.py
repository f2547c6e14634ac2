"""Specs as they are kept with a run: understood, masked, written as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def parse_kept(text: str | None) -> Mapping[str, Any] | None:
    """The settings in a kept spec; None if there is none, or if it is damaged."""
    from tfcluster.spec.yamldata import YamlMistake, read_yaml

    try:
        found = read_yaml(text).data if text else None
    except YamlMistake:
        return None
    return found if isinstance(found, dict) else None
