"""The `train` section: its keys come from the trainer's own table, read as a file.

tfcluster never imports the trainer; `trainer/settings.json` is what both agree on.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from pydantic import BeforeValidator, Field, create_model

from tfcluster.errors import MissingFile
from tfcluster.spec.field_types import Frozen, Text, shown, wrong

SETTINGS_PATH = Path(__file__).parent.parent.parent / "trainer" / "settings.json"

_KINDS: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": Text}
_LIMITS = {"min": "ge", "max": "le", "exclusive_min": "gt"}


class TrainSpec(Frozen):
    """Settings of the bundled trainer; every key is optional."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings that the person gave, in the table's order."""
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        chosen = ((name, value) for name, value in given if name in self.model_fields_set)
        return {name: value for name, value in chosen if value is not None}

    def flags(self) -> list[str]:
        """The trainer's arguments for what was given: `["--batch_size", "100"]`."""
        return [part for name, value in self.chosen.items() for part in (f"--{name}", _flag(value))]

    def algorithm_for(self, has_ps: bool) -> str:
        """The algorithm that will run: the one given, else what the trainer picks."""
        given = getattr(self, "algorithm", None)
        return str(given) if given else "hogwild" if has_ps else "single"


def _flag(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def load_settings(path: Path | None = None) -> list[dict[str, Any]]:
    """The trainer's table of settings."""
    path = SETTINGS_PATH if path is None else path
    try:
        table: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingFile(
            f"the trainer's settings table is missing: {error.strerror}",
            evidence=[str(path)],
            hint="the installation is incomplete: install tfcluster again",
        ) from None
    return table


def train_model() -> type[TrainSpec]:
    """The model of the `train` section, made once per settings table."""
    return _model_of(SETTINGS_PATH)


@functools.cache
def _model_of(path: Path) -> type[TrainSpec]:
    fields: dict[str, Any] = {row["name"]: _field(row) for row in load_settings(path)}
    return create_model("TrainSpec", __base__=TrainSpec, __doc__=TrainSpec.__doc__, **fields)


def _field(row: dict[str, Any]) -> tuple[Any, Any]:
    """A row of the table as a field's type and default."""
    kind = row["type"]
    limits = {ours: row[theirs] for theirs, ours in _LIMITS.items() if theirs in row}
    if kind in ("float", "floats"):
        limits["allow_inf_nan"] = False
    annotation: Any = _KINDS[kind.removesuffix("s") if kind in ("ints", "floats") else kind]
    if row.get("choices"):
        annotation = Literal.__getitem__(tuple(row["choices"]))
    elif limits:
        annotation = Annotated[annotation, Field(**limits)]
    if kind in ("ints", "floats"):
        annotation = Annotated[list[annotation], BeforeValidator(_listed)]
    if row.get("default") is None:
        annotation = Optional[annotation]  # noqa: UP045
    return annotation, Field(default=row.get("default"), description=row["help"])


def _listed(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise wrong(f"expected a list, got {shown(value)}", f"write [{shown(value)}]")
    return value


def read_train(value: Any) -> TrainSpec | None:
    """Validates a `train` section by the table."""
    if isinstance(value, TrainSpec):
        return value
    return None if value is None else train_model().model_validate(value)
