"""Planning: the finds of a selection in a store, item by item, before anything is deleted."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Literal

from msgspec import Struct

from store.artifacts.names import kept_outputs
from store.events.conversation import SORTS, Conversation
from store.settings import Retention
from store.store import Store

What = Literal["conversations", "trash", "versions", "artifacts"]
DAY_MS = 24 * 3600 * 1000
_PAGE = 500


class Selection(Struct, frozen=True, forbid_unknown_fields=True):
    """A choice among things of one sort: all that meet every condition are deleted.

    ``older_ms``: a conversation that has been unchanged, or in the trash, for this long; a version that has not
    been the present one for this long; an output of a tool or of an agent that was not written to for this long
    (None: of any age). ``label``, ``project``: of conversations that have it ("": any). ``larger_bytes``: of
    conversations whose transcript and outputs are larger together (None: of any size). ``contexts``: of these alone
    (none: of all).
    """

    what: What
    older_ms: int | None = None
    label: str = ""
    project: str = ""
    larger_bytes: int | None = None
    contexts: tuple[int, ...] = ()


def rules(settings: Retention) -> list[Selection]:
    """Return the selections of a store's rules; none if there are no rules."""
    days: tuple[tuple[What, float | None], ...] = (
        ("trash", settings.trash_days),
        ("conversations", settings.conversations_days),
        ("versions", settings.versions_days),
        ("artifacts", settings.artifacts_days),
    )
    return [Selection(what, older_ms=int(least * DAY_MS)) for what, least in days if least is not None]


class Doomed(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to delete for good: the conversation ``id``, its oldest versions, or outputs of it.

    ``count`` is the number of these records, versions or outputs, ``bytes`` the size of the deleted transcript and
    outputs (0 for versions: they share most with what stays). ``why`` says by what it was chosen.

    It is valid for the state that was seen: a conversation in state ``tip``, in the trash since ``trashed_ms`` (0:
    it is not); versions that began up to the seq ``last``; outputs by the ``keys`` of metadata that name them.
    """

    what: Literal["conversation", "versions", "artifacts"]
    id: int
    project: str
    name: str
    why: str
    count: int
    bytes: int
    tip: int = 0
    trashed_ms: int = 0
    last: int = 0
    keys: tuple[str, ...] = ()


def plan(store: Store, selections: Sequence[Selection], keep_labels: Iterable[str], now_ms: int) -> Iterator[Doomed]:
    """Yield the finds of ``selections`` as of ``now_ms``, once each; none pinned, none with one of ``keep_labels``."""
    return (one for one in found(store, selections, keep_labels, now_ms) if one is not None)


def found(
    store: Store, selections: Sequence[Selection], keep_labels: Iterable[str], now_ms: int
) -> Iterator[Doomed | None]:
    """As :func:`plan`; yields None for each conversation that was looked at."""
    kept = set(keep_labels)
    gone: set[int] = set()
    # a conversation that goes as a whole is not reported in parts
    for selection in sorted(selections, key=lambda one: one.what in ("versions", "artifacts")):
        for conversation in _chosen(store, selection):
            yield None
            if conversation.id in gone or _is_kept(conversation, kept):
                continue
            for doomed in _of(store, conversation, selection, now_ms):
                if doomed.what == "conversation":
                    gone.add(doomed.id)
                yield doomed


def oldest(
    store: Store, most_bytes: int, kept_bytes: int, keep_labels: Iterable[str], gone: Container[int]
) -> Iterator[Doomed | None]:
    """Yield the conversations that changed longest ago, enough to keep no more than ``most_bytes`` without them.

    ``kept_bytes`` are kept now, including those that are ``gone`` anyway. The share of each is estimated by its size:
    content shared with others is not seen, so at first rather too few are found than too many. Yields None for each
    conversation that was looked at.
    """
    if kept_bytes <= most_bytes:
        return
    labels, total, excess = set(keep_labels), 0, 0.0
    sizes: list[tuple[int, int, Conversation]] = []
    for conversation in chain(every(store), store.library.trash()):
        yield None
        size = size_of(store, conversation)
        total += size
        if conversation.id in gone:
            excess -= size
        elif not _is_kept(conversation, labels):
            sizes.append((conversation.updated_ms, size, conversation))
    if not total:
        return
    excess += (kept_bytes - most_bytes) * total / kept_bytes
    for _updated, size, conversation in sorted(sizes, key=itemgetter(0)):
        if excess <= 0:
            return
        excess -= size
        yield _whole(store, conversation, "the oldest, and too much is kept")


def size_of(store: Store, conversation: Conversation) -> int:
    """Return the size in bytes of the transcript and the outputs of a conversation."""
    outputs = (output for sort in SORTS for output in kept_outputs(store.blobs, conversation, sort).values())
    return conversation.transcript_size + sum(output.size for output in outputs)


def every(store: Store) -> Iterator[Conversation]:
    """Yield the conversations that have a name, a page at a time."""
    for project in store.catalogue.projects():
        after = ""
        while page := store.library.conversations(project, after=after, limit=_PAGE):
            yield from page
            after = page[-1].name


def _is_kept(conversation: Conversation, labels: set[str]) -> bool:
    return conversation.metadata.get("pinned") is True or not labels.isdisjoint(conversation.labels)


def _chosen(store: Store, selection: Selection) -> Iterator[Conversation]:
    if selection.what == "trash":
        found: Iterable[Conversation] = store.library.trash()
    elif selection.contexts:
        found = map(store.library.conversation, selection.contexts)
    else:
        found = every(store)
    for conversation in found:
        if (
            (not selection.contexts or conversation.id in selection.contexts)
            and (not selection.label or selection.label in conversation.labels)
            and selection.project in ("", conversation.project)
            and (selection.larger_bytes is None or size_of(store, conversation) > selection.larger_bytes)
        ):
            yield conversation


def _of(store: Store, conversation: Conversation, selection: Selection, now_ms: int) -> Iterator[Doomed]:
    until = now_ms if selection.older_ms is None else now_ms - selection.older_ms
    match selection.what:
        case "versions":
            yield from _versions(store, conversation, until, now_ms)
        case "artifacts":
            yield from _outputs(store, conversation, until, now_ms)
        case _:
            trashed_ms = _trashed_ms(conversation)
            since = trashed_ms or conversation.updated_ms
            if since <= until:
                why = "in the trash" if trashed_ms else "unchanged"
                yield _whole(store, conversation, why + _for(now_ms - since))


def _whole(store: Store, conversation: Conversation, why: str) -> Doomed:
    tip, trashed_ms = conversation.head, _trashed_ms(conversation)
    records, size = conversation.records, size_of(store, conversation)
    return Doomed("conversation", *_named(conversation), why, records, size, tip, trashed_ms)


def _named(conversation: Conversation) -> tuple[int, str, str]:
    return conversation.id, conversation.project, conversation.name


def _trashed_ms(conversation: Conversation) -> int:
    trashed = conversation.metadata.get("trashed_ms")
    return trashed if isinstance(trashed, int) else 0


def _versions(store: Store, conversation: Conversation, until: int, now_ms: int) -> Iterator[Doomed]:
    versions = store.catalogue.versions(conversation.id)
    # one is over when the next begins
    over = [version for version, after in pairwise(versions) if after.time_ms <= until]
    if over:
        why = f"over{_for(now_ms - versions[len(over)].time_ms)}"
        yield Doomed("versions", *_named(conversation), why, len(over), 0, last=over[-1].seq)


def _outputs(store: Store, conversation: Conversation, until: int, now_ms: int) -> Iterator[Doomed]:
    old = {
        sort.key + output.name: output
        for sort in SORTS
        for output in kept_outputs(store.blobs, conversation, sort).values()
        # those that came beside a session are part of its files
        if not output.imported and output.modified_ns // 1_000_000 <= until
    }
    if old:
        last = max(output.modified_ns for output in old.values()) // 1_000_000
        why, size = f"unchanged{_for(now_ms - last)}", sum(output.size for output in old.values())
        yield Doomed("artifacts", *_named(conversation), why, len(old), size, keys=tuple(sorted(old)))


def _for(age_ms: int) -> str:
    days = age_ms // DAY_MS
    if days < 1:
        return ""
    return " for a day" if days == 1 else f" for {days} days"
