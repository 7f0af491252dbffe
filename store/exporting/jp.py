"""JP's storage: ``.jp/conversations/<id>-<title>/`` with the contents beside it, in ``.jp/blobs/``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from store.conversations.viewer import LARGEST_VIEWED
from store.errors import ConvfsError, UsageError
from store.events.conversation import EventRow
from store.exporting.dialogue import Dialogue
from store.exporting.jp_contents import Contents, indented
from store.exporting.jp_events import jp_events
from store.exporting.losses import DAMAGED
from store.exporting.target import Job, Target
from store.formats.jp.editing import stamp
from store.formats.jp.lens import JpConfigLens
from store.formats.jp.session import Jp as JpFormat
from store.formats.jp.session import pair
from store.formats.json_view import as_object, decode
from store.formats.new_literals import spell
from store.formats.splices import with_members
from store.formats.times import iso
from store.ids import Hash
from store.importing.imported import read_files
from store.importing.naming import slug
from store.importing.paths import text_path

_STORAGE = PurePath(".jp")
_CONFIG, _METADATA = "base_config.json", "metadata.json"
_identifier = re.compile(r"\d{8,}").fullmatch
_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20


class Jp(Target):
    """What JP reads; the contents of attachments, and what tools returned, stand in files of their own."""

    name = "jp"

    def above(self, directory: Path) -> Path:
        """Return the workspace, also where its storage is named."""
        return directory.parent if directory.name == _STORAGE.name else directory

    def write(self, job: Job) -> None:
        """Write ``events.json``, ``metadata.json``, ``base_config.json`` if there is a configuration, and blobs."""
        folder = _STORAGE / "conversations" / _folder_name(job)
        own = job.conversation.format == self.name
        for name, content in _kept(job) if own else _described(job):
            job.stage.write(folder / name, content, unit=folder)
        contents = Contents(job, _STORAGE)
        events = _own_events(job, contents, folder) if own else _new_events(job, contents, folder)
        job.stage.write(folder / "events.json", _array(events), unit=folder)


def _folder_name(job: Job) -> str:
    conversation = job.conversation
    if conversation.format == "jp" and _identifier(session := str(conversation.metadata.get("session", ""))):
        name = text_path(conversation.source).name
        return name if name.partition("-")[0] == session else session
    # JP counts tenths of seconds
    identifier = str(conversation.created_ms // 100)
    words = slug(conversation.title)
    return f"{identifier}-{words}" if words else identifier


def _array(elements: Iterable[bytes]) -> Iterator[bytes]:
    opening, separator, ending = JpFormat.joints
    empty = True
    for element in elements:
        yield opening if empty else separator
        yield element
        empty = False
    yield b"[]" if empty else ending


# -- what JP wrote ---------------------------------------------------------------------------------------------------


def _kept(job: Job) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the files beside the events, as they were but for a title that was changed."""
    files = read_files(job.conversation.metadata)
    sidecars = dict(files.sidecars) if files else {}
    if _METADATA not in sidecars:
        yield _METADATA, (_metadata(job),)
    for name, digest in sidecars.items():
        if "/" in name or name in ("events.json", _CONFIG, "..", "."):
            raise UsageError(f"{name} is no name for a file within a session: see metadata.json of the conversation")
        blob = Hash(bytes.fromhex(digest))
        if name == _METADATA and job.conversation.metadata.get("own_title"):
            yield name, (_retitled(job, job.store.blob(blob)),)
        else:
            yield name, job.store.blob_pieces(blob)


def _retitled(job: Job, metadata: bytes) -> bytes:
    title = spell(job.conversation.title, metadata)
    try:
        return with_members(metadata, (), {"title"}, {"title": title})
    except UsageError:
        return _metadata(job)


def _own_events(job: Job, contents: Contents, folder: PurePath) -> Iterator[bytes]:
    rows = job.store.rows(job.conversation.head) if job.conversation.head else ()
    gone = _deleted(job, rows)
    for row, payload in _payloads(job, [row for row in rows if not row.deleted]):
        if isinstance(payload, ConvfsError):
            job.losses.add(DAMAGED, row.number)
            continue
        if job.store.type_name(job.store.turn(row.turn).type_tag) == JpConfigLens.type_name:
            job.stage.write(folder / _CONFIG, (payload,), unit=folder)
        elif len(payload) > LARGEST_VIEWED:
            job.losses.add("a record too large to be looked into: its contents stay within it", row.number)
            yield payload
        else:
            event = job.store.viewer.event(row, payload)
            if event.native is None:
                job.losses.add("a damaged record", row.number)
            elif pair(as_object(event.native)) not in gone:
                yield contents.moved_out(payload, event, row.number)


def _deleted(job: Job, rows: Iterable[EventRow]) -> set[tuple[str, str]]:
    """Return what deleted events have in common with those that belong to them, and go with them."""
    found = set()
    for _row, payload in _payloads(job, [row for row in rows if row.deleted]):
        decoded = decode(payload) if isinstance(payload, bytes) else None
        if decoded and (common := pair(as_object(decoded.value))):
            found.add(common)
    return found


def _payloads(job: Job, rows: list[EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
    waiting: dict[int, EventRow] = {}
    size = 0
    for row in rows:
        if waiting and (len(waiting) == _AT_ONCE or size + row.payload_size > _BYTES_AT_ONCE):
            yield from _read(job, waiting)
            waiting, size = {}, 0
        waiting[row.turn] = row
        size += row.payload_size
    yield from _read(job, waiting)


def _read(job: Job, rows: dict[int, EventRow]) -> Iterator[tuple[EventRow, bytes | ConvfsError]]:
    found = dict(job.store.payloads(list(rows)))
    yield from ((row, found[turn]) for turn, row in rows.items())


# -- what others wrote -----------------------------------------------------------------------------------------------


def _described(job: Job) -> Iterator[tuple[str, Iterable[bytes]]]:
    yield _METADATA, (_metadata(job),)


def _new_events(job: Job, contents: Contents, folder: PurePath) -> Iterator[bytes]:
    dialogue = Dialogue(job.store, job.conversation, job.losses)
    if dialogue.prompt:
        config = indented({"assistant": {"system_prompt": dialogue.prompt}}, 0)
        job.stage.write(folder / _CONFIG, (config,), unit=folder)
    started = iso(job.conversation.created_ms) or "1970-01-01T00:00:00.000Z"
    for event in jp_events(dialogue, contents, job.losses, started):
        yield indented(event, 2)


def _metadata(job: Job) -> bytes:
    said: dict[str, object] = {"title": job.conversation.title} if job.conversation.title else {}
    if updated := iso(job.conversation.updated_ms):
        said["last_activated_at"] = stamp(updated)
    return indented(said, 0)
