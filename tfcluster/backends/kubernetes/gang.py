"""Schedulers that place all tasks of a job or none, and what each wants of the pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gang:
    """How one scheduler is told that pods belong together. `{job}` is the group's name."""

    api: str
    smallest: tuple[str, ...]  # where the group's spec has the number of pods
    needs: str
    scheduler: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    pod_field: tuple[str, str] | None = None

    @property
    def group(self) -> str:
        """The API group without its version."""
        return self.api.partition("/")[0]

    def spec(self, size: int) -> dict[str, Any]:
        """The group's spec: so many pods at once, or none."""
        found: Any = size
        for key in reversed(self.smallest):
            found = {key: found}
        return dict(found)


GANGS = {
    "native": Gang(
        api="scheduling.k8s.io/v1alpha2",
        smallest=("schedulingPolicy", "gang", "minCount"),
        needs="Kubernetes 1.36 with the feature gates GenericWorkload and GangScheduling",
        pod_field=("schedulingGroup", "podGroupName"),
    ),
    "volcano": Gang(
        api="scheduling.volcano.sh/v1beta1",
        smallest=("minMember",),
        needs="the Volcano scheduler",
        scheduler="volcano",
        annotations=(("scheduling.k8s.io/group-name", "{job}"),),
    ),
    "coscheduling": Gang(
        api="scheduling.x-k8s.io/v1alpha1",
        smallest=("minMember",),
        needs="the scheduler of scheduler-plugins",
        scheduler="scheduler-plugins-scheduler",
        labels=(("scheduling.x-k8s.io/pod-group", "{job}"),),
    ),
}


def gang_of(name: str | None) -> Gang | None:
    """The gang called so in a spec, if one is asked for."""
    return GANGS[name] if name else None


def named(pairs: tuple[tuple[str, str], ...], job: str) -> dict[str, str]:
    return {key: value.format(job=job) for key, value in pairs}
