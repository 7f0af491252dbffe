"""Documents of the first Codex, edited and exported."""

import json
from pathlib import Path

from store.editing.editor import DELETED, Editor
from store.store import Store
from tests.formats.test_codex_document import ITEMS, NAME, WHO, document
from tests.importing.sessions import exported, imported


def test_what_is_deleted_of_a_document_leaves_one(store: Store, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(document())
    imported(store, path)
    [conversation] = store.conversations()
    assert (conversation.title, conversation.records) == ("Fix the login", 4)
    with exported(store, conversation) as files:
        assert files == {NAME: document()}
    for number, left in ((2, ITEMS[1:]), (3, [])):
        Editor(store).edit(conversation.id, {number: DELETED})
        with exported(store, store.conversation(conversation.id)) as files:
            assert json.loads(files[NAME]) == {"session": WHO, "items": left}
