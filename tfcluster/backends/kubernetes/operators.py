"""The same job for clusters that have an operator: one JobSet, or one TFJob of Kubeflow.

The launcher stays in charge of starting, restarting in place and ending. What the operators add is
one object for the whole job, which queues and dashboards know. docs/tfjob-jobset.md maps every
field.
"""

from __future__ import annotations

import math
from typing import Any

from tfcluster.backends.kubernetes.kueue import QUEUE
from tfcluster.backends.kubernetes.render import (
    DEADLINE_SLACK,
    job_rules,
    labels,
    render_commons,
    render_config,
    render_gang,
    render_pod,
    shared,
    summary,
    template,
)
from tfcluster.backends.kubernetes.site import site_of
from tfcluster.errors import UsageError
from tfcluster.plan import Plan

REPLICA_TYPES = {"chief": "Chief", "ps": "PS", "worker": "Worker", "evaluator": "Evaluator"}
SUCCESS = {("chief",): "", ("worker",): "AllWorkers"}
INDEX_LABEL = "metadata.labels['training.kubeflow.org/replica-index']"


def render_jobset(plan: Plan) -> str:
    """One JobSet with a replicated Job per role."""
    refuse_tensorboard(plan, "JobSet")
    values = shared(plan)
    jobs, configs = [], []
    for role in plan.roles:
        config, text = render_config(plan, role, values, jobset_hosts)
        host = jobset_hosts(plan, role.role).replace("{index}", "0")
        configs.append(text)
        jobs.append(
            {
                "role": role,
                "labels": labels(plan, role.role),
                "pod": render_pod(plan, role, values, config=config, host=host, report=False),
                **job_rules(plan, role),
            }
        )
    groups = [render_gang(plan, values).rstrip("\n")] if site_of(plan).gang else []
    return template("jobset/jobset.yaml.j2").render(
        summary=summary(plan),
        commons="\n---\n".join([render_commons(values, service=False), *groups, *configs]),
        jobset_head=queued(plan, values["head"](plan.job)),
        jobs=jobs,
        **values,
    )


def jobset_hosts(plan: Plan, role: str) -> str:
    """A JobSet numbers its Jobs as well: the first, and only, of each role is 0."""
    return f"{plan.job}-{role}-0-{{index}}.{plan.job}"


def render_tfjob(plan: Plan) -> str:
    """One TFJob of the Kubeflow Training Operator, v1."""
    refuse_tensorboard(plan, "TFJob")
    unknown = [role.role for role in plan.roles if role.role not in REPLICA_TYPES]
    if unknown:
        raise UsageError(
            f'a TFJob has no role "{unknown[0]}"',
            hint=f"it has {', '.join(REPLICA_TYPES)}; --target jobset takes any",
        )
    if plan.success not in SUCCESS:
        raise UsageError(
            f"a TFJob cannot say success: [{', '.join(plan.success)}]",
            hint="use chief or workers; --target jobset takes any",
        )
    if site_of(plan).gang == "native":
        raise UsageError("a TFJob cannot say gang: native", hint="--target jobset can")
    values = shared(plan)
    replicas, configs = [], []
    for role in plan.roles:
        config, text = render_config(plan, role, values, tfjob_hosts)
        configs.append(text)
        pod = render_pod(
            plan,
            role,
            values,
            config=config,
            container="tensorflow",
            subdomain=False,
            counts=False,
            report=False,
            port_name="tfjob-port",
            index_from=INDEX_LABEL,
        )
        replicas.append({"type": REPLICA_TYPES[role.role], "role": role, "pod": pod})
    return template("kubeflow/tfjob.yaml.j2").render(
        summary=summary(plan),
        commons="\n---\n".join([render_commons(values, service=False), *configs]),
        tfjob_head=queued(plan, values["head"](plan.job)),
        policy=run_policy(plan),
        success=SUCCESS[plan.success],
        replicas=replicas,
        **values,
    )


def tfjob_hosts(plan: Plan, role: str) -> str:
    """The operator makes a Service per replica, called like it."""
    return f"{plan.job}-{role}-{{index}}"


def run_policy(plan: Plan) -> dict[str, Any]:
    # No backoffLimit: when it is reached the operator deletes every pod, and the logs with them.
    policy: dict[str, Any] = {"cleanPodPolicy": "None"}
    if plan.deadline:
        policy["activeDeadlineSeconds"] = math.ceil(plan.deadline + DEADLINE_SLACK)
    site = site_of(plan)
    if site.ttl:
        policy["ttlSecondsAfterFinished"] = math.ceil(site.ttl)
    if site.gang:
        policy["schedulingPolicy"] = {"minAvailable": plan.size}
    return policy


def queued(plan: Plan, head: dict[str, Any]) -> dict[str, Any]:
    queue = site_of(plan).queue
    if queue:
        head["labels"][QUEUE] = queue
    return head


def refuse_tensorboard(plan: Plan, what: str) -> None:
    if site_of(plan).tensorboard:
        raise UsageError(
            f"tensorboard: is not part of a {what}",
            hint="leave it out here; --target kubernetes has it",
        )
