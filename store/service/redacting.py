"""The operations that make secrets disappear: what would be redacted, and redacting it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from store.errors import UsageError
from store.importing.paths import text_path
from store.redaction.proof import Proof, prove
from store.redaction.redaction import Redaction
from store.redaction.secrets import Secrets
from store.redaction.wanted import Found, Match, Wanted, find
from store.service.operation import Holder, Operation
from store.store import Store

_AT_ONCE = 8 << 20


class RedactProgress(Struct, frozen=True):
    """What is being done, and how many bytes of how many have been looked at."""

    doing: str
    done: int
    total: int


class RedactPlan(Struct, frozen=True):
    """What was found; ``contents`` are payloads and other blobs that it is in, ``damaged`` is what cannot be read."""

    matches: list[Match]
    contents: int
    events: int
    conversations: list[str]
    damaged: list[str]


class RedactReport(Struct, frozen=True):
    """What was redacted. ``sources`` are files outside of the store that still hold it: what was imported."""

    matches: list[Match]
    events: int
    conversations: list[str]
    packs: int
    files: list[str]
    damaged: list[str]
    sources: list[str]
    proof: Proof


def _plan(holder: Holder, params: Wanted, emit: Callable[[RedactProgress], None]) -> RedactPlan:
    found = _found(holder.store, params, emit)
    redaction = Redaction(holder.store, found.secrets, found.also, _told(emit))
    extent = redaction.extent()
    return RedactPlan(
        found.matches, extent.contents, extent.turns, _names(holder.store, extent.contexts), list(extent.damaged)
    )


def _redact(holder: Holder, params: Wanted, emit: Callable[[RedactProgress], None]) -> RedactReport:
    store = holder.store
    found = _found(store, params, emit)
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
        _names(store, done.contexts),
        done.packs,
        list(done.files),
        list(done.damaged),
        [*_sources(store, done.contexts, found.secrets)],
        proof,
    )


def _found(store: Store, wanted: Wanted, emit: Callable[[RedactProgress], None]) -> Found:
    if wanted == Wanted():
        raise UsageError("nothing is named that is to be redacted: see `convfs redact --help`")
    return find(store, wanted, lambda done, total: emit(RedactProgress("finding", done, total)))


def _told(emit: Callable[[RedactProgress], None]) -> Callable[[str, int, int], None]:
    return lambda doing, done, total: emit(RedactProgress(doing, done, total))


def _names(store: Store, contexts: tuple[int, ...]) -> list[str]:
    """Return how conversations are called; what has no name is none."""
    entries = [store.entry(context) for context in contexts]
    return sorted(f"{entry.project}/{entry.name}" for entry in entries if entry.name)


def _sources(store: Store, contexts: tuple[int, ...], secrets: Secrets) -> Iterator[str]:
    """Yield the files that conversations were imported from and that still hold a secret."""
    for source in sorted({store.entry(context).source for context in contexts}):
        path = text_path(source) if source else None
        if path is not None and path.is_file() and _holds(path, secrets):
            yield str(path)


def _holds(path: Path, secrets: Secrets) -> bool:
    try:
        with path.open("rb") as file:
            before = b""
            while piece := file.read(_AT_ONCE):
                if secrets.hold(before + piece):
                    return True
                before = piece[-max(secrets.reach, 1) :]
    except OSError:
        # it cannot be imported again, either
        return False
    return False


REDACT_PLAN = Operation(450, Wanted, RedactProgress, RedactPlan, _plan, progress=True)
REDACT = Operation(451, Wanted, RedactProgress, RedactReport, _redact, progress=True)

REDACTING = (REDACT_PLAN, REDACT)
