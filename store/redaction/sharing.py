"""Sharing: some events of a conversation as one file, without secrets, and with other words for what is private.

The store stays as it is: what is drawn is a copy of the events, in which every text is changed. Secrets are found as
``convfs redact --secrets`` finds them, and removed in all their spellings.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from urllib.parse import quote

from msgspec import Struct, structs

from store.errors import UsageError
from store.events.conversation import Conversation, EventRow
from store.events.event import Block, Event, Resource, utf8
from store.exporting.dialogue import Loss, Losses
from store.exporting.event_json import encoded, shown_events, told_events, with_strings
from store.exporting.html.page import page_file
from store.exporting.target import ExportJob
from store.formats.core.media import suffix_of
from store.ids import hash_bytes
from store.importing.placing import Stage
from store.redaction.secrets import LEAST_BYTES, MARK, Secrets
from store.redaction.wanted import built_in
from store.store import Store

_HOME, _USER = "~", "user"
"""The words for a home directory, and for its owner elsewhere in a path."""

# In JSON, an escaped newline may precede a path.
_BEGINS = r"(?:(?<![\w.~-])|(?<=\\[nrt]))"
_NAME = r"\w[\w.@+-]*(?<![.-])"
_HOMES = re.compile(
    rf"{_BEGINS}(?:/(?:home|Users)/({_NAME})|[A-Za-z]:\\+Users\\+(?:([^\\/:*?\"<>|\r\n]{{1,64}})(?=\\)|({_NAME})))"
)
_unfit = re.compile(r"[^A-Za-z0-9]").sub


class Private(Struct, frozen=True):
    """The changes besides secrets: texts to ``replace``, each with another, in this order.

    ``paths``: home directories and the names of their owners in paths; ``home`` is one of them wherever it lies.
    ``images``: images and other binary content are kept.
    """

    replace: tuple[tuple[str, str], ...] = ()
    paths: bool = True
    home: str = ""
    images: bool = True


def share(
    store: Store,
    conversation: Conversation,
    form: str,
    private: Private,
    write: Callable[[bytes], None],
    first: int = 1,
    last: int = 0,
) -> tuple[list[Loss], list[Loss]]:
    """Write the events ``first`` to ``last`` (0: the last of all) as one file.

    Returns what was taken out or is in it unseen, and what a file of this form does not say. Raises UsageError if there
    are no such events, or no such form.
    """
    if form not in FORMS:
        raise UsageError(f"a file cannot be shared as {form}: choose one of {', '.join(FORMS)}")
    copy = _Copy(private)
    copy.look_at(encoded([conversation.title, conversation.project, conversation.name, conversation.source]))
    events = 0
    for _row, event in shown_events(store, conversation, first, last):
        events += 1
        if isinstance(event, Event):
            copy.look(event)
    if not events:
        raise UsageError(f"{conversation.name} has no event from {first} to {last or 'its end'}")
    copy.prepare()
    losses = Losses()
    told = copy.head(conversation, events)
    job = ExportJob(store, told, Stage(None), losses, first=first, last=last, change=copy.change)
    for piece in FORMS[form](job):
        # once more, whatever it was drawn from
        write(copy.secrets.removed(piece))
    return copy.told(), list(losses.all())


def _markdown(job: ExportJob) -> Iterator[bytes]:
    """Yield the pieces of a transcript with its images in it."""
    renderer = job.store.viewer.renderer
    if renderer is None:
        raise UsageError("this store was opened without a renderer: nothing can be drawn")
    images: dict[bytes, bytes] = {}

    def link(block: Block) -> str:
        data = block.data or b""
        name = f"{hash_bytes(data).hex()[:16]}.{suffix_of(block.mime)[:16]}"
        images[b"](%b" % name.encode()] = b"](data:%b;base64,%b" % (quote(block.mime).encode(), b64encode(data))
        return name

    for piece in renderer.transcript(job.conversation, told_events(job), link):
        # the text of a link is made of where it leads: only that becomes the image
        for name, image in images.items():
            piece = piece.replace(name, image)
        images.clear()
        yield piece


FORMS: dict[str, Callable[[ExportJob], Iterator[bytes]]] = {"html": page_file, "md": _markdown}
"""The forms of a shared file, by the suffixes of their names."""


class _Copy:
    """Events with other texts. Each is looked at first, and then changed; changes that a reader sees are counted."""

    def __init__(self, private: Private) -> None:
        self._private = private
        self._kinds: dict[bytes, str] = {}
        self._owners: set[str] = set()
        self._rules: list[Callable[[str], str]] = []
        self._counted: dict[str, list[int]] = {}
        self._number = 0
        self._changed: set[int] = set()
        self._again = False
        """True while an event is changed once more, for another place of the file."""
        self._counts = False
        self.secrets = Secrets(())
        """All that were found."""

    def look(self, event: Event) -> None:
        """Find the secrets in an event, and whose home directories it names."""
        for text in (*(block.text or "" for block in event.blocks), *(one.uri for one in event.resources)):
            self.look_at(text)
        self.look_at(encoded([event.header, event.native]))

    def look_at(self, text: str) -> None:
        for kind, secret in built_in(utf8(text)):
            if len(secret) >= LEAST_BYTES:
                self._kinds.setdefault(secret, kind)
        self._owners.update(owner for found in _HOMES.findall(text) for owner in found if owner)

    def prepare(self) -> None:
        """Decide how texts are changed, once all have been looked at."""
        self.secrets = Secrets(self._kinds)
        for kind in sorted(set(self._kinds.values())):
            of_a_kind = Secrets(secret for secret, its_kind in self._kinds.items() if its_kind == kind)
            self._rules.append(self._removing(of_a_kind, f"secret ({kind}) → {MARK.decode()}"))
        for old, new in self._private.replace:
            self._rules.append(self._replacing(re.compile(re.escape(old)), new, f"mention of {old} → {new}"))
        if not self._private.paths:
            return
        if home := self._private.home.rstrip("/"):
            own = re.compile(rf"{_BEGINS}{re.escape(home)}(?![\w.-])")
            self._rules.append(self._replacing(own, _HOME, f"path below {home} → {_HOME}"))
        self._rules.append(self._replacing(_HOMES, _HOME, f"path below {{}} → {_HOME}"))
        for owner in sorted(self._owners - {_USER}, key=len, reverse=True):
            dashed = re.escape(_unfit("-", owner))
            named = re.compile(
                rf"(?<=[/\\]){re.escape(owner)}(?![\w.@+-])|(?:(?<=-home-)|(?<=-Users-)){dashed}(?![A-Za-z0-9])"
            )
            self._rules.append(self._replacing(named, _USER, f"path with the name of {owner} → {_USER}"))
            elsewhere = re.compile(rf"(?<!\w){re.escape(owner)}(?!\w)")
            # a name may be a word, too: whoever shares it decides
            self._rules.append(self._replacing(elsewhere, owner, f"mention of {owner} elsewhere: kept"))

    def head(self, conversation: Conversation, events: int) -> Conversation:
        """Return a conversation for the head of a file that has so many events."""
        texts = {key: self._shown(getattr(conversation, key)) for key in ("title", "project", "name", "source")}
        metadata = {key: with_strings(value, self._clean) for key, value in conversation.metadata.items()}
        return structs.replace(conversation, **texts, metadata=metadata, events=events)

    def change(self, row: EventRow, event: Event) -> tuple[EventRow, Event]:
        """Return an event with other texts."""
        self._number = row.number
        self._again = row.number in self._changed
        self._changed.add(row.number)
        tool = self._clean(event.tool)
        changed = structs.replace(
            event,
            tool=tool,
            header={
                key: self._clean(value) if isinstance(value, str) else value for key, value in event.header.items()
            },
            blocks=tuple(map(self._block, event.blocks)),
            resources=tuple(map(self._resource, event.resources)),
            native=with_strings(event.native, self._clean, keys=True),
        )
        return structs.replace(row, tool=tool), changed

    def told(self) -> list[Loss]:
        """Return what was counted, each with its events; the head of a file is no event."""
        found = []
        for what, numbers in self._counted.items():
            noun, _, rest = what.partition(" ")
            events = tuple(dict.fromkeys(filter(None, numbers)))
            where = "" if events else ", in its head"
            found.append(Loss(f"{len(numbers)} {noun}{'s' if len(numbers) > 1 else ''} {rest}{where}", events))
        return sorted(found, key=lambda loss: " secret" not in loss.what)

    def _block(self, block: Block) -> Block:
        labelled = structs.replace(block, uri=self._shown(block.uri), name=self._shown(block.name))
        if block.data is None:
            return structs.replace(labelled, text=self._shown(block.text or ""))
        if self._private.images:
            self._note("image or other content that is not text: kept, and not looked through")
            return labelled
        self._note("image or other content that is not text → left out")
        text = f"[left out: {block.mime or 'content'}, {len(block.data)} bytes]"
        return structs.replace(labelled, type="text", text=text, data=None)

    def _resource(self, resource: Resource) -> Resource:
        content = resource.content
        if isinstance(content, str):
            content = self._clean(content)
        elif not self._private.images:
            content = b""
        return structs.replace(resource, uri=self._clean(resource.uri), content=content)

    def _shown(self, text: str) -> str:
        """Return a changed text that readers see."""
        self._counts = True
        try:
            return self._clean(text)
        finally:
            self._counts = False

    def _clean(self, text: str) -> str:
        for rule in self._rules:
            text = rule(text)
        return text

    def _removing(self, secrets: Secrets, what: str) -> Callable[[str], str]:
        def remove(text: str) -> str:
            data = utf8(text)
            places = secrets.places(data)
            for _place in places:
                self._note(what, counts=self._counts)
            return secrets.removed(data).decode(errors="replace") if places else text

        return remove

    def _replacing(self, pattern: re.Pattern[str], new: str, what: str) -> Callable[[str], str]:
        def replace(found: re.Match[str]) -> str:
            self._note(what.replace("{}", found[0]), counts=self._counts)
            return new

        return lambda text: pattern.sub(replace, text)

    def _note(self, what: str, *, counts: bool = True) -> None:
        if counts and not self._again:
            self._counted.setdefault(what, []).append(self._number)
