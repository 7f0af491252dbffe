"""JP's conversations: where they lie, how they are told from others, what they are called.

``.jp/conversations/<id>-<title>/`` holds ``events.json``, ``metadata.json`` and ``base_config.json``. The same layout
is kept for a user's private conversations under ``<data home>/jp/workspace/<project>-<id>/``.
"""

import os
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from store.formats.files import read_head
from store.formats.format import About, ExternalBlob, Format, Source, Span
from store.formats.jp.array import array_spans
from store.formats.jp.blobs import referenced_blobs
from store.formats.jp.lens import JpConfigLens, JpEventLens
from store.formats.json_view import JsonObject, as_object, as_text, decode
from store.formats.look import Look
from store.formats.times import milliseconds
from store.formats.titles import first_line

_EVENTS, _CONFIG, _METADATA = "events.json", "base_config.json", "metadata.json"
_identifier = re.compile(r"(\d{8,})(?:-(.*))?").fullmatch
_workspace_id = re.compile(r"-[a-z0-9]{5}$").sub
_looks_like_events = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*+\[\s*+\{.*?"type"\s*+:\s*+"'
    rb"(?:turn_start|config_delta|chat_re|tool_call_re|inquiry_re|compaction|event_overlay)",
    re.DOTALL,
).match
_paired = re.compile(r"(tool_call|inquiry)_(?:request|response)").fullmatch
_BEING_WRITTEN = (".old-", ".staging-")
_DECISECOND_DIGITS = 11
_TIMES = ("last_activated_at", "expires_at")


class Jp(Format):
    """JP, the command-line toolkit of dcdpr/jp."""

    name = "jp"
    lenses = (JpEventLens(), JpConfigLens())
    main_type = JpEventLens.type_name
    first_type = JpConfigLens.type_name
    joints = (b"[\n  ", b",\n  ", b"\n]")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the conversations of the workspace around ``cwd`` and the user's private ones of every workspace."""
        around = (folder / ".jp" / "conversations" for folder in (cwd, *cwd.parents))
        if (shared := next((folder for folder in around if folder.is_dir()), None)) is not None:
            yield shared
        data = home / ".local" / "share"
        if (moved := os.environ.get("XDG_DATA_HOME", "")).startswith("/") and home == Path.home():
            data = Path(moved)
        yield from sorted(folder for folder in data.glob("jp/workspace/*/conversations") if folder.is_dir())

    def claim(self, look: Look) -> Source | None:
        """Claim a conversation's directory, or its ``events.json``, by how that begins or by where it lies."""
        path = look.path
        if path.name != _EVENTS and not look.is_folder:
            return None
        folder = path.parent if path.name == _EVENTS else path
        if folder.name.startswith(_BEING_WRITTEN) or (head := read_head(folder / _EVENTS)) is None:
            return None
        if not _looks_like_events(head) and not (_storage(folder) and _identifier(folder.name)):
            return None
        config = folder / _CONFIG
        return Source(
            self.name,
            folder,
            folder / _EVENTS,
            first=(config,) if config.is_file() else (),
            sidecars=tuple(_sidecars(folder)),
        )

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the elements of the array."""
        return array_spans(data, start)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a conversation by ``metadata.json``, its directory's name and its first request."""
        metadata = decode(read_head(source.path / _METADATA) or b"")
        said = as_object(metadata.value) if metadata else {}
        identifier, slug = _identity(source.path.name)
        started = int(identifier) * 100 if len(identifier) == _DECISECOND_DIGITS else 0
        request = ""
        for record in records:
            if started and (request or said.get("title")):
                break
            event = as_object(decoded.value) if (decoded := decode(record)) else {}
            started = started or milliseconds(event.get("timestamp"))
            if event.get("type") == "chat_request":
                request = request or as_text(event.get("content"))
        return About(
            title=first_line(as_text(said.get("title")) or request or slug.replace("-", " ")),
            project=_project(source.path),
            started_ms=started,
            session_id=identifier or source.path.name,
            extra={key: value for key in _TIMES if (value := as_text(said.get(key)))},
        )

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the other events; a tool call and its result go together, and so do a question and its answer."""
        events = [as_object(decoded.value) if (decoded := decode(record)) else {} for record in records]
        gone = {pair(events[at]) for at in deleted if at < len(events)} - {None}
        return [record for at, record in enumerate(records) if at not in deleted and pair(events[at]) not in gone]

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield what ``$blob`` references of ``payload`` name in ``blobs/`` beside ``conversations/``."""
        return referenced_blobs((_storage(source.path) or source.path.parent) / "blobs", payload)


def pair(event: JsonObject) -> tuple[str, str] | None:
    """Return what an event that belongs to another has in common with that one, None for all others."""
    what, identifier = as_text(event.get("type")), as_text(event.get("id"))
    named = _paired(what)
    return (named[1], identifier) if named and identifier else None


def _storage(folder: Path) -> Path | None:
    """Return the directory that holds ``conversations/``, in which a conversation lies or is archived."""
    return next((above.parent for above in folder.parents[:2] if above.name == "conversations"), None)


def _identity(name: str) -> tuple[str, str]:
    named = _identifier(name)
    return (named[1], named[2] or "") if named else ("", "")


def _sidecars(folder: Path) -> Iterator[tuple[str, Path]]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name not in (_EVENTS, _CONFIG) and entry.is_file(follow_symlinks=False):
            yield entry.name, folder / entry.name


def _project(folder: Path) -> str:
    """Name the project whose workspace a conversation belongs to."""
    root = _storage(Path(os.path.abspath(folder)))
    if root is None:
        return ""
    if root.name == ".jp":
        return root.parent.name
    try:
        return Path(os.readlink(root / "storage")).parent.name
    except OSError:
        return _workspace_id("", root.name)
