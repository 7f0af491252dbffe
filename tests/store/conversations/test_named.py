from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.named import find_named
from store.editing.keeper import Keeper
from store.errors import NotFound, UsageError
from store.importing.importer import Importer
from store.store import Store
from tests.store.importing.sessions import SESSION, lines, session

NAMES = [
    ("shop", "2026-03-05-fix-the-login-bug", "Fix the login bug"),
    ("shop", "2026-03-06-fix-the-cart", "Fix the cart"),
    ("home", "2026-03-07-water-the-roses", "Water the roses, and the Thyme"),
    ("home", "undated-roses", "Roses"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("store"), renderer=FileRenderer()) as store:
        for project, name, title in NAMES:
            store.contexts.create(metadata={"project": project, "name": name, "title": title})
        yield store


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2", "2026-03-06-fix-the-cart"),
        ("shop/2026-03-06-fix-the-cart", "2026-03-06-fix-the-cart"),
        ("2026-03-06-fix-the-cart", "2026-03-06-fix-the-cart"),
        ("2026-03-06", "2026-03-06-fix-the-cart"),
        ("shop/fix-the-l", "2026-03-05-fix-the-login-bug"),
        ("fix-the-l", "2026-03-05-fix-the-login-bug"),
        ("LOGIN fix", "2026-03-05-fix-the-login-bug"),
        ("thyme", "2026-03-07-water-the-roses"),
        ("roses", "undated-roses"),
        ("@latest", "undated-roses"),
        ("@-1", "undated-roses"),
        ("@-4", "2026-03-05-fix-the-login-bug"),
    ],
)
def test_a_conversation_is_found_by_whatever_is_known_of_it(store: Store, text: str, name: str) -> None:
    assert find_named(store.library, text).name == name


@pytest.mark.parametrize("text", ["fix-the", "fix", "the"])
def test_what_may_be_several_is_told_with_their_names(store: Store, text: str) -> None:
    with pytest.raises(UsageError, match=r"several conversations: say which \(.*shop/2026-03-06-fix-the-cart"):
        find_named(store.library, text)


@pytest.mark.parametrize("text", ["nothing", "", " ", "shop/", "99", "@-5", "@-0", "@x", "shop/roses", "%", "_ogin"])
def test_what_is_none_is_told(store: Store, text: str) -> None:
    with pytest.raises(NotFound, match="ls"):
        find_named(store.library, text)


def test_a_conversation_is_found_by_the_id_of_its_session(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Go left"))
    assert Importer(store).run([path]).imported == 1
    found = find_named(store.library, SESSION)
    assert found.metadata["source"] == str(path)
    Keeper(store).remove(found.id)
    with pytest.raises(NotFound):
        find_named(store.library, SESSION)


def test_a_file_of_several_conversations_is_none_itself(store: Store, tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(
        "\n# aider chat started at 2026-03-05 10:00:00\n\n#### Go up\n"
        "\n# aider chat started at 2026-03-06 10:00:00\n\n#### Go down\n"
    )
    assert Importer(store).run([path]).imported == 2
    found = [find_named(store.library, f"Go {word}") for word in ("up", "down")]
    (file,) = {int(str(conversation.metadata["file"])) for conversation in found}
    assert store.catalogue.entry(file).is_file
    with pytest.raises(NotFound, match=f"there is no conversation with id {file}: `convfs ls` lists them all"):
        find_named(store.library, str(file))
    assert [find_named(store.library, str(one.id)).id for one in found] == [one.id for one in found]
