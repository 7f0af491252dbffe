"""MIME types and URIs of the content that tools name by path.

The table is this module's own: the standard library's ``mimetypes`` answers from the files of the machine, and an
index rebuilt elsewhere has to say the same.
"""

import binascii
from typing import NamedTuple
from urllib.parse import quote

_NAMED = """
    text/x-sh:bash,sh,zsh text/x-c:c,h text/x-c++:cc,cpp,hpp text/x-clojure:clj text/x-csharp:cs text/css:css
    text/csv:csv text/x-dart:dart text/x-diff:diff,patch text/x-elixir:ex,exs text/x-fish:fish image/gif:gif
    text/x-go:go text/x-haskell:hs text/html:htm,html text/x-ini:ini application/x-ipynb+json:ipynb text/x-java:java
    image/jpeg:jpeg,jpg text/javascript:js,mjs application/json:json application/jsonl:jsonl text/jsx:jsx
    text/x-kotlin:kt text/x-lua:lua text/markdown:md text/x-typescript:mts,ts application/pdf:pdf text/x-php:php
    text/x-perl:pl image/png:png text/x-python:py text/x-r:r text/x-ruby:rb text/x-rust:rs text/x-rst:rst
    text/x-scala:scala text/x-scss:scss text/x-sql:sql image/svg+xml:svg text/x-swift:swift text/x-tex:tex
    application/toml:toml text/tsx:tsx text/x-vue:vue image/webp:webp text/xml:xml application/yaml:yaml,yml
    text/x-zig:zig
"""
_BY_SUFFIX = {
    suffix: mime
    for mime, _, suffixes in (named.partition(":") for named in _NAMED.split())
    for suffix in suffixes.split(",")
}
_SAFE_IN_PATH = "/:@!$&'()*+,;="


def mime_of(path: str) -> str:
    """Return the MIME type that a file's name stands for; ``text/plain`` where it says nothing."""
    return _BY_SUFFIX.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "text/plain")


_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"PK\x03\x04", "application/zip"),
)
_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def sniffed(data: bytes) -> str:
    """Return the MIME type of content that its first bytes tell, "" where they tell none."""
    if data[:4] == b"RIFF":
        return _IN_RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((mime for beginning, mime in _BEGINNINGS if data.startswith(beginning)), "")


def suffix_of(mime: str) -> str:
    """Return the usual suffix, without the dot, for files of a MIME type (``bin`` for none known)."""
    subtype = mime.partition("/")[2].partition(";")[0].partition("+")[0]
    if subtype.isalnum():
        return "txt" if subtype == "plain" else subtype
    return "bin"


def file_uri(path: str) -> str:
    """Return the ``file://`` URI of an absolute path, of Windows too."""
    path = path.replace("\\", "/") if path[1:3] == ":\\" else path
    return "file://" + quote(path if path.startswith("/") else "/" + path, safe=_SAFE_IN_PATH)


def from_base64(text: str) -> bytes | None:
    """Return the bytes that ``text`` is base64 of, None if it is not."""
    try:
        return binascii.a2b_base64(text)
    except ValueError:
        return None


def from_numbers(value: object) -> bytes | None:
    """Return the bytes that a list of numbers stands for, None if it is none."""
    try:
        return bytes(value) if isinstance(value, list) and value else None
    except (TypeError, ValueError):
        return None


_LAST_OF_TWO = frozenset("AQgw")
_LAST_OF_THREE = frozenset("AEIMQUYcgkosw048")


def plain_text(text: str) -> str | None:
    """Return ``text`` decoded, None where it is not canonical base64 of UTF-8; then it stands for itself."""
    if len(text) % 4:
        return None
    if text.endswith("="):
        last, allowed = (text[-3:-2], _LAST_OF_TWO) if text.endswith("==") else (text[-2:-1], _LAST_OF_THREE)
        if last not in allowed:
            return None
    try:
        return binascii.a2b_base64(text, strict_mode=True).decode()
    except ValueError:
        return None


class DataUrl(NamedTuple):
    """A ``data:`` URL: its content's MIME type, the content, and all that stands before its base64."""

    mime: str
    data: bytes
    beginning: str


def as_data_url(text: str) -> DataUrl | None:
    """Return the content of a ``data:`` URL in base64, None where ``text`` is none."""
    if not text.startswith("data:"):
        return None
    head, comma, encoded = text.partition(",")
    if not comma or not head.endswith(";base64") or (data := from_base64(encoded)) is None:
        return None
    return DataUrl(head[len("data:") :].partition(";")[0] or "application/octet-stream", data, head + comma)
