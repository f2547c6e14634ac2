"""Checks of how a job ends: those who decide about it exist, and come to an end themselves."""

from __future__ import annotations

from collections.abc import Iterator

from tfcluster.similar import did_you_mean
from tfcluster.spec.field_types import shown
from tfcluster.spec.findings import Finding, Path
from tfcluster.spec.model import JobSpec


def success_names_roles_that_end(spec: JobSpec) -> Iterator[Finding]:
    """Success names roles that exist and end."""
    if not spec.roles:
        return
    for index, written in enumerate(spec.success_names):
        path: Path = ("success", index) if isinstance(spec.success, list) else ("success",)
        name = spec.role_meant(written)
        if name not in spec.roles:
            message = f"success: there is no role {shown(name)}"
            yield Finding(path, message, _known_roles(spec, written), needs=(("roles", name),))
        elif spec.roles[name].serves:
            message = f"success: {name} serves for ever (roles.{name}.serves) and never succeeds"
            hint = "name a role that ends by itself, or remove serves: true from this one"
            yield Finding(path, message, hint, needs=(("roles", name, "serves"),))
        elif spec.train is not None and name in spec.listening_roles:
            message = f"success: {name} never succeeds: with train it serves until the job is over"
            yield Finding(path, message, "remove success", needs=(("train",), ("roles",)))


def _known_roles(spec: JobSpec, written: str) -> str:
    """What a name under success may have been meant to be, and what there is."""
    names = list(spec.roles)
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    known = f"the roles are {listed}" if len(names) > 1 else f"the only role is {listed}"
    meant = did_you_mean(written, names)
    return f"{meant} {known}" if meant else f"{known}; success: all means every one that ends"


def some_role_ends(spec: JobSpec) -> Iterator[Finding]:
    """A job whose roles all serve for ever would never end."""
    if not spec.roles or spec.success_roles or spec.success_names:
        return
    message = "every role serves for ever, so the job would never end"
    declared = next(name for name, role in spec.roles.items() if role.serves)
    hint = "remove serves: true from the role whose end is the job's"
    path: Path = ("roles", declared, "serves")
    yield Finding(path, message, hint, "key", needs=(("roles",), ("train",)))
