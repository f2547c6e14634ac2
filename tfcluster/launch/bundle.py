"""The launcher as one file: its modules joined, their imports of each other left out."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

FOLDER = Path(__file__).parent
# In this order every module stands after those that it imports from.
MODULES = (
    *("exits", "system", "mac", "plan", "record", "lines", "ranks"),
    *("messages", "facts", "presence", "search", "neighbours", "tree", "member"),
    *("proof", "wire", "lobby", "answers", "control"),
    *("logfile", "notices", "history", "progress", "output", "python", "script", "program"),
    *("edges", "waiting", "report", "unpack", "handover", "stalls"),
    *("standing", "attempt", "task", "__main__"),
)
HEAD = '''"""tfcluster's launcher, joined from tfcluster/launch. Python 3.8+, no packages.

The parent process of a task's program: `python launcher.py --plan launch.json --task worker-1`.
It waits for the task's peers, starts the program, restarts it, and ends the job by rule.
"""

from __future__ import annotations
'''
OWN = "tfcluster.launch"


@functools.lru_cache(maxsize=1)
def source() -> str:
    """The text of launcher.py, readable from top to bottom."""
    imports: set[str] = set()
    bodies = []
    for name in MODULES:
        text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        bodies.append(take_body(name, text, imports))
    return HEAD + "\n" + "\n".join(sorted(imports)) + "\n" + "".join(bodies)


def take_body(name: str, text: str, imports: set[str]) -> str:
    """A module without its docstring and imports; those from elsewhere are collected."""
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if not module.startswith(OWN) and module != "__future__":
                imports.update(ast.unparse(node).splitlines())
        elif not is_docstring:
            continue
        assert node.end_lineno is not None
        for number in range(node.lineno - 1, node.end_lineno):
            lines[number] = ""
    heading = f"\n\n# {'=' * 30} {name.strip('_')}\n"
    summary = (ast.get_docstring(tree) or "").splitlines()[:1]
    comment = "".join(f"# {line}\n" for line in summary)
    return heading + comment + "\n\n" + "".join(lines).strip("\n") + "\n"
