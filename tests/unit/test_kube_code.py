"""Code in a cluster: what is rendered, and that what is rendered can be unpacked."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import kubernetes_validate
import pytest

from tests.unit.kube import GOLDEN, SMALL, documents, found, launch_of, rendered_plan, task_of
from tests.unit.test_kube_render import without_launcher
from tfcluster.backends.kubernetes.plan import plan
from tfcluster.backends.kubernetes.yaml_text import flow
from tfcluster.code import delivery
from tfcluster.code.snapshot import take_snapshot
from tfcluster.code.walk import Rules
from tfcluster.launch.unpack import unpack_code
from tfcluster.plan import Plan
from tfcluster.spec.loader import load_spec_text


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return folder


def planned(folder: Path, image: str | None = "python:3.11-slim") -> Plan:
    spec = {**SMALL, "image": image} if image else {k: SMALL[k] for k in SMALL if k != "image"}
    loaded = load_spec_text(flow({**spec, "code": "."}), backend="kubernetes")
    return plan(loaded.spec, None, folder, take_snapshot(folder, Rules()))


@pytest.mark.parametrize("target", ["kubernetes", "jobset", "tfjob"])
def test_manifests_with_code_are_as_they_were(code, target):
    """`UPDATE_GOLDEN=1` writes them; the packed bytes depend on zlib and are left out."""
    text = without_launcher(rendered_plan(planned(code), target))
    text = re.sub(r"(  code\.0: )\S+", r"\1…", text)
    golden = GOLDEN / f"code.{target}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_the_parts_of_the_code_are_immutable_and_unpack_to_what_was_sent(
    code, tmp_path, monkeypatch
):
    monkeypatch.setattr(delivery, "PART", 1000)
    (code / "data.bin").write_bytes(os.urandom(2500))
    docs = documents(rendered_plan(planned(code)))
    maps = [d for d in docs if d["kind"] == "ConfigMap" and "-code-" in d["metadata"]["name"]]
    assert len(maps) == 3 and all(doc["immutable"] for doc in maps)
    for doc in maps:
        kubernetes_validate.validate(doc, "1.34", strict=True)
        assert doc["metadata"]["labels"]["tfcluster.io/job"] == "small"
    launch = launch_of(docs, "worker")["code"]
    volumes = found(docs, "Job", "small-worker")["spec"]["template"]["spec"]["volumes"]
    sources = next(v for v in volumes if v["name"] == "tfcluster")["projected"]["sources"]
    named = [source["configMap"]["name"] for source in sources if "configMap" in source]
    assert [doc["metadata"]["name"] for doc in maps] == named[2:]
    parts = []
    for path, doc in zip(launch["parts"], maps, strict=True):
        key, text = next(iter(doc["binaryData"].items()))
        assert path == f"/tfcluster/{key}"
        parts.append(tmp_path / key)
        parts[-1].write_bytes(base64.b64decode(text))
    target = tmp_path / "target"
    unpack_code({**launch, "parts": [str(part) for part in parts], "target": str(target)})
    assert {path.name for path in target.iterdir()} == {"train.py", "data.bin"}


def test_edited_code_changes_every_role_s_digest_and_the_names(code):
    before = planned(code)
    assert planned(code).digests() == before.digests()
    (code / "train.py").write_text("print('other')\n")
    after = planned(code)
    assert all(before.role(r.role).digest != r.digest for r in after.roles)
    first, second = (documents(rendered_plan(p)) for p in (before, after))
    names = [{doc["metadata"]["name"] for doc in docs} for docs in (first, second)]
    assert sum("-code-" in name for name in names[0] - names[1]) == 1


def test_programs_start_in_the_code_in_the_trainer_s_image(code):
    docs = documents(rendered_plan(planned(code, image=None)))
    role = launch_of(docs, "worker")["roles"]["worker"]
    assert role["workdir"] == delivery.CODE == "/tmp/tfcluster/code"
    assert task_of(docs, "worker")["image"].startswith("tfcluster/trainer:")
