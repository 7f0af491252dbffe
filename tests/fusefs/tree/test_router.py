"""Nodes by their numbers: what a directory lists is found by name, and is the node of that number."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.inodes import ROOT, Place
from fusefs.tree.node import Directory, DirEntry
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.editing.editor import Editor
from store.errors import NotFound
from store.store import Store
from tests.fusefs.tree.mounting import add, answered, assistant, new_store, user


@pytest.fixture
def store(memory_path: Path) -> Iterator[Store]:
    with new_store(memory_path / "store") as store:
        context = add(store, [user("one", 1), assistant("two", 2)])
        add(store, [user("other", 1)], project="other", name="2026-03-05-other")
        editor = Editor(store)
        editor.relabel(context, add=["bug"])
        editor.fork(context, "fork")
        editor.edit(context, {1: user("changed", 1).encode()})
        editor.remove(add(store, [user("gone", 1)], name="2026-03-05-gone"))
        yield store


def walk(router: Router, directory: Directory, above: str = "") -> Iterator[tuple[str, Directory, DirEntry]]:
    for entry in answered(lambda: [*router.entries(directory, 0)]):
        path = f"{above}/{entry.name.decode()}"
        yield path, directory, entry
        node = router.node(entry.attributes.ino)
        if isinstance(node, Directory):
            yield from walk(router, node, path)


@pytest.mark.parametrize("top", [(), (".convfs",)])
def test_what_is_listed_is_found(store: Store, top: tuple[str, ...]) -> None:
    router = Router(Tree(store))
    directory = router.fixed(*top)
    assert isinstance(directory, Directory)
    found = list(walk(router, directory))
    assert found
    for path, above, entry in found:
        node = router.find(above, entry.name.decode())
        assert node is not None, path
        assert node.ino == entry.attributes.ino, path
        assert node.listed().mode == entry.attributes.mode, path
        if isinstance(node, Directory) and "trash/" not in path:
            assert node.parent == above.ino, path


def test_a_listing_goes_on_after_any_position(store: Store) -> None:
    router = Router(Tree(store))
    root = router.node(ROOT)
    assert isinstance(root, Directory)
    for directory in [root, *(router.node(entry.attributes.ino) for _, _, entry in walk(router, root))]:
        if isinstance(directory, Directory):
            every = list(router.entries(directory, 0))
            assert [entry.position for entry in every] == sorted({entry.position for entry in every})
            for number, entry in enumerate(every, 1):
                assert list(router.entries(directory, entry.position)) == every[number:]


def test_numbers_of_nothing(store: Store) -> None:
    router = Router(Tree(store))
    for ino in (2, 1 << 40, router.tree.place(77, Place.CONVERSATION), 7 << 50):
        with pytest.raises(NotFound):
            router.node(ino).attributes()
    with pytest.raises(NotFound):
        router.fixed("nothing")
