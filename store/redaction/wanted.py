"""What is to be redacted: texts, what patterns find, what looks like a secret, events of conversations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from store.disk import skeleton_format
from store.disk.blob_format import Form
from store.disk.file_header import Damage
from store.disk.head_format import Frame, Metadata
from store.errors import ConvfsError, NotFound, UsageError
from store.events.event import Block, Event, utf8
from store.formats.registry import FORMATS
from store.ids import Hash
from store.importing.copied import Copied
from store.importing.cursor import Cursor
from store.importing.envelope import Envelope
from store.importing.imported import Imported, ImportedFile
from store.importing.layout import Layout, Place
from store.redaction.patterns import built_in, by_pattern, own
from store.redaction.secrets import LEAST_BYTES, Secrets
from store.redaction.survey import Bodies
from store.store import Store

_OWN_WORDS = (
    *("project", "name", "title", "labels", "pinned", "archived", "format", "source", "session", "begins", "part"),
    *("created_ms", "updated_ms", "started_ms", "trashed_ms", "forked_from", "context", "turn", "imported_head"),
    *("layout_of", "artifact", "agent", "blob", "size", "modified_ns", "file", "model", "sha256"),
    *("append", "import", "create", "fork", "edit", "branch", "restore", "redact", "null", "true", "false"),
)
"""What metadata and versions are told in, beside what imports say."""

LEAST_EVERYWHERE = 24
"""A text of an event that is as long as this goes wherever it stands; a shorter one, from that event only."""

OF_A_TEXT, BY_A_PATTERN, OF_AN_EVENT = "text", "pattern", "event"
_SHOWN = 4
_LONGEST_NAME = 128


class Wanted(Struct, frozen=True):
    """``texts`` are meant as they are; ``patterns`` are regular expressions; ``events`` are (context, number of one).

    ``secrets``: also whatever looks like a secret of a kind that is known (``store.redaction.patterns``).
    """

    texts: tuple[bytes, ...] = ()
    patterns: tuple[str, ...] = ()
    secrets: bool = False
    events: tuple[tuple[int, int], ...] = ()


class Match(Struct, frozen=True):
    """A text that is to go: of what kind it is, a hint at it that gives nothing away, and in how many contents it is.

    ``places`` is 0 where nobody has counted.
    """

    kind: str
    hint: str
    places: int


class Found(Struct, frozen=True):
    """``secrets`` are to go everywhere, ``also`` further ones from the payloads that these are of."""

    secrets: Secrets
    also: dict[Hash, Secrets]
    matches: list[Match]


def find(store: Store, wanted: Wanted, passed: Callable[[int, int], None] = lambda _done, _of: None) -> Found:
    """Find out which texts are meant. UsageError and NotFound for what cannot be; ``passed`` is told how far it is."""
    literals = {text: OF_A_TEXT for text in wanted.texts}
    counts: Counter[tuple[str, bytes]] = Counter()
    if wanted.patterns or wanted.secrets:
        compiled = [own(pattern) for pattern in wanted.patterns]
        for data in _everything(store, passed):
            counts.update(_matched(data, compiled, secrets=wanted.secrets))
    for kind, literal in counts:
        literals.setdefault(literal, kind)
    also: dict[Hash, Secrets] = {}
    for context, number in wanted.events:
        _add_event(store, context, number, literals, also)
    for literal in literals:
        _refuse_own(literal)
    everywhere = list(literals)
    matches = [Match(kind, hint(text), counts[kind, text]) for text, kind in literals.items()]
    return Found(
        Secrets(everywhere),
        {digest: Secrets([*everywhere, *more.literals]) for digest, more in also.items()},
        sorted(matches, key=lambda match: (match.kind, match.hint)),
    )


def _refuse_own(literal: bytes) -> None:
    """Raise UsageError for what the store says itself: without that, nobody could read it any more."""
    structs = (Imported, ImportedFile, Cursor, Envelope, Layout, Place, Copied)
    words = {*_OWN_WORDS, *(field for struct in structs for field in struct.__struct_fields__)}
    words.update(format_.name for format_ in FORMATS)
    for word in sorted(words):
        if literal in word.encode():
            raise UsageError(
                f"a text is part of a word that the store itself uses ({word}): name more of what is to be redacted"
            )


def hint(secret: bytes) -> str:
    """Return how a secret is told of: by how it begins, if it is long, and how long it is."""
    text = secret.decode(errors="replace")
    shown = text[:_SHOWN] if len(text) >= 4 * _SHOWN else ""
    return f"{shown}… ({len(text)} characters)"


def _matched(data: bytes, compiled: Sequence[re.Pattern[bytes]], *, secrets: bool) -> set[tuple[str, bytes]]:
    found = set(built_in(data)) if secrets else set()
    for pattern in compiled:
        found.update((BY_A_PATTERN, literal) for literal in by_pattern(pattern, data))
    return {(kind, literal) for kind, literal in found if len(literal) >= LEAST_BYTES}


def _everything(store: Store, passed: Callable[[int, int], None]) -> Iterator[bytes]:
    """Yield what the packs hold, each content once, and the metadata of all conversations."""
    store.flush()
    packs, bodies = store.files.packs, Bodies(store.resolver)
    size, done = sum(map(packs.length, packs.numbers())), 0
    for _pack, _offset, found in packs.scan():
        if isinstance(found, Damage):
            continue
        try:
            for _digest, form, body in bodies.of(store.resolver.open(found)):
                yield bytes(skeleton_format.decode(body).rest) if form == Form.SKELETON else body
        except ConvfsError:
            # what is damaged shows nothing to anybody
            continue
        done += len(found.stored)
        passed(done, size)
    for frame in store.files.heads.frames():
        if isinstance(frame, Frame) and isinstance(frame.body, Metadata):
            yield frame.body.changes


# -- events ------------------------------------------------------------------------------------------------------------


def _add_event(store: Store, context: int, number: int, literals: dict[bytes, str], also: dict[Hash, Secrets]) -> None:
    """Add the texts of an event, as it is in every version of its conversation."""
    payloads: dict[Hash, Event] = {}
    for tip in (tip for other, tip in store.states() if other == context):
        row = store.row(tip, number)
        if row is not None and (digest := store.turn(row.turn).payload_hash) not in payloads:
            payloads[digest] = store.event(row)
    if not payloads:
        raise NotFound(f"conversation {context} has no event {number}")
    for digest, event in payloads.items():
        shown = [text for block in event.blocks for text in _texts_of(block)]
        literals.update((text, OF_AN_EVENT) for text in shown if len(text) >= LEAST_EVERYWHERE)
        everything = {*shown, *filter(_is_said, _leaves(event.native))}
        also[digest] = Secrets(text for text in everything if len(text) >= LEAST_BYTES)


def _texts_of(block: Block) -> Iterator[bytes]:
    """Yield what a block shows: its text, the texts in its JSON, content that is no text."""
    if block.data is not None:
        yield block.data
    elif block.type == "json":
        with suppress(msgspec.DecodeError, RecursionError):
            yield from _leaves(msgspec.json.decode(block.text or ""))
    elif block.text:
        yield utf8(block.text)


def _leaves(value: object) -> Iterator[bytes]:
    """Yield the strings in a value of JSON."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield utf8(one)
        elif isinstance(one, dict):
            todo += one.values()
        elif isinstance(one, list):
            todo += one


def _is_said(text: bytes) -> bool:
    """Say whether a string of a record is more than an id, a date, a path or the name of something."""
    return len(text) >= _LONGEST_NAME or (len(text) >= LEAST_EVERYWHERE and b" " in text)
