"""The directory of a conversation, or of an earlier version of one: with its records, its versions and its forks."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from fusefs import inodes
from fusefs.inodes import Place, Space
from fusefs.tree.node import (
    DERIVED_FILE,
    DIRECTORY,
    FIRST_POSITION,
    LONG,
    SHORT,
    Attributes,
    Bytes,
    DirEntry,
    Entries,
    File,
    Item,
    Lazy,
    Link,
    Listing,
    OpenContent,
)
from fusefs.tree.outputs import PLACES as OUTPUTS
from fusefs.tree.outputs import shows_outputs
from fusefs.tree.paths import CHANGES, CONVERSATIONS, SNAPSHOTS, Paths, record_name, version_name
from fusefs.tree.tree import Tree
from fusefs.tree.view_node import RowNode, ViewDirectory
from store.conversations.places import SUBAGENTS
from store.events.conversation import AGENTS, ARTIFACTS, Conversation, EventRow, Version
from store.filenames import shown_name
from store.index.catalogue import ContextEntry

_RECORD = re.compile(r"([0-9]{5,18})\.json").fullmatch


class RecordsDirectory(ViewDirectory, Entries):
    """``.records/``: every record's own bytes, bookkeeping too."""

    def lookup(self, name: str) -> int | None:
        found = _RECORD(name)
        records = self.view.records
        number = int(found[1]) if found else 0
        if not 0 < number <= records or name != record_name(number, records):
            return None
        return inodes.base(Space.RECORD, self.view_id) + number

    def entries(self, after: int) -> Iterator[DirEntry]:
        view = self.view
        first = inodes.base(Space.RECORD, self.view_id)
        for row in view.rows[max(0, after - FIRST_POSITION + 1) :]:
            yield DirEntry(
                row.number + FIRST_POSITION - 1,
                record_name(row.number, view.records).encode(),
                _attributes(first + row.number, row, view.time_of(row)),
            )


class RecordFile(RowNode, File):
    """``.records/NNNNN.json``: the bytes of one record."""

    def attributes(self) -> Attributes:
        row = self.row
        return _attributes(self.ino, row, self.view.time_of(row))

    def xattrs(self) -> Mapping[str, str]:
        return self.turn_xattrs(self.row)

    def open(self) -> OpenContent:
        return Lazy(lambda: Bytes(self.tree.store.contents.payload(self.row.turn)))


def _attributes(ino: int, row: EventRow, time_ms: int) -> Attributes:
    return Attributes(ino, DERIVED_FILE, row.payload_size, time_ms, timeout=SHORT if row.unsure else LONG)


LABEL_ATTRIBUTE = "label."
"""Leads the names of extended attributes that are a conversation's labels."""

_LONGEST_LABEL = 255 - len("user.convfs.label.")

_LINKS = 5
"""Of a conversation's directory: itself twice, ``events``, ``forks`` and ``resources``; few have the others."""

_LISTED = {
    SUBAGENTS: Place.SUBAGENTS,
    AGENTS.directory: Place.AGENTS,
    ARTIFACTS.directory: Place.ARTIFACTS,
    "events": Place.EVENTS,
    "events.json": Place.EVENTS_JSON,
    "forks": Place.FORKS,
    "metadata.json": Place.METADATA,
    "resources": Place.RESOURCES,
    SNAPSHOTS: Place.SNAPSHOTS,
}
_UNLISTED = {
    ".records": Place.RECORDS,
    ".versions": Place.VERSIONS,
    CHANGES: Place.DIFFS,
    "changes.diff": Place.CHANGES,
    "context.json": Place.CONTEXT,
    "family.svg": Place.FAMILY,
}
_OF_THE_HEAD = (Place.FAMILY, Place.SUBAGENTS, Place.VERSIONS, *OUTPUTS)
"""Places that earlier versions do not have."""


def conversation_attributes(ino: int, time_ms: int) -> Attributes:
    """Return the attributes of a conversation's directory."""
    return Attributes(ino, DIRECTORY, 0, time_ms, _LINKS)


def _fits(label: str) -> bool:
    return "\0" not in label and len(label.encode()) <= _LONGEST_LABEL


class ConversationDirectory(ViewDirectory, Listing):
    """``conversations/PROJECT/NAME/``, and ``.versions/…/`` in it."""

    __slots__ = ()

    @property
    def parent(self) -> int:
        view, tree = self.view, self.tree
        if view.version is None:
            return tree.folders(view.entry)[0]
        return inodes.base(Space.PLACE, tree.view_id(view.entry.id)) + Place.VERSIONS

    def attributes(self) -> Attributes:
        return conversation_attributes(self.ino, self.view.time_ms)

    def xattrs(self) -> Mapping[str, str]:
        view = self.view
        conversation = view.entry
        shown = {
            "context": str(conversation.id),
            "head": str(view.head),
            "title": conversation.title,
            "format": conversation.format,
            "source": conversation.source,
        }
        shown = {name: value for name, value in shown.items() if value}
        shown |= {LABEL_ATTRIBUTE + label: "1" for label in conversation.labels if _fits(label)}
        return shown

    def lookup(self, name: str) -> int | None:
        place = _LISTED.get(name) or _UNLISTED.get(name)
        if place is None or (place in _OF_THE_HEAD and self.view.version is not None):
            return None
        if place is Place.SUBAGENTS and not self._has_subagents and self.view_id not in self.tree.emptied:
            return None
        if place is Place.SNAPSHOTS and not self._shows(place):
            return None
        return self.tree.place(self.view_id, place)

    @property
    def _has_subagents(self) -> bool:
        view = self.view
        return view.version is None and bool(self.tree.store.catalogue.with_subagents([view.entry.id]))

    def items(self) -> Mapping[str, Item]:
        return {
            name: Item(position, self.tree.place(self.view_id, place))
            for position, (name, place) in enumerate(_LISTED.items(), 1)
            if self._shows(place)
        }

    def _shows(self, place: Place) -> bool:
        if place is Place.SUBAGENTS:
            return self._has_subagents
        if place is Place.SNAPSHOTS:
            return bool(self.tree.roots.of(self.view))
        return place not in OUTPUTS or shows_outputs(self.tree, self.view, OUTPUTS[place])


_NUMBER = re.compile(r"[0-9]{4,18}(?=-)")


class VersionsDirectory(ViewDirectory, Listing):
    """``.versions/``."""

    def items(self) -> Mapping[str, Item]:
        return self._named(self.tree.store.catalogue.versions(self.view.entry.id))

    def lookup(self, name: str) -> int | None:
        found = _NUMBER.match(name)
        if found is None:
            return None
        versions = self.tree.store.catalogue.versions(self.view.entry.id)
        # a directory has one name only: no shorthands here
        item = self._named(version for version in versions if version.number == int(found[0])).get(name)
        return None if item is None else item.ino

    def _named(self, versions: Iterable[Version]) -> dict[str, Item]:
        return {version_name(version): self._item(version) for version in versions}

    def _item(self, version: Version) -> Item:
        view_id = self.tree.version_view(self.view.entry.id, version)
        ino = inodes.base(Space.PLACE, view_id) + Place.CONVERSATION
        # the last one still grows
        timeout = SHORT if version.head == self.view.head else LONG
        return Item(version.number, ino, replace(conversation_attributes(ino, version.time_ms), timeout=timeout))


_FORK_NAME = re.compile(r"(.+?)(?:@([0-9]{1,18}))?", re.DOTALL)


def fork_name(name: str) -> tuple[str, int]:
    """Return the request in ``NAME@00007``: the name of the fork, and the record to fork behind (0: the last)."""
    found = _FORK_NAME.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)


def fork_link(tree: Tree, fork: Conversation | ContextEntry) -> Link:
    """Return the link to a fork in the ``forks/`` of the conversation that it branched off."""
    ino = inodes.base(Space.PLACE, tree.view_id(fork.id)) + Place.FORK_LINK
    paths, source = Paths(tree.store), fork.metadata.get("forked_from")
    parent = tree.store.catalogue.by_id(int(source.get("context", 0))) if isinstance(source, dict) else None
    depth = paths.conversation(parent).count("/") + 1 if parent else 3
    return Link(ino, "../" * depth + paths.conversation(fork).removeprefix(f"{CONVERSATIONS}/"), fork.created_ms, SHORT)


class ForksDirectory(ViewDirectory, Listing):
    """``forks/``. A directory that is made here becomes a fork, beside this conversation."""

    def attributes(self) -> Attributes:
        return Attributes(self.ino, DIRECTORY, 0, self.view.time_ms, 2, SHORT)

    def items(self) -> Mapping[str, Item]:
        forks: dict[str, Item] = {}
        if self.view.version is None:
            for fork in self.tree.store.catalogue.forks(self.view.entry.id):
                name = shown_name(fork)
                shown = fork_link(self.tree, fork).attributes()
                item = Item(fork.id, shown.ino, shown)
                forks[name if name not in forks else f"{name}@{fork.project}"] = item
        return forks
