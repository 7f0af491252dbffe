"""Secrets that stay behind, in the records, titles, outputs and files of what goes."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.disk.turn_format import REDACTED
from store.editing.editor import Editor
from store.editing.keeper import Keeper
from store.events.conversation import ARTIFACTS
from store.events.event import DELETED
from store.redaction.proof import prove
from store.redaction.secrets import MARK, Secrets
from store.service.call import Holder
from store.service.exchange import Chosen, Transfer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.importing.sessions import lines, session
from tests.store.transfer.stores import brought_in, did, exported, only, payloads, talks, turns

KEY = "sk-ant-api03-Zk93hfPqX7bWmT4vLs8RyD2uNc6Ja1Ge"
IN_BASE64 = b64encode(f"key: {KEY}!".encode()).decode()


def hidden(giving: Store, taking: Store) -> list[str]:
    """Carry all conversations without secrets; return what became of each, in words."""
    transfer = Transfer(Holder(giving), Holder(taking), redacted=True)
    return sorted(one.what for one in transfer.run(transfer.offers(Chosen())))


def has_none(store: Store) -> None:
    store.checkpointer.flush()
    proof = prove(store, Secrets([KEY.encode()]), ())
    assert (proof.found, proof.unread) == ([], [])


def written(tmp_path: Path, *texts: str) -> Path:
    return session(tmp_path, lines("Hello", f"The key is {KEY}", f"It was {IN_BASE64}", *texts))


def test_a_secret_stays_behind_in_every_spelling(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = written(tmp_path)
    brought_in(laptop, path)
    before = payloads(laptop, only(laptop))
    assert hidden(laptop, desktop) == ["new"]
    there = only(desktop)
    assert [record in before for record in payloads(desktop, there)] == [True, False, False]
    assert MARK in payloads(desktop, there)[1]
    assert [bool(turn.flags & REDACTED) for turn in turns(desktop, there)] == [False, True, True]
    has_none(desktop)
    # here it is as it was
    assert payloads(laptop, only(laptop)) == before
    assert exported(laptop, only(laptop), tmp_path / "out")[path.name] == path.read_bytes()
    assert json.loads(exported(desktop, there, tmp_path / "there")[path.name].splitlines()[1])


def test_titles_names_and_outputs_leave_without_it(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines(f"Deploy with {KEY}", "Done")))
    context = only(laptop).id
    name = laptop.artifacts.begin(context, ARTIFACTS, "env")
    laptop.artifacts.add(context, ARTIFACTS, name, said := f"API_KEY={KEY}\n".encode())
    laptop.artifacts.end(context, ARTIFACTS, name)
    assert hidden(laptop, desktop) == ["new"]
    there = only(desktop)
    assert there.name.endswith("-redacted")
    assert MARK.decode() in there.title
    output = there.metadata[ARTIFACTS.key + name]
    assert isinstance(output, dict)
    assert len(desktop.blobs.blob(bytes.fromhex(output["blob"]))) == output["size"] == len(said)  # type: ignore[arg-type]
    has_none(desktop)
    assert KEY in only(laptop).title


@pytest.mark.parametrize("again", [hidden, did], ids=["without secrets", "as it is"])
def test_what_was_hidden_does_not_diverge(laptop: Store, desktop: Store, tmp_path: Path, again: object) -> None:
    path = written(tmp_path)
    brought_in(laptop, path)
    hidden(laptop, desktop)
    for _ in range(2):
        assert hidden(laptop, desktop) == ["same"]
        # nor does it come back as something else
        assert did(desktop, laptop) == ["same"]
        assert again(laptop, desktop) == ["same"]  # type: ignore[operator]
    path.write_bytes(path.read_bytes() + lines("More", f"And {KEY}", start=3))
    brought_in(laptop, path)
    assert hidden(laptop, desktop) == ["grown"]
    assert did(desktop, laptop) == ["same"]
    assert [KEY.encode() in record for record in payloads(desktop, only(desktop))] == [False] * 5
    if again is hidden:
        has_none(desktop)
    assert len(talks(laptop)) == 1


def test_it_goes_on_there_and_comes_back(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, written(tmp_path))
    hidden(laptop, desktop)
    there = only(desktop)
    desktop.contexts.append(there.id, lines("From there", start=3).strip(), "claude-code:line")
    assert did(desktop, laptop) == ["grown"]
    here = payloads(laptop, only(laptop))
    assert (len(here), [KEY.encode() in record for record in here]) == (4, [False, True, False, False])
    assert hidden(laptop, desktop) == ["same"]


def test_an_edit_goes_along_without_it(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, written(tmp_path, "Last"))
    hidden(laptop, desktop)
    Editor(laptop).edit(only(laptop).id, {4: DELETED})
    assert hidden(laptop, desktop) == ["grown"]
    assert hidden(laptop, desktop) == ["same"]
    has_none(desktop)


def test_what_was_there_with_it_stays_one_conversation(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = written(tmp_path)
    brought_in(laptop, path)
    did(laptop, desktop)
    assert hidden(laptop, desktop) == ["same"]
    path.write_bytes(path.read_bytes() + lines(f"And {KEY}", start=3))
    brought_in(laptop, path)
    assert hidden(laptop, desktop) == ["grown"]
    assert [KEY.encode() in record for record in payloads(desktop, only(desktop))] == [False, True, False, False]
    assert hidden(laptop, desktop) == ["same"]


def test_a_file_of_many_leaves_without_it(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(
        f"\n# aider chat started at 2026-03-05 12:00:00\n\n#### The key is {KEY}\n\nYes.\n"
        "\n# aider chat started at 2026-03-06 12:00:00\n\n#### And today?\n\nNo.\n"
    )
    brought_in(laptop, path)
    assert set(hidden(laptop, desktop)) <= {"new", "described"}
    assert len(talks(desktop)) == 2
    assert set(hidden(laptop, desktop)) == {"same"}
    has_none(desktop)
    [there] = {
        name: data
        for talk in talks(desktop).values()
        for name, data in exported(desktop, talk, tmp_path / talk.name).items()
    }.values()
    assert there == path.read_bytes().replace(KEY.encode(), MARK)


def test_a_third_store_takes_both_for_the_same(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, written(tmp_path))
    hidden(laptop, desktop)
    with Store.open(tmp_path / "server", renderer=FileRenderer()) as server:
        assert did(desktop, server) == ["new"]
        assert did(laptop, server) == ["same"]
        assert did(server, laptop) == ["same"]
        assert fsck(server) == []


def test_nothing_is_hidden_where_there_is_no_secret(laptop: Store, desktop: Store, tmp_path: Path) -> None:
    brought_in(laptop, session(tmp_path, lines("One", "Two")))
    Keeper(laptop).relabel(only(laptop).id, add=["good"])
    assert hidden(laptop, desktop) == ["new"]
    assert did(laptop, desktop) == ["same"]
    assert [turn.flags & REDACTED for turn in turns(desktop, only(desktop))] == [0, 0]
