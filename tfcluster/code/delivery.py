"""How code reaches containers: where it goes, and in how many pieces a cluster takes it."""

from __future__ import annotations

from tfcluster.code.snapshot import Snapshot
from tfcluster.code.walk import WAYS_OUT
from tfcluster.errors import UsageError
from tfcluster.quantities import format_bytes

CODE = "/tmp/tfcluster/code"  # every user may write to /tmp, also where the root is read-only
PART = 900 << 10  # a ConfigMap holds at most 1 MiB
MAX_PACKED = 9 << 20  # what all of them together may add to the cluster's own database


def count_parts(code: Snapshot) -> int:
    return max(1, -(-code.packed // PART))


def split_archive(data: bytes) -> list[bytes]:
    """The archive in pieces that each fit into a ConfigMap."""
    return [data[start : start + PART] for start in range(0, max(1, len(data)), PART)]


def check_packed(code: Snapshot) -> None:
    """Raise if the code is more than ConfigMaps should carry."""
    if code.packed > MAX_PACKED:
        raise UsageError(
            f"code: {code.folder} has {format_bytes(code.packed)}B when packed; Kubernetes takes"
            f" {format_bytes(MAX_PACKED)}B, in ConfigMaps",
            evidence=[f"  {code.files:,} files, {format_bytes(code.size)}B"],
            hint=WAYS_OUT,
        )
