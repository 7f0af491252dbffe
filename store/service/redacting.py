"""The calls of the command that redacts: what would be, and what was.

They are apart, as few daemons are asked for them, and they take much to load.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from store.errors import UsageError
from store.importing.snapshot import text_path
from store.redaction.proof import Proof, prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.redaction.wanted import Found, Match, Wanted, find
from store.service.call import Emit, Holder, Table
from store.store import Store

REDACTING = Table()
_REDACTED_AT_ONCE = 8 << 20


class RedactProgress(Struct, frozen=True):
    """The stage that a redaction is at, and how many bytes of how many have been looked at."""

    doing: str
    done: int
    total: int


class RedactPlan(Struct, frozen=True, omit_defaults=True):
    """The findings; ``contents`` counts payloads and other blobs with a match, ``damaged`` are unreadable ones.

    ``numbers`` are those of the events by the name of their conversation, as far as it still has them.
    """

    matches: list[Match]
    contents: int
    events: int
    conversations: list[str]
    damaged: list[str]
    numbers: dict[str, list[int]] = {}


class RedactReport(Struct, frozen=True, omit_defaults=True):
    """The redactions made. ``sources`` are files outside of the store that still hold it: those that were imported.

    ``behind`` are the machines of a space that have not done the same yet, and when they were last there, in Unix ms.
    """

    matches: list[Match]
    events: int
    conversations: list[str]
    packs: int
    files: list[str]
    damaged: list[str]
    sources: list[str]
    proof: Proof
    behind: list[tuple[str, int]] = []


@REDACTING.telling(450, progress=True)
def redact_plan(
    holder: Holder,
    emit: Emit[RedactProgress],
    texts: tuple[bytes, ...] = (),
    patterns: tuple[str, ...] = (),
    secrets: bool = False,
    events: tuple[tuple[int, int], ...] = (),
) -> RedactPlan:
    """Return what would be redacted; the parameters are those of :class:`Wanted`."""
    store = holder.store
    with store.redacting:
        found = _found(store, Wanted(texts, patterns, secrets, events), emit)
        extent = Redaction(store, found.secrets, found.also, _told(emit)).extent()
    names = _names(store, extent.contexts)
    numbers = {name: extent.events[context] for name, context in names.items() if context in extent.events}
    return RedactPlan(found.matches, extent.contents, extent.turns, sorted(names), list(extent.damaged), numbers)


@REDACTING.telling(451, progress=True)
def redact(
    holder: Holder,
    emit: Emit[RedactProgress],
    texts: tuple[bytes, ...] = (),
    patterns: tuple[str, ...] = (),
    secrets: bool = False,
    events: tuple[tuple[int, int], ...] = (),
) -> RedactReport:
    """Redact that for good, and prove it."""
    store = holder.store
    with store.redacting:
        found = _found(store, Wanted(texts, patterns, secrets, events), emit)
        done = Redaction(store, found.secrets, found.also, _told(emit)).run()
        total, looked_at = sum(map(store.files.packs.length, store.files.packs.numbers())), 0

        def passed(size: int) -> None:
            nonlocal looked_at
            looked_at += size
            emit(RedactProgress("proving", looked_at, total))

        proof = prove(store, found.secrets, done.gone, passed)
    return RedactReport(
        found.matches,
        len(done.turns),
        sorted(_names(store, done.contexts)),
        done.packs,
        list(done.files),
        list(done.damaged),
        [*_sources(store, done.contexts, found.secrets)],
        proof,
        store.replica.behind() if store.replica is not None else [],
    )


def _found(store: Store, wanted: Wanted, emit: Emit[RedactProgress]) -> Found:
    if wanted == Wanted():
        raise UsageError("nothing is named that is to be redacted: see `convfs redact --help`")
    return find(store, wanted, lambda done, total: emit(RedactProgress("finding", done, total)))


def _told(emit: Emit[RedactProgress]) -> Callable[[str, int, int], None]:
    return lambda doing, done, total: emit(RedactProgress(doing, done, total))


def _names(store: Store, contexts: tuple[int, ...]) -> dict[str, int]:
    """Return the ids of conversations by name; contexts without a name are none."""
    entries = [store.catalogue.entry(context) for context in contexts]
    return {f"{entry.project}/{entry.name}": entry.id for entry in entries if entry.name}


def _sources(store: Store, contexts: tuple[int, ...], secrets: Secrets) -> Iterator[str]:
    """Yield the files that conversations were imported from and that still hold a secret."""
    for source in sorted({store.catalogue.entry(context).source for context in contexts}):
        path = text_path(source) if source else None
        if path is not None and path.is_file() and _holds(path, secrets):
            yield str(path)


def _holds(path: Path, secrets: Secrets) -> bool:
    try:
        with path.open("rb") as file:
            before = b""
            while piece := file.read(_REDACTED_AT_ONCE):
                if secrets.hold(before + piece):
                    return True
                before = piece[-max(secrets.reach, 1) :]
    except OSError:
        # it cannot be imported again, either
        return False
    return False
