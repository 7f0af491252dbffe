"""The lens: how the payload of one type is seen as an event, and how an edit of the event becomes one of the payload.

Rendering, editing, search and resources see only events; they know no format. A lens sees one payload and, through
:class:`Before`, the little that it may ask about the records before it.
"""

from typing import Protocol

from store.events.edit import EventEdit
from store.events.event import Event, Kind
from store.events.usage import Running, Usage


class Before(Protocol):
    """What a lens may ask about the records before the one that it looks at, and about content kept elsewhere.

    Answers about earlier records are kept: a lens asks :meth:`tool` and :meth:`parent` at most once each for a record,
    for its event's ``tool`` and ``parent`` and nothing else, and later views of the record get the answers as kept.
    """

    def tool(self, call_id: str) -> str:
        """Return the name of the tool that the call ``call_id`` was for, "" if no earlier record made it."""

    def parent(self, key: str | None) -> int:
        """Say which record ``key`` (None: none at all) is, for :attr:`store.events.event.Event.parent`.

        Returns 0 if it is the last record that defined a key (or, for None, if there was none), its number if it is
        an earlier one, -1 if no earlier record defined it (or, for None, if there were such records).
        """

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return content that a payload names by a foreign digest (``sha256``), None if the store does not have it."""


class Nothing:
    """A conversation without earlier records, and without content elsewhere."""

    def tool(self, call_id: str) -> str:
        """Return "": no call was made."""
        return ""

    def parent(self, key: str | None) -> int:
        """Return 0: nothing precedes."""
        return 0

    def blob(self, algorithm: str, digest: bytes) -> bytes | None:
        """Return None: there is none."""
        return None


class Lens(Protocol):
    """Sees payloads of one type as events."""

    @property
    def type_name(self) -> str:
        """The payload type, such as ``jp.event.v1``."""

    @property
    def telling(self) -> tuple[bytes, ...]:
        """One of these is in every payload in which :meth:`usage` may find anything; empty: it finds nothing at all."""

    @property
    def counts_on(self) -> bool:
        """Whether :meth:`usage` needs to know what goes on to hold; else it is always ``NOTHING_RUNNING``."""

    def view(self, payload: bytes, before: Before) -> Event:
        """Return the event that ``payload`` tells of; never raises: what cannot be read is shown as it is."""

    def usage(self, payload: bytes, running: Running) -> tuple[Usage | None, Running]:
        """Return what the answer that ``payload`` tells of took, None where it tells of none, and what goes on to hold.

        ``running`` is what this returned for the record before, ``NOTHING_RUNNING`` for the first. Never raises.
        """

    def edit(self, payload: bytes, edit: EventEdit, before: Before) -> bytes:
        """Return ``payload`` with just the changes of ``edit``, and all other bytes as they are.

        New strings are spelled as the payload's producer spells them. A text that the record holds twice is changed
        in both places where that is plain. Raises UsageError for what the payload does not hold, what cannot be
        changed there, and text that is no valid Unicode.
        """

    def edit_resource(self, payload: bytes, index: int, content: bytes, before: Before) -> bytes:
        """Return ``payload`` with other content for the resource at ``index`` of its event, as :meth:`edit` does.

        Raises UsageError where it does not stand in the payload, and for what is no text where text stands.
        """

    def revise(self, payload: bytes, old: object, new: object, before: Before) -> bytes:
        """Return ``payload``, which says ``old`` in its event's ``native``, so that it says ``new``.

        All other bytes stay as they are.

        Both are as :func:`store.formats.documents.parse` gives them. Twins are changed as in :meth:`edit`, where
        ``new`` says nothing else of them. Raises UsageError for what cannot be said.
        """

    def written_out(self, value: object, like: bytes | None) -> bytes:
        """Return a new record that says ``value``, as :func:`store.formats.documents.parse` gives it.

        It is laid out as the record ``like`` is. Raises UsageError for what cannot be said.
        """

    def compose(self, kind: Kind, text: str, previous: bytes | None, now_ms: int) -> bytes:
        """Return a new record, for the end of a conversation, that says ``text``.

        ``previous`` is the record that it follows (the last one that defines a key, where the format links records;
        else the last), None where it is the first. ``now_ms`` is its time in Unix milliseconds. Raises UsageError for
        a kind that a person cannot write, and for an empty text.
        """
