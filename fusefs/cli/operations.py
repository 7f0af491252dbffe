"""The operations that render conversations, beside those that need no more than the store."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from fusefs.cli.comparing import DIFF
from fusefs.cli.holding import WHERE
from fusefs.cli.searching import SEARCHING
from fusefs.text.render import FileRenderer
from store.events.conversation import Conversation
from store.exporting.event_json import document, shown_events
from store.service.collecting import GC
from store.service.exporting import EXPORTING
from store.service.history import HISTORY
from store.service.insight import INSIGHT
from store.service.operation import Holder, Nothing, Operation
from store.service.operations import OPERATIONS, line_of
from store.service.pruning import PRUNING
from store.service.redacting import REDACTING
from store.service.sealing import SEAL

_CHUNK = 64 << 10


class ShowParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``as_json``: one JSON object instead of the transcript."""

    id: int
    as_json: bool = False


def _show(holder: Holder, params: ShowParams, emit: Callable[[str], None]) -> Nothing:
    conversation = holder.store.conversation(params.id)
    pieces: list[str] = []
    waiting = 0
    for piece in _as_json(holder, conversation) if params.as_json else _as_text(holder, conversation):
        pieces.append(piece)
        waiting += len(piece)
        if waiting >= _CHUNK:
            emit("".join(pieces))
            pieces, waiting = [], 0
    emit("".join(pieces))
    return Nothing()


def _as_text(holder: Holder, conversation: Conversation) -> Iterator[str]:
    pieces = FileRenderer().transcript(conversation, shown_events(holder.store, conversation))
    return (piece.decode("utf-8", "replace") for piece in pieces)


def _as_json(holder: Holder, conversation: Conversation) -> Iterator[str]:
    return document(line_of(holder, conversation), shown_events(holder.store, conversation))


SHOW = Operation(263, ShowParams, str, Nothing, _show)

ALL_OPERATIONS = (
    *OPERATIONS,
    *HISTORY,
    *EXPORTING,
    *PRUNING,
    GC,
    *REDACTING,
    SEAL,
    SHOW,
    DIFF,
    WHERE,
    *SEARCHING,
    INSIGHT,
)
