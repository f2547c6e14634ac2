"""Files that look like secrets: they are never sent unless a person says that they may be."""

from __future__ import annotations

import fnmatch
import re
from pathlib import PurePosixPath

NAMES = (
    *(".env", ".env.*", "*.env", ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".dockercfg"),
    *(".git-credentials", ".htpasswd", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("credentials", "credentials.*", "*credentials*.json", "client_secret*.json"),
    *("service-account*.json", "service_account*.json", "application_default_credentials.json"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "secrets.*", "secret.*"),
)
FOLDERS = frozenset({".ssh", ".aws", ".kube", ".gnupg", ".azure", ".docker", "gcloud"})
HARMLESS = (".env.example", ".env.sample", ".env.template", "example.env", "sample.env")
SOURCE_ENDINGS = (".py", ".pyi", ".ipynb", ".md", ".rst", ".proto")
PRIVATE_KEY = re.compile(rb"\A\s*-----BEGIN [A-Z ]*PRIVATE KEY-----")
KUBECONFIG = re.compile(rb"^\s*client-key-data:", re.MULTILINE)
HEAD = 1 << 16  # how much of a file is looked at


def looks_secret_name(path: str) -> bool:
    """Whether a file's name is one that people give to secrets; source code is not meant."""
    pure = PurePosixPath(path)
    name = pure.name.lower()
    if name in HARMLESS or name.endswith(SOURCE_ENDINGS):
        return False
    if FOLDERS & {part.lower() for part in pure.parts[:-1]}:
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in NAMES)


def looks_secret_content(path: str, data: bytes) -> bool:
    """A private key or a kubeconfig under another name."""
    head = data[:HEAD]
    if PRIVATE_KEY.match(head):
        return True
    return not path.lower().endswith(SOURCE_ENDINGS) and bool(KUBECONFIG.search(head))
