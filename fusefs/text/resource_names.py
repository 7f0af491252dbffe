"""Paths under ``resources/``, made from URIs.

What a conversation holds under one URI may change as it goes on. The latest content has the path that its URI gives
(``file:///project/src/main.rs`` is ``project/src/main.rs``), each earlier one that path with the number of the event
that held it last (``project/src/main@00012.rs``); the same content is there once. Some lines of a file, which the
URI's fragment names (``#L195-209``), never have the plain path (``project/src/main@00013.L195-209.rs``): who copies
that gets a whole file. A path with a number resolves for every event that held the resource, listed or not, so that
links out of events always lead somewhere.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from store.events.conversation import ResourceRow
from store.filenames import cut, safe_name

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_MARK = re.compile(r"@(?=[0-9]{5,}(?:-[0-9]+)?(?:\.L[0-9]+-[0-9]+)?(?:\.[^.]*)?$)")
_MARKED = re.compile(r"@([0-9]{5,18})(?:-([0-9]{1,9}))?(?:\.(L[0-9]+-[0-9]+))?(\.[^.]*)?$", re.DOTALL)
_LINES = re.compile(r"file:[^#]*#(L[1-9][0-9]{0,8}-[1-9][0-9]{0,8})")
_EXTENSION = re.compile(r"[^.]\.(?!L[0-9]+-[0-9]+$)[A-Za-z0-9_+-]{1,16}$")

# A component leaves room for "@00012-3"; a path, for the directories above it, within Linux' 4,096 bytes.
_COMPONENT_MAX = 220
_PATH_MAX = 1024
_DEPTH_MAX = 48

_EXTENSIONS = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/zip": ".zip",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/xml": ".xml",
}


def resource_path(uri: str, mime: str = "") -> str:
    """Return the path that a resource has by its URI alone.

    Files keep their path; other URIs are ``scheme/host/path``. Percent escapes are resolved, a query is part of the
    file's name, a fragment is not. A URI without a path of its own (``data:``, ``https://example.com``) is named by
    its content or ``index``, with an extension that fits ``mime``.
    """
    extension = _EXTENSIONS.get(mime.partition(";")[0].strip().lower(), "")
    components = [_component(part) for part in _components(uri, extension)]
    if len(components) > _DEPTH_MAX or sum(len(part.encode()) + 1 for part in components) > _PATH_MAX:
        components = ["long", blake3(uri.encode(errors="surrogatepass")).hexdigest()[:16], components[-1]]
    return "/".join(components)


def resource_paths(rows: Sequence[ResourceRow]) -> dict[str, ResourceRow]:
    """Return the files under ``resources/``: path to the row whose content is there.

    ``rows`` are those of one state of a conversation, in any order. No path is another's directory: a file that
    stands in the way of a directory is listed under its path with the number.
    """
    groups: dict[str, list[ResourceRow]] = {}
    for row in sorted(rows, key=lambda row: (row.number, row.seq)):
        groups.setdefault(resource_path(row.uri, row.mime), []).append(row)
    directories = {path[:at] for path in groups for at, character in enumerate(path) if character == "/"}
    paths: dict[str, ResourceRow] = {}
    for path, held in sorted(groups.items()):
        last = {(row.number, lines_of(row.uri)): row.seq for row in held}
        latest = next((row for row in reversed(held) if not lines_of(row.uri)), None)
        for row in _distinct(held):
            if row is latest and path not in directories:
                paths[path] = row
            else:
                lines = lines_of(row.uri)
                seq = None if row.seq == last[row.number, lines] else row.seq
                paths[numbered_path(path, row.number, seq, lines)] = row
    return paths


def lines_of(uri: str) -> str:
    """Return which lines of a file a URI stands for, as ``L195-209``; "" if it stands for the whole file."""
    found = _LINES.fullmatch(uri)
    return found[1] if found else ""


def numbered_path(path: str, number: int, seq: int | None = None, lines: str = "") -> str:
    """Return the path of what event ``number`` held last under ``path``, or at position ``seq`` of its resources.

    ``lines`` are those of the file that it is a part of, as :func:`lines_of` says.
    """
    folder, slash, name = path.rpartition("/")
    found = _EXTENSION.search(name)
    at = found.start() + 1 if found else len(name)
    mark = f"@{number:05}" if seq is None else f"@{number:05}-{seq}"
    mark += f".{lines}" if lines else ""
    return f"{folder}{slash}{name[:at]}{mark}{name[at:]}"


def resolve_numbered(path: str, rows: Sequence[ResourceRow]) -> ResourceRow | None:
    """Return the row that a path with a number names, whether it is listed or not; None where there is none."""
    found = _MARKED.search(path)
    if found is None:
        return None
    plain = path[: found.start()] + (found[4] or "")
    number, seq, lines = int(found[1]), found[2], found[3] or ""
    held = [
        row
        for row in rows
        if row.number == number
        and (seq is None or row.seq == int(seq))
        and lines_of(row.uri) == lines
        and resource_path(row.uri, row.mime) == plain
    ]
    return max(held, key=lambda row: row.seq, default=None)


def _distinct(rows: list[ResourceRow]) -> list[ResourceRow]:
    """Return the last row of each content, and of each part of a file, latest first."""
    kept: dict[tuple[bytes, str], ResourceRow] = {}
    for row in reversed(rows):
        kept.setdefault((row.hash, lines_of(row.uri)), row)
    return list(kept.values())


def _components(uri: str, extension: str) -> list[str]:
    """Split a URI into the parts of its path; the last one is the file's name."""
    if _DRIVE.match(uri):
        return _walk(uri.replace("\\", "/")) or ["index" + extension]
    found = _SCHEME.match(uri)
    if found is None:
        return _walk(uri) or ["unnamed" + extension]
    scheme = found[1].lower()
    rest = uri[found.end() :]
    if scheme == "data":
        return [scheme, blake3(uri.encode(errors="surrogatepass")).hexdigest()[:16] + extension]
    if not rest.startswith("/"):
        return [scheme, *(_walk(unquote(rest)) or ["unnamed" + extension])]
    try:
        parts = urlsplit(uri)
        host, path, query = parts.netloc.rpartition("@")[2].lower(), parts.path, parts.query
    except ValueError:  # such as "http://[": not a URI after all
        return [scheme, *(_walk(rest) or ["unnamed" + extension])]
    above = [] if scheme == "file" and host in {"", "localhost"} else [scheme, *filter(None, [host])]
    below = _walk(unquote(path))
    if not below or path.endswith("/"):
        below.append("index" + extension)
    if query:
        ending = _EXTENSION.search(below[-1])
        at = ending.start() + 1 if ending else len(below[-1])
        below[-1] = f"{below[-1][:at]}_{unquote(query)}{below[-1][at:]}"
    return above + below


def _walk(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return parts


def _component(text: str) -> str:
    # "@" and five digits are how an earlier content is told from the latest: no name from outside looks like that
    name = _MARK.sub("_", safe_name(text))
    if len(name.encode()) <= _COMPONENT_MAX:
        return name
    found = _EXTENSION.search(name)
    extension = name[found.start() + 1 :] if found else ""
    mark = "~" + blake3(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return cut(name, _COMPONENT_MAX - len(extension) - len(mark)) + mark + extension
