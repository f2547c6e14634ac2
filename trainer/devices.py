"""Which devices a task may use, how much of them, and what a person wants to know about that.

The GPU settings mean what they mean in TensorFlow: `visible_devices` is CUDA_VISIBLE_DEVICES,
`gpu_memory_fraction` and `gpu_growth` are GPUOptions, `soft_placement` and `log_placement` are
fields of ConfigProto. Where there is no GPU, algorithms that want several local devices get
virtual CPU devices: the placement is real, only the hardware is shared.
"""

from __future__ import annotations

import os
from typing import Any

from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.settings import Settings

LOCAL_DEVICES = 2  # where there is no GPU and nobody asked for a number
SEVERAL_DEVICES = ("towers", "sweep", "ensemble", "model-parallel")


def hide_devices(cluster: ClusterInfo, settings: Settings) -> None:
    """Before TensorFlow is imported: choose the GPUs that it sees."""
    if cluster.role == "ps":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif settings.visible_devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible(settings.visible_devices)


def visible(devices: str) -> str:
    """The value of CUDA_VISIBLE_DEVICES for `visible_devices`."""
    if devices == "none":
        return ""
    numbers = [part.strip() for part in devices.split(",")]
    if not all(n.isdecimal() for n in numbers) or len(set(numbers)) < len(numbers):
        raise SettingsError(
            f"visible_devices: expected different numbers of GPUs such as 0,1, or none, "
            f"not {devices!r}"
        )
    return ",".join(numbers)


def gpus() -> int:
    """How many GPUs TensorFlow sees."""
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


def local_devices(cluster: ClusterInfo, settings: Settings) -> list[str]:
    """The devices of this task that a step is spread over: GPUs, or virtual CPU devices."""
    task = "" if cluster.alone else f"/job:{cluster.role}/task:{cluster.index}"
    there = gpus()
    if there and (settings.devices or 0) > there:
        raise SettingsError(f"devices: {settings.devices} were asked for, but there are {there}")
    kind, count = ("GPU", there) if there else ("CPU", LOCAL_DEVICES)
    return [f"{task}/device:{kind}:{i}" for i in range(settings.devices or count)]


def device_options(cluster: ClusterInfo, settings: Settings) -> dict[str, Any]:
    """What ConfigProto says about devices, for servers and sessions."""
    import tensorflow as tf

    options = tf.compat.v1.GPUOptions(allow_growth=settings.gpu_growth)
    if settings.gpu_memory_fraction:
        options.per_process_gpu_memory_fraction = settings.gpu_memory_fraction
    config: dict[str, Any] = {
        "gpu_options": options,
        "allow_soft_placement": settings.soft_placement,
        "log_device_placement": settings.log_placement,
    }
    if settings.algorithm in SEVERAL_DEVICES and cluster.role != "ps" and not gpus():
        config["device_count"] = {"CPU": settings.devices or LOCAL_DEVICES}
    return config


def set_eager_devices(settings: Settings) -> None:
    """The same for what runs outside of sessions, as far as TensorFlow 2 has words for it."""
    import tensorflow as tf

    tf.config.set_soft_device_placement(settings.soft_placement)
    tf.debugging.set_log_device_placement(settings.log_placement)
    if settings.gpu_growth:
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
