"""Everything of ours on an engine, found by its labels, and taken away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfcluster.backends.docker.containers import HOME_LABEL, LABEL, launch_volume, output_volume
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.lifecycle import remove_container
from tfcluster.belongings import CONTAINER, IMAGE, NETWORK, VOLUME, Belonging
from tfcluster.errors import TfclusterError
from tfcluster.layers import LABEL as REQUIREMENTS_LABEL

OURS = {"label": f"{LABEL}.job"}


def survey(engine: Engine) -> list[Belonging]:
    """The containers, networks and volumes of runs; not the volumes that specs name."""
    with translated(engine, "looking for what runs have left"):
        made = images(engine)
        return [*containers(engine), *networks(engine), *volumes(engine), *made]


def containers(engine: Engine) -> Iterator[Belonging]:
    for item in engine.api.containers(all=True, filters=OURS):
        name = item["Names"][0].lstrip("/") if item["Names"] else item["Id"][:12]
        yield belonging(engine, CONTAINER, name, item["Labels"], active=item["State"] == "running")


def networks(engine: Engine) -> Iterator[Belonging]:
    for item in engine.api.networks(filters=OURS):
        yield belonging(engine, NETWORK, item["Name"], item["Labels"])


def volumes(engine: Engine) -> Iterator[Belonging]:
    """Those that a run has made for itself: one that a spec names may hold more than its files."""
    found = engine.api.volumes(filters=OURS)["Volumes"] or ()
    sizes = volume_sizes(engine) if found else {}
    for item in found:
        name, labels = item["Name"], item.get("Labels") or {}
        job, run = labels.get(f"{LABEL}.job", ""), labels.get(f"{LABEL}.run", "")
        own = (output_volume(job, run), launch_volume(job, run))
        if run and name in own:
            results = name == own[0]
            size = sizes.get(name)
            yield belonging(engine, VOLUME, name, labels, size=size, holds_results=results)


def images(engine: Engine) -> Iterator[Belonging]:
    """Those with requirements. What they take beside the image below them is not known."""
    for item in engine.api.images(filters={"label": REQUIREMENTS_LABEL}):
        for name in item["RepoTags"] or ():
            yield belonging(engine, IMAGE, name, item["Labels"])


def volume_sizes(engine: Engine) -> dict[str, int]:
    """Bytes by volume; the engine may not know them all."""
    api = engine.api
    with contextlib.suppress(Exception):  # sizes are only shown
        found = api._result(api._get(api._url("/system/df"), params={"type": "volume"}), json=True)
        used = {item["Name"]: (item.get("UsageData") or {}) for item in found["Volumes"] or ()}
        return {name: data["Size"] for name, data in used.items() if data.get("Size", -1) >= 0}
    return {}


def belonging(
    engine: Engine, kind: str, name: str, labels: Mapping[str, str], **more: Any
) -> Belonging:
    job, run = labels.get(f"{LABEL}.job", ""), labels.get(f"{LABEL}.run", "")
    mark = labels.get(HOME_LABEL, "")
    return Belonging(kind, name, engine.reference, job, run, home=mark, **more)


def remove(engine: Engine, belongings: Iterable[Belonging]) -> None:
    """Take these away, containers first; what is gone already is no error."""
    from docker.errors import APIError, NotFound

    order = (CONTAINER, NETWORK, VOLUME, IMAGE)
    for one in sorted(belongings, key=lambda found: order.index(found.kind)):
        with translated(engine, f"removing {one.kind} {one.name}"):
            try:
                if one.kind == CONTAINER:
                    remove_container(engine, one.name)
                elif one.kind == IMAGE:
                    engine.api.remove_image(one.name)
                elif one.kind == NETWORK:
                    engine.api.remove_network(one.name)
                else:
                    engine.api.remove_volume(one.name, force=True)
            except NotFound:
                pass
            except APIError as error:
                if is_used(error):
                    raise in_use(one, str(error.explanation)) from error
                raise


def is_used(error: Any) -> bool:
    """Whether the engine refused because somebody's container uses it."""
    return any(
        words in str(error.explanation) for words in ("in use", "active endpoints", "using its")
    )


def in_use(one: Belonging, said: str) -> TfclusterError:
    return TfclusterError(
        f"{one.words} is used by a container of yours",
        evidence=[f"  Docker says: {said}"],
        hint="remove that container, then try again",
    )
