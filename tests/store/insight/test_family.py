"""The family of a conversation, against how it came to be."""

from fusefs.text.charts import family_svg
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.insight.family import Family, family
from store.retention.pruner import delete
from store.store import Store
from tests.store.insight.answers import CLAUDE, asked


def begun(store: Store, name: str, count: int = 6) -> int:
    context = store.contexts.create(metadata={"project": "shop", "name": name, "title": name}).context
    store.contexts.append_many(context, [Append(asked(number), CLAUDE) for number in range(count)])
    return context


def drawn(found: Family) -> list[tuple[str, int, int, int, int]]:
    """Return (name, version, records, line that it branches off, records in common) of every line."""
    return [(line.name, line.version, line.records, line.parent, line.shared) for line in found.lines]


def test_a_conversation_alone(store: Store) -> None:
    context = begun(store, "alone")
    begun(store, "another")
    found = family(store.library, context)
    assert drawn(found) == [("alone", 0, 6, -1, 0)]
    assert (found.own, found.left_out) == (0, 0)


def test_forks_and_forks_of_forks_whoever_is_asked(store: Store) -> None:
    first = begun(store, "first")
    editor = Editor(store)
    early = editor.fork(first, "early", at=2).context
    late = editor.fork(first, "late", at=5).context
    store.contexts.append(late, asked(9), CLAUDE)
    deep = editor.fork(late, "deep").context
    # what branched off last comes first, right behind what it branched off from
    expected = [("first", 0, 6, -1, 0), ("late", 0, 6, 0, 5), ("deep", 0, 6, 1, 6), ("early", 0, 2, 0, 2)]
    for context, own in ((first, 0), (late, 1), (deep, 2), (early, 3)):
        found = family(store.library, context)
        assert drawn(found) == expected
        assert found.own == own
        assert family_svg(found, {}).count(b"<path ") == 4


def test_earlier_versions_by_what_they_have_in_common_with_the_present(store: Store) -> None:
    context = begun(store, "edited")
    editor = Editor(store)
    editor.edit(context, {5: asked(50)})
    editor.edit(context, {2: DELETED})
    store.contexts.append(context, asked(7), CLAUDE)
    found = family(store.library, context)
    assert drawn(found) == [
        ("edited", 0, 7, -1, 0),
        ("edited", 1, 6, 0, 1),
        ("edited", 2, 6, 0, 1),
    ]
    assert [line.action for line in found.lines[1:]] == ["append", "edit 00005"]
    editor.restore(context, 1)
    assert [shared for _name, _version, _records, _parent, shared in drawn(family(store.library, context))][1] == 6


def test_of_very_many_some_are_left_out_but_never_the_conversation_itself(store: Store) -> None:
    first = begun(store, "first")
    editor = Editor(store)
    forks = [editor.fork(first, f"fork{number}", at=number % 6 + 1).context for number in range(20)]
    for number in range(12):
        editor.edit(forks[0], {1: asked(100 + number)})
    found = family(store.library, forks[0], most=5)
    own = found.lines[found.own]
    assert own.name == "fork0"
    assert sum(not line.version for line in found.lines) <= 6
    assert sum(line.version > 0 for line in found.lines) == 5
    assert found.left_out == 21 - sum(not line.version for line in found.lines) + 12 - 5
    assert "more forks and versions" in family_svg(found, {}).decode()


def test_what_came_of_a_conversation_that_is_gone_begins_by_itself(store: Store) -> None:
    first = begun(store, "first")
    fork = Editor(store).fork(first, "fork", at=3).context
    delete(store, first, store.contexts.tip(first))
    assert drawn(family(store.library, fork)) == [("fork", 0, 3, -1, 0)]


def test_an_empty_conversation(store: Store) -> None:
    context = store.contexts.create(metadata={"project": "shop", "name": "empty"}).context
    found = family(store.library, context)
    assert drawn(found) == [("empty", 0, 0, -1, 0)]
    assert b"0 records" in family_svg(found, {})
