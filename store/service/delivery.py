"""The operations on what a model should be sent, and the calls of clients that have them done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from store.delivery.answers import Answer, Offered, Report
from store.service.asks import Ask, operation
from store.service.operation import Holder, Nothing, Operation

if TYPE_CHECKING:
    from store.service.async_facade import AsyncFacade
    from store.service.facade import Facade

_CHUNK = 64 << 10


class ContextParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``last``: only that many exchanges (null: all); ``document``: one object that says what was done, too."""

    id: int
    format: str = "anthropic"
    last: int | None = None
    document: bool = False


class CheckParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The ``blocks`` of the result of ``call``, which called ``tool``."""

    context: int
    blocks: list[Offered]
    tool: str = ""
    call: str = ""


def _context(holder: Holder, params: ContextParams, emit: Callable[[str], None]) -> Report:
    # here: most commands send nothing, and start sooner without all the forms
    from store.delivery.context import Context

    store = holder.store
    context = Context(store, store.conversation(params.id), params.format, params.last)
    pieces: list[bytes] = []
    waiting = 0
    for piece in context.document() if params.document else context.messages():
        pieces.append(piece)
        waiting += len(piece)
        if waiting >= _CHUNK:
            emit(b"".join(pieces).decode())
            pieces, waiting = [], 0
    emit(b"".join(pieces).decode())
    return context.report


def _check(holder: Holder, params: CheckParams, emit: Callable[[Nothing], None]) -> list[Answer]:
    from store.delivery.deliveries import Deliveries

    deliveries = Deliveries.of(holder.store)
    return deliveries.check(params.context, params.blocks, tool=params.tool, call=params.call)


CONTEXT = Operation(440, ContextParams, str, Report, _context)
CHECK_DELIVERY = Operation(441, CheckParams, Nothing, list[Answer], _check)

DELIVERY_OPERATIONS = (CONTEXT, CHECK_DELIVERY)


class RemoteDeliveries:
    """Does what :class:`store.delivery.deliveries.Deliveries` does, over the connection of a client."""

    def __init__(self, client: Facade) -> None:
        self._client = client

    def check(self, context: int, blocks: Sequence[Offered], *, tool: str = "", call: str = "") -> list[Answer]:
        """Say of each block of a result, of ``tool`` and the call ``call``, whether it is to be delivered."""
        return self._client.ask(_asked(context, blocks, tool, call))


class AsyncRemoteDeliveries:
    """The same for tasks of trio."""

    def __init__(self, client: AsyncFacade) -> None:
        self._client = client

    async def check(self, context: int, blocks: Sequence[Offered], *, tool: str = "", call: str = "") -> list[Answer]:
        """As :meth:`RemoteDeliveries.check`, to be awaited."""
        return await self._client.ask(_asked(context, blocks, tool, call))


def _asked(context: int, blocks: Sequence[Offered], tool: str, call: str) -> Ask[list[Answer]]:
    return operation(CHECK_DELIVERY, CheckParams(context, list(blocks), tool, call), lambda answers: answers)
