"""Run distributed TensorFlow from one file: on a laptop, on Docker hosts, on Kubernetes.

`tfcluster.up`, `tfcluster.run` and `tfcluster.find` give a `Job`; see docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Job", "__version__", "find", "run", "up"]

if TYPE_CHECKING:
    from tfcluster.api import Job, find, run, up


def __getattr__(name: str) -> Any:
    # Imported at first use: whoever imports one module of ours need not load them all.
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("tfcluster.api"), name)
    raise AttributeError(f"module 'tfcluster' has no attribute {name!r}")
