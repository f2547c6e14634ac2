"""What a plan says about a person's code."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfcluster.launch.plan import CodeEntry

if TYPE_CHECKING:
    from tfcluster.code.snapshot import Snapshot


@dataclass(frozen=True)
class CodePlan:
    """The code that every task gets: which, how much, and where tasks find it."""

    digest: str
    files: int
    size: int
    packed: int
    target: str
    parts: tuple[str, ...] = ()  # as tasks see the archive; none if it is unpacked for them

    @classmethod
    def of(cls, snapshot: Snapshot, target: str, parts: tuple[str, ...] = ()) -> CodePlan:
        amounts = (snapshot.files, snapshot.size, snapshot.packed)
        return cls(snapshot.digest, *amounts, target=target, parts=parts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CodePlan:
        return cls(**{**data, "parts": tuple(data["parts"])})

    def digested(self, workdir: str | None) -> dict[str, str]:
        """What of the code makes a task what it is: not where a run happens to unpack it."""
        inside = posixpath.relpath(workdir or self.target, self.target)
        given = str(workdir) if inside.startswith("..") else inside
        return {"workdir": given, "code": self.digest}

    def launch(self) -> CodeEntry:
        return {"parts": list(self.parts), "sha256": self.digest, "target": self.target}


def workdir_in(code: CodePlan | None, wanted: str | None) -> str | None:
    """The folder that programs run in; a relative one is inside the code."""
    if code is None:
        return wanted
    return posixpath.normpath(posixpath.join(code.target, wanted or "."))
