"""Finding secrets that nobody can name: by a pattern of one's own, or by what keys of well-known services look like.

A pattern only finds out which texts are meant; these are then looked for in all their spellings
(``store.redaction.secrets``), so that a key that stands in plain text once is found in base64 elsewhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from store.errors import UsageError
from store.redaction.secrets import LEAST_BYTES

_LITERAL = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?)')
_SHORT = {34: b'"', 92: b"\\", 47: b"/", 98: b"\b", 102: b"\f", 110: b"\n", 114: b"\r", 116: b"\t"}
_DEEPEST = 3
_LEAST_ENTROPY = 3.0


class Kind(NamedTuple):
    """A kind of secret: what it may begin with, and what all of it looks like; of that, ``secret`` if there is such."""

    name: str
    beginnings: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


_ARMOR = rb"(?:[A-Z0-9]{2,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

KINDS = tuple(
    Kind(name, beginnings, re.compile(pattern))
    for name, beginnings, pattern in (
        ("anthropic", (b"sk-ant-",), rb"sk-ant-[A-Za-z0-9_-]{20,300}"),
        ("openai", (b"sk-",), rb"sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_]{20,300}[A-Za-z0-9_-]{0,300}"),
        (
            "stripe",
            (b"sk_live_", b"sk_test_", b"rk_live_", b"rk_test_", b"whsec_"),
            rb"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,300}",
        ),
        (
            "github",
            (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
            rb"gh[pousr]_[A-Za-z0-9]{36,300}|github_pat_[A-Za-z0-9_]{22,300}",
        ),
        ("gitlab", (b"glpat-",), rb"glpat-[A-Za-z0-9_-]{20,100}"),
        ("aws", (b"AKIA", b"ASIA"), rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"),
        (
            "google",
            (b"AIza", b"ya29.", b"GOCSPX-"),
            rb"AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,1000}|GOCSPX-[0-9A-Za-z_-]{20,60}",
        ),
        ("slack", (b"xox", b"xapp-"), rb"xox[abeoprs]-[0-9A-Za-z-]{10,300}|xapp-[0-9A-Za-z-]{20,300}"),
        ("npm", (b"npm_",), rb"npm_[A-Za-z0-9]{36}"),
        ("pypi", (b"pypi-AgE",), rb"pypi-AgE[A-Za-z0-9_-]{50,400}"),
        ("hugging-face", (b"hf_",), rb"hf_[A-Za-z0-9]{30,60}"),
        ("digitalocean", (b"dop_v1_", b"doo_v1_", b"dor_v1_"), rb"do[opr]_v1_[0-9a-f]{64}"),
        ("sendgrid", (b"SG.",), rb"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
        ("jwt", (b"eyJ",), rb"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}"),
        (
            "private-key",
            (b"-----BEGIN ",),
            rb"-----BEGIN " + _ARMOR + rb"[A-Za-z0-9+/=\s\\:,.-]{32,16000}?-----END " + _ARMOR,
        ),
        ("password-in-url", (b"://",), rb"://[^/\s:@\"'\\<>]{1,64}:(?P<secret>[^/\s:@\"'\\<>${}]{6,128})@"),
    )
)
"""What secrets of well-known kinds look like; the more special kind first."""

_NAMED = re.compile(
    rb"(?:key|token|secret|passw(?:or)?d|authorization)[a-z_]{0,8}[\"'\\ ]{0,16}(?:[:=]|=>)[\"'\\ ]{0,16}"
    rb"(?:bearer |basic )?"
)
_VALUE = re.compile(rb"[A-Za-z0-9_.~+/=!@#$%^&*-]{12,300}")
_ASSIGNED = "assigned"


def built_in(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (kind, secret) of what looks like a secret in ``data``; the same may come more than once."""
    for kind in KINDS:
        for beginning in kind.beginnings:
            at = data.find(beginning)
            while at >= 0:
                match = kind.pattern.match(data, at)
                if match is not None:
                    named = match.groupdict().get("secret")
                    secret = unescaped(named or match[0])
                    if named is None or is_random(secret):
                        yield kind.name, secret
                at = data.find(beginning, at + 1)
    # a pattern that ignores case takes five times as long
    for named_at in _NAMED.finditer(data.lower()):
        value = _VALUE.match(data, named_at.end())
        if value is not None and is_random(value[0]):
            yield _ASSIGNED, value[0]


def own(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern of a user. UsageError where it is none, or would match nothing at all."""
    try:
        compiled = re.compile(pattern.encode())
    except re.error as error:
        raise UsageError(f"{pattern!r} is no pattern: {error}") from None
    if compiled.fullmatch(b"") is not None:
        raise UsageError(f"{pattern!r} matches what has no characters, so it would match everywhere")
    return compiled


def by_pattern(pattern: re.Pattern[bytes], data: bytes) -> Iterator[bytes]:
    """Yield what a user's pattern matches in the texts that ``data`` holds."""
    for text in texts_of(data):
        for match in pattern.finditer(text):
            if len(match[0]) >= LEAST_BYTES:
                yield match[0]


def texts_of(data: bytes) -> Iterator[bytes]:
    """Yield the texts in ``data``: of JSON its strings, and those of JSON in these, as they are shown; else itself."""
    if data[:64].lstrip(b" \t\r\n\xef\xbb\xbf")[:1] not in (b"{", b"[", b'"'):
        yield data
        return
    todo = [(data, 0)]
    while todo:
        text, depth = todo.pop()
        for match in _LITERAL.finditer(text):
            inner = match[1]
            if len(inner) < LEAST_BYTES:
                continue
            if b"\\" in inner:
                inner = _unescaped_once(inner)
                if b'"' in inner and depth < _DEEPEST and inner.lstrip()[:1] in (b"{", b"["):
                    todo.append((inner, depth + 1))
            yield inner


def unescaped(text: bytes) -> bytes:
    """Return a text that escapes of JSON are in, however deep, as it is shown."""
    for _ in range(_DEEPEST):
        if b"\\" not in text:
            break
        text = _unescaped_once(text)
    return text


def _unescaped_once(text: bytes) -> bytes:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return _SHORT[match[1][0]]
    units = bytes.fromhex((match[2] + (match[3] or b"")).decode())
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


def is_random(secret: bytes) -> bool:
    """Say whether something is as varied as what a machine makes up, and neither a word nor a path nor a name."""
    counts = Counter(secret).values()
    entropy = -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)
    return (
        entropy >= _LEAST_ENTROPY
        and re.search(rb"[0-9]", secret) is not None
        and re.search(rb"[A-Za-z]", secret) is not None
        and not re.match(rb"[/.$]|[a-z]+[/.]|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|[0-9]{4}-[0-9]{2}-", secret)
    )
