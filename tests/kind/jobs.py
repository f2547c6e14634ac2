"""A job in the real cluster, with the ways to harm a task's launcher that a cluster has.

They are those of a node: a container's processes cannot be killed or stopped from inside.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

from tests.contract.jobs import Job
from tests.kind import cluster
from tests.launchers import until


class ClusterJob(Job):
    """A job whose tasks are pods of a kind cluster, in which every node is a container."""

    def __init__(self, folder: Any, name: str = "contract", namespace: str = cluster.NAMESPACE):
        super().__init__("kubernetes", folder, name)
        self.namespace = namespace
        self.harmed: dict[tuple[str, str], tuple[str, list[str]]] = {}

    def pods(self, task: str) -> list[dict[str, Any]]:
        """The task's pods, the newest last."""
        role, _, index = task.rpartition("-")
        own = f"tfcluster.io/job={self.name},tfcluster.io/role={role}"
        chosen = f"{own},batch.kubernetes.io/job-completion-index={index}"
        found = cluster.listed("pods", chosen, self.namespace)
        return sorted(found, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def pod(self, task: str) -> dict[str, Any]:
        """The task's pod, its container running."""

        def running() -> dict[str, Any] | None:
            for pod in self.pods(task):
                statuses = pod["status"].get("containerStatuses") or [{"state": {}}]
                if "running" in statuses[0]["state"]:
                    return pod
            return None

        until(lambda: running() is not None, f"a pod of {task} to run", timeout=60)
        found = running()
        assert found is not None
        return found

    def processes(self, pod: dict[str, Any]) -> list[str]:
        """The launcher's pid on the node, then those of all that it has started."""
        node = pod["spec"]["nodeName"]
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        tasks = on_node(node, "ctr", "-n", "k8s.io", "tasks", "ls").splitlines()
        (launcher,) = [line.split()[1] for line in tasks if line.startswith(container)]
        return list(family(node, launcher))

    def kill_launcher(self, task: str) -> None:
        pod = self.pod(task)
        on_node(pod["spec"]["nodeName"], "kill", "-KILL", self.processes(pod)[0])

    def pause(self, task: str) -> None:
        pod = self.pod(task)
        node, pids = pod["spec"]["nodeName"], self.processes(pod)
        self.harmed["pause", task] = (node, pids)
        on_node(node, "kill", "-STOP", *pids)

    def resume(self, task: str) -> None:
        node, pids = self.harmed.pop(("pause", task))
        # They may be gone by now.
        on_node(node, "kill", "-CONT", *pids, check=False)

    def cut_off(self, task: str) -> None:
        """Drop every packet between the pod and other pods; its node still reaches it."""
        pod = self.pod(task)
        node, address = pod["spec"]["nodeName"], pod["status"]["podIP"]
        self.harmed["cut", task] = (node, [address])
        for side in ("-s", "-d"):
            on_node(node, "iptables", "-w", "-I", "FORWARD", side, address, "-j", "DROP")

    def heal(self, task: str) -> None:
        node, (address,) = self.harmed.pop(("cut", task))
        for side in ("-s", "-d"):
            on_node(node, "iptables", "-w", "-D", "FORWARD", side, address, "-j", "DROP")

    def heal_all(self) -> None:
        for kind, task in list(self.harmed):
            (self.resume if kind == "pause" else self.heal)(task)

    def down(self) -> None:
        self.heal_all()
        super().down()

    def leftovers(self) -> str:
        """The names of what is still in the cluster."""
        kinds = "jobs,pods,services,configmaps,secrets,networkpolicies"
        chosen = f"tfcluster.io/job={self.name}"
        return cluster.kubectl("get", kinds, "-n", self.namespace, "-l", chosen, "-o", "name")


def on_node(node: str, *argv: str, check: bool = True) -> str:
    done = subprocess.run(
        ["docker", "exec", node, *argv], capture_output=True, text=True, timeout=60
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def family(node: str, pid: str) -> Iterator[str]:
    """A process and all below it."""
    yield pid
    for child in on_node(node, "pgrep", "-P", pid, check=False).split():
        yield from family(node, child)
