"""The operations of the store's facade that the wire protocol has no message for. See ``store.store``.

Turns travel as records of the turn log, ids of turns that are seen through a patch with its number in them.
"""

from collections.abc import Callable

from msgspec import Struct

from store.commit.request import ContextHead
from store.disk import turn_format
from store.errors import UsageError
from store.events.conversation import Conversation, Version
from store.events.deletion import DELETED, Content
from store.ids import HASH_SIZE, Hash
from store.service.operation import Holder, Nothing, Operation
from store.upkeep.stats import Stats

_TURNS_AT_ONCE = 4096
_PAGE = 500


class Head(Struct, frozen=True):
    """The end of a branch, as :class:`ContextHead` has it."""

    context: int
    turn: int
    depth: int
    patch: int

    def opened(self) -> ContextHead:
        """Return it as the store has it."""
        return ContextHead(self.context, self.turn, self.depth, self.patch)


class CreateParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``create_context``."""

    base_turn: int = 0
    metadata: dict[str, object] | None = None


class ForkParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``fork``."""

    context: int
    at: int = 0
    metadata: dict[str, object] | None = None


class TurnParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn by its id."""

    turn: int


class TipParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A context, now or as of the frame ``seq`` of the head log."""

    context: int
    seq: int | None = None


class MetadataParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Keys replace, null removes."""

    context: int
    changes: dict[str, object]


class TypeParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A type of payloads by its name, and a version of it."""

    name: str
    version: int = 0


class ReadParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Up to ``count`` turns of a context as of the frame ``seq`` of the head log.

    The last of it, or those before the turn ``before``, or those from depth ``start`` on.
    """

    context: int
    count: int
    seq: int
    before: int | None = None
    start: int | None = None


class PatchParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``patch``: each turn with its new payload, null where it is deleted."""

    context: int
    turns: list[tuple[int, bytes | None]]
    expected_head: int | None = None


class HashParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A blob by its hash."""

    hash: bytes


class ContextParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A context by its id."""

    context: int


class PageParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``conversations``."""

    project: str | None = None
    after: str = ""
    limit: int | None = None


class NameParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation by its name within a project."""

    project: str
    name: str


def _head(head: ContextHead) -> Head:
    return Head(head.context, head.turn, head.depth, head.patch)


def _create(holder: Holder, params: CreateParams, emit: Callable[[Nothing], None]) -> Head:
    return _head(holder.store.create_context(params.base_turn, metadata=params.metadata))


def _fork(holder: Holder, params: ForkParams, emit: Callable[[Nothing], None]) -> Head:
    return _head(holder.store.fork(params.context, params.at, metadata=params.metadata))


def _turn(holder: Holder, params: TurnParams, emit: Callable[[Nothing], None]) -> bytes:
    return turn_format.encode(holder.store.turn(params.turn))


def _path(holder: Holder, params: TurnParams, emit: Callable[[bytes], None]) -> Nothing:
    turns = holder.store.path_to_root(params.turn)
    for at in range(0, len(turns), _TURNS_AT_ONCE):
        emit(b"".join(map(turn_format.encode, turns[at : at + _TURNS_AT_ONCE])))
    return Nothing()


def _read(holder: Holder, params: ReadParams, emit: Callable[[bytes], None]) -> Nothing:
    store, context, count, seq = holder.store, params.context, params.count, params.seq
    if params.before is not None:
        turns = store.before(context, params.before, count, as_of=seq)
    elif params.start is not None:
        turns = store.range_by_depth(context, params.start, count, as_of=seq)
    else:
        turns = store.last(context, count, as_of=seq)
    for at in range(0, len(turns), _TURNS_AT_ONCE):
        emit(b"".join(map(turn_format.encode, turns[at : at + _TURNS_AT_ONCE])))
    return Nothing()


def _patch(holder: Holder, params: PatchParams, emit: Callable[[Nothing], None]) -> Head:
    changes: dict[int, Content] = {turn: DELETED if payload is None else payload for turn, payload in params.turns}
    return _head(holder.store.patch(params.context, changes, expected_head=params.expected_head))


def _versions(holder: Holder, params: ContextParams, emit: Callable[[Nothing], None]) -> list[Version]:
    return holder.store.versions(params.context)


def _tip(holder: Holder, params: TipParams, emit: Callable[[Nothing], None]) -> int:
    return holder.store.tip(params.context, params.seq)


def _set_metadata(holder: Holder, params: MetadataParams, emit: Callable[[Nothing], None]) -> Nothing:
    holder.store.set_metadata(params.context, params.changes)
    return Nothing()


def _fs_root(holder: Holder, params: TurnParams, emit: Callable[[Nothing], None]) -> bytes | None:
    return holder.store.fs_root(params.turn)


def _register_type(holder: Holder, params: TypeParams, emit: Callable[[Nothing], None]) -> int:
    return holder.store.register_type(params.name, params.version)


def _types(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> list[tuple[int, int, str]]:
    return holder.store.types()


def _blob_size(holder: Holder, params: HashParams, emit: Callable[[Nothing], None]) -> int:
    if len(params.hash) != HASH_SIZE:
        raise UsageError(f"a hash has {HASH_SIZE} bytes, not {len(params.hash)}")
    return holder.store.blob_size(Hash(params.hash))


def _projects(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> list[str]:
    return holder.store.projects()


def _conversations(holder: Holder, params: PageParams, emit: Callable[[list[Conversation]], None]) -> Nothing:
    # all of them is many pages; a page has its names in order within the project only
    if params.project is None or (params.limit is not None and params.limit <= _PAGE):
        emit(holder.store.conversations(params.project, after=params.after, limit=params.limit))
        return Nothing()
    after, left = params.after, params.limit
    while page := holder.store.conversations(
        params.project, after=after, limit=_PAGE if left is None else min(left, _PAGE)
    ):
        emit(page)
        after, left = page[-1].name, None if left is None else left - len(page)
    return Nothing()


def _conversation(holder: Holder, params: ContextParams, emit: Callable[[Nothing], None]) -> Conversation:
    return holder.store.conversation(params.context)


def _find(holder: Holder, params: NameParams, emit: Callable[[Nothing], None]) -> Conversation | None:
    return holder.store.find(params.project, params.name)


def _stats(holder: Holder, params: Nothing, emit: Callable[[Nothing], None]) -> Stats:
    return holder.store.stats()


CREATE_CONTEXT = Operation(270, CreateParams, Nothing, Head, _create)
FORK_CONTEXT = Operation(271, ForkParams, Nothing, Head, _fork)
GET_TURN = Operation(272, TurnParams, Nothing, bytes, _turn)
PATH_TO_ROOT = Operation(273, TurnParams, bytes, Nothing, _path)
TIP = Operation(274, TipParams, Nothing, int, _tip)
SET_METADATA = Operation(275, MetadataParams, Nothing, Nothing, _set_metadata)
FS_ROOT = Operation(276, TurnParams, Nothing, bytes | None, _fs_root)  # type: ignore[arg-type]
REGISTER_TYPE = Operation(277, TypeParams, Nothing, int, _register_type)
TYPES = Operation(278, Nothing, Nothing, list[tuple[int, int, str]], _types)
BLOB_SIZE = Operation(279, HashParams, Nothing, int, _blob_size)
PROJECTS = Operation(280, Nothing, Nothing, list[str], _projects)
CONVERSATIONS = Operation(281, PageParams, list[Conversation], Nothing, _conversations)
CONVERSATION = Operation(282, ContextParams, Nothing, Conversation, _conversation)
FIND_CONVERSATION = Operation(283, NameParams, Nothing, Conversation | None, _find)  # type: ignore[arg-type]
STORE_STATS = Operation(284, Nothing, Nothing, Stats, _stats)
READ_AS_OF = Operation(285, ReadParams, bytes, Nothing, _read)
PATCH = Operation(286, PatchParams, Nothing, Head, _patch)
VERSIONS = Operation(287, ContextParams, Nothing, list[Version], _versions)

TURN_OPERATIONS = (
    CREATE_CONTEXT,
    FORK_CONTEXT,
    GET_TURN,
    PATH_TO_ROOT,
    TIP,
    SET_METADATA,
    FS_ROOT,
    REGISTER_TYPE,
    TYPES,
    BLOB_SIZE,
    PROJECTS,
    CONVERSATIONS,
    CONVERSATION,
    FIND_CONVERSATION,
    STORE_STATS,
    READ_AS_OF,
    PATCH,
    VERSIONS,
)
