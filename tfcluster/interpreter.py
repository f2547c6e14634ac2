"""Which Python `python` in a command stands for, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Where an interpreter was found. Decisions are made on these.
ON_PATH = "path"
IN_ENVIRONMENT = "environment"  # on PATH, and of the virtual environment that is active
OWN_NOT_ON_PATH = "own-not-on-path"  # tfcluster's own, because PATH has none
OWN_HAS_TENSORFLOW = "own-has-tensorflow"  # tfcluster's own, because the one on PATH lacks it
WITH_REQUIREMENTS = "requirements"  # of the environment that has the spec's requirements

WORDS = {
    ON_PATH: "from PATH",
    IN_ENVIRONMENT: "from the active environment",
    OWN_NOT_ON_PATH: "tfcluster's own; PATH has no {name}",
    OWN_HAS_TENSORFLOW: "tfcluster's own; {other} has no TensorFlow",
    WITH_REQUIREMENTS: "with the requirements, over {other}",
}


@dataclass(frozen=True)
class Interpreter:
    """What `name` in a command was resolved to, and why; `other` is what PATH has instead."""

    name: str
    path: str
    source: str
    other: str = ""

    @property
    def text(self) -> str:
        """`/usr/bin/python3 (from PATH)`."""
        words = WORDS.get(self.source, self.source).format(name=self.name, other=self.other)
        return f"{self.path} ({words})"

    @classmethod
    def from_dict(cls, data: Mapping[str, str]) -> Interpreter:
        return cls(**data)
