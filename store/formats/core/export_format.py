"""Exports of web services: files of many conversations, each of them a tree of messages.

An export is an archive, or the folder that was made of it. A small one has one ``conversations.json``, a large one
``conversations-000.json`` and so on. A question that was edited and an answer that was asked for again leave two
messages that follow the same one: so a conversation branches.

A file holds a conversation, a list of them, or several one after another: JSON objects, each with its messages in one
member, an object or a list. Conversations are cut out of it without parsing their values. One is decoded as bytes by
its name, and so are its messages, which gives where each ends; where it is damaged, they are cut out of it, too.
"""

import os
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from store.errors import DamageError, NotFound, UsageError
from store.events.event import ValuePath
from store.formats.core.archives import archive_at, is_archive, join_members, replace_members
from store.formats.core.budget import LARGEST_WHOLE
from store.formats.core.format import About, Format, Part, Source, Span, let_go
from store.formats.core.json_cuts import Choice, cuts, end_of, parsed_cuts
from store.formats.core.json_view import JsonObject, as_text, decode
from store.formats.core.look import HEAD_SIZE, Look, open_regular
from store.ids import hash_bytes

Belongs = Callable[[str, bool], bool]
"""Says whether a file of this name, or a folder (True), may belong to an export."""

_MOST_FILES = 100_000
_conversations = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json").fullmatch
_MOST_CONVERSATION_FILES = 1000


def beginnings(look: Look) -> Iterator[bytes]:
    """Yield the beginning of a file that may hold conversations; of an archive, the beginning of each member."""
    if look.is_folder:
        return
    if not is_archive(look.head):
        yield look.head
        return
    for name in conversation_members(look.path):
        try:
            yield archive_at(look.path).read(name, HEAD_SIZE)
        except (DamageError, NotFound):
            continue


def conversation_members(path: Path) -> list[str]:
    """Return the members of an archive that hold conversations, in order; none where it cannot be read."""
    try:
        names = archive_at(path).members
    except DamageError:
        return []
    return list(islice(sorted(filter(_conversations, names)), _MOST_CONVERSATION_FILES))


def is_first(path: Path) -> bool:
    """Return whether a file of conversations is the first of its export: the one that the other files go with."""
    try:
        found = sorted(name for name in os.listdir(path.parent) if _conversations(name))
    except OSError:
        return True
    return not found or path.name == found[0] or path.name not in found


def files_beside(path: Path, belongs: Belongs) -> tuple[str, ...]:
    """Return the other files of the export whose conversations are at ``path``, as paths within it, by name.

    They are the members of an archive, or the files in the folder and its subfolders, as far as they belong to an
    export.
    """
    try:
        return _files_beside(path, belongs, path.stat().st_mtime_ns, path.parent.stat().st_mtime_ns)
    except (OSError, DamageError):
        return ()


@lru_cache(4)
def _files_beside(path: Path, belongs: Belongs, _changed: int, _changed_beside: int) -> tuple[str, ...]:
    with path.open("rb") as file:
        if is_archive(file.read(4)):
            return tuple(sorted(archive_at(path).members))
    return tuple(_files_in(path.parent, belongs))


def _files_in(folder: Path, belongs: Belongs) -> list[str]:
    found: list[str] = []
    waiting = [""]
    while waiting and len(found) < _MOST_FILES:
        within = waiting.pop()
        try:
            with os.scandir(folder / within) as entries:
                for entry in entries:
                    if not belongs(entry.name, is_folder := entry.is_dir(follow_symlinks=False)):
                        continue
                    if is_folder:
                        waiting.append(f"{within}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False) and len(found) < _MOST_FILES:
                        found.append(within + entry.name)
        except OSError:
            continue
    return sorted(found)


def read_beside(path: Path, name: str) -> bytes:
    """Return a file of an export, by its path within that. Raises NotFound, and DamageError for one too large."""
    with path.open("rb") as file:
        if is_archive(file.read(4)):
            return _whole(archive_at(path).read(name, LARGEST_WHOLE + 1), name)
    try:
        with open_regular(path.parent / name) as file:
            return _whole(file.read(LARGEST_WHOLE + 1), name)
    except OSError as error:
        raise NotFound(f"{name} is not beside {path.name}: {error.strerror}") from error


def _whole(content: bytes, name: str) -> bytes:
    if len(content) > LARGEST_WHOLE:
        raise DamageError(f"{name} holds more than {LARGEST_WHOLE} bytes; it is not read")
    return content


class Node(NamedTuple):
    """A message: its id, that of the one it follows ("" for none), its time in any unit (0 for none)."""

    id: str
    parent: str
    time: float = 0


class TreeBranch(Struct):
    """One way through a tree: positions of its own nodes, in order, after ``shared`` nodes of branch ``base``.

    ``base`` is the position of an earlier branch, -1 where there is none. Nodes are counted in the whole way, those
    that ``base`` itself shares with another branch too.
    """

    nodes: list[int]
    base: int = -1
    shared: int = 0


def branches(nodes: Sequence[Node], current: str = "") -> list[TreeBranch]:
    """Return the paths through a tree that together have every node once, the one to the node ``current`` first.

    Without such a node the first is the path to the latest leaf. Every other branch goes on to the latest of the nodes
    that follow, wherever several do. Nodes outside the tree (those without an id; of an id that stands twice, all but
    the last; circles) are in the first branch, after the node before them.
    """
    last = {node.id: at for at, node in enumerate(nodes) if node.id}
    if _follow_each_other(nodes, last, current):
        return [TreeBranch(list(range(len(nodes))))]
    tree = _Tree(nodes, last)
    leaf = last.get(current, -1)
    if leaf not in tree.above:
        leaves = [at for at in tree.above if at not in tree.below]
        leaf = max(leaves, key=lambda at: (nodes[at].time, at), default=-1)
    found = [TreeBranch(_with_others(tree.way(leaf), [at for at in range(len(nodes)) if at not in tree.above]))]
    place = {at: (0, depth) for depth, at in enumerate(found[0].nodes)}
    waiting = deque(found[0].nodes)
    roots = deque(at for at in tree.above if tree.above[at] < 0 and at not in place)
    while waiting or roots:
        if waiting:
            above = waiting.popleft()
            starts = [at for at in tree.below.get(above, ()) if at not in place]
            base, depth = place[above]
        else:
            starts, base, depth = [roots.popleft()], -1, -1
        for start in starts:
            own = tree.onward(start)
            place |= {at: (len(found), depth + 1 + step) for step, at in enumerate(own)}
            found.append(TreeBranch(own, base, depth + 1))
            waiting += own
    return found


def _follow_each_other(nodes: Sequence[Node], last: dict[str, int], current: str) -> bool:
    """Return whether each node follows the one before it, as in most trees, and ``current`` is the last or none."""
    end = len(nodes) - 1
    is_plain = 0 <= end < len(last) and last.get(current, end) == end and nodes[0].parent not in last
    return is_plain and all(node.parent == before.id for before, node in pairwise(nodes))


def ways(nodes: Sequence[Node], current: str = "") -> list[TreeBranch]:
    """Return :func:`branches`; where no node follows another, they follow in order."""
    linked = any(node.parent for node in nodes)
    return branches(nodes, current) if linked else [TreeBranch(list(range(len(nodes))))]


def _with_others(way: list[int], others: list[int]) -> list[int]:
    """Return a way with other nodes in it: each after the one before it, last where that is not there."""
    following: dict[int, list[int]] = {}
    places = dict.fromkeys(way)
    anchor, previous = -1, -2
    for at in others:
        if at != previous + 1:
            anchor = at - 1 if at == 0 or at - 1 in places else way[-1] if way else -1
        following.setdefault(anchor, []).append(at)
        previous = at
    found = following.get(-1, [])
    for at in way:
        found += (at, *following.get(at, ()))
    return found


class _Tree:
    """The node that each one follows (``above``; -1: none), and those that follow each, as far as a root leads."""

    def __init__(self, nodes: Sequence[Node], last: dict[str, int]) -> None:
        self._nodes = nodes
        self.above: dict[int, int] = {}
        self.below: dict[int, list[int]] = {}
        following: dict[int, list[int]] = {}
        for at in last.values():
            following.setdefault(last.get(nodes[at].parent, -1), []).append(at)
        reached = [-1]
        while reached:
            above = reached.pop()
            for at in sorted(following.get(above, ())):
                self.above[at] = above
                if above >= 0:
                    self.below.setdefault(above, []).append(at)
                reached.append(at)

    def way(self, at: int) -> list[int]:
        """Return the nodes from a first one to ``at``."""
        found: list[int] = []
        while at >= 0:
            found.append(at)
            at = self.above[at]
        return found[::-1]

    def onward(self, at: int) -> list[int]:
        """Return ``at`` and its descendants, always following the latest."""
        found = [at]
        while below := self.below.get(at):
            at = max(below, key=lambda node: (self._nodes[node].time, node))
            found.append(at)
        return found


_opening = re.compile(rb"(?:\xef\xbb\xbf)?[\s,\[\]\0\x1e]*+").match
_OBJECT = 0x7B
RELEASED_AT_ONCE = 8 << 20
"""The bytes of a mapped file that are released at once: the system maps more than it is asked for."""
_LARGEST_CONVERSATION = 64 << 20
"""A conversation of more bytes is one record: several copies are needed to tell its messages."""


class Outline(NamedTuple):
    """A conversation: the JSON of its other members, by key, and where its messages are, in the order of the file.

    Bytes among these that make no sense are a message too. Keys of messages are not part of them.
    """

    members: dict[str, bytes]
    messages: list[Span]


def outlines(data: memoryview, holder: str) -> Iterator[tuple[int, Outline]]:
    """Yield the conversations (objects, with messages in their member ``holder``), each with where it ends."""
    released = 0
    # as elements of a list, though there may be none: one that is damaged ends where the next begins
    for cut in cuts(data, lambda path: Choice.LISTS if len(path) < 2 else Choice.TAKE, end_of(_opening(data, 0))):
        if cut.end - cut.start > _LARGEST_CONVERSATION:
            yield cut.end, Outline({}, [Span(cut.start, cut.end)])
        elif data[cut.start] == _OBJECT:
            yield cut.end, _outline(bytes(data[cut.start : cut.end]), cut.start, holder)
        if cut.end - released >= RELEASED_AT_ONCE:
            let_go(data, released, cut.end)
            released = cut.end


def _outline(text: bytes, base: int, holder: str) -> Outline:
    """Return the outline of a conversation, as far as it can be made out."""

    def choose(path: ValuePath) -> Choice:
        return Choice.ENTER if path in ((), (holder,)) else Choice.TAKE

    found = Outline({}, [])
    for cut in parsed_cuts(text, choose) or cuts(memoryview(text), choose):
        if cut.path[:1] == (holder,):
            found.messages.append(Span(base + cut.start, base + cut.end))
        elif cut.path:
            found.members[str(cut.path[0])] = text[cut.start : cut.end]
    return found


_object_begins = re.compile(rb'(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*+"').match


class _Message(Span, frozen=True, gc=False):
    """A message that knows the other members of its conversation, which all of that one's share."""

    members: dict[str, bytes]


class ExportFormat(Format):
    """A web service."""

    holder: str
    """The member of a conversation that has its messages."""

    read: Set[str]
    """Its other members that say something of it."""

    holds: re.Pattern[bytes]
    """Finds the beginning of that member, with the first message in it."""

    usual_start: re.Pattern[bytes]
    """Matches the usual beginning of a file, which may come long before the first message."""

    joints = (b"", b", ", b"")

    def begins(self, head: bytes) -> bool:
        """Return whether a file with this beginning holds conversations of this service."""
        if _object_begins(head) is None:
            return False
        # a plain search takes a fraction of the other's time, and most files are none
        holds = b'"%b"' % self.holder.encode() in head and self.holds.search(head) is not None
        return holds or self.usual_start.match(head) is not None

    @abstractmethod
    def belongs(self, name: str, is_folder: bool) -> bool:
        """Return whether a file of this name, or a folder, may belong to an export."""

    @abstractmethod
    def told(self, members: JsonObject, records: Sequence[bytes]) -> About:
        """Return the description of a conversation, from those of its members that are read, and its messages."""

    @abstractmethod
    def node(self, record: bytes) -> Node:
        """Return a message as a node, its time in milliseconds. Raises what msgspec does where it makes no sense."""

    def claim(self, look: Look) -> Source | None:
        if not any(map(self.begins, beginnings(look))):
            return None
        sidecars: tuple[tuple[str, Path], ...] = ()
        if not is_archive(look.head) and is_first(look.path):
            beside = files_beside(look.path, self.belongs)
            sidecars = tuple((name, look.path.parent / name) for name in beside)
        return Source(self.name, look.path, look.path, sidecars=sidecars)

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        for _end, outline in outlines(data, self.holder):
            members = outline.members
            for message in outline.messages:
                if message.start >= start:
                    yield _Message(message.start, message.end, members)

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Describe a file whose conversations say nothing of themselves."""
        return About(title=source.path.stem, project=self.name)

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part]:
        """Return the conversations, and each branch of one: the branch seen last is the conversation."""
        found: list[Part] = []
        released = 0
        numbered = ((at, span) for at, span in enumerate(spans) if isinstance(span, _Message))
        for _members, messages in groupby(numbered, lambda message: id(message[1].members)):
            conversation = list(messages)
            found += self._parts(data, conversation, len(found))
            if (end := conversation[-1][1].end) - released >= RELEASED_AT_ONCE:
                let_go(data, released, end)
                released = end
        return found

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        with source.path.open("rb") as file:
            if not is_archive(file.read(4)):
                return None
        target = scratch / "conversations.json"
        try:
            join_members(source.path, conversation_members(source.path), target)
        except DamageError as error:
            raise UsageError(str(error)) from error
        return target

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        replace_members(original, conversation_members(original), rendition, target)

    def _node(self, record: bytes) -> Node:
        try:
            return self.node(record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Node("", "")

    def _parts(self, data: memoryview, messages: Sequence[tuple[int, _Message]], before: int) -> Iterator[Part]:
        """Yield the branches of a conversation, after ``before`` other parts; its messages come with positions."""
        records = [_told_by(data, span) for _at, span in messages]
        members = messages[0][1].members
        read = {key: decode(value) for key, value in members.items() if key in self.read}
        said = {key: decoded.value for key, decoded in read.items() if decoded}
        about, nodes = self.told(said, records), [self._node(record) for record in records]
        found = ways(nodes, as_text(said.get(self.leaf[0])))
        session = about.session_id or _name_of(nodes, found[0].nodes, records)
        for at, way in enumerate(found):
            own = nodes[way.nodes[0]]
            key = f"{session}/{own.id}" if at else session
            started = round(own.time) if at and own.time else about.started_ms
            described = About(about.title, about.project, started, key, about.extra)
            places = [messages[node][0] for node in way.nodes]
            yield Part(key, places, described, before + way.base if way.base >= 0 else -1, way.shared)


def _told_by(data: memoryview, message: _Message) -> bytes:
    """Return a message, or the beginning of one that is a whole large conversation."""
    is_large = message.end - message.start > _LARGEST_CONVERSATION
    return bytes(data[message.start : message.start + HEAD_SIZE if is_large else message.end])


def _name_of(nodes: Sequence[Node], way: Sequence[int], records: Sequence[bytes]) -> str:
    """Return an id for a conversation that lost its own: of its first message that follows one (others recur)."""
    ids = (nodes[at].id for at in way if nodes[at].parent)
    return next(filter(None, ids), "") or hash_bytes(records[way[0]]).hex()
