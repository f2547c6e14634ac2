"""Walks the spec's JSON Schema: which keys there are at a path, and what they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfcluster.spec.findings import Path


@dataclass(frozen=True)
class SchemaNode:
    """One place of the schema."""

    root: dict[str, Any]
    schema: dict[str, Any]

    def alternatives(self) -> Iterator[dict[str, Any]]:
        """The plain schemas that a value may match, references followed."""
        pending = [self.schema]
        while pending:
            schema = pending.pop(0)
            if "$ref" in schema:
                pending.append(self.root["$defs"][schema["$ref"].rsplit("/", 1)[-1]])
            elif "anyOf" in schema:
                pending.extend(schema["anyOf"])
            else:
                yield schema

    def known(self) -> dict[str, dict[str, Any]]:
        """The known keys of the mapping that is expected here."""
        out: dict[str, dict[str, Any]] = {}
        for schema in self.alternatives():
            out.update(schema.get("properties", {}))
        return out

    def entries(self) -> SchemaNode | None:
        """What a mapping with keys of the person's own holds here; None if keys are fixed."""
        for schema in self.alternatives():
            if not schema:
                return self
            extra = schema.get("additionalProperties", False)
            if schema.get("type") == "object" and extra is not False:
                return SchemaNode(self.root, {} if extra is True else extra)
        return None

    def items(self) -> SchemaNode | None:
        """What a list holds here; None if no list is expected."""
        for schema in self.alternatives():
            if schema.get("type") == "array":
                return SchemaNode(self.root, schema.get("items", {}))
        return None

    def child(self, part: str | int) -> SchemaNode | None:
        """The place below this key or index; None if there is none."""
        if isinstance(part, int):
            return self.items()
        known = self.known()
        return SchemaNode(self.root, known[part]) if part in known else self.entries()

    def types(self) -> set[str]:
        """The JSON types that are accepted here; empty if anything is."""
        out: set[str] = set()
        for schema in self.alternatives():
            kind = schema.get("type", [])
            out.update([kind] if isinstance(kind, str) else kind)
        return out

    def is_text(self) -> bool:
        """Whether a value is kept as the text it was written as, so that `4` means "4"."""
        # Arguments and variables accept numbers as well, and keep them as texts.
        return self.types() - {"null"} == {"string"} or self.schema.get("type") == [
            "string",
            "number",
        ]


def schema_at(root: dict[str, Any], path: Path) -> SchemaNode | None:
    """The schema's place for a path of a spec; None if the path cannot exist."""
    node: SchemaNode | None = SchemaNode(root, root)
    for part in path:
        node = node.child(part) if node is not None else None
    return node


def sections_with(root: dict[str, Any], key: str) -> list[str]:
    """Where else in a spec this key exists: `train`, `roles.<role>`, `kubernetes`."""
    top = SchemaNode(root, root)
    places = {name: node for name in top.known() if (node := top.child(name)) is not None}
    roles = places["roles"].entries()
    if roles is not None:
        places["roles.<role>"] = roles
    return [name for name, node in places.items() if key in node.known()]
