"""Secrets stay out of sight."""

from __future__ import annotations

import copy

import pytest

from tfcluster.redaction import looks_secret, redacted, redacted_argv


@pytest.mark.parametrize(
    "name", ["TOKEN", "aws_secret_access_key", "DbPassword", "API_KEY", "apikey"]
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "HOME", "KEY", "PASS"])
def test_other_names(name: str) -> None:
    assert not looks_secret(name)


def test_values_of_secrets_are_masked_and_references_are_not() -> None:
    spec = {
        "env": {"A_TOKEN": "x", "B": "y"},
        "env_from": [{"secret": "wandb"}],
        "volumes": [{"secret": "key", "target": "/key"}],
        "roles": {"worker": {"env": {"PASSWORD": "x"}, "args": ["--api_key=x", "--n=1"]}},
        "kubernetes": {"pod_template": {"env": [{"name": "A_TOKEN", "value": "x"}]}},
    }
    before = copy.deepcopy(spec)
    assert redacted(spec) == {
        "env": {"A_TOKEN": "***", "B": "y"},
        "env_from": [{"secret": "wandb"}],
        "volumes": [{"secret": "key", "target": "/key"}],
        "roles": {"worker": {"env": {"PASSWORD": "***"}, "args": ["--api_key=***", "--n=1"]}},
        "kubernetes": {"pod_template": {"env": [{"name": "A_TOKEN", "value": "***"}]}},
    }
    assert spec == before


def test_arguments() -> None:
    argv = ["--hf-token", "x", "--num_tokens=5", "--password=x", "--verbose", "y"]
    masked = ["--hf-token", "***", "--num_tokens=5", "--password=***", "--verbose", "y"]
    assert redacted_argv(argv) == masked
