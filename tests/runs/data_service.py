"""The tf.data service of docs/launcher.md, run as it is printed there."""

from __future__ import annotations

import re

from tests.runs.cli import ROOT, Cli


def assert_data_service_ends_by_itself(cli: Cli, *args: str) -> None:
    """Write the spec and the programs of the page into the folder, and bring them up."""
    page = (ROOT / "docs" / "launcher.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"```yaml\n(name: tf-data\n.*?)```", page, re.DOTALL)
    (cli.folder / "cluster.yaml").write_text(spec)
    programs = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in programs] == ["service.py", "train.py"]
    for name, text in programs:
        (cli.folder / name).write_text(text)
    up = cli("up", *args, timeout=600)
    assert up.returncode == 0, up.stderr
    assert "trainer-0    | sum: 499500" in up.stdout
    codes = {task["task"]: task["exitCode"] for task in cli.status()["tasks"]}
    assert codes == {"data-0": 0, "data-1": 0, "dispatcher-0": 0, "trainer-0": 0}
