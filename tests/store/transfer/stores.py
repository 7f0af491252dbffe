"""Two stores, and conversations carried between them in this process."""

from collections.abc import Sequence
from pathlib import Path

from store.disk.turn_format import Turn
from store.events.conversation import Conversation
from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.service.call import Holder
from store.service.exchange import Chosen, Transfer
from store.store import Store
from store.transfer.parcel import Outcome


def carry(
    giving: Store, taking: Store, contexts: Sequence[int] = (), *, named: bool = False
) -> list[Outcome]:
    """Carry conversations, or all, from one store to another."""
    transfer = Transfer(Holder(giving), Holder(taking))
    return transfer.run(transfer.offers(Chosen(tuple(contexts))), named=named)


def did(giving: Store, taking: Store) -> list[str]:
    """Carry all conversations; return what became of each, in words, in order."""
    return sorted(outcome.what for outcome in carry(giving, taking))


def brought_in(store: Store, *paths: Path) -> None:
    report = Importer(store).run(list(paths))
    assert not report.errors, report


def talks(store: Store) -> dict[str, Conversation]:
    """Return the conversations of a store by their names."""
    return {one.name: one for project in store.catalogue.projects() for one in store.library.conversations(project)}


def only(store: Store) -> Conversation:
    [talk] = talks(store).values()
    return talk


def turns(store: Store, talk: Conversation) -> list[Turn]:
    return [turn for run in store.records.runs(talk.head) for turn in store.turns.range(*run)]


def payloads(store: Store, talk: Conversation) -> list[bytes]:
    return [store.contents.payload(turn.turn_id) for turn in turns(store, talk)]


def exported(store: Store, talk: Conversation, folder: Path) -> dict[str, bytes]:
    """Return the files of a native export, by name."""
    folder.mkdir(parents=True)
    export_native(store, talk, folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
