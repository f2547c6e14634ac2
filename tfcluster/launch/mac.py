"""HMAC-SHA256 and its comparison, without OpenSSL.

Importing hashlib or hmac loads OpenSSL, which is a fifth of the memory of a launcher, and there is
one launcher per task. Python has SHA-256 of its own; what is missing is RFC 2104, a few lines,
which a test compares with the standard library's.
"""

from __future__ import annotations

from typing import Any, Callable

try:
    from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]  # Python 3.12 and later
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256

try:
    from _operator import _compare_digest as compare  # what hmac.compare_digest is
except ImportError:
    from hmac import compare_digest as compare  # type: ignore[no-redef,unused-ignore]

BLOCK = 64
digest_of: Callable[[bytes], Any] = sha256


def mac(key: bytes, text: bytes) -> bytes:
    """HMAC-SHA256 of a text."""
    if len(key) > BLOCK:
        key = digest_of(key).digest()
    key = key.ljust(BLOCK, b"\0")
    inner = digest_of(bytes(byte ^ 0x36 for byte in key) + text).digest()
    outer: bytes = digest_of(bytes(byte ^ 0x5C for byte in key) + inner).digest()
    return outer


def is_same(one: bytes, other: bytes) -> bool:
    """Compare in a time that does not tell where they differ."""
    return bool(compare(one, other))
