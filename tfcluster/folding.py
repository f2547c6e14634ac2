"""Folds TensorFlow's notices away where people read, and counts them."""

from __future__ import annotations

from tfcluster.events import LogLine
from tfcluster.launch.notices import NoticeReader
from tfcluster.plan import Plan
from tfcluster.tables import counted


class Folding:
    """What is left out of the lines of a run; `hidden` says how many lines that were."""

    def __init__(self, plan: Plan):
        self.gpu_roles = {role.role for role in plan.roles if role.resources.gpus}
        self.readers: dict[tuple[str, int, str], NoticeReader] = {}
        self.hidden = 0

    def hides(self, line: LogLine) -> bool:
        """Whether this is a notice; lines of a task are given in their order."""
        place = (line.task, line.attempt, line.stream)
        reader = self.readers.get(place)
        if reader is None:
            has_gpu = line.task.rpartition("-")[0] in self.gpu_roles
            reader = self.readers[place] = NoticeReader(has_gpu)
        found = reader.is_notice(line.data)
        self.hidden += found
        return found

    def summary(self, command: str = "--all") -> str:
        """`214 TensorFlow notices hidden; --all shows them`; empty if there were none."""
        if not self.hidden:
            return ""
        them = "it" if self.hidden == 1 else "them"
        return f"{counted(self.hidden, 'TensorFlow notice')} hidden; {command} shows {them}"
