"""OpenHands' trajectories: where they lie, how they are told from others, how they are cut.

A file holds one array of events, or an object with ``history``; ``output.jsonl`` of an evaluation has such an object a
line, in older ones with pairs of action and observation. What was handed in to one is an array of patches. Where it
works, OpenHands keeps a folder ``events`` a session, with a file an event: ``12.json``, later ``event-00012-ID.json``.
"""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from blake3 import blake3

from store.events.event import Kind
from store.events.event import Path as Place
from store.formats.files import HEAD_SIZE
from store.formats.format import About, Format, Part, Source, Span
from store.formats.json_cuts import Choice, cut_spans, cuts
from store.formats.json_view import as_list, as_object, as_text, decode, is_object
from store.formats.lens import Nothing
from store.formats.look import Look
from store.formats.openhands.events import event, is_event
from store.formats.openhands.lens import OpenHandsLens
from store.formats.times import milliseconds
from store.formats.titles import first_line

_HISTORIES = ("history", "events", "trajectory")
_PREDICTION = frozenset(("instance_id", "model_patch"))
_INSTANCE_ID = b'"instance_id"'
_KEY_DIGITS = 16
_may_be = re.compile(rb'"(?:action|instance_id|kind|observation)"').search
_event_file = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json").fullmatch
_holds_events = re.compile(rb'(?<!\\)"(?:history|events|trajectory)"\s*+:\s*+\[').search
_EVENTS, _COPIES = "events", "event_cache"
_KEPT = ("sessions", "conversations")


class OpenHands(Format):
    """OpenHands, once OpenDevin."""

    name = "openhands"
    lenses = (OpenHandsLens(),)
    main_type = first_type = OpenHandsLens.type_name
    joints = (b"[", b", ", b"]")

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield where sessions are kept: under ``~/.openhands``, once ``~/.openhands-state``, ``$FILE_STORE_PATH``."""
        stores = [home / ".openhands", home / ".openhands-state"]
        if (moved := os.environ.get("FILE_STORE_PATH", "")) and home == Path.home():
            stores.insert(0, Path(moved).expanduser())
        for kept in dict.fromkeys(store / name for store in stores for name in (*_KEPT, "trajectories")):
            if kept.is_dir():
                yield kept

    def claim(self, look: Look) -> Source | None:
        """Claim a file that begins with events, or with patches that an evaluation was handed in; a folder of events.

        Their copies in blocks, which OpenHands keeps beside that, are not claimed.
        """
        path = look.path
        if look.is_folder:
            files = sorted(_event_files(path)) if path.name == _EVENTS else []
            if not files or not is_event(Look(files[0][1]).document):
                return None
            *first, main = (file for _number, file in files)
            return Source(self.name, path, main, first=tuple(first))
        if path.parent.name == _COPIES or not _may_be(look.head) or not _is_ours(look.document):
            return None
        return Source(self.name, path, path)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the events; a file of one event is that."""
        head = bytes(data[:HEAD_SIZE]).lstrip(b"\xef\xbb\xbf \t\r\n\0")
        alone = head.startswith(b"{") and not _holds_events(head)
        return cut_spans(data, start, _whole if alone else _choose)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Say which events are of the same line; a file of one document that is no line is one conversation."""
        found = list(cuts(data, _choose))
        in_lines = source.path.suffix == ".jsonl"
        if len(found) != len(spans) or not found or (found[-1].document == 0 and not in_lines):
            return None
        parts: list[Part] = []
        begun = 0
        for document, group in groupby(enumerate(found), lambda pair: pair[1].document):
            positions = [at for at, _cut in group]
            records = [bytes(data[found[at].start : found[at].end]) for at in positions]
            instance = _instance(bytes(data[begun : found[positions[0]].start])) or str(document)
            begun = found[positions[-1]].end
            key = f"{instance}-{blake3(records[0]).hexdigest()[:_KEY_DIGITS]}"
            if any(part.key == key for part in parts):
                key = f"{key}-{document}"
            about = self.about(source, records)
            parts.append(Part(key, positions, About(about.title, "", about.started_ms, instance)))
        return parts

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a trajectory by its first request."""
        title, started = "", 0
        for record in records:
            decoded = decode(record)
            if decoded is None or not is_object(decoded.value):
                continue
            started = started or milliseconds(decoded.value.get("timestamp"))
            seen = event(decoded.value, Nothing())
            if seen.kind is Kind.USER:
                title = first_line(next((block.text for block in seen.blocks if block.text), ""))
                break
        session = source.path.parent.name if source.path.name == _EVENTS else source.path.stem
        return About(title=title, started_ms=started, session_id=session)


def _event_files(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the files of a folder that hold an event each, with their numbers."""
    with os.scandir(folder) as entries:
        for entry in entries:
            named = _event_file(entry.name)
            if named and entry.is_file(follow_symlinks=False):
                yield int(named[1]), folder / entry.name


def _is_ours(document: object) -> bool:
    if is_object(document):
        listed = next((found for key in _HISTORIES if (found := as_list(document.get(key)))), [])
        return "instance_id" in document and bool(listed) and _begins_with_events(listed)
    return _begins_with_events(as_list(document))


def _begins_with_events(listed: list[object]) -> bool:
    first = listed[0] if listed else None
    if isinstance(first, list):
        return bool(first) and all(map(is_event, first[:1]))
    return is_event(first) or as_object(first).keys() >= _PREDICTION


def _choose(path: Place) -> Choice:
    match path:
        case ():
            return Choice.ENTER
        case (str(key),):
            return Choice.ENTER if key in _HISTORIES else Choice.TAKE if key == "test_result" else Choice.PASS
        case (int(),) | (str(), int()):
            return Choice.LISTS
        case (*_, int(), int()):
            return Choice.TAKE
    return Choice.PASS


def _whole(path: Place) -> Choice:
    return Choice.TAKE


def _instance(before: bytes) -> str:
    """Return the instance that a line is of, from the bytes before its first event."""
    at = before.rfind(_INSTANCE_ID)
    if at < 0:
        return ""
    decoded = decode(b"{" + before[at:].split(b",", 1)[0] + b"}")
    return as_text(as_object(decoded.value).get("instance_id")) if decoded else ""
