"""Secrets stay out of sight."""

from __future__ import annotations

import copy

import pytest

from tfcluster.redaction import (
    is_masked_override,
    looks_secret,
    masked_line,
    masked_override,
    masked_text,
    redacted,
    redacted_argv,
)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKEN", "aws_secret_access_key", "DbPassword", "API_KEY", "apikey", "KEY", "PASS"),
        *("DB_PASS", "MYSQL_PWD", "BASIC_AUTH", "SENTRY_DSN", "GOOGLE_CREDENTIALS", "TOKEN2"),
        *("hf-token", "OPENAI_KEY", "private_key", "PGPASSWORD", "client_secret", "accessToken"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "HOME", "PWD", "OLDPWD", "key_size", "KEYBOARD", "num_tokens"),
        *("MAX_TOKENS", "monkey", "AUTHOR", "pass_through", "passes", "compass", "primary_key"),
        *("image_key", "public_key", "TOKEN_FILE", "PASSWORD_LENGTH", "SECRET_NAME", "AUTH_METHOD"),
        *("key_dim", "num_keys", "AWS_ACCESS_KEY_ID", "tokenizer", "author_name", "bypass_cache"),
    ],
)
def test_other_names(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize("value", ["", "true", "False", "none", "5", "128"])
def test_a_switch_or_a_small_number_is_no_key(value: str) -> None:
    assert not looks_secret("use_auth", value) and not looks_secret("--key", value)
    assert looks_secret("password", value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://me:hunter2@db:5432/x", "postgres://me:***@db:5432/x"),
        ("ssh://me@10.0.0.1", "ssh://me@10.0.0.1"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("export TOKEN=hunter2; python t.py --n 5", "export TOKEN=***; python t.py --n 5"),
        ("python t.py --password hunter2 --key_size 5", "python t.py --password *** --key_size 5"),
        ("python t.py --password='hunter 2' -v", "python t.py --password=*** -v"),
        ("the key to success", "the key to success"),
    ],
)
def test_secrets_inside_a_longer_text(text: str, shown: str) -> None:
    assert masked_text(text) == shown


@pytest.mark.parametrize(
    "line",
    [
        *("  DB_PASS: hunter2", "  KEY: hunter2", "args: [--password, hunter2, --n, 5]"),
        *("- --password=hunter2", "URL: postgres://me:hunter2@db/x", "{A: 1, SENTRY_DSN: hunter2}"),
        *("command: [sh, -c, 'x --token hunter2']", 'args: ["--auth", "hunter2"]'),
    ],
)
def test_a_line_of_a_spec_is_shown_without_its_secret(line: str) -> None:
    assert "hunter2" not in masked_line([line], 0)


@pytest.mark.parametrize("line", ["  key_size: 5", "args: [--key_size, 5]", "  PWD: /x", "a: b"])
def test_other_lines_are_shown_as_they_are(line: str) -> None:
    assert masked_line([line], 0) == line


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


def test_arguments_that_follow_a_flag() -> None:
    argv = ["--auth", "x", "--key_size", "5", "--dsn=x", "--key", "5", "--pass", "hunter2"]
    assert redacted_argv(argv) == [
        *("--auth", "***", "--key_size", "5", "--dsn=***", "--key", "5", "--pass", "***"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("roles.worker.replicas=4", "roles.worker.replicas=4"),
        ("args=[--lr,0.1,--tokenizer,bpe]", "args=[--lr,0.1,--tokenizer,bpe]"),
        ("env.PASSWORD=hunter2", "env.PASSWORD=***"),
        ("roles.ps.env.API_KEY=x y", "roles.ps.env.API_KEY=***"),
        ("args=[--password,hunter2]", "args=***"),
        ("args=['--password', 'hun ter2']", "args=***"),
        ("args=[--password=hunter2]", "args=***"),
        ("env={A: b, DB_PASSWORD: hunter2}", "env=***"),
        ("env.URL=postgres://ann:hunter2@db", "env.URL=***"),
        ('command=[sh, -c, "run --api-token hunter2"]', "command=***"),
        ("env.PASSWORD:hunter2", "***"),
    ],
)
def test_an_override_with_a_secret_in_it_is_kept_and_shown_without_its_value(text, shown):
    assert masked_override(text) == shown
    assert is_masked_override(shown) == (shown != text and "=" in text)
