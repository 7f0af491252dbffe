"""The operations on what a conversation has been: its log, going back to a version, forking."""

from collections.abc import Callable

from msgspec import Struct

from store.editing.editor import Editor
from store.editing.log import LogLine, version_log
from store.service.operation import Holder, Nothing, Operation
from store.service.operations import ConversationLine, line_of


class LogParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``id`` is that of a conversation."""

    id: int


class RestoreParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is a number of the log."""

    id: int
    version: int


class ForkParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``at`` is the number of the record to fork behind (0: the last)."""

    id: int
    name: str
    at: int = 0


def _log(holder: Holder, params: LogParams, emit: Callable[[list[LogLine]], None]) -> Nothing:
    holder.store.conversation(params.id)
    emit(version_log(holder.store.versions(params.id)))
    return Nothing()


def _restore(holder: Holder, params: RestoreParams, emit: Callable[[Nothing], None]) -> Nothing:
    Editor(holder.store).restore(params.id, params.version)
    return Nothing()


def _fork(holder: Holder, params: ForkParams, emit: Callable[[Nothing], None]) -> ConversationLine:
    head = Editor(holder.store).fork(params.id, params.name, at=params.at)
    return line_of(holder, holder.store.conversation(head.context))


LOG = Operation(264, LogParams, list[LogLine], Nothing, _log)
RESTORE = Operation(265, RestoreParams, Nothing, Nothing, _restore)
FORK = Operation(266, ForkParams, Nothing, ConversationLine, _fork)

HISTORY = (LOG, RESTORE, FORK)
