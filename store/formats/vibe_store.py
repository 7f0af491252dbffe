"""Mistral Vibe since 2.26: a folder a session, whose files are named after what they hold.

``CURRENT`` names a generation and the SHA-256 of its ``manifest.json``, and that the documents of the generation and
the chunks of their lists: ``chunks/<SHA-256>.json`` is a run of a list's elements. One list is what the program shows
(``entries``), which is never cut; another is what its model is sent (``messages``), which a compaction replaces. A turn
that goes on adds changes of the entries to a journal; its end makes the next generation, and the last but one goes.

A record is an entry, or what is in messages alone: a summary, the code of a program that called tools. All documents
are in one canonical form, and hashed without the newline at their end.
"""

import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec
from msgspec import Raw, Struct, structs

from store.errors import UsageError
from store.events.event import Compaction, Kind, Resource, ValuePath
from store.formats.core.editing import Twins
from store.formats.core.format import About, Part, Resuming, Source, Span, last_part
from store.formats.core.json_view import (
    JsonObject,
    as_list,
    as_object,
    as_text,
    is_object,
    object_in,
    sentence_in,
    texts_in,
    value_at,
)
from store.formats.core.lens import Before, Shown
from store.formats.core.look import Look, read_document, read_head
from store.formats.core.media import file_uri, mime_of
from store.formats.declared.description import Spent, read_views
from store.formats.declared.format import DeclaredFormat
from store.formats.declared.lens import DeclaredLens, usage_of
from store.ids import sha256

_CURRENT, _CHUNKS = "CURRENT", "chunks"
_OURS = "mistral.vibe.unified-session-store/"
_MOST_FILES = 100_000
_DESCRIBED_BY = 200
_SPENT = Spent(input="inputTokens", output="outputTokens", cache_read="cachedInputTokens", within=True)
_elements = msgspec.json.Decoder(list[Raw]).decode
_is_generation = re.compile(r"\d{16}").fullmatch
_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch
_is_journal = re.compile(r"journal/\d{16}\.jsonl").fullmatch
_below = re.compile(r"(.*/unified/[^/]+)/.*").fullmatch
_SUMMARY = "<compaction_summary>"
_DOCUMENTS = {
    "checkpoint": "checkpoint.json",
    "projection_state": "projection-state.json",
    "runtime_state": "runtime-state.json",
}
"""The documents of a generation, as its manifest calls them."""
_READS = "read_file"
_SEEN: ValuePath = ("entry", "state", "output", "structured_content", "content")
_TAKEN = frozenset(("append_entry", "remove_entry", "replace_entry", "set_history_entries"))
"""The changes of entries in a journal."""


class VibeLens(DeclaredLens):
    """Sees entries and messages. A call's entry says several times what it brought: it is shown once."""

    def __init__(self) -> None:
        super().__init__(read_views("mistral-vibe-store"))

    def shown(self, record: JsonObject, before: Before) -> Shown:
        shown = super().shown(record, before)
        if shown.kind is Kind.SUMMARY:
            return structs.replace(shown, compaction=Compaction(shown.blocks))
        state = as_object(as_object(record.get("entry")).get("state"))
        if not state:
            return shown
        said: set[str] = set()
        blocks = []
        for block in shown.blocks:
            if block.path[:2] != ("entry", "state") or block.text is None or block.text not in said:
                blocks.append(block)
                said.add(block.text or "")
        # its model knows the tool by its own name alone
        tool = shown.tool.rpartition(".")[2]
        return structs.replace(
            shown,
            blocks=tuple(blocks),
            tool=tool,
            defines=tuple((call, tool) for call, _name in shown.defines),
            resources=tuple(_files(tool, state)),
            places={**shown.places, "tool": "is that of a tool that Mistral Vibe has: it cannot be changed"},
        )

    def twins(self, record: JsonObject, path: ValuePath, old: str, new: str) -> Twins:
        if path[:2] == ("entry", "state"):
            for at, text in texts_in(value_at(record, path[:2]), path[:2]):
                if text == old and at != path:
                    yield at, new


def _files(tool: str, state: JsonObject) -> Iterator[Resource]:
    """Yield the file that a call read whole."""
    seen = as_object(value_at(state, ("output", "structured_content")))
    file, content = as_text(seen.get("path")), as_text(seen.get("content"))
    is_whole = not (seen.get("offset") or seen.get("was_truncated"))
    if tool == _READS and file.startswith("/") and content and is_whole:
        yield Resource(file_uri(file), mime_of(file), content, _SEEN)


class VibeStore(DeclaredFormat):
    """The sessions that ``vibe --resume`` reads."""

    keeps_file = True
    replaces_files = True

    def __init__(self) -> None:
        super().__init__(read_views("mistral-vibe-store"), VibeLens())
        self._seen: tuple[Source, JsonObject, JsonObject] | None = None
        """The session that was read last, its public state and that of its runtime: it is described next."""
        self.resuming = (Resuming("mistral-vibe", ("vibe", "--resume", "{session}"), tuple(self.said.homes)),)

    def claim(self, look: Look) -> Source | None:
        """Claim a folder with a pointer to its generation, and any file in it."""
        below = None if look.is_folder else _below(look.path.as_posix())
        if below is None and not look.is_folder:
            return None
        folder = Path(below[1]) if below else look.path
        main = folder / _CURRENT
        if not as_text(object_in(read_head(main)).get("store_format")).startswith(_OURS):
            return None
        files = [(name, folder / name) for name in _files_in(folder) if name != _CURRENT]
        return Source(self.name, folder, main, sidecars=tuple(files))

    def rendition(self, source: Source, scratch: Path) -> Path:
        """Write the records as lines. Raises UsageError where the program is replacing what they are read from."""
        stored = _Stored(source.path)
        with NamedTemporaryFile(prefix="rendition-", suffix=".jsonl", dir=scratch, delete=False) as file:
            file.writelines(line.data + b"\n" for line in _lines(stored))
        if stored.read - {name for name, _path in source.sidecars} - {_CURRENT}:
            raise UsageError(f"{source.path} was written to while it was read")
        self._seen = (source, stored.state, stored.runtime)
        return Path(file.name)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversation that all records are, by its id."""
        about = self.about(source, [bytes(data[span.start : span.end]) for span in spans[:_DESCRIBED_BY]])
        return [Part(about.session_id, range(len(spans)), about)]

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        about = super().about(source, records)
        if self._seen is None or self._seen[0] is not source:
            stored = _Stored(source.path)
            self._seen = (source, stored.state, stored.runtime)
        _source, state, runtime = self._seen
        session = as_object(state.get("session"))
        tokens = as_object(session.get("tokenUsage"))
        usage = usage_of(_SPENT, lambda where: [tokens.get(where)])
        identity = as_object(runtime.get("identity"))
        metadata = as_object(runtime.get("session_metadata"))
        model, directory = as_text(metadata.get("active_model")), as_text(metadata.get("cwd"))
        own = as_text(identity.get("session_id")) or about.session_id
        parent = as_text(identity.get("parent_session_id"))
        # a subagent has no file with its metadata
        extra = ({"cwd": directory} if directory else {}) | about.extra
        if parent and identity.get("kind") == "subagent":
            extra |= {"agent": own, "parent_session": parent}
        return structs.replace(
            about,
            session_id=own,
            project=about.project or last_part(directory),
            extra=extra,
            forked_from=parent if identity.get("kind") == "fork" else "",
            usage=structs.replace(usage, model=model) if usage else None,
        )

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write to the folder ``target`` the files of a session that change so that it says ``rendition``.

        A chunk in which something was redacted is not called after what it holds: it goes, and is written empty.
        """
        stored = _Stored(original.parent)
        if stored.goes_on:
            raise UsageError("its last turn has not ended: end it in Mistral Vibe, and import it again")
        with rendition.open("rb") as file:
            changed = _Changed(stored, list(map(object_in, file)))
        gone = ((f"{_CHUNKS}/{name}", b"") for name in _misnamed(original.parent / _CHUNKS))
        rewritten = ((name, content + b"\n") for name, content in stored.rewritten(changed))
        for name, content in (*gone, *rewritten):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return sha256(data).hex()


def _misnamed(folder: Path) -> Iterator[str]:
    """Yield the names of the chunks that are not called after their hashes."""
    for path in folder.glob("*.json"):
        if _digest(path.read_bytes().removesuffix(b"\n")) != path.stem:
            yield path.name


def _files_in(folder: Path) -> list[str]:
    """Return the files of a session, without what is being written, relative to its folder."""
    found: list[str] = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        where = Path(at).relative_to(folder)
        own = (name for name in sorted(names) if not (name.startswith(".") or Path(at, name).is_symlink()))
        found += [str(where / name) for name in own]
        if len(found) > _MOST_FILES:
            raise UsageError(f"{folder} has more than {_MOST_FILES} files: it is not read")
    return found


class _List(Struct):
    """A list of a generation: its elements in runs, each with the name of its chunk, "" for one in the document."""

    place: ValuePath
    runs: list[tuple[str, list[Raw]]]

    @property
    def items(self) -> list[Raw]:
        return [item for _digest, run in self.runs for item in run]


class _Stored:
    """A session as its files say it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read: set[str] = set()
        self.current = self._document(_CURRENT)
        generation = as_text(self.current.get("generation"))
        if not _is_generation(generation):
            raise UsageError(f"{folder / _CURRENT} names no generation: it cannot be read")
        self._generation = f"generations/{generation}"
        self.manifest = self._document(f"{self._generation}/manifest.json")
        self.checkpoint, self.projection, self.runtime = (
            self._document(f"{self._generation}/{name}") for name in _DOCUMENTS.values()
        )
        self.shown = self._list("projection_state", self.projection, ("snapshot", "history", "entries"))
        self.sent = self._list("checkpoint", self.checkpoint, ("context", "messages"))
        self.state = as_object(self.projection.get("snapshot"))
        self.goes_on = False
        """True if the journal has changes of entries."""
        self.entries = self._after_journal(self.shown.items)
        self.messages = [object_in(item) for item in self.sent.items]

    def _bytes(self, name: str) -> bytes:
        self.read.add(name)
        try:
            return read_document(self._folder / name)
        except OSError as error:
            raise UsageError(f"{self._folder} has no {name}, or is being written to: {error.strerror}") from None

    def _document(self, name: str) -> JsonObject:
        return object_in(self._bytes(name))

    def _list(self, name: str, document: JsonObject, place: ValuePath) -> _List:
        chunks = as_object(self.manifest.get(name)).get("chunks")
        if chunks is None:
            items = [Raw(_canonical(item)) for item in as_list(value_at(document, place))]
            return _List(place, [("", items)])
        runs: list[tuple[str, list[Raw]]] = []
        for digest in map(as_text, as_list(chunks)):
            if not _is_digest(digest):
                raise UsageError(f"{self._folder} names a chunk {digest!r}: it cannot be read")
            try:
                run = _elements(self._bytes(f"{_CHUNKS}/{digest}.json"))
            except msgspec.DecodeError as error:
                raise UsageError(f"{self._folder}/{_CHUNKS}/{digest}.json cannot be read: {error}") from None
            # somebody may have laid it out for reading
            runs.append((digest, [Raw(_canonical(object_in(one))) if b"\n" in bytes(one) else one for one in run]))
        return _List(place, runs)

    def _after_journal(self, entries: list[Raw]) -> list[Raw]:
        """Return the entries after the changes that the journal tells; a line that is half written is passed over."""
        name = as_text(as_object(self.manifest.get("recovery_journal_segment")).get("path"))
        if not _is_journal(name):
            return entries
        found = [(as_text(object_in(entry).get("id")), entry) for entry in entries]
        for record in map(object_in, self._bytes(name).splitlines()):
            payload = as_object(record.get("payload"))
            if is_object(state := payload.get("snapshot")):
                whole = as_list(value_at(state, ("history", "entries")))
                found = [_named(entry) for entry in whole]
                self.state, self.goes_on = state, True
            for change in map(as_object, as_list(payload.get("delta"))):
                of = as_text(change.get("id"))
                self.goes_on = self.goes_on or change.get("op") in _TAKEN
                match change.get("op"):
                    case "append_entry":
                        found.append(_named(change.get("entry")))
                    case "replace_entry":
                        at = next((at for at, (known, _entry) in enumerate(found) if known == of), None)
                        if at is not None:
                            found[at] = _named(change.get("entry"))
                    case "remove_entry":
                        found = [one for one in found if one[0] != of]
                    case "set_history_entries":
                        found = [_named(entry) for entry in as_list(change.get("entries"))]
                    case "set_envelope":
                        self.state = as_object(change.get("state"))
        return [entry for _id, entry in found]

    def rewritten(self, changed: "_Changed") -> Iterator[tuple[str, bytes]]:
        """Yield the files that change, without the newlines at their ends."""
        manifest = dict(self.manifest)
        for name, was, now, held, items in (
            ("checkpoint", self.checkpoint, changed.checkpoint, self.sent, changed.messages),
            ("projection_state", self.projection, changed.projection, self.shown, changed.entries),
            ("runtime_state", self.runtime, changed.runtime, None, ()),
        ):
            described, document, named = dict(as_object(manifest.get(name))), now, list[str]()
            rest = iter(items)
            for digest, run in held.runs if held else ():
                written = [item for item in islice(rest, len(run)) if item is not None]
                body = b"[" + b",".join(map(bytes, written)) + b"]"
                if held and not digest:
                    document = _put(document, held.place, json.loads(body))
                elif written:
                    named.append(_digest(body))
                    if named[-1] != digest:
                        yield f"{_CHUNKS}/{named[-1]}.json", body
            if held and described.get("chunks") is not None:
                described["chunks"] = named
            path = f"{self._generation}/{_DOCUMENTS[name]}"
            # redacted, it is not as its hash says
            body = self._bytes(path).removesuffix(b"\n")
            if document != was:
                body = _canonical(document)
                yield path, body
            described["sha256"] = _digest(body)
            manifest[name] = described
        body = _canonical(manifest)
        yield f"{self._generation}/manifest.json", body
        yield _CURRENT, _canonical({**self.current, "manifest_sha256": _digest(body)})


def _named(entry: object) -> tuple[str, Raw]:
    return as_text(as_object(entry).get("id")), Raw(_canonical(entry))


def _canonical(value: object) -> bytes:
    """Return a value as the program writes it. What it wrote has no number that has two spellings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _put(document: JsonObject, path: ValuePath, value: object) -> JsonObject:
    """Return a document with another value at a path of members."""
    key, *rest = path
    inner = _put(as_object(document.get(str(key))), tuple(rest), value) if rest else value
    return {**document, str(key): inner}


# -- what was shown, and what the model was sent -----------------------------------------------------------------------


class _Line(Struct):
    """A record: an entry, or the ``parts`` of a message, at this position (None: all of it)."""

    data: bytes
    at: int
    is_entry: bool
    parts: tuple[int, ...] | None = None


class _Match(Struct):
    """An entry in a message: its position, that of the message, and the positions there (None: all of it)."""

    entry: int
    message: int
    parts: tuple[int, ...] | None = None


_Key = tuple[str, str, str]


def _texts(content: object) -> str:
    parts = map(as_object, as_list(content))
    return "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")


def _key_of_entry(entry: JsonObject) -> _Key | None:
    """Return what an entry has in common with the message that it shows; None: no message says it."""
    match entry.get("type"):
        case "message":
            return as_text(entry.get("role")), _texts(entry.get("content")), ""
        case "reasoning":
            return "reasoning", as_text(entry.get("text")) or "".join(map(as_text, as_list(entry.get("summary")))), ""
        case "effect":
            detail = as_object(entry.get("detail"))
            tool = as_text(detail.get("toolName")).rpartition(".")[2]
            return "call", tool, _canonical(detail.get("input")).decode()
    return None


def _keys_in(message: JsonObject) -> Iterator[tuple[_Key, tuple[int, ...] | None]]:
    """Yield what each entry for a message has in common with it, and the positions of the parts that it shows."""
    content = as_list(message.get("content"))
    if message.get("role") == "user":
        yield ("user", _texts(content), ""), None
    if message.get("role") != "assistant":
        return
    told = tuple(at for at, part in enumerate(content) if as_object(part).get("type") not in ("reasoning", "tool_call"))
    for at, part in enumerate(map(as_object, content)):
        match part.get("type"):
            case "reasoning":
                held = list(map(as_object, as_list(part.get("content"))))
                texts = "".join(as_text(one.get("text")) for one in held if one.get("type") == "text")
                yield ("reasoning", texts or "".join(as_text(one.get("text")) for one in held), ""), (at,)
            case "tool_call":
                given = as_object(part.get("arguments")).get("value")
                yield ("call", as_text(part.get("name")), _canonical(given).decode()), (at,)
            case _ if at == told[0]:
                yield ("assistant", _texts(content), ""), told


def _matches(entries: Sequence[JsonObject], messages: Sequence[JsonObject]) -> list[_Match]:
    """Return which entries show which parts of messages, in order: found from the end, as summaries cut the rest."""
    places: dict[_Key, list[int]] = {}
    for at, entry in enumerate(entries):
        if (key := _key_of_entry(entry)) is not None:
            places.setdefault(key, []).append(at)
    found: list[_Match] = []
    calls: dict[str, int] = {}
    before = len(entries)
    for number in reversed(range(len(messages))):
        message = as_object(messages[number].get("message"))
        for key, parts in reversed(list(_keys_in(message))):
            listed = places.get(key, [])
            place = bisect_left(listed, before) - 1
            if place < 0 or messages[number].get("source") == "injection":
                continue
            before = listed[place]
            found.append(_Match(before, number, parts))
            if key[0] == "call" and parts:
                calls[as_text(as_object(as_list(message.get("content"))[parts[0]]).get("id"))] = before
    for number, message in enumerate(as_object(one.get("message")) for one in messages):
        if message.get("role") == "tool" and (of := calls.get(as_text(message.get("tool_call_id")))) is not None:
            found.append(_Match(of, number))
    return sorted(found, key=lambda one: (one.message, one.parts or ()))


def _is_told(message: JsonObject, entry: JsonObject) -> bool:
    """Return whether an entry says all that a result does, which may be JSON."""
    known = {text for _place, text in texts_in(entry)}
    for _place, text in texts_in(message.get("content")):
        inner = object_in(text.encode()) if text.startswith("{") else {}
        said = [one for _at, one in texts_in(inner)] if inner else [text]
        if any(one not in known and sentence_in(one) for one in said):
            return False
    return True


def _lines(stored: _Stored) -> Iterator[_Line]:
    """Yield the records: every entry, and behind the one that comes before it what is in messages alone."""
    entries = [object_in(entry) for entry in stored.entries]
    messages = stored.messages
    matched: dict[int, list[_Match]] = {}
    for match in _matches(entries, messages):
        matched.setdefault(match.message, []).append(match)
    compacted = (at for at, entry in enumerate(entries) if _is_compaction(entry))
    last = max(compacted, default=-1)
    behind: dict[int, list[_Line]] = {}
    after = -1
    for number, held in enumerate(messages):
        message = as_object(held.get("message"))
        left = list(range(len(_content(held))))
        for match in matched.get(number, []):
            after = max(after, match.entry)
            if match.parts is None:
                left = left if message.get("role") == "tool" and not _is_told(message, entries[match.entry]) else []
            else:
                left = [at for at in left if at not in match.parts]
        if left:
            at = max(after, last) if held.get("source") == "injection" else after
            behind.setdefault(at, []).append(_line_of(number, held, message, tuple(left)))
    yield from behind.get(-1, ())
    for at, entry in enumerate(stored.entries):
        yield _Line(b'{"at":%d,"entry":%b}' % (at, bytes(entry)), at, True)
        yield from behind.get(at, ())


def _is_compaction(entry: JsonObject) -> bool:
    return entry.get("kind") == "compaction" and "summaryLength" in as_object(entry.get("details"))


def _line_of(number: int, held: JsonObject, message: JsonObject, left: tuple[int, ...]) -> _Line:
    content = as_list(message.get("content"))
    said: JsonObject = {"at": number, "message": {**message, "content": [content[at] for at in left]}}
    if held.get("source") == "injection":
        said["summary" if _SUMMARY in _texts(content) else "injected"] = True
    return _Line(_canonical(said), number, False, left)


# -- edits -------------------------------------------------------------------------------------------------------------


_APART = frozenset(("id", "name", "outcome", "role", "tool_call_id", "type"))
"""Members of messages that are no texts of theirs."""
_GONE = object()


class _Changed:
    """A session as edited lines say it is: elements of its lists, None where they go, and its documents.

    Raises UsageError for what cannot be written.
    """

    def __init__(self, stored: _Stored, lines: Sequence[JsonObject]) -> None:
        self.entries: list[Raw | None] = list(stored.entries)
        self.checkpoint, self.projection, self.runtime = stored.checkpoint, stored.projection, stored.runtime
        self._stored = stored
        self._contents: dict[int, list[object]] = {}
        """The contents of messages that change, by their positions, with ``_GONE`` for the parts that go."""
        self._taken_from: set[int] = set()
        """The positions of messages from which something goes: with all that they had, these go, too."""
        entries = [object_in(entry) for entry in stored.entries]
        matches = _matches(entries, stored.messages)
        now = {("entry" in line, line.get("at")): line for line in lines}
        for line in _lines(stored):
            said = now.pop((line.is_entry, line.at), None)
            if line.is_entry:
                of = [match for match in matches if match.entry == line.at]
                self._entry(line.at, entries[line.at], as_object(said.get("entry")) if said else None, of)
            elif said != object_in(line.data):
                self._message(line, as_object(said.get("message")) if said else None)
        if None in self.entries or any(part is _GONE for content in self._contents.values() for part in content):
            # the turns after what is gone are numbered anew, and what they do is found by that
            settled = [one for one in as_list(self.runtime.get("actions")) if not _is_settled(as_object(one))]
            self.runtime = {**self.runtime, "actions": settled} if "actions" in self.runtime else self.runtime
        if now:
            raise UsageError("what was added is in no turn of it: Mistral Vibe would not read it")

    @property
    def messages(self) -> list[Raw | None]:
        """The messages, without those in which nothing is left."""
        found: list[Raw | None] = list(self._stored.sent.items)
        for at, content in self._contents.items():
            held, kept = self._stored.messages[at], [part for part in content if part is not _GONE]
            message = {**as_object(held.get("message")), "content": kept}
            found[at] = Raw(_canonical({**held, "message": message})) if kept or at not in self._taken_from else None
        return found

    def _content(self, at: int) -> list[object]:
        return self._contents.setdefault(at, _content(self._stored.messages[at]))

    def _take(self, at: int, parts: Iterable[int]) -> None:
        content = self._content(at)
        self._taken_from.add(at)
        for part in parts:
            content[part] = _GONE

    def _entry(self, at: int, old: JsonObject, new: JsonObject | None, matches: Sequence[_Match]) -> None:
        shown = [(match.message, match.parts or range(len(self._content(match.message)))) for match in matches]
        if new is None:
            self.entries[at] = None
            for message, parts in shown:
                self._take(message, parts)
            return
        if new == old:
            return
        self.entries[at] = Raw(_canonical(new))
        texts = {
            text: now for place, text in texts_in(old) if isinstance(now := value_at(new, place), str) and now != text
        }
        whole = [(value_at(old, place), value_at(new, place)) for place in _WHOLE]
        carry = _Carried(texts, [(was, now) for was, now in whole if was and was != now])
        for message, parts in shown:
            content = self._content(message)
            for part in parts:
                content[part] = carry.of(content[part])
        self.checkpoint = self._told(self.checkpoint, _OUTCOME, carry)
        self.projection = self._told(self.projection, _PREVIEW, carry)

    def _message(self, line: _Line, new: JsonObject | None) -> None:
        parts = line.parts or ()
        if new is None:
            self._take(line.at, parts)
            return
        content, said = self._content(line.at), as_list(new.get("content"))
        if len(said) != len(parts):
            raise UsageError("parts of a message were added or taken away: only its texts can be changed")
        for at, one in zip(parts, said, strict=True):
            given = as_object(as_object(one).get("arguments"))
            if given and given != as_object(as_object(content[at]).get("arguments")):
                one = {**as_object(one), "arguments": {**given, "raw": _spelled(given.get("value"))}}
            content[at] = one

    @staticmethod
    def _told(document: JsonObject, place: ValuePath, carry: "_Carried") -> JsonObject:
        """Return a document with what it repeats at a place as it is now."""
        was = value_at(document, place)
        now = carry.of(was)
        return document if now == was else _put(document, place, now)


def _is_settled(action: JsonObject) -> bool:
    """Return whether an action has its result; those of processes are looked for later, too."""
    return action.get("kind") != "process" and action.get("state") in ("succeeded", "failed", "cancelled")


_WHOLE: tuple[ValuePath, ...] = (("detail", "input"), ("state", "output", "structured_content"))
_OUTCOME: ValuePath = ("turn", "outcome")
_PREVIEW: ValuePath = ("snapshot", "session", "preview")


def _content(held: JsonObject) -> list[object]:
    return list(as_list(as_object(held.get("message")).get("content")))


def _spelled(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Carried(Struct):
    """Changes of an entry: of its texts, and of values as a whole, which messages may hold as JSON."""

    texts: dict[str, str]
    whole: list[tuple[object, object]]

    def of(self, value: object) -> object:
        """Return a value with these changes."""
        for was, now in self.whole:
            if value == was:
                return now
        match value:
            case str():
                inner = object_in(value.encode()) if value.startswith("{") else {}
                if value in self.texts or not inner:
                    return self.texts.get(value, value)
                now = self.of(inner)
                return value if now == inner else _spelled(now)
            case dict():
                return {key: one if key in _APART else self.of(one) for key, one in value.items()}
            case list():
                return [self.of(one) for one in value]
        return value
