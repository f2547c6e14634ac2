"""One secret value, put into a job by every way there is, and everything that is printed of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

CANARY = "kanarienvogel7c3f"
PROGRAM = (
    "import os, sys, time; "
    "names = ['FROM_FILE', 'DB_PASSWORD', 'API_KEY', 'SESSION_TOKEN']; "
    "print([os.environ[n][-4:] for n in names], sys.argv[-1][-4:], flush=True); time.sleep(600)"
)
SAYS = "['7c3f', '7c3f', '7c3f', '7c3f'] 7c3f"
VARIABLES = ("--var", f"password={CANARY}")
OVERRIDES = (
    *("--set", f"env.SESSION_TOKEN={CANARY}"),
    *("--set", f"args=[--api-token,{CANARY}]"),
)


def write_spec(folder: Path, python: str, backend: str, **more: object) -> None:
    (folder / "secret.env").write_text(f"FROM_FILE={CANARY}\n")
    spec = {
        "name": "canary",
        "backend": backend,
        "command": [python, "-c", PROGRAM],
        "env": {"DB_PASSWORD": "{{ password }}", "API_KEY": CANARY},
        "env_from": [{"file": "secret.env"}],
        "roles": {"worker": {"replicas": 1}},
        **more,
    }
    (folder / "cluster.yaml").write_text(json.dumps(spec, indent=2))


def everything_printed(run: Callable[..., str]) -> dict[str, str]:
    """What each command prints about a job that runs with the secret, by the command."""
    calls: list[tuple[str, ...]] = [
        ("validate", *VARIABLES, *OVERRIDES),
        ("plan", *VARIABLES, *OVERRIDES),
        ("plan", "worker-0", *VARIABLES, *OVERRIDES),
        ("plan", "-o", "json", *VARIABLES, *OVERRIDES),
        ("up", "-d", *VARIABLES, *OVERRIDES),
        ("status", "-o", "json"),
        ("status", "-o", "wide"),
        ("history", "-o", "json"),
        ("history", "-o", "wide"),
        ("events",),
        ("diff", *VARIABLES),
        ("diff", "-o", "json", *VARIABLES),
        # It would end the run: what the call lacks is offered.
        ("up", "-d", *VARIABLES),
        ("up", "-d", *VARIABLES, *OVERRIDES, "--set", "env.OTHER=1"),
        ("scale", "worker=2"),
        ("scale", "worker=2", *VARIABLES),
        # Mistakes.
        ("plan", "--var", CANARY),
        ("plan", "--var", f"{CANARY[:3]}-x={CANARY}"),
        ("plan", *VARIABLES, "--set", f"env.PASSWORD:{CANARY}"),
        ("plan", *VARIABLES, "--set", f"args=[--password,{CANARY}"),
        ("plan", *VARIABLES, "--set", f"args=[--password,[{CANARY}]]"),
        ("plan", *VARIABLES, "--set", f"env.PASSWORD=[{CANARY}]", "--set", "roles.x=1"),
        ("plan", *VARIABLES, "--set", f"env={{PASSWORD: [{CANARY}]}}"),
    ]
    printed = {}
    for call in calls:
        printed[" ".join(call)] = run(*call)
        assert "Traceback" not in printed[" ".join(call)]
    return printed


def leaks(texts: dict[str, str]) -> dict[str, str]:
    """The texts with the secret in them."""
    return {name: text for name, text in texts.items() if CANARY in text}
