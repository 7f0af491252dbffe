"""MIME types and URIs of the content that tools name by path.

The table is this module's own: the standard library's ``mimetypes`` answers from the files of the machine, and an
index rebuilt elsewhere has to say the same.
"""

import binascii
from typing import NamedTuple
from urllib.parse import quote

_BY_SUFFIX = {
    "bash": "text/x-sh",
    "c": "text/x-c",
    "cc": "text/x-c++",
    "clj": "text/x-clojure",
    "cpp": "text/x-c++",
    "cs": "text/x-csharp",
    "css": "text/css",
    "csv": "text/csv",
    "dart": "text/x-dart",
    "diff": "text/x-diff",
    "ex": "text/x-elixir",
    "exs": "text/x-elixir",
    "fish": "text/x-fish",
    "gif": "image/gif",
    "go": "text/x-go",
    "h": "text/x-c",
    "hpp": "text/x-c++",
    "hs": "text/x-haskell",
    "htm": "text/html",
    "html": "text/html",
    "ini": "text/x-ini",
    "ipynb": "application/x-ipynb+json",
    "java": "text/x-java",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "jsx": "text/jsx",
    "kt": "text/x-kotlin",
    "lua": "text/x-lua",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "mts": "text/x-typescript",
    "patch": "text/x-diff",
    "pdf": "application/pdf",
    "php": "text/x-php",
    "pl": "text/x-perl",
    "png": "image/png",
    "py": "text/x-python",
    "r": "text/x-r",
    "rb": "text/x-ruby",
    "rs": "text/x-rust",
    "rst": "text/x-rst",
    "scala": "text/x-scala",
    "scss": "text/x-scss",
    "sh": "text/x-sh",
    "sql": "text/x-sql",
    "svg": "image/svg+xml",
    "swift": "text/x-swift",
    "tex": "text/x-tex",
    "toml": "application/toml",
    "ts": "text/x-typescript",
    "tsx": "text/tsx",
    "vue": "text/x-vue",
    "webp": "image/webp",
    "xml": "text/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zig": "text/x-zig",
    "zsh": "text/x-sh",
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
