"""Take out of a virtual environment what running TensorFlow does not need.

Headers and type stubs are for compilers, test folders for developers, pip for installing; libclang
and the fast TensorBoard loader are optional. TensorFlow's libraries carry symbol tables that only a
debugger reads. Importing at the end shows that what is left still works; what was imported is
compiled, because on a read-only root nothing could keep the bytecode of a first start.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDERS = (
    "tensorflow/include",
    "tensorflow/xla_aot_runtime_src",
    "clang",
    "tensorboard_data_server",
    "pip",
)
DISTRIBUTIONS = ("pip-", "libclang-", "tensorboard_data_server-")
FILES = ("*.pyi", "*.a", "*.h", "*.pxd", "*.c", "*.cpp")
IMPORT_AND_COMPILE = """
import py_compile, sys
import tensorflow, tensorboard.main, keras
tensorflow.compat.v1.train.Saver, tensorflow.distribute.Server, tensorflow.keras.Model
tensorflow.summary.create_noop_writer()
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for module in list(sys.modules.values()):
    source = getattr(module, "__file__", None) or ""
    if source.startswith(sys.prefix) and source.endswith(".py"):
        py_compile.compile(source, invalidation_mode=mode, quiet=1)
"""


def main(environment: Path) -> None:
    packages = next((environment / "lib").glob("python3*/site-packages"))
    before = size(packages)
    for name in FOLDERS:
        shutil.rmtree(packages / name, ignore_errors=True)
    for name in DISTRIBUTIONS:
        for folder in packages.glob(f"{name}*.dist-info"):
            shutil.rmtree(folder)
    for folder in [path for path in packages.rglob("tests") if path.is_dir()]:
        shutil.rmtree(folder, ignore_errors=True)
    for pattern in FILES:
        for path in packages.rglob(pattern):
            path.unlink()
    for script in (environment / "bin").glob("pip*"):
        script.unlink()
    # Only TensorFlow's own: libraries that a wheel builder has patched do not survive stripping.
    libraries = [path for path in (packages / "tensorflow").rglob("*.so*") if path.is_file()]
    for library in libraries:
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    subprocess.run(
        [environment / "bin" / "python3", "-B", "-c", IMPORT_AND_COMPILE],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    sys.stdout.write(f"packages: {before >> 20} MiB before, {size(packages) >> 20} MiB after\n")


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
