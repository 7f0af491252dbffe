"""Messages between two stores about a conversation: an offer, a need, a parcel, and what became of it."""

from msgspec import Struct


class Position(Struct, frozen=True):
    """How far a store has come: the last seq of its head log, and the length of that."""

    seq: int
    length: int


class Row(Struct, frozen=True, array_like=True, gc=False):
    """A turn without its place: the fields of :class:`store.commit.request.NewTurn`."""

    payload: bytes
    tag: int
    codec: int
    flags: int
    created_ms: int


class Offer(Struct, frozen=True):
    """A conversation that a store has, in its present state.

    ``born`` is where it was born, ``records`` and ``chain`` are its length and its chain name, ``first`` that of its
    first turn. ``told`` is what it is
    told by and people may change: title, labels, outputs. ``is_file``: it stands for a file of many conversations.
    ``tip`` is the state there, if that is an earlier one (0: the present one).
    """

    context: int
    born: str
    records: int
    chain: bytes
    first: bytes
    project: str
    name: str
    told: dict[str, object]
    is_file: bool = False
    tip: int = 0


class Known(Struct, frozen=True):
    """A conversation of the birth asked for that a store has already, its length and chain name."""

    context: int
    records: int
    chain: bytes


class Need(Struct, frozen=True):
    """The offered conversation ``context`` is wanted; ``known`` is what the store has of it so far.

    ``tip`` is the state that is wanted, as an offer has it.
    """

    context: int
    known: tuple[Known, ...] = ()
    tip: int = 0


class Side(Struct, frozen=True):
    """A branch beside the one that is shown: what imports alone would have made of it.

    Its first ``shared`` turns are those of the branch that is shown, ``rows`` the others.
    """

    shared: int
    rows: tuple[Row, ...]


class Parcel(Struct, frozen=True):
    """A conversation on its way.

    ``extends`` is the known one whose state this one has been in (0: none), whose first ``shared`` turns it still has;
    ``rows`` are the turns behind these. ``moved`` says where the other turns of that state, or those of ``imported``,
    now are: (which of the two: 0 the known state, 1 the imported branch; number there; number here; how many).
    ``types`` are the names of the types of turns by tag, ``aliases`` other digests of contents: (algorithm, digest,
    blob). ``blobs`` are those that metadata and aliases name. ``parent`` is the conversation that it was forked from,
    by its birth, and the length of what they share. ``action`` names the version that it makes ("": the usual one).
    """

    context: int
    born: str
    machine: str
    store_id: str
    project: str
    name: str
    records: int
    chain: bytes
    extends: int
    shared: int
    rows: tuple[Row, ...]
    metadata: dict[str, object]
    types: dict[str, str]
    imported: Side | None = None
    moved: tuple[tuple[int, int, int, int], ...] = ()
    aliases: tuple[tuple[str, bytes, bytes], ...] = ()
    blobs: tuple[bytes, ...] = ()
    parent: tuple[str, int] | None = None
    file: str = ""
    is_file: bool = False
    action: str = ""


class Piece(Struct, frozen=True):
    """A part of a blob of ``size`` bytes, from ``offset`` on. ``is_payload``: it is cut as payloads of turns are."""

    digest: bytes
    data: bytes
    offset: int
    size: int
    is_payload: bool


class Outcome(Struct, frozen=True):
    """The outcome of a parcel, in one word: new, grown, described, diverged, same, gone or refused.

    ``name`` is what the conversation is called where it came to, ``why`` the reason of a refusal. ``wanted`` are blobs
    that the store has lost since it was asked: then the parcel is to be sent again with these.
    """

    context: int
    what: str
    name: str = ""
    why: str = ""
    wanted: tuple[bytes, ...] = ()
