"""Manifests from a plan. What `up` applies and what `render` prints is the same text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from tfcluster.backends.kubernetes import yaml_text
from tfcluster.backends.kubernetes.gang import gang_of, named
from tfcluster.backends.kubernetes.kueue import queue_annotations, queue_labels, queue_settings
from tfcluster.backends.kubernetes.pods import code_maps, pod_view, volumes_of
from tfcluster.backends.kubernetes.site import container_of, site_of
from tfcluster.code.delivery import split_archive
from tfcluster.code.snapshot import archive_bytes
from tfcluster.launch.bundle import source
from tfcluster.launch.plan import LaunchRole, RoleAddresses
from tfcluster.plan import Plan, RolePlan, launch_role
from tfcluster.render import control_key, environment

if TYPE_CHECKING:
    import jinja2

LABEL = "tfcluster.io"
Hosts = Callable[[Plan, str], str]  # the names of a role's tasks, with {index}
# How a launcher ends that did not decide to end: interrupted, aborted, killed, crashed, told to go.
TOLD_TO_GO = 143  # a deleted pod; says nothing about the program
KILLED = (130, 134, 137, 139, TOLD_TO_GO)
DEADLINE_SLACK = 60.0


def render_kubernetes(plan: Plan, key: bytes | None = None) -> str:
    """The whole job as YAML documents, in the order in which they are best created.

    `key` is what its launchers prove themselves with: the run's, or one for what is rendered.
    """
    values, site = shared(plan, key), site_of(plan)
    return template("kubernetes/job.yaml.j2").render(
        summary=summary(plan),
        commons=render_commons(values, service=True),
        groups=[render_gang(plan, values)] if site.gang else [],
        roles=[render_role(plan, role, values) for role in plan.roles],
        tensorboard=[render_tensorboard(plan, values)] if site.tensorboard else [],
        **values,
    )


def summary(plan: Plan) -> str:
    return ", ".join(f"{role.replicas} {role.role}" for role in plan.roles)


def render_commons(values: Mapping[str, Any], *, service: bool) -> str:
    """What all roles share: the launcher, the names, who may connect."""
    commons = template("kubernetes/commons.yaml.j2")
    return commons.render(
        launcher=source(), service=service, code_parts=code_parts(values["plan"]), **values
    ).rstrip("\n")


def code_parts(plan: Plan) -> list[tuple[str, str, str]]:
    """Name, key and base64 text of every ConfigMap with a part of the code."""
    if plan.code is None:
        return []
    parts = split_archive(archive_bytes(plan.code.digest))
    named = zip(code_maps(plan), plan.code.parts, parts, strict=True)
    return [
        (name, PurePosixPath(path).name, base64.b64encode(part).decode())
        for name, path, part in named
    ]


def template(name: str) -> jinja2.Template:
    env = environment().overlay(trim_blocks=True, lstrip_blocks=True)
    filters: dict[str, Any] = {
        "q": yaml_text.scalar,
        "flow": yaml_text.flow,
        "block": yaml_text.block,
        "literal": yaml_text.literal,
    }
    env.filters = {**env.filters, **filters}
    return env.get_template(name)


def shared(plan: Plan, key: bytes | None = None) -> dict[str, Any]:
    """What every template may use."""
    site = site_of(plan)

    def head(name: str, role: str | None = None) -> dict[str, Any]:
        place = {"namespace": site.namespace} if site.namespace else {}
        return {"name": name, **place, "labels": labels(plan, role)}

    return {
        "plan": plan,
        "key": (key or control_key(plan)).hex(),
        "head": head,
        "labels": lambda role=None: labels(plan, role),
        "selector": selector(plan),
        "ports": site.ports,
        "storage": storage_view(plan, head),
    }


def storage_view(plan: Plan, head: Callable[[str], dict[str, Any]]) -> dict[str, Any] | None:
    """The job's own claim. Its labels name the job but no run."""
    storage = site_of(plan).storage
    if storage is None:
        return None
    made = head(storage.claim)
    of_run = ("app.kubernetes.io/instance", f"{LABEL}/run")
    kept = {key: value for key, value in made["labels"].items() if key not in of_run}
    return {**asdict(storage), "head": {**made, "labels": kept}}


def labels(plan: Plan, role: str | None = None) -> dict[str, str]:
    """The recommended labels, and our own, by which everything of a run is found."""
    found = {
        "app.kubernetes.io/name": plan.job,
        "app.kubernetes.io/instance": site_of(plan).run,
        "app.kubernetes.io/managed-by": "tfcluster",
        f"{LABEL}/job": plan.job,
        f"{LABEL}/run": site_of(plan).run,
    }
    if role is not None:
        found = {**found, "app.kubernetes.io/component": role, f"{LABEL}/role": role}
    return dict(sorted(found.items()))


def selector(plan: Plan, part: str = "task") -> dict[str, str]:
    """Finds the pods of this run's tasks, and not those of a run that is still going away."""
    return {
        f"{LABEL}/job": plan.job,
        f"{LABEL}/part": part,
        f"{LABEL}/run": site_of(plan).run,
    }


# -- The parts ---------------------------------------------------------------------------------


def render_role(plan: Plan, role: RolePlan, values: Mapping[str, Any]) -> str:
    config, config_map = render_config(plan, role, values, pattern)
    return template("kubernetes/role.yaml.j2").render(
        role=role,
        job_head=job_head(plan, role, values),
        config_map=config_map,
        pod=render_pod(plan, role, values, config=config, queued=True),
        queued=bool(site_of(plan).queue),
        **job_rules(plan, role),
        **values,
    )


def job_rules(plan: Plan, role: RolePlan) -> dict[str, Any]:
    """When a Job replaces pods, and when it has to have ended."""
    ttl = site_of(plan).ttl
    allowed = KILLED if role.restart_on is None else (*role.restart_on, TOLD_TO_GO)
    return {
        "deadline": plan.deadline and math.ceil(plan.deadline + DEADLINE_SLACK),
        "ttl": ttl and math.ceil(ttl),
        "replacements": role.restarts,
        "killed": [code for code in KILLED if code in allowed],
    }


def render_config(
    plan: Plan, role: RolePlan, values: Mapping[str, Any], hosts: Hosts
) -> tuple[str, str]:
    """The name and the text of the ConfigMap with the role's launch plan."""
    launch = launch_json(plan, role, hosts)
    name = f"{plan.job}-{role.role}-{hashlib.sha256(launch.encode()).hexdigest()[:8]}"
    text = template("kubernetes/config.yaml.j2").render(
        role=role, config=name, launch=launch, **values
    )
    return name, text.rstrip("\n")


def job_head(plan: Plan, role: RolePlan, values: Mapping[str, Any]) -> dict[str, Any]:
    head = values["head"](f"{plan.job}-{role.role}", role.role)
    return {**head, "annotations": {f"{LABEL}/digest": role.digest}}


def render_pod(
    plan: Plan,
    role: RolePlan,
    values: Mapping[str, Any],
    *,
    config: str,
    queued: bool = False,
    **changes: Any,
) -> str:
    """The pod template of a role, with the person's own laid over it.

    `queued`: the pods themselves wait in the job's queue, if it has one.
    """
    own = {**labels(plan, role.role), **selector(plan)}
    gang = gang_of(site_of(plan).gang)
    own |= named(gang.labels, plan.job) if gang else {}
    own |= queue_labels(plan) if queued else {}
    view = {**pod_view(plan, role, config), "labels": dict(sorted(own.items())), **changes}
    if queued:
        view["annotations"] = {**view["annotations"], **queue_annotations(plan)}
        view["settings"] = {**view["settings"], **queue_settings(plan)}
    text = template("kubernetes/pod.yaml.j2").render(role=role, pod=view, **values)
    overlay = container_of(role).pod_template
    return laid_over(text, renamed(overlay, view["container"])) if overlay else text


def renamed(overlay: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The overlay for a pod whose main container has another name, as operators want it."""
    spec = dict(overlay.get("spec") or {})
    if "containers" in spec:
        spec["containers"] = [
            {**entry, "name": name} if entry["name"] == "task" else entry
            for entry in spec["containers"]
        ]
    return {**overlay, **({"spec": spec} if spec else {})}


def laid_over(text: str, overlay: Mapping[str, Any]) -> str:
    """The YAML text with the overlay merged in, its comments kept."""
    import io

    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    out = io.StringIO()
    yaml.dump(yaml_text.merged(yaml.load(text), quoted(overlay)), out)
    return out.getvalue().rstrip("\n") + "\n"


def quoted(value: Any) -> Any:
    """A copy whose strings stay strings: ruamel writes `yes` plain, kubectl reads that as true."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, Mapping):
        return {quoted(key): quoted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [quoted(item) for item in value]
    if isinstance(value, str) and yaml_text.scalar(value) != value:
        return DoubleQuotedScalarString(value)
    return value


def launch_json(plan: Plan, role: RolePlan, hosts: Hosts) -> str:
    """The launch plan of one role: its own program, and of the others only where they are.

    So it changes only when the role itself changes, and stays small whatever the number of tasks.
    """
    site = site_of(plan)
    launch = plan.launch(site.run)
    launch["roles"] = {}
    for other in plan.roles:
        named = hosts(plan, other.role)
        where: RoleAddresses = {
            "replicas": other.replicas,
            "addresses": f"{named}:{site.ports.tensorflow}",
            "control": f"{named}:{site.ports.control}",
            "serves": other.serves,
        }
        own: Mapping[str, Any] = own_entry(other) if other.role == role.role else {}
        launch["roles"][other.role] = cast(LaunchRole, {**own, **where})
    return spread_out(launch)


def spread_out(value: Any, depth: int = 0) -> str:
    """JSON with a line per key where a person would look, and no line per list item."""
    if not isinstance(value, dict) or not value or depth == 3:
        return json.dumps(value)
    pad = "  " * (depth + 1)
    items = [f"{pad}{json.dumps(key)}: {spread_out(value[key], depth + 1)}" for key in value]
    return "{\n" + ",\n".join(items) + "\n" + "  " * depth + "}"


def own_entry(role: RolePlan) -> LaunchRole:
    # The memory limit is the container's, and GPUs may come as claims.
    devices = role.resources.gpus > 0 or bool(container_of(role).claims)
    return {**launch_role(role), "memory_limit": None, "mask_gpus": not devices}


def pattern(plan: Plan, role: str) -> str:
    """The names of a role's tasks."""
    return f"{plan.job}-{role}-{{index}}.{plan.job}"


def render_gang(plan: Plan, values: Mapping[str, Any]) -> str:
    gang = gang_of(site_of(plan).gang)
    return template("kubernetes/gang.yaml.j2").render(gang=gang, **values)


def render_tensorboard(plan: Plan, values: Mapping[str, Any]) -> str:
    # Any role's image will do; the chief of the training is the one that has TensorBoard, if any.
    role = next((role for role in plan.roles if role.role in ("chief", "worker")), plan.roles[0])
    mounts, volumes = volumes_of(plan, role, None)
    kept = ("imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName")
    settings = pod_view(plan, role, "")["settings"]
    own = {**labels(plan, "tensorboard"), **selector(plan, "tensorboard")}
    return template("kubernetes/tensorboard.yaml.j2").render(
        **{**values, "labels": lambda role=None: dict(sorted(own.items()))},
        chooses=selector(plan, "tensorboard"),
        settings={key: settings[key] for key in kept if key in settings},
        image=container_of(role).image,
        pull=container_of(role).pull,
        mounts=mounts,
        volumes=volumes,
    )
