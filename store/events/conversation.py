"""Conversations and the rows that describe their records, as the index holds them.

Outputs of tools and agents, which a conversation keeps beside its records: each is a blob that the conversation's
metadata names by a key of its own, so adding one costs the same however many there are, and a fork copies the keys.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from store.errors import ConvfsError
from store.events.event import Block, Event, Kind


class Change(Struct, frozen=True):
    """The durable change of one request to a context.

    ``tip`` and ``depth`` are its head after the change; ``moved`` means that the head is new (``created``: the context,
    too), ``described`` that its metadata changed, ``streamed`` that an open turn of it was begun, has grown, or ended,
    ``deleted`` that it no longer exists. ``seq`` rises from change to change of a context; changes may be reported out
    of order.
    """

    context_id: int
    created: bool
    moved: bool = False
    described: bool = False
    streamed: bool = False
    tip: int = 0
    depth: int = 0
    seq: int = 0
    deleted: bool = False


class Outputs(Struct, frozen=True):
    """One of the two sorts: the directory that shows them, and the prefixes of their metadata keys and their URLs."""

    directory: str
    key: str
    scheme: str
    ending: str
    """The ending of their names."""


ARTIFACTS = Outputs("artifacts", "artifact/", "artifact", ".log")
AGENTS = Outputs("agents", "agent/", "agent", ".md")

SORTS = (ARTIFACTS, AGENTS)


def is_output(key: str) -> bool:
    """Return whether a key of metadata names an output."""
    return key.startswith((ARTIFACTS.key, AGENTS.key))


def outputs_of(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the part of a conversation's metadata that names outputs, which a fork shares."""
    return {key: value for key, value in metadata.items() if is_output(key)}


class Conversation(Struct, frozen=True):
    """A context with its metadata. Times are Unix milliseconds, sizes bytes.

    ``head`` is the tip (``store.ids``) of the branch (0 while it is empty), ``records`` its number of records (depth +
    1), ``events`` the number of those with a file in ``events/``. ``transcript_size`` and ``json_size`` are the sums of
    its rows' ``section_size`` and ``json_size``. ``described_ms`` is the time of its last metadata change. ``unsure``
    means that one of the rows is: the sums change once its record can be read.
    """

    id: int
    project: str
    name: str
    title: str
    format: str
    source: str
    head: int
    records: int
    events: int
    created_ms: int
    updated_ms: int
    transcript_size: int
    json_size: int
    metadata: dict[str, object]
    described_ms: int = 0
    unsure: bool = False

    @property
    def labels(self) -> list[str]:
        return labels_of(self.metadata)


NAMING = "naming"
"""The key of metadata for how well a session determined the name of its conversation.

It has a number for each part of the name; it is absent once somebody has named the conversation.
"""

OWN_PLACE = "own_place"
"""The key of metadata for a subagent's conversation that a person has taken out of the one that started it."""

REDACTED = "redact"
"""The action of the versions that a redaction makes."""

MOVED_FROM = "moved_from"
"""The key of metadata for the projects that a conversation was in when they were moved."""

BEGUN = "begun"
"""The key of metadata for the outputs that machines of a space are writing: by key, the machine and its number."""

CAME_FROM = "came_from"
"""The key of metadata for the store, the machine and the path there that a conversation came from."""

CALLED = "called"
"""The key of metadata for the earlier projects and names of a conversation, before its session had better ones."""


def called_before(metadata: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the earlier projects and names of a conversation, by which it is still found, oldest first."""
    called = metadata.get(CALLED)
    pairs = (one for one in called if isinstance(one, list) and len(one) == 2) if isinstance(called, list) else ()
    return [(project, name) for project, name in pairs if isinstance(project, str) and isinstance(name, str)]


def labels_of(metadata: Mapping[str, object]) -> list[str]:
    """Return the labels in metadata, each once, in order; anything but text is ignored."""
    labels = metadata.get("labels")
    if not isinstance(labels, list):
        return []
    return list(dict.fromkeys(label for label in labels if isinstance(label, str) and label))


def cwd_of(metadata: Mapping[str, object]) -> str:
    """Return the directory that a conversation's tools worked in, "" where that is not told."""
    cwd = metadata.get("cwd")
    return cwd if isinstance(cwd, str) else ""


def roots_of(metadata: Mapping[str, object]) -> tuple[str, ...]:
    """Return the folders by whose names the paths of a conversation's tools begin; none where they begin otherwise."""
    roots = metadata.get("roots")
    return tuple(filter(None, roots.replace("\\", "/").split("\n"))) if isinstance(roots, str) else ()


class EventRow(Struct, frozen=True, gc=False):
    """A row of the index: one record of a conversation, described without its payload.

    ``number`` is depth + 1. ``file_size`` is the size of the event's file, ``section_size`` that of its section in the
    transcript, ``json_size`` that of its element in ``events.json``, and
    ``payload_size`` that of the producer's own bytes. A ``deleted`` record is a RECORD whose other sizes are 0.
    ``unsure``: the record, or an earlier one that it refers to, cannot be read just now. Such a row is used once and
    never filed.
    """

    turn: int
    number: int
    kind: Kind
    tool: str
    parent: int
    time_ms: int
    file_size: int
    section_size: int
    json_size: int
    payload_size: int
    deleted: bool = False
    unsure: bool = False


class ResourceRow(Struct, frozen=True, gc=False):
    """One resource that the record ``turn`` (event ``number``) holds, at position ``seq`` of its resources.

    ``hash`` is the BLAKE3 of its content.
    """

    turn: int
    number: int
    seq: int
    uri: str
    mime: str
    size: int
    time_ms: int
    hash: bytes


class Version(Struct, frozen=True):
    """One state that a conversation has been in; versions are numbered from 1, oldest first, pruned ones too.

    It began at ``time_ms`` with ``action``, and later appends are part of it: ``head`` is the tip where it ends.
    """

    number: int
    seq: int
    time_ms: int
    head: int
    records: int
    action: str


class Sizes(Struct, frozen=True, gc=False):
    """The sizes of one drawn event, in bytes: its file, its transcript section, its JSON element."""

    file: int
    section: int
    json: int


class Drawn(Struct, frozen=True, gc=False):
    """The drawn texts of an event: its file and its section; ``content`` is where in the file that begins, 0 if not so.

    That is so if the content, as :meth:`Renderer.content` has it, is the rest of the file.
    """

    file: bytes
    section: bytes
    content: int


Link = Callable[[Block], str]
"""Returns the place of a block's content that is not text, as a percent-encoded path relative to the text."""


class Renderer(Protocol):
    """A drawer of events. ``version`` changes whenever the drawn size of any event changes."""

    version: int

    def measure(self, number: int, event: Event, format: str, payload_size: int) -> Sizes:
        """Return the drawn sizes of event ``number``, in bytes.

        ``format`` is that of its conversation (``jp`` draws JSON elements in its own way), ``payload_size`` the size
        of the producer's own bytes (which a record that is not JSON shows).
        """

    def file(self, number: int, event: Event) -> bytes:
        """Return the file of event ``number``."""

    def section(self, number: int, event: Event) -> bytes:
        """Return the section of event ``number`` in the transcript; links lead where a mount has them."""

    def drawn(self, number: int, event: Event) -> Drawn:
        """Return the file and the section of event ``number``, both empty for bookkeeping."""

    def element(self, number: int, event: Event, format: str, payload_size: int) -> tuple[int, list[bytes]]:
        """Return the size of the JSON element of event ``number``, as :meth:`measure` does, and :meth:`contents`."""

    def content(self, event: Event) -> str:
        """Return the content of an event as its file shows it, without the head.

        Searches cover exactly this. It ends in a newline, unless it is empty.
        """

    def contents(self, event: Event) -> list[bytes]:
        """Return the contents of an event that ``events.json`` can name by their hashes."""

    def described(self, title: str, *labels: str) -> list[tuple[int, str]]:
        """Return the lines of ``metadata.json`` that have the title and each label, each with its number."""

    def first_line(self, number: int, event: Event) -> int:
        """Return the line of event ``number``'s file on which its content begins; the first line is 1."""

    def transcript(
        self, conversation: Conversation, events: Iterable[tuple[EventRow, Event | ConvfsError]], link: Link
    ) -> Iterator[bytes]:
        """Yield the pieces of a conversation's transcript, in Markdown, with a note in place of unreadable events."""
