"""New events as people write them: what a format is told of one beside its text, and why it makes no record of it."""

import os
from collections.abc import Collection, Mapping

from msgspec import Struct

from store.errors import UsageError
from store.events.event import Kind
from store.formats.core.json_view import JsonObject
from store.formats.core.lens import Value
from store.formats.core.splices import check_text

_MAY_BE_EMPTY = frozenset((Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.CONFIG))


class Particulars(Struct, frozen=True):
    """The particulars of a new event.

    ``tool`` is the tool of a call or a result. ``id`` is the id of a call or a question (in itself "" for a new one);
    a result and an answer have that of theirs. ``document`` is the JSON object of a call's arguments, a configuration
    or a question's options; None where there is none. ``failed`` says whether a result is that of a call that failed.
    ``head`` are the other fields of its head. ``session`` is the tool's own id of the conversation, ``first`` and
    ``last`` are records of that, and ``asked`` is the call or question that this one answers.
    """

    tool: str = ""
    id: str = ""
    document: JsonObject | None = None
    failed: bool = False
    head: Mapping[str, Value] = {}
    session: str = ""
    first: bytes | None = None
    last: bytes | None = None
    asked: bytes | None = None

    def new_id(self, prefix: str) -> str:
        """Return the id of a call or a question: the one asked for, else a new one that begins with ``prefix``."""
        return self.id or prefix + os.urandom(12).hex()

    def arguments(self, text: str) -> JsonObject:
        """Return the arguments of a call. Raises UsageError for those that are a ``text`` and no JSON."""
        if self.document is None and text.strip():
            raise UsageError(
                f"the arguments of {self.tool} are a JSON object: write one, or blocks such as arguments.command"
            )
        return self.document or {}

    def configuration(self, text: str) -> JsonObject:
        """Return a configuration. Raises UsageError where it is none."""
        if not self.document:
            raise UsageError("a config is a JSON object: write one, or a block of json")
        return self.document


NO_PARTICULARS = Particulars()


def check_kind(text: str, kind: Kind, kinds: Collection[Kind], family: str, reason: str = "") -> None:
    """Raise UsageError for a kind that is none of ``kinds``, for an empty text, and one that is no valid Unicode.

    ``family`` names the records, ``reason`` says why they hold no event of this kind.
    """
    if kind not in kinds:
        # the kinds that people write most come first
        allowed = [one.word for one in sorted(kinds, key=lambda one: (one is Kind.SYSTEM, one))]
        others = " or ".join(filter(None, (", ".join(allowed[:-1]), *allowed[-1:])))
        what = f"write {others}" if others else "add it with the tool that writes these records"
        told = reason or "its tool writes none"
        raise UsageError(f"no {kind.word} can be written by hand in {family}: {told}; {what}")
    if text or kind not in _MAY_BE_EMPTY:
        check_text(text)
