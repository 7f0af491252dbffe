"""Files that no record holds, found by their paths and their contents."""

from fusefs.tree.paths import Paths
from store.backlinks import Backlinks
from store.conversations.contexts import Append
from store.ids import hash_bytes
from store.store import Store
from tests.store.editing.records import TYPE
from tests.store.worktree.test_changes import Talk

AFTER = "peas\nbeans\n"


def garden(store: Store, talk: Talk, name: str) -> int:
    context = store.contexts.create(metadata={"project": "p", "name": name}).context
    store.contexts.append_many(context, [Append(line.encode(), TYPE) for line in talk.lines])
    return context


def test_they_are_found_at_the_events_that_led_to_them(store: Store) -> None:
    talk = Talk()
    talk.write("/garden/new.txt", "peas\n")
    talk.edit("/garden/new.txt", "peas\n", AFTER)
    talk.call("exec_command", {"cmd": "sed -n 2,2p /garden/new.txt"}, "beans\n")
    first, second = garden(store, talk, "first"), garden(store, talk, "second")
    links = Backlinks(store)
    paths = Paths(store)
    found = [
        (held.relation, held.conversation.id, paths.holding(held))
        for held in links.of_content(hash_bytes(AFTER.encode()))
    ]
    assert found == [
        ("content", context, f"conversations/p/{name}/events/{event}.md")
        for context, name in ((first, "first"), (second, "second"))
        for event in ("00003-call-Edit", "00004-result-Edit")
    ]
    held = [
        (one.conversation.id, one.row.number, one.uris) for one in links.of_uris(["file:///garden/new.txt"]) if one.row
    ]
    uri = "file:///garden/new.txt"
    assert held == [
        (context, number, uris)
        for context in (first, second)
        for number, uris in ((2, (uri,)), (4, (uri,)), (6, (f"{uri}#L2-2",)))
    ]
    assert links.uris(9) == [uri, f"{uri}#L2-2"]
    # what is appended counts at once
    again = Talk()
    again.lines = talk.lines
    again.write("/garden/new.txt", "")
    store.contexts.append_many(first, [Append(line.encode(), TYPE) for line in again.lines[6:]])
    assert [one.row.number for one in links.of_uris([uri]) if one.row and one.conversation.id == first] == [2, 4, 6, 8]
