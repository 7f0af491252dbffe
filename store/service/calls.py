"""The calls of programs, a row or a function each: contexts, turns, blobs, conversations, outputs, deliveries.

Those that begin with :data:`CALLS` are convfs's own. The others are messages of CXDB's wire protocol, which the service
answers in ``store.service.plane``; here is how they are asked for, and their answers are read. Each has the name, the
parameters and the result of the store's method.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import json

from store import typed
from store.artifacts.names import Output
from store.artifacts.urls import Address, Urls, parse_url
from store.commit.open_texts import OpenText
from store.commit.request import ContextHead
from store.conversations.contexts import Contexts, fs_root_of
from store.conversations.library import Library
from store.conversations.named import find_named
from store.conversations.open_turns import OpenTurns
from store.conversations.turns import Contents, Turns
from store.delivery.answers import Answer, Offered, Report
from store.disk.turn_format import Encoding, Turn
from store.errors import NotFound, UsageError
from store.events.conversation import SORTS, Change, Conversation, Outputs
from store.events.event import DELETED, Replacement
from store.ids import Hash, hash_bytes, patch_of, turn_of
from store.index.catalogue import Catalogue
from store.service.call import Ask, Emit, Form, Holder, T, Table, chunked
from store.service.wire import (
    NONE,
    AppendTurn,
    AttachFs,
    BlobAnswer,
    Buffer,
    GetBefore,
    GetBlob,
    GetHead,
    GetLast,
    GetRange,
    HeadAnswer,
    Payload,
    PutAnswer,
    PutBlob,
    decode_records,
    digest_of,
    encode_records,
)
from store.store import Store

_KEY_BYTES = 16
_MOST = (1 << 32) - 1
_TURNS_AT_ONCE = 4096
_PAGE = 500
_MOST_NAMED = 5

CALLS = Table()


RECORDS: Form[list[Turn]] = Form(
    lambda turns: json.encode(encode_records(turns)), lambda payload: decode_records(typed.decode(payload, bytes))
)
"""Turns as records of the turn log; one seen through a patch has the patch's number in its id."""
RECORD: Form[Turn] = Form(lambda turn: RECORDS.encode([turn]), lambda payload: RECORDS.decode(payload)[0])


# -- contexts ----------------------------------------------------------------------------------------------------------

create_context = CALLS.method(270, lambda store: store.contexts, Contexts.create, repeats=False)
fork = CALLS.method(271, lambda store: store.contexts, Contexts.fork, repeats=False)
tip = CALLS.method(274, lambda store: store.contexts, Contexts.tip)
set_metadata = CALLS.method(275, lambda store: store.contexts, Contexts.set_metadata)
versions = CALLS.method(287, lambda store: store.catalogue, Catalogue.versions)


def head(context_id: int) -> Ask[ContextHead]:
    """Return the head of a context."""
    return _ask(GetHead(_number(context_id), whole=True), _head)


def _head(payload: Buffer) -> ContextHead:
    head = HeadAnswer.decode(payload)
    return ContextHead(head.context, turn_of(head.turn), head.depth, patch_of(head.turn))


@CALLS.pages(290)
def watch(holder: Holder, contexts: tuple[int, ...] = (), texts: bool = False) -> Iterator[list[Change]]:
    """Yield what is changed of contexts (none named: of all), as it is; ``texts``: also how open turns grow."""
    raise UsageError("only a service tells of changes")


# -- turns -------------------------------------------------------------------------------------------------------------

turn = CALLS.method(272, lambda store: store.turns, Turns.get, form=RECORD)


def append(
    context_id: int,
    payload: bytes,
    type_name: str,
    *,
    encoding: int = Encoding.JSON,
    type_version: int = 0,
    parent: int = 0,
    expected_head: int | None = None,
    idempotency_key: bytes = b"",
    fs_root: bytes | None = None,
) -> Ask[Turn]:
    """Append one turn and return it once it is durable; it is appended once, however often it must be sent."""
    message = AppendTurn(
        _number(context_id),
        _number(parent if expected_head is None else expected_head),
        type_name,
        _number(type_version, 32),
        _number(encoding, 32),
        NONE,
        len(payload),
        hash_bytes(payload),
        payload,
        # one of its own if none is given: it may have to be sent again
        idempotency_key or os.urandom(_KEY_BYTES),
        None if fs_root is None else fs_root_of(fs_root),
        expected_head is not None,
        True,
    )
    return _ask(message, _record)


def last(context_id: int, count: int, *, latest: bool = False, as_of: int | None = None) -> Ask[list[Turn]]:
    """Return the last ``count`` turns of a context, oldest first.

    As they were appended; ``latest``: as they now are; ``as_of``: as they were at a seq of the head log.
    """
    if as_of is not None:
        return read_as_of(context_id, count, as_of)
    return _ask(GetLast(_number(context_id), _count(count), False, latest, True), decode_records)


def before(
    context_id: int, turn_id: int, count: int, *, latest: bool = False, as_of: int | None = None
) -> Ask[list[Turn]]:
    """Return the ``count`` turns before ``turn_id``, oldest first, without it."""
    if as_of is not None:
        return read_as_of(context_id, count, as_of, before=turn_id)
    return _ask(GetBefore(_number(context_id), _number(turn_id), _count(count), False, latest, True), decode_records)


def range_by_depth(
    context_id: int, start: int, count: int, *, latest: bool = False, as_of: int | None = None
) -> Ask[list[Turn]]:
    """Return up to ``count`` turns from depth ``start`` on, oldest first."""
    if start < 0 or count < 0:
        raise UsageError("a range starts at depth 0 or later and has no negative length")
    if as_of is not None:
        return read_as_of(context_id, count, as_of, start=start)
    return _ask(GetRange(_number(context_id), _count(start), _count(count), False, latest, True), decode_records)


@CALLS.pages(285, form=RECORDS)
def read_as_of(
    holder: Holder, context: int, count: int, seq: int, before: int | None = None, start: int | None = None
) -> Iterator[list[Turn]]:
    """Return up to ``count`` turns of a context as of the frame ``seq`` of the head log.

    The last of it, or those before the turn ``before``, or those from depth ``start`` on.
    """
    contexts = holder.store.contexts
    if before is not None:
        return _paged(contexts.before(context, before, count, as_of=seq))
    if start is not None:
        return _paged(contexts.range_by_depth(context, start, count, as_of=seq))
    return _paged(contexts.last(context, count, as_of=seq))


@CALLS.pages(273, form=RECORDS)
def path_to_root(holder: Holder, turn_id: int) -> Iterator[list[Turn]]:
    """Return every turn from the root to ``turn_id``."""
    return _paged(holder.store.turns.path_to_root(turn_id))


def _paged(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    return (list(turns[at : at + _TURNS_AT_ONCE]) for at in range(0, len(turns), _TURNS_AT_ONCE))


def patch(context_id: int, changes: Mapping[int, Replacement], *, expected_head: int | None = None) -> Ask[ContextHead]:
    """Give turns of a context other payloads, or delete them (DELETED), by one patch; return the head."""
    turns = [(turn_id, None if content is DELETED else content) for turn_id, content in changes.items()]
    return patch_turns(context_id, turns, expected_head)


@CALLS.call(286, repeats=False)
def patch_turns(
    holder: Holder, context: int, turns: list[tuple[int, bytes | None]], expected_head: int | None = None
) -> ContextHead:
    """Patch each turn with its new payload; None deletes it."""
    changes: dict[int, Replacement] = {turn: DELETED if payload is None else payload for turn, payload in turns}
    return holder.store.contexts.patch(context, changes, expected_head=expected_head)


register_type = CALLS.method(277, lambda store: store.contexts, Contexts.register_type)
canonicalize = CALLS.method(288, lambda store: store.contexts, Contexts.canonicalize)
types = CALLS.method(278, lambda store: store.contents, Contents.types)


# -- turns that are being written --------------------------------------------------------------------------------------


@CALLS.call(291, brief=True, repeats=False)
def open_turn(
    holder: Holder, context: int, type_name: str, encoding: int = Encoding.RAW_BYTES, type_version: int = 0
) -> int:
    """Open a turn that is written piece by piece; return its number."""
    return holder.store.open_turns.open(context, type_name, encoding=encoding, type_version=type_version).number


add_text = CALLS.method(292, lambda store: store.open_turns, OpenTurns.add, brief=True)
seal_turn = CALLS.method(293, lambda store: store.open_turns, OpenTurns.seal, form=RECORD, brief=True)


@CALLS.call(294, brief=True, repeats=False)
def drop_turn(holder: Holder, context: int, number: int) -> None:
    """Drop an open turn."""
    holder.store.open_turns.resume(context, number).abort()


@CALLS.call(295, brief=True)
def resume_turn(holder: Holder, context: int, number: int) -> int:
    """Return how many bytes an open turn has; 0 for one that was sealed, and can be sealed again."""
    turn = holder.store.open_turns.resume(context, number)
    try:
        return len(turn.text)
    except NotFound:
        return 0


@CALLS.pages(296)
def open_turns(holder: Holder, context_id: int = 0) -> Iterator[list[OpenText]]:
    """Return the open turns of a context, or of all (0), with their texts so far; those opened first come first."""
    # one by one: each may be large
    return ([text] for text in holder.store.writer.texts.of(context_id))


# -- blobs -------------------------------------------------------------------------------------------------------------


def blob(digest: Hash) -> Ask[bytes]:
    """Return a blob."""
    return _ask(GetBlob(digest), lambda answer: BlobAnswer.decode(answer).data)


def put_blob(data: bytes) -> Ask[Hash]:
    """Store ``data`` and return its name once it is durable."""
    return _ask(PutBlob(hash_bytes(data), data), lambda answer: PutAnswer.decode(answer).hash)


@CALLS.call(279)
def blob_size(holder: Holder, digest: Hash) -> int:
    """Return the size of a blob in bytes."""
    return holder.store.blobs.size(digest_of(digest))


def attach_fs(turn_id: int, root: bytes) -> Ask[None]:
    """Note that the files that a turn was made with are those of the tree ``root``."""
    return _ask(AttachFs(_number(turn_id), fs_root_of(root)), lambda _answer: None)


fs_root = CALLS.method(276, lambda store: store.contexts, Contexts.fs_root)


# -- conversations -----------------------------------------------------------------------------------------------------

projects = CALLS.method(280, lambda store: store.catalogue, Catalogue.projects)
conversation = CALLS.method(282, lambda store: store.library, Library.conversation)
find = CALLS.method(283, lambda store: store.library, Library.find)
stats = CALLS.method(284, lambda store: store, Store.stats)


@CALLS.pages(281)
def conversations(
    holder: Holder, project: str | None = None, *, after: str = "", limit: int | None = None
) -> Iterator[list[Conversation]]:
    """Return the conversations of a project, or of all, by name; within a project from beyond name ``after``."""
    return pages_of(holder.store, project, after, limit)


def pages_of(
    store: Store, project: str | None, after: str = "", limit: int | None = None
) -> Iterator[list[Conversation]]:
    """Yield conversations as of :func:`conversations`."""
    # all of them is many pages; a page has its names in order within the project only
    if project is None or (limit is not None and limit <= _PAGE):
        yield store.library.conversations(project, after=after, limit=limit)
        return
    while page := store.library.conversations(
        project, after=after, limit=_PAGE if limit is None else min(limit, _PAGE)
    ):
        yield page
        after, limit = page[-1].name, None if limit is None else limit - len(page)


# -- outputs of tools and agents; ``sort`` is ``artifact`` or ``agent`` ------------------------------------------------


@CALLS.call(300, brief=True, repeats=False)
def begin_output(holder: Holder, context: int, sort: str, name: str, parent: str = "") -> str:
    """Begin an output, and return the name that it is listed under."""
    return holder.store.artifacts.begin(context, _sort(sort), name, parent=parent)


@CALLS.call(301, brief=True)
def add_output(holder: Holder, context: int, sort: str, name: str, data: bytes, at: int | None = None) -> int:
    """Go on with an output; return how many bytes there are."""
    return holder.store.artifacts.add(context, _sort(sort), name, data, at)


@CALLS.call(302)
def end_output(holder: Holder, context: int, sort: str, name: str) -> Output:
    """Keep an output that was written: durable when it returns, if only on this disk while the space is away."""
    return holder.store.artifacts.end(context, _sort(sort), name)


@CALLS.call(303, brief=True, repeats=False)
def drop_output(holder: Holder, context: int, sort: str, name: str) -> None:
    """Drop what is being written under a name."""
    artifacts = holder.store.artifacts
    artifacts.drop(context, _sort(sort), artifacts.name_now(context, _sort(sort), name))


@CALLS.pages(304)
def outputs(holder: Holder, context: int, sort: str) -> Iterator[list[Output]]:
    """Return the outputs of a conversation."""
    yield list(holder.store.artifacts.listed(context, _sort(sort)).values())


@CALLS.pages(305)
def read_url(holder: Holder, url: str, conversation: str = "", offset: int = 0, limit: int = 0) -> Iterator[bytes]:
    """Return what a URL leads to.

    ``conversation`` is the one in which it means something, as for :func:`find_named`; "" for the only one in which it
    does. ``offset`` and ``limit`` count lines, the first is 1; 0 for all.
    """
    store, address = holder.store, parse_url(url)
    urls = Urls(store.library, store.artifacts, store.addresses.reader)
    context = _context_of(store, urls, address, conversation) if address.local else 0
    return urls.read(address, context, offset=offset, limit=limit)


def _context_of(store: Store, urls: Urls, address: Address, name: str) -> int:
    if name:
        return find_named(store.library, name).id
    holders = urls.holders(address)
    if len(holders) == 1:
        return holders[0]
    if not holders:
        raise NotFound(f"{address.url} not found in any conversation: say in which one, to see what is there")
    entries = [store.catalogue.entry(context) for context in holders[:_MOST_NAMED]]
    names = ", ".join(f"{entry.project}/{entry.name}" for entry in entries)
    more = f" and {len(holders) - _MOST_NAMED} more" if len(holders) > _MOST_NAMED else ""
    raise UsageError(f"{address.url} is in several conversations: say which ({names}{more})")


def _sort(scheme: str) -> Outputs:
    for outputs in SORTS:
        if outputs.scheme == scheme:
            return outputs
    raise UsageError(f"{scheme!r} is no sort of output: artifact or agent")


# -- what a model is sent ----------------------------------------------------------------------------------------------


@CALLS.telling(440)
def context(
    holder: Holder,
    emit: Emit[str],
    conversation_id: int,
    format_name: str = "anthropic",
    last: int | None = None,
    document: bool = False,
) -> Report:
    """Hand out what a model should be sent, in pieces; return what was saved, and what the format cannot say.

    ``last``: only that many exchanges (None: all); ``document``: one object that says what was done, too.
    """
    # here: most commands send nothing, and start sooner without all the forms
    from store.delivery.context import Context

    store = holder.store
    made = Context(store.library, store.settings, store.library.conversation(conversation_id), format_name, last)
    for piece in chunked(made.document() if document else made.messages(), b""):
        emit(piece.decode())
    return made.report


@CALLS.call(441)
def check_delivery(
    holder: Holder, context: int, blocks: Sequence[Offered], *, tool: str = "", call: str = ""
) -> list[Answer]:
    """Say of each block of a result, of ``tool`` and the call ``call``, whether it is to be delivered."""
    return holder.store.deliveries.check(context, blocks, tool=tool, call=call)


# -- asking ------------------------------------------------------------------------------------------------------------


def _ask(message: Payload, read: Callable[[Buffer], T]) -> Ask[T]:
    return Ask(message.number, message.flags, message.encode(), lambda answers: read(answers[-1]))


def _record(payload: Buffer) -> Turn:
    return decode_records(payload)[0]


def _number(number: int, bits: int = 64) -> int:
    """Return a number that a field holds; UsageError if it is out of range."""
    if not 0 <= number < 1 << bits:
        raise UsageError(f"{number} is no number that can be asked for")
    return number


def _count(count: int) -> int:
    return min(max(count, 0), _MOST)
