"""The operations on open turns: texts that grow piece by piece and are sealed into one turn."""

from collections.abc import Callable

from msgspec import Struct

from store.commit.open_texts import OpenText
from store.disk import turn_format
from store.disk.turn_format import Encoding
from store.errors import NotFound
from store.service.operation import Holder, Nothing, Operation


class OpenParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``open_turn``."""

    context: int
    type_name: str
    encoding: int = Encoding.RAW_BYTES
    type_version: int = 0


class AddParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``OpenTurn.add``: ``at`` is how many bytes there were before, null if that is not known."""

    number: int
    text: bytes
    at: int | None = None


class SealParams(Struct, frozen=True, forbid_unknown_fields=True):
    """As of ``OpenTurn.seal``."""

    context: int
    number: int
    expected_head: int | None = None
    fs_root: bytes | None = None


class NumberParams(Struct, frozen=True, forbid_unknown_fields=True):
    """An open turn by its number, and its context."""

    context: int
    number: int


class OpenTurnsParams(Struct, frozen=True, forbid_unknown_fields=True):
    """Which context's open turns; 0: all."""

    context: int = 0


def _open(holder: Holder, params: OpenParams, emit: Callable[[Nothing], None]) -> int:
    opened = holder.store.open_turn(
        params.context, params.type_name, encoding=params.encoding, type_version=params.type_version
    )
    return opened.number


def _add(holder: Holder, params: AddParams, emit: Callable[[Nothing], None]) -> int:
    return holder.store.add_text(params.number, params.text, params.at)


def _seal(holder: Holder, params: SealParams, emit: Callable[[Nothing], None]) -> bytes:
    turn = holder.store.resume_turn(params.context, params.number)
    return turn_format.encode(turn.seal(expected_head=params.expected_head, fs_root=params.fs_root))


def _drop(holder: Holder, params: NumberParams, emit: Callable[[Nothing], None]) -> Nothing:
    holder.store.resume_turn(params.context, params.number).abort()
    return Nothing()


def _resume(holder: Holder, params: NumberParams, emit: Callable[[Nothing], None]) -> int:
    turn = holder.store.resume_turn(params.context, params.number)
    try:
        return len(turn.text)
    except NotFound:
        # it is sealed, and can be sealed again
        return 0


def _open_turns(holder: Holder, params: OpenTurnsParams, emit: Callable[[list[OpenText]], None]) -> Nothing:
    # one by one: each may be large
    for text in holder.store.open_turns(params.context):
        emit([text])
    return Nothing()


OPEN_TURN = Operation(291, OpenParams, Nothing, int, _open, brief=True)
ADD_TEXT = Operation(292, AddParams, Nothing, int, _add, brief=True)
SEAL_TURN = Operation(293, SealParams, Nothing, bytes, _seal, brief=True)
DROP_TURN = Operation(294, NumberParams, Nothing, Nothing, _drop, brief=True)
RESUME_TURN = Operation(295, NumberParams, Nothing, int, _resume, brief=True)
OPEN_TURNS = Operation(296, OpenTurnsParams, list[OpenText], Nothing, _open_turns)

STREAMING_OPERATIONS = (OPEN_TURN, ADD_TEXT, SEAL_TURN, DROP_TURN, RESUME_TURN, OPEN_TURNS)
