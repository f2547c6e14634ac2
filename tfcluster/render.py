"""Artifacts from a plan: the templates of manifests/, filled in so that values stay values."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import json
import shlex
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.archive import home
from tfcluster.errors import TfclusterError, UsageError
from tfcluster.files import make_folder, read_bytes, write_bytes
from tfcluster.launch.bundle import source
from tfcluster.launch.proof import make_key, parse_key

if TYPE_CHECKING:
    import jinja2

    from tfcluster.plan import Plan


def resources(name: str) -> Path:
    """A top-level folder of the project: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parent
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name


def environment() -> jinja2.Environment:
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources("manifests")),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # the filters below quote for sh and JSON; there is no HTML here
    )
    filters: dict[str, Callable[[Any], str]] = {
        "sh": lambda value: shlex.quote(str(value)),
        "json": lambda value: json.dumps(value, indent=1),
        "comment": lambda value: json.dumps(str(value)),
        "packed": packed,
    }
    env.filters.update(filters)
    return env


def packed(text: str) -> str:
    """Text as base64 lines, for scripts that carry a file."""
    return wrapped(zlib.compress(text.encode(), 9))


def wrapped(content: bytes) -> str:
    """Bytes as base64 lines."""
    data = base64.b64encode(content).decode()
    return "\n".join(data[start : start + 100] for start in range(0, len(data), 100))


def render_local(plan: Plan) -> str:
    """A shell script that runs the job by itself, with no tfcluster installed.

    It chooses its ports when it runs, so that the same spec gives the same script.
    """
    launch = plan.launch("rendered")
    for role in launch["roles"].values():
        for name in ("addresses", "control"):
            role[name] = [f"{plan.bind}:0"] * role["replicas"]
    folders = [folder for folder in (plan.logdir, plan.checkpoints) if folder]
    template = environment().get_template("local/run.sh.j2")
    return template.render(
        plan=plan,
        launch=launch,
        launcher=source(),
        folders=folders,
        ports=plan.site["ports"],
        python=sys.executable,
    )


def control_key(plan: Plan) -> bytes:
    """The key of a job that is rendered: the same for the same spec and user, and no one else's.

    It is made from a key of the user's own, so that rendering twice gives the same text.
    """
    words = f"{plan.job}\0{plan.backend}\0{plan.content_id}".encode()
    return hmac.new(user_key(), words, hashlib.sha256).digest()


def user_key() -> bytes:
    """The key that rendered ones are made from; for this call only where none can be kept."""
    path = home() / "render.key"
    try:
        found = read_bytes(path)
        if found is None:
            make_folder(path.parent)
            found = make_key().hex().encode()
            write_bytes(path, found)
        return parse_key(found)
    except (OSError, ValueError, TfclusterError):
        return make_key()


def later(module: str, function: str) -> Callable[[Plan], str]:
    """A target that lives with its backend, imported when it is asked for."""

    def render(plan: Plan) -> str:
        made: str = getattr(importlib.import_module(f"tfcluster.backends.{module}"), function)(plan)
        return made

    return render


TARGETS: dict[str, Callable[[Plan], str]] = {
    "local": render_local,
    "docker": later("docker.render", "render_docker"),
    "compose": later("docker.render", "render_compose"),
    "kubernetes": later("kubernetes.render", "render_kubernetes"),
    "jobset": later("kubernetes.operators", "render_jobset"),
    "tfjob": later("kubernetes.operators", "render_tfjob"),
}
# target -> the backend whose plan it is made from, where that is not called like it
BACKEND_OF = {"compose": "docker", "jobset": "kubernetes", "tfjob": "kubernetes"}


# target -> what its file is called in a folder; scripts are called after the job or the host
FILES = {"compose": "compose.yaml"}


def render_plan(plan: Plan, target: str, *, legacy: bool = False) -> str:
    """The artifact of a plan for one target."""
    check_target(plan, target)
    if target == "docker":
        from tfcluster.backends.docker.render import render_docker

        return render_docker(plan, legacy=legacy)
    return TARGETS[target](plan)


def render_files(plan: Plan, target: str, *, legacy: bool = False) -> dict[str, str]:
    """File name -> content; several where every host has a script of its own."""
    check_target(plan, target)
    if target == "docker":
        from tfcluster.backends.docker.render import render_scripts

        return render_scripts(plan, legacy=legacy)
    ending = "sh" if target == "local" else "yaml"
    return {FILES.get(target, f"{plan.job}.{ending}"): render_plan(plan, target)}


def check_target(plan: Plan, target: str) -> None:
    if target not in TARGETS:
        raise UsageError(
            f'render target "{target}" is not part of this version',
            hint=f"known targets: {', '.join(sorted(TARGETS))}",
        )
    if plan.results and target != "kubernetes":
        raise UsageError(
            f"results: nothing brings them back from what is rendered for {target}",
            hint="leave results out: files stay where $TFCLUSTER_OUTPUT is",
        )
    needed = BACKEND_OF.get(target, target)
    if plan.backend != needed:
        raise UsageError(
            f"--target {target} needs a plan for {needed}, and this one is for {plan.backend}",
            hint=f"add --backend {needed}",
        )
