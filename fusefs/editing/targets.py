"""Targets: the files of a conversation that programs can save, each with its state, its drawing and its commit."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from fusefs import inodes
from fusefs.editing.json_changes import JsonChanges
from fusefs.editing.programs import Program
from fusefs.editing.records import CHANGED, Base, Drawing, DrawnEvent, EventCommits, Pondered, Prepared
from fusefs.editing.rewrites import Rewrite
from fusefs.editing.transcript_changes import TranscriptChanges
from fusefs.inodes import FIRST_HANDED_OUT_VIEW, Place, Space
from fusefs.text import transcript
from fusefs.text.event_names import event_name
from fusefs.text.metadata import (
    ADDABLE,
    SETTABLE,
    line_of,
    metadata_changes,
    metadata_said,
    metadata_table,
    metadata_text,
)
from fusefs.text.parse import ParseError
from fusefs.tree.conversation import ConversationDirectory
from fusefs.tree.documents import EventsJson, MetadataFile, Transcript
from fusefs.tree.events import EventFile, EventsDirectory
from fusefs.tree.node import Bytes, Directory, Lazy, Node, OpenContent
from fusefs.tree.projects import transcript_name, transcripts_with
from fusefs.tree.resources import KnownFile, ResourceDirectory, ResourceFile
from fusefs.tree.view import Pieces, View
from fusefs.tree.view_node import ViewNode
from store.editing.commit import Changed
from store.editing.editor import Editor
from store.errors import Conflict, NotFound, UsageError
from store.events.conversation import Conversation, ResourceRow, called_before
from store.ids import hash_bytes

EVENT_KEY = "event/"
JSON_KEY = "events.json"
TRANSCRIPT_KEY = "transcript.md"
METADATA_KEY = "metadata.json"
RESOURCE_KEY = re.compile(r"resource/([0-9]{1,18})/([0-9]{1,9})").fullmatch
_DELETED = "deleted:"
_SEEN = " seen "
_SMALL = 1 << 18
"""Bytes up to which a file that shows all events is drawn and compared at once, and not by a thread."""
_PATIENCE_SECONDS = 120.0
"""How long a save waits for that thread."""


class Target(ABC):
    """A file that can be saved, by the place that it has, whatever inode it is known under.

    A *state* is a short text that names what the file shows: as long as it is the same, so is the content.
    """

    keeps_text = True
    """True if a saved file is shown as it was written, until it is forgotten or changed; else it is drawn."""

    takes_time = True
    """True if a saved file has the time of its writing, or one that a program set; else that of its version."""

    key: str
    """The key of the file within its conversation, for drafts: ``event/7``, ``events.json``."""

    def __init__(self, records: EventCommits, view_id: int) -> None:
        self.records = records
        self.tree = records.tree
        self.view_id = view_id
        """The view that it belongs to."""

    @property
    def view(self) -> View:
        """The view as it is now."""
        return self.tree.view(self.view_id)

    @property
    @abstractmethod
    def ino(self) -> int:
        """The inode number that is computed for it. The kernel may know it under another."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its file."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Its path in the conversation, for messages."""

    @abstractmethod
    def directory(self) -> Directory:
        """Return the directory that it is in; a refused text is kept there, beside it."""

    @abstractmethod
    def node(self, ino: int) -> ViewNode:
        """Return the node that shows it under an inode number."""

    @abstractmethod
    def size(self) -> int:
        """Return the size of its drawn contents. Raises NotFound, as all of these do, if it is gone."""

    @abstractmethod
    def drawn(self) -> bytes:
        """Return all that is drawn of it."""

    def read(self, offset: int, size: int) -> bytes:
        """Return a part of its drawn contents."""
        return self.drawn()[offset : offset + size]

    def begin(self) -> bytes:
        """Return all that is drawn of it, which is about to be changed, and remember how it was drawn."""
        return self.read(0, 1 << 62)

    def end(self) -> None:  # noqa: B027  # most remember nothing
        """Forget how it was drawn."""

    def snapshot(self) -> OpenContent:
        """Return its present drawn contents, which stay readable whatever happens to the file."""
        return Bytes(self.drawn())

    @abstractmethod
    def state(self) -> str:
        """Return its state, as everything stands that is committed."""

    def base(self) -> str:
        """Return the state that a save which begins now begins from."""
        return self.state()

    def is_in(self, state: str) -> bool:
        """Return whether it is still in a state that a save began from."""
        return self.state() == state

    def ponder(self, state: str, data: bytes) -> str:
        """Have a thread begin with :meth:`prepare` where that takes long; return the state to prepare it for.

        Raises Later until it is done. May be left out.
        """
        return state

    @abstractmethod
    def prepare(self, state: str, data: bytes) -> Prepared | None:
        """Return what ``data`` makes of it, which was in ``state``, if anything. Raises Conflict and UsageError."""

    def prepare_late(self, state: str, data: bytes) -> Prepared | None:
        """As :meth:`prepare`, for a text that was reported as saved: only what it changes must be as it was."""
        return self.prepare(state, data)

    def commit(self, prepared: Prepared, state: str, data: bytes, written_ms: int) -> str:
        """Commit what was prepared of ``data``, as :attr:`Prepared.commit` does."""
        try:
            return prepared.commit(written_ms)
        except Conflict:
            # another file of the same record may have been saved since
            again = self.prepare_late(state, data)
            return prepared.result if again is None else again.commit(written_ms)

    def draws(self, data: bytes) -> bool:
        """Return whether its drawn contents are ``data``."""
        return self.size() == len(data) and self.drawn() == data


class WholeTarget(Target):
    """A file about a conversation as a whole, at a place of its own in it."""

    takes_time = False

    place: ClassVar[Place]

    @property
    def ino(self) -> int:
        return inodes.base(Space.PLACE, self.view_id) + self.place

    def directory(self) -> Directory:
        return ConversationDirectory(self.tree, self.tree.place(self.view_id, Place.CONVERSATION), self.view_id)


class EventTarget(Target):
    """One event. Its state is the hash of its payload, and that it was deleted, if it was."""

    def __init__(self, records: EventCommits, view_id: int, number: int) -> None:
        super().__init__(records, view_id)
        self.number = number
        self.key = f"{EVENT_KEY}{number}"
        self._begun: DrawnEvent | None = None

    @property
    def ino(self) -> int:
        return self.tree.own_number(self.view_id, self.number)

    @property
    def name(self) -> str:
        try:
            view = self.view
            row = view.row(self.number)
            if row.deleted:
                row = replace(row, kind=self.tree.store.records.event(row).kind)
            return event_name(row, view.records)
        except NotFound:
            return f"{self.number:05}-event.md"

    @property
    def path(self) -> str:
        return f"events/{self.name}"

    def directory(self) -> Directory:
        return EventsDirectory(self.tree, self.tree.place(self.view_id, Place.EVENTS), self.view_id)

    def node(self, ino: int) -> EventFile:
        return EventFile(self.tree, ino, self.view_id, self.number)

    def size(self) -> int:
        return self.view.row(self.number).file_size

    def drawn(self) -> bytes:
        if self.view.row(self.number).deleted:
            return b""
        return self.records.drawn(self.view_id, self.number).data

    def begin(self) -> bytes:
        if self.view.row(self.number).deleted:
            return b""
        self._begun = self.records.drawn(self.view_id, self.number)
        return self._begun.data

    def end(self) -> None:
        self._begun = None

    def state(self) -> str:
        return state_of(self.records.base(self.view_id, self.number))

    def prepare(self, state: str, data: bytes) -> Prepared | None:
        digest = bytes.fromhex(state.removeprefix(_DELETED))
        base = Base(self.view_id, self.number, digest, state.startswith(_DELETED))
        payload = self.records.edited(base, data, self._begun)
        return None if payload is None else self.records.prepared(base, payload, hash_bytes(payload).hex())


def state_of(base: Base) -> str:
    """Return the state of an event's file."""
    return _DELETED * base.deleted + base.payload_hash.hex()


class RecordsTarget(WholeTarget):
    """A file that shows all events of a conversation. Its state begins with the turn that the conversation ends in.

    A save may begin from a state that ends with how many of the records the program has been shown. The others are
    not in its text, and stay behind what is.
    """

    keeps_text = False
    program: Program | None = None
    """The program that saves it, if that is known."""

    @abstractmethod
    def changes(self, head: int, seen: int) -> Callable[[bytes], Rewrite | None]:
        """Return the function that works out what a text makes of the first ``seen`` records, for any thread.

        ``head`` is the turn that the conversation ends in.
        """

    def state(self) -> str:
        self.records.settle(self.view_id)
        return str(self.view.head)

    def base(self) -> str:
        state = self.state()
        seen = self.records.seen(self.ino, self.program)
        return state if seen is None or seen >= self.view.records else f"{state}{_SEEN}{seen}"

    def is_in(self, state: str) -> bool:
        return self.state() == state.partition(_SEEN)[0]

    @abstractmethod
    def pieces(self) -> Pieces:
        """Return what is drawn of the records."""

    def rest(self) -> bytes:
        """Return what is drawn behind the records."""
        return b""

    def begin(self) -> bytes:
        """Return all that is drawn of it. Raises Later while a thread draws what is large."""
        state, pieces = self.state(), self.pieces()
        asked = self.records.drawings.get(self.ino)
        overtaken = asked is not None and asked.state != state and not asked.work.is_old
        if pieces.size <= _SMALL or overtaken:
            # it may go on to grow faster than it is drawn
            self.records.drawings.pop(self.ino, None)
            return pieces.read(0, pieces.size) + self.rest()
        if asked is None or asked.state != state or asked.work.is_old:
            work = self.tree.workers.begin(lambda: pieces.read(0, pieces.size), _PATIENCE_SECONDS)
            asked = self.records.drawings[self.ino] = Drawing(state, work)
        asked.work.await_done()
        del self.records.drawings[self.ino]
        return asked.work.result() + self.rest()

    def drawn(self) -> bytes:
        return self.read(0, 1 << 62)

    def snapshot(self) -> OpenContent:
        return self.pieces()

    def ponder(self, state: str, data: bytes) -> str:
        if len(data) <= _SMALL:
            return state
        asked = self.records.pondered.get(self.ino)
        if asked is None or asked.data != data or asked.work.is_old:
            work = self.tree.workers.begin(partial(self._changes(state), data), _PATIENCE_SECONDS)
            asked = self.records.pondered[self.ino] = Pondered(state, data, work)
        asked.work.await_done()
        return asked.state

    def prepare(self, state: str, data: bytes) -> Prepared | None:
        self._behind(state)
        return self.prepare_late(state, data)

    def prepare_late(self, state: str, data: bytes) -> Prepared | None:
        asked = self.records.pondered.pop(self.ino, None)
        is_known = asked is not None and (asked.state, asked.data, asked.work.is_done) == (state, data, True)
        rewrite = asked.work.result() if asked is not None and is_known else self._changes(state)(data)
        if rewrite is None:
            return None
        every = self.records.with_partners(self.view_id, rewrite.changes)
        if rewrite.items is not None:
            items = tuple(
                Changed(item, every[item]) if isinstance(item, int) and item in every else item
                for item in rewrite.items
            )
            rewrite = replace(rewrite, items=items)
        adds = rewrite.new > 0 or bool(rewrite.title)
        return Prepared(partial(self._commit, state, rewrite), touches=partial(self._touched, rewrite), adds=adds)

    def _changes(self, state: str) -> Callable[[bytes], Rewrite | None]:
        head, seen = _head_in(state), state.partition(_SEEN)[2]
        records = len(self.tree.store.records.rows(head)) if head else 0
        return self.changes(head, int(seen) if seen else records)

    def _behind(self, state: str, worked_out: Rewrite | None = None) -> range:
        """Return the numbers of the records that a program which saves from a state does not know of.

        Raises Conflict as :meth:`EventCommits.behind` does.
        """
        behind = self.records.behind(self.view_id, _head_in(state), worked_out)
        seen = state.partition(_SEEN)[2]
        return range(int(seen) + 1, behind.stop) if seen else behind

    def _touched(self, rewrite: Rewrite) -> list[int]:
        changed: Collection[int] = rewrite.changes
        if rewrite.items is not None:
            changed = range(1, self.view.records + 1)
        return self.records.drawn_from(self.view_id, changed)

    def _commit(self, state: str, rewrite: Rewrite, _written_ms: int) -> str:
        """Make one version of changes to the records in a state. Those appended since follow them."""
        self._behind(state, rewrite)
        if rewrite.title:
            Editor(self.tree.store).describe(self.records.context(self.view_id), {"title": rewrite.title})
            self.tree.renew(self.view_id)

        def change() -> str:
            behind = self._behind(state, rewrite)
            if rewrite.items is not None:
                self.records.rewrite(self.view_id, [*rewrite.items, *behind])
            elif not rewrite.added:
                self.records.change(self.view_id, rewrite.changes)
            elif not behind:
                self.records.append(self.view_id, rewrite.added, expected_head=self.view.head)
            else:
                self.records.rewrite(self.view_id, [*range(1, behind.start), *rewrite.added, *behind])
            self.records.readers.show(self.ino, self.program, behind.start - 1 + rewrite.new)
            return self.state()

        return self.records.anew(self.view_id, change)


def _head_in(state: str) -> int:
    return int(state.partition(" ")[0])


class JsonTarget(RecordsTarget):
    """All records of a conversation."""

    place = Place.EVENTS_JSON
    key = name = path = JSON_KEY

    def node(self, ino: int) -> EventsJson:
        return EventsJson(self.tree, ino, self.view_id)

    def size(self) -> int:
        return self.view.json_size

    def read(self, offset: int, size: int) -> bytes:
        return self.view.json.read(offset, size)

    def pieces(self) -> Pieces:
        return self.view.json

    def changes(self, head: int, seen: int) -> Callable[[bytes], Rewrite | None]:
        return JsonChanges(self.tree.store, self.records.context(self.view_id), head, seen).work_out


class TranscriptTarget(RecordsTarget):
    """The transcript of a conversation. Its state ends with the hash of its head, which changes with the title."""

    place = Place.TRANSCRIPT
    key = TRANSCRIPT_KEY

    @property
    def name(self) -> str:
        return transcript_name(self.tree, self.view.entry)

    @property
    def path(self) -> str:
        return self.name

    def directory(self) -> Directory:
        return transcripts_with(self.tree, self.view.entry)

    def node(self, ino: int) -> Transcript:
        return Transcript(self.tree, ino, self.view_id)

    def size(self) -> int:
        return self.node(self.ino).drawn_attributes().size

    def read(self, offset: int, size: int) -> bytes:
        return self.node(self.ino).draw(offset, size)

    def pieces(self) -> Pieces:
        self.view.check_read()
        return self.view.transcript

    def rest(self) -> bytes:
        return self.tree.streams.section(self.view_id)

    def state(self) -> str:
        head = super().state()
        return f"{head} {hash_bytes(transcript.head(self.view.entry)).hex()}"

    def changes(self, head: int, seen: int) -> Callable[[bytes], Rewrite | None]:
        growing = self.rest()
        rows = self.tree.store.records.rows(head)[:seen] if head else ()
        return TranscriptChanges(self.tree.store, self.view.conversation, rows, growing).work_out


class MetadataTarget(WholeTarget):
    """The metadata of one conversation. Its state is a hash of what may be changed, and one of all that is shown."""

    place = Place.METADATA
    key = name = path = METADATA_KEY

    @property
    def conversation(self) -> Conversation:
        """The conversation as everything stands that is committed."""
        context = self.view.entry.id
        return self.tree.store.library.conversation(context)

    def node(self, ino: int) -> MetadataFile:
        return MetadataFile(self.tree, ino, self.view_id)

    def size(self) -> int:
        return len(self.drawn())

    def drawn(self) -> bytes:
        return metadata_text(self.view.conversation)

    def state(self) -> str:
        return _state(self.conversation)

    def prepare(self, state: str, data: bytes) -> Prepared | None:
        conversation = self.conversation
        _check(state, conversation)
        shown, said = metadata_table(conversation), metadata_said(data)
        if (said.get("project"), said.get("name")) in called_before(conversation.metadata):
            # a new title has renamed it since the writer read the file
            said |= {"project": conversation.project, "name": conversation.name}
        changes = metadata_changes(shown, said, data)
        editor = Editor(self.tree.store)
        for key, value in changes.items():
            try:
                editor.described(conversation.id, {key: value})
            except UsageError as error:
                raise ParseError(line_of(data, key), str(error)) from None
        if {**SETTABLE, **said} == shown:
            return None
        metadata = {key: value for key, value in {**conversation.metadata, **changes}.items() if value is not None}
        result = replace(conversation, title=str(metadata.get("title", "")), metadata=metadata)

        def commit(_written_ms: int) -> str:
            """Commit the metadata. Values that others have changed meanwhile are shown as they are, not as written."""
            was, there, wanted = ({**SETTABLE, **one} for one in (shown, metadata_table(self.conversation), said))
            if any(there.get(key) not in (was.get(key), wanted.get(key)) for key in changes):
                raise Conflict(f"it {CHANGED}")
            if changes:
                editor.describe(conversation.id, changes)
                self.tree.renew(self.view_id)
            now = self.conversation
            return _state(now) if {**SETTABLE, **said} == metadata_table(now) else ""

        return Prepared(commit, _state(result))


def _state(conversation: Conversation) -> str:
    table = metadata_table(conversation)
    settable = msgspec.json.encode([table.get(key) for key in (*SETTABLE, *ADDABLE)])
    return f"{hash_bytes(settable).hex()} {hash_bytes(metadata_text(conversation)).hex()}"


def _check(state: str, conversation: Conversation) -> None:
    """Raise Conflict if the settable metadata has changed; the rest changes as a conversation goes on."""
    if state.partition(" ")[0] != _state(conversation).partition(" ")[0]:
        raise Conflict(f"it {CHANGED}")


class ResourceTarget(Target):
    """The content at position ``seq`` of the resources of an event. Its state is the hash of that content."""

    def __init__(self, records: EventCommits, view_id: int, event: int, seq: int) -> None:
        super().__init__(records, view_id)
        self._event = event
        self._seq = seq
        self.key = f"resource/{event}/{seq}"

    @property
    def row(self) -> ResourceRow:
        """Return the index's row for it. Raises NotFound if the event no longer holds it."""
        for row in self.view.held:
            if (row.number, row.seq) == (self._event, self._seq):
                return row
        raise NotFound(f"event {self._event} no longer holds this file")

    @property
    def ino(self) -> int:
        return inodes.base(Space.RESOURCE, self.view_id) + self.view.held.index(self.row) + 1

    @property
    def _path(self) -> str:
        return self.view.resources.path(self.row)

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    @property
    def path(self) -> str:
        return f"resources/{self._path}"

    def directory(self) -> Directory:
        folder, slash, _name = self._path.rpartition("/")
        number = self.view.resources.folders[folder].number
        own = inodes.base(Space.RESOURCE, self.view_id) + number
        top = inodes.base(Space.PLACE, self.view_id) + Place.RESOURCES
        return ResourceDirectory(self.tree, own if slash else top, self.view_id, folder)

    def node(self, ino: int) -> ResourceFile:
        return ResourceFile(self.tree, ino, self.view_id, self.ino & inodes.MAX_NUMBER)

    def size(self) -> int:
        return self.row.size

    def drawn(self) -> bytes:
        return self.tree.store.records.resource(self.row)

    def snapshot(self) -> OpenContent:
        row = self.row
        return Lazy(lambda: Bytes(self.tree.store.records.resource(row)))

    def state(self) -> str:
        self.records.settle(self.view_id)
        return self.row.hash.hex()

    def prepare(self, state: str, data: bytes) -> Prepared | None:
        if self.state() != state:
            raise Conflict(f"event {self._event} {CHANGED}")
        if self.draws(data):
            return None
        base = self.records.base(self.view_id, self._event)
        payload = self.records.edited_resource(base, self._seq, data)
        return None if payload is None else self.records.prepared(base, payload, hash_bytes(data).hex())


_OF_THE_WHOLE: dict[type[ViewNode], type[WholeTarget]] = {
    EventsJson: JsonTarget, MetadataFile: MetadataTarget, Transcript: TranscriptTarget
}
"""The targets of files about a conversation as a whole."""


class Targets:
    """Finds the target for a file, and for a draft."""

    def __init__(self, records: EventCommits) -> None:
        self._records = records

    def of(self, node: Node | None) -> Target | None:
        """Return the target of a node; None if it cannot be saved, as in earlier versions."""
        known = EventFile | EventsJson | MetadataFile | ResourceFile | Transcript
        if not isinstance(node, known) or isinstance(node, KnownFile):
            return None
        if not self.is_head(node.view_id):
            return None
        if isinstance(node, EventFile):
            return EventTarget(self._records, node.view_id, node.number)
        if isinstance(node, ResourceFile):
            row = node.row
            return ResourceTarget(self._records, node.view_id, row.number, row.seq)
        target = _OF_THE_WHOLE[type(node)](self._records, node.view_id)
        if isinstance(target, RecordsTarget):
            target.program = self._records.bursts.program()
        return target

    def keyed(self, view_id: int, key: str) -> Target | None:
        """Return the target with a key; None if nothing has it."""
        if key.startswith(EVENT_KEY):
            return EventTarget(self._records, view_id, int(key.removeprefix(EVENT_KEY)))
        for target in _OF_THE_WHOLE.values():
            if key == target.key:
                return target(self._records, view_id)
        if resource := RESOURCE_KEY(key):
            return ResourceTarget(self._records, view_id, int(resource[1]), int(resource[2]))
        return None

    def is_head(self, view_id: int) -> bool:
        """Return whether a view is a conversation as it is now, which can be changed, and no earlier version."""
        return view_id < FIRST_HANDED_OUT_VIEW or self._records.tree.view(view_id).version is None
