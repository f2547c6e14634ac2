"""The launcher as one file: every module once, no name twice, old Pythons, nothing to install."""

from __future__ import annotations

import ast
import collections
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tfcluster.launch
from tfcluster.launch import bundle

FOLDER = Path(tfcluster.launch.__file__).parent


def names_of(tree: ast.Module) -> list[str]:
    """What a module defines at its top level, imports aside."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            targets = [t.elts if isinstance(t, ast.Tuple) else [t] for t in node.targets]
            found += [name.id for group in targets for name in group if isinstance(name, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append(node.target.id)
    return found


def test_every_module_is_joined():
    here = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "bundle"}
    assert set(bundle.MODULES) == here


def test_no_two_modules_define_the_same_name():
    counts = collections.Counter(names_of(ast.parse(bundle.source())))
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_joined_file_defines_what_its_modules_define():
    joined = set(names_of(ast.parse(bundle.source())))
    for name in bundle.MODULES:
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        assert set(names_of(tree)) <= joined


def test_a_module_stands_after_those_that_it_imports_from():
    known: set[str] = set()
    for name in bundle.MODULES:
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(bundle.OWN):
                assert node.module.rpartition(".")[2] in known, f"{name} imports {node.module}"
        known.add(name)


def test_only_the_standard_library_is_imported():
    allowed = sys.stdlib_module_names | {"_sha2", "_sha256"}
    for node in ast.walk(ast.parse(bundle.source())):
        if isinstance(node, ast.Import):
            assert {alias.name.partition(".")[0] for alias in node.names} <= allowed
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] in allowed


def test_no_line_is_too_wide_to_read_and_none_ends_in_spaces():
    lines = bundle.source().splitlines()
    assert max(map(len, lines)) <= 120
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_it_starts_under_the_pythons_that_images_have(tmp_path, version):
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no python{version} here; install one to run this")
    path = tmp_path / "launcher.py"
    path.write_text(bundle.source(), encoding="utf-8")
    shown = subprocess.run([found, "-I", path, "--help"], capture_output=True, text=True)
    assert "--plan" in shown.stdout, shown.stderr


def test_the_launcher_loads_neither_openssl_nor_what_reads_archives(tmp_path):
    path = tmp_path / "launcher.py"
    path.write_text(bundle.source())
    program = (
        "import runpy, sys; sys.argv = ['launcher.py', '--help']\n"
        f"try: runpy.run_path({str(path)!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print([name for name in ('_hashlib', 'ssl', 'tarfile', 'gzip') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
