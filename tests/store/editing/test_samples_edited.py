"""Real sessions, edited: everything but the edit is as it was, and undoing it gives back the very files."""

from random import Random

import pytest

from store.editing.editor import DELETED, Editor
from store.events.event import Kind
from store.store import Store
from tests.store.editing.measured import check_branch
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, exported, imported

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)


@pytest.mark.parametrize("tool", ["claude-code", "codex", "gemini-cli", "jp"])
def test_edits_of_every_sample(store: Store, editor: Editor, tool: str) -> None:
    imported(store, SAMPLES / tool)
    for talk in filter(lambda talk: talk.records, store.library.conversations()):
        with exported(store, talk) as files:
            before = files
        random = Random(talk.id)
        rows = store.records.rows(talk.head)
        numbers = random.sample(range(1, len(rows) + 1), min(6, len(rows)))
        for number in numbers:
            payload = store.contents.payload(rows[number - 1].turn)
            editor.edit(talk.id, {number: payload + b" "})
            with exported(store, store.library.conversation(talk.id)) as files:
                changed = [name for name in files if files[name] != before[name]]
                assert len(changed) == 1
                assert len(files[changed[0]]) == len(before[changed[0]]) + 1
            editor.edit(talk.id, {number: payload})
        editor.edit(talk.id, dict.fromkeys(numbers, DELETED))
        check_branch(store, store.writer.head(talk.id).tip)
        now = store.library.conversation(talk.id)
        assert now.events == talk.events - sum(rows[number - 1].kind is not Kind.RECORD for number in numbers)
        with exported(store, now) as files:
            assert sum(map(len, files.values())) < sum(map(len, before.values()))
        editor.restore(talk.id, 1)
        with exported(store, store.library.conversation(talk.id)) as files:
            assert files == before
