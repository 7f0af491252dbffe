"""The targets of a redaction: texts, matches of patterns, anything that looks like a secret, events.

Secrets that nobody can name are found by a pattern of the user, or by the form of well-known services' keys. A pattern
only determines the texts; these are then looked for in all their spellings (``store.redaction.secrets``), so that a key
that is in plain text once is found in base64 elsewhere.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from store.content.resolver import bodies
from store.disk import skeleton_format
from store.disk.blob_format import Form
from store.disk.file_header import Damage
from store.disk.head_format import HeadFrame, Metadata
from store.errors import ConvfsError, NotFound, UsageError
from store.events.event import Block, Event, utf8
from store.formats.registry import FORMATS
from store.ids import Hash
from store.importing.envelope import Envelope, Layout, Share
from store.importing.likeness import Copied
from store.importing.provenance import Imported, ImportedFile
from store.importing.snapshot import Cursor
from store.redaction import containers
from store.redaction.secrets import LEAST_BYTES, Secrets
from store.redaction.survey import kept_files
from store.store import Store

_LITERAL = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4})(?:\\u([dD][c-fC-F][0-9a-fA-F]{2}))?)')
_SHORT = {34: b'"', 92: b"\\", 47: b"/", 98: b"\b", 102: b"\f", 110: b"\n", 114: b"\r", 116: b"\t"}
_DEEPEST = 3
_OWN_WORDS = (
    *("project", "name", "title", "labels", "pinned", "archived", "format", "source", "session", "begins", "part"),
    *("created_ms", "updated_ms", "started_ms", "trashed_ms", "forked_from", "context", "turn", "imported_head"),
    *("layout_of", "artifact", "agent", "blob", "size", "modified_ns", "written_ns", "file", "model", "sha256"),
    *("append", "import", "create", "fork", "edit", "branch", "restore", "redact", "null", "true", "false"),
)
"""The words of metadata and versions, apart from those of imports."""

LEAST_EVERYWHERE = 24
"""The length from which a text of an event is removed everywhere; a shorter one, from that event only."""

OF_A_TEXT, BY_A_PATTERN, OF_AN_EVENT = "text", "pattern", "event"
_SHOWN = 4
_LONGEST_NAME = 128

_ARMOR = rb"(?:[A-Z0-9]{2,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_PAIR = rb"(?P<pair>[A-Za-z0-9_][A-Za-z0-9_.@%+-]{0,63}:(?!//)[^\s\"'\\$<>{}|;&]{1,128})"

_SECRET_FORMS = (
    ("anthropic", (b"sk-ant-",), rb"sk-ant-[A-Za-z0-9_-]{20,300}"),
    ("openai", (b"sk-",), rb"sk-(?:proj-|svcacct-|admin-|or-v1-)?[A-Za-z0-9_]{20,300}[A-Za-z0-9_-]{0,300}"),
    (
        "stripe",
        (b"sk_live_", b"sk_test_", b"rk_live_", b"rk_test_", b"whsec_"),
        rb"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,300}",
    ),
    (
        "github",
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
        rb"gh[pousr]_[A-Za-z0-9]{36,300}|github_pat_[A-Za-z0-9_]{22,300}",
    ),
    ("gitlab", (b"glpat-",), rb"glpat-[A-Za-z0-9_-]{20,100}"),
    ("aws", (b"AKIA", b"ASIA"), rb"A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])"),
    (
        "google",
        (b"AIza", b"ya29.", b"GOCSPX-"),
        rb"AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,1000}|GOCSPX-[0-9A-Za-z_-]{20,60}",
    ),
    ("slack", (b"xox", b"xapp-"), rb"xox[abeoprs]-[0-9A-Za-z-]{10,300}|xapp-[0-9A-Za-z-]{20,300}"),
    ("npm", (b"npm_",), rb"npm_[A-Za-z0-9]{36}"),
    ("pypi", (b"pypi-AgE",), rb"pypi-AgE[A-Za-z0-9_-]{50,400}"),
    ("hugging-face", (b"hf_",), rb"hf_[A-Za-z0-9]{30,60}"),
    ("digitalocean", (b"dop_v1_", b"doo_v1_", b"dor_v1_"), rb"do[opr]_v1_[0-9a-f]{64}"),
    ("sendgrid", (b"SG.",), rb"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    ("jwt", (b"eyJ",), rb"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000}"),
    (
        "private-key",
        (b"-----BEGIN ",),
        rb"-----BEGIN " + _ARMOR + rb"[A-Za-z0-9+/=\s\\:,.-]{32,16000}?-----END " + _ARMOR,
    ),
    ("password-in-url", (b"://",), rb"://[^/\s:@\"'\\<>]{1,64}:(?P<secret>[^/\s:@\"'\\<>${}]{6,128})@"),
    (
        "user-and-password",
        (b"curl",),
        rb"curl\b(?:\\\n|[^\n|;&]){0,400}?[\s\"'](?:-u|--user|-U|--proxy-user)[ =,\\\"']{0,6}" + _PAIR,
    ),
)
KINDS = [(name, beginnings, re.compile(pattern)) for name, beginnings, pattern in _SECRET_FORMS]
"""The forms of well-known kinds of secrets, the more special kind first: their names, their possible beginnings, and
their whole forms; of that, the group ``secret`` or ``pair`` if there is one."""

_ASSIGNING = rb"[a-z0-9_]{0,8}[\"'\\ ]{0,16}(?:[:=]|=>)[\"'\\ ]{0,16}(?:bearer |basic )?"
_VALUE = rb"[A-Za-z0-9_.~+/=!@#$%^&*-]"
_ASSIGNED = "assigned"
_OF_A_GENERATED_ONE, _OF_A_PASSWORD = 3.0, 2.0
_LONG_PASSWORD = 8
_ASSIGNMENTS = (
    (
        re.compile(rb"(?:key|token|secret|authorization)" + _ASSIGNING),
        re.compile(_VALUE + rb"{12,300}"),
        _OF_A_GENERATED_ONE,
    ),
    # people choose them, and a call or a name is none
    (
        re.compile(rb"(?:passw(?:or)?d|passphrase|_pass|_pwd)" + _ASSIGNING),
        re.compile(_VALUE + rb"{6,300}(?![A-Za-z0-9_.~+/=!@#$%^&*(\[-])"),
        _OF_A_PASSWORD,
    ),
)
"""The names of values, their forms, and the least variety of their characters."""


def built_in(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (kind, secret) for everything in ``data`` that looks like a secret, possibly repeated."""
    for name, beginnings, pattern in KINDS:
        for beginning in beginnings:
            at = data.find(beginning)
            while at >= 0:
                match = pattern.match(data, at)
                if match is not None:
                    groups = match.groupdict()
                    secret = unescaped(groups.get("secret") or groups.get("pair") or match[0])
                    if "pair" in groups:
                        yield name, _of_pair(secret)
                    elif "secret" not in groups or is_random(secret, _OF_A_PASSWORD):
                        yield name, secret
                at = data.find(beginning, at + 1)
    # a pattern that ignores case takes five times as long
    lower = data.lower()
    for names, form, entropy in _ASSIGNMENTS:
        for named_at in names.finditer(lower):
            value = form.match(data, named_at.end())
            if value is not None and is_random(value[0], entropy):
                yield _ASSIGNED, value[0]


def _of_pair(pair: bytes) -> bytes:
    """Return the password of ``user:password``, or all of it where that alone could be any word."""
    password = pair.partition(b":")[2]
    return password if len(password) >= _LONG_PASSWORD and is_random(password, _OF_A_PASSWORD) else pair


def own(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern of a user. Raises UsageError if it is invalid, or matches the empty text."""
    try:
        compiled = re.compile(pattern.encode())
    except re.error as error:
        raise UsageError(f"{pattern!r} is no pattern: {error}") from None
    if compiled.fullmatch(b"") is not None:
        raise UsageError(f"{pattern!r} matches what has no characters, so it would match everywhere")
    return compiled


def by_pattern(pattern: re.Pattern[bytes], data: bytes) -> Iterator[bytes]:
    """Yield the matches of a user's pattern in the texts of ``data``."""
    for text in texts_of(data):
        for match in pattern.finditer(text):
            if len(match[0]) >= LEAST_BYTES:
                yield match[0]


def texts_of(data: bytes) -> Iterator[bytes]:
    """Yield the texts in ``data``: the strings of JSON, and of JSON in these, unescaped; otherwise itself."""
    if data[:64].lstrip(b" \t\r\n\xef\xbb\xbf")[:1] not in (b"{", b"[", b'"'):
        yield data
        return
    todo = [(data, 0)]
    while todo:
        text, depth = todo.pop()
        for match in _LITERAL.finditer(text):
            inner = match[1]
            if len(inner) < LEAST_BYTES:
                continue
            if b"\\" in inner:
                inner = _unescaped_once(inner)
                if b'"' in inner and depth < _DEEPEST and inner.lstrip()[:1] in (b"{", b"["):
                    todo.append((inner, depth + 1))
            yield inner


def unescaped(text: bytes) -> bytes:
    """Return a text with escapes of JSON, however deep, unescaped."""
    for _ in range(_DEEPEST):
        if b"\\" not in text:
            break
        text = _unescaped_once(text)
    return text


def _unescaped_once(text: bytes) -> bytes:
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return _SHORT[match[1][0]]
    units = bytes.fromhex((match[2] + (match[3] or b"")).decode())
    return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")


def is_random(secret: bytes, least: float = _OF_A_GENERATED_ONE) -> bool:
    """Return whether a text is as varied as ``least`` bits a character, and neither a word nor a path nor a name."""
    counts = Counter(secret).values()
    entropy = -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)
    return (
        entropy >= least
        and re.search(rb"[0-9]", secret) is not None
        and re.search(rb"[A-Za-z]", secret) is not None
        and not re.match(rb"[/.$]|[a-z]+[/.]|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|[0-9]{4}-[0-9]{2}-", secret)
    )


class Wanted(Struct, frozen=True):
    """The request of a user: literal ``texts``, regular expressions ``patterns``, ``events`` as (context, number).

    ``secrets``: also anything that looks like a secret of a known kind.
    """

    texts: tuple[bytes, ...] = ()
    patterns: tuple[str, ...] = ()
    secrets: bool = False
    events: tuple[tuple[int, int], ...] = ()


class Match(Struct, frozen=True):
    """A text to remove: its kind, a hint that reveals nothing, and how many contents have it (0: not counted)."""

    kind: str
    hint: str
    places: int


class Found(Struct, frozen=True):
    """The texts to remove: ``secrets`` everywhere, ``also`` further ones from their own payloads."""

    secrets: Secrets
    also: dict[Hash, Secrets]
    matches: list[Match]


def find(store: Store, wanted: Wanted, passed: Callable[[int, int], None] = lambda _done, _of: None) -> Found:
    """Determine the texts. Raises UsageError and NotFound for impossible ones; ``passed`` gets the progress."""
    literals = dict.fromkeys(wanted.texts, OF_A_TEXT)
    counts: Counter[tuple[str, bytes]] = Counter()
    if wanted.patterns or wanted.secrets:
        compiled = [own(pattern) for pattern in wanted.patterns]
        known = _ids(store)
        for content in _everything(store, passed):
            found: set[tuple[str, bytes]] = set()
            for data in content:
                found.update(one for one in (built_in(data) if wanted.secrets else ()) if one[1] not in known)
                found.update((BY_A_PATTERN, literal) for pattern in compiled for literal in by_pattern(pattern, data))
            counts.update(one for one in found if len(one[1]) >= LEAST_BYTES)
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
    """Raise UsageError for words of the store itself: without them, it would be unreadable."""
    structs = (Imported, ImportedFile, Cursor, Envelope, Layout, Share, Copied)
    words = {*_OWN_WORDS, *(field for struct in structs for field in struct.__struct_fields__)}
    words.update(format_.name for format_ in FORMATS)
    for word in sorted(words):
        if literal in word.encode():
            raise UsageError(
                f"a text is part of a word that the store itself uses ({word}): name more of what is to be redacted"
            )


def hint(secret: bytes) -> str:
    """Return a hint at a secret: its beginning, if it is long, and its length."""
    text = secret.decode(errors="replace")
    shown = text[:_SHOWN] if len(text) >= 4 * _SHOWN else ""
    return f"{shown}… ({len(text)} characters)"


def _everything(store: Store, passed: Callable[[int, int], None]) -> Iterator[Iterable[bytes]]:
    """Yield the texts of each content of a store, and of what its metadata say."""
    store.checkpointer.flush()
    packs = store.files.packs
    size, done = sum(map(packs.length, packs.numbers())), 0
    scratch = store.files.aside.scratch
    for _pack, _offset, found in packs.scan():
        if isinstance(found, Damage):
            continue
        try:
            for _digest, form, body in bodies(store.blobs, store.blobs.open(found)):
                data = bytes(skeleton_format.decode(body).rest) if form == Form.SKELETON else body
                yield chain((data,), _within(data, scratch))
        except ConvfsError:
            # damaged data shows nothing to anybody
            continue
        done += len(found.stored)
        passed(done, size)
    for kept in containers.originals(store.files.heads):
        # those in several pieces, or with a log beside them
        with suppress(ConvfsError):
            data, beside = kept_files(store.blobs, kept)
            yield _within(data, scratch, beside)
    for frame in store.files.heads.frames():
        if isinstance(frame, HeadFrame) and isinstance(frame.body, Metadata):
            yield (frame.body.changes,)


def _within(data: bytes, scratch: Path, beside: containers.Beside | None = None) -> Iterator[bytes]:
    with suppress(ConvfsError):
        yield from containers.texts(data, scratch, beside)


def _ids(store: Store) -> set[bytes]:
    """Return the ids that tools gave to conversations."""
    told = (entry.metadata.get(key) for entry in store.catalogue.every() for key in ("session", "part"))
    return {utf8(name) for name in told if isinstance(name, str)}


# -- events ------------------------------------------------------------------------------------------------------------


def _add_event(store: Store, context: int, number: int, literals: dict[bytes, str], also: dict[Hash, Secrets]) -> None:
    """Add the texts of an event, as it is in every version of its conversation."""
    payloads: dict[Hash, Event] = {}
    for tip in (tip for other, tip in store.catalogue.states() if other == context):
        row = store.records.row(tip, number)
        if row is not None and (digest := store.turns.get(row.turn).payload_hash) not in payloads:
            payloads[digest] = store.records.event(row)
    if not payloads:
        raise NotFound(f"conversation {context} has no event {number}")
    for digest, event in payloads.items():
        shown = [text for block in event.blocks for text in _texts_of(block)]
        literals.update((text, OF_AN_EVENT) for text in shown if len(text) >= LEAST_EVERYWHERE)
        everything = {*shown, *filter(_is_said, _leaves(event.native))}
        also[digest] = Secrets(text for text in everything if len(text) >= LEAST_BYTES)


def _texts_of(block: Block) -> Iterator[bytes]:
    if block.data is not None:
        yield block.data
    elif block.type == "json":
        with suppress(msgspec.DecodeError, RecursionError):
            yield from _leaves(msgspec.json.decode(block.text or ""))
    elif block.text:
        yield utf8(block.text)


def _leaves(value: object) -> Iterator[bytes]:
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
    """Return whether a string of a record is more than an id, a date, a path or a name."""
    return len(text) >= _LONGEST_NAME or (len(text) >= LEAST_EVERYWHERE and b" " in text)
