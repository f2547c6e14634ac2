"""What a job asks of machines that they do not have: all of it in one error."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfcluster.errors import MissingError, TfclusterError, UsageError
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec


@dataclass(frozen=True)
class Machine:
    """Where tasks are to run."""

    name: str  # "this machine"
    cores: int
    memory: int  # bytes


@dataclass(frozen=True)
class Shortage:
    """One thing that cannot be given."""

    message: str  # beginning with its place in the spec
    hint: str
    forbidden: bool = False  # whatever the machine has


def shortages(spec: JobSpec, machine: Machine, roles: Collection[str]) -> Iterator[Shortage]:
    """What a single task of one of these roles asks for, and the whole machine does not have."""
    for name, role in spec.roles.items():
        if name not in roles:
            continue
        if role.cpu is not None and role.cpu > machine.cores:
            yield Shortage(
                f"roles.{name}.cpu: {role.cpu:g} cores asked for, {machine.name} has"
                f" {machine.cores}",
                f"write cpu: {machine.cores}",
            )
        if role.memory is not None and role.memory.bytes > machine.memory:
            has = format_bytes(machine.memory)
            yield Shortage(
                f"roles.{name}.memory: {role.memory} asked for, {machine.name} has {has}",
                f"write a memory below {has}",
            )


def refuse_shortages(found: Sequence[Shortage]) -> None:
    """Raise if there are any, with all of them."""
    if not found:
        return
    kind: type[TfclusterError] = UsageError if all(s.forbidden for s in found) else MissingError
    if len(found) == 1:
        raise kind(found[0].message, hint=found[0].hint)
    raise kind(
        f"{len(found)} of the resources asked for cannot be given",
        evidence=[f"  {one.message}" for one in found],
        hint="; ".join(dict.fromkeys(one.hint for one in found)),
    )
