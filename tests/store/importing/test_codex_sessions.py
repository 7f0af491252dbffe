"""Sessions of Codex in a store: documents of the first one, edited and exported; forks."""

import json
from pathlib import Path

import pytest
import zstandard

from store.editing.editor import DELETED, Editor
from store.events.event import Kind
from store.importing.importer import Importer
from store.retention.pruner import delete
from store.store import Store
from tests.store.editing.measured import check_branch
from tests.store.formats.rollouts import TIME, event, item, message, meta, written
from tests.store.formats.test_codex_document import ITEMS, NAME, WHO, document
from tests.store.importing.sessions import exported, imported
from tests.store.importing.test_web_exports import edited


def test_what_is_deleted_of_a_document_leaves_one(store: Store, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(document())
    imported(store, path)
    [conversation] = store.library.conversations()
    assert (conversation.title, conversation.records) == ("Fix the login", 4)
    with exported(store, conversation) as files:
        assert files == {NAME: document()}
    for number, left in ((2, ITEMS[1:]), (3, [])):
        Editor(store).edit(conversation.id, {number: DELETED})
        with exported(store, store.library.conversation(conversation.id)) as files:
            assert json.loads(files[NAME]) == {"session": WHO, "items": left}


def test_a_fork_has_its_parent_turns(store: Store, tmp_path: Path) -> None:
    """Also where the first lines, which name the sessions, hold what the model is told, and so are shown."""
    told = {"base_instructions": {"text": "Be brief."}}
    parent = [meta(**told), *(message("user", f"question {number}") for number in range(8))]
    copies = [{**record, "timestamp": "2026-05-01T10:00:00.000Z"} for record in parent]
    own = meta(**told | {"id": "019d9999-8e2e-7e83-8d90-640dce44d5f9", "forked_from_id": parent_id(parent)})
    fork = [own, *copies, item("message", role="assistant", content=[{"type": "output_text", "text": "An answer."}])]
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number, records in enumerate((parent, fork)):
        path = folder / f"rollout-{TIME[:19].replace(':', '-')}-{number}.jsonl"
        path.write_bytes(written(*records))
        imported(store, path)
    first, second = sorted(store.library.conversations(), key=lambda conversation: conversation.id)
    assert store.files.turns.count == len(parent) + 2
    assert store.records.runs(second.head) == ((1, len(parent) + 2),)
    for conversation, records in ((first, parent), (second, fork)):
        with exported(store, conversation) as files:
            assert list(files.values()) == [written(*records)]


def test_what_repeats_itself_is_told_apart_as_it_grows(store: Store, tmp_path: Path) -> None:
    records = [meta()]
    path = tmp_path / f"rollout-{TIME[:19].replace(':', '-')}-0.jsonl"
    for _ in range(3):
        for record in (
            message("user", "continue"),
            event("user_message", message="continue"),
            message("assistant", "On."),
        ):
            records.append(record)
            path.write_bytes(written(*records))
            imported(store, path)
    [conversation] = store.library.conversations()
    check_branch(store, conversation.head)
    kinds = [row.kind for row in store.records.rows(conversation.head)]
    assert kinds.count(Kind.USER) == kinds.count(Kind.ASSISTANT) == 3


def parent_id(records: list[dict[str, object]]) -> object:
    payload = records[0]["payload"]
    assert isinstance(payload, dict)
    return payload["id"]


def compressed(folder: Path, content: bytes, more: bytes = b"") -> Path:
    """Write a session as Codex compresses it: a frame that does not declare its size."""
    path = folder / "sessions" / "2026" / "05" / "01" / f"rollout-{TIME[:19].replace(':', '-')}-0.jsonl.zst"
    path.parent.mkdir(parents=True)
    tool = zstandard.ZstdCompressor(level=5).compressobj()
    path.write_bytes(tool.compress(content) + tool.flush() + more)
    return path


def texts_of(store: Store) -> list[str]:
    [conversation] = store.library.conversations()
    rows = store.records.rows(conversation.head)
    return [block.text or "" for _row, event in store.viewer.events(rows) for block in event.blocks]


def test_a_compressed_session_is_one_of_codex(store: Store, tmp_path: Path) -> None:
    records = [meta(), message("user", "Why é?"), message("assistant", "So.")]
    path = compressed(tmp_path, written(*records))
    assert imported(store, path).tools["codex-zst"].imported == 1
    [conversation] = store.library.conversations()
    assert conversation.title == "Why é?"
    with exported(store, conversation) as files:
        assert list(files.values()) == [path.read_bytes()]
    number = next(row.number for row in store.records.rows(conversation.head) if row.kind is Kind.ASSISTANT)
    edited(store, conversation, number, "Thus.")
    with exported(store, store.library.conversation(conversation.id)) as files:
        [content] = files.values()
    said = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    assert said == written(*records[:2], message("assistant", "Thus."))


def packed(path: Path) -> Path:
    """Compress a session as Codex does that of some days ago, whose lines are then gone."""
    path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    return path.with_name(f"{path.name}.zst")


def test_a_session_is_one_conversation_before_and_after_it_is_compressed(store: Store, tmp_path: Path) -> None:
    records = [meta(), message("user", "Why?"), message("assistant", "So.")]
    path = tmp_path / "sessions" / f"rollout-{TIME[:19].replace(':', '-')}-0.jsonl"
    path.parent.mkdir()
    path.write_bytes(written(*records))
    imported(store, path)
    [before] = store.library.conversations()
    number = next(row.number for row in store.records.rows(before.head) if row.kind is Kind.ASSISTANT)
    edited(store, before, number, "Thus.")
    assert imported(store, packed(path)).unchanged == 1
    read: list[Path] = []
    report = Importer(store).run([path.parent], progress=lambda _size, _what: read.append(path))
    assert (report.unchanged, report.imported, read) == (1, 0, [])
    assert texts_of(store)[-1] == "Thus."
    # more was said before it was compressed, or after it was there as lines again
    path.write_bytes(written(*records, message("user", "And now?")))
    assert imported(store, packed(path)).grown == 1
    path.write_bytes(written(*records, message("user", "And now?"), message("assistant", "Now.")))
    assert imported(store, path.parent).grown == 1
    assert texts_of(store)[-3:] == ["Thus.", "And now?", "Now."]
    [conversation] = store.library.conversations()
    assert (conversation.id, conversation.format) == (before.id, "codex")
    with exported(store, conversation) as files:
        said = (message("assistant", "Thus."), message("user", "And now?"), message("assistant", "Now."))
        assert files == {path.name: written(*records[:2], *said)}


def test_a_compressed_session_that_lies_elsewhere_goes_on_as_what_it_was(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "sessions" / f"rollout-{TIME[:19].replace(':', '-')}-0.jsonl"
    path.parent.mkdir()
    path.write_bytes(written(meta(), message("user", "Why?")))
    imported(store, path)
    archived = tmp_path / "archived_sessions" / f"{path.name}.zst"
    archived.parent.mkdir()
    packed(path).rename(archived)
    assert (imported(store, archived).grown, imported(store, archived).unchanged) == (1, 1)
    [conversation] = store.library.conversations()
    assert (conversation.format, conversation.source) == ("codex", str(archived.with_suffix("")))
    other = compressed(tmp_path / "other", written(meta(id="019d9999-8e2e-7e83-8d90-640dce44d5f9")))
    assert imported(store, other).imported == 1
    assert len(store.library.conversations()) == 2


@pytest.mark.parametrize("lines_first", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_session_that_lies_as_lines_and_compressed_elsewhere_is_one(
    store: Store, tmp_path: Path, *, lines_first: bool, at_once: bool
) -> None:
    records = [meta(), message("user", "Why?"), message("assistant", "So.")]
    archive = compressed(tmp_path / ("z" if lines_first else "a"), written(*records))
    path = tmp_path / "m" / "sessions" / archive.with_suffix("").name
    path.parent.mkdir(parents=True)
    path.write_bytes(written(*records))
    for _time in range(2):
        for one in [tmp_path] if at_once else [path, archive] if lines_first else [archive, path]:
            assert imported(store, one).errors == []
        assert texts_of(store)[-2:] == ["Why?", "So."]
    path.write_bytes(written(*records, message("user", "And now?")))
    assert imported(store, tmp_path).grown == 1
    assert texts_of(store)[-1] == "And now?"
    report = imported(store, tmp_path)
    assert (report.imported, report.grown) == (0, 0)
    more = [message("user", "And now?"), message("assistant", "Now.")]
    archive.write_bytes(zstandard.compress(written(*records, *more)))
    for _time in range(2):
        imported(store, tmp_path)
    assert texts_of(store)[-2:] == ["And now?", "Now."]
    # one of another id is another
    path.write_bytes(written(meta(id="019d9999-8e2e-7e83-8d90-640dce44d5f9"), message("user", "Why?")))
    imported(store, tmp_path)
    assert len(store.library.conversations()) == 2


def test_a_compressed_session_that_was_deleted_for_good_stays_away(store: Store, tmp_path: Path) -> None:
    path = tmp_path / f"rollout-{TIME[:19].replace(':', '-')}-0.jsonl"
    path.write_bytes(written(meta(), message("user", "Why?")))
    imported(store, path)
    [conversation] = store.library.conversations()
    delete(store, conversation.id, conversation.head)
    assert imported(store, packed(path)).pruned == 1
    assert store.library.conversations() == []


def test_a_compressed_session_that_is_cut_off_comes_in_as_far_as_it_goes(store: Store, tmp_path: Path) -> None:
    records = [meta(), *(message("user", f"{number} {number**9:x} words") for number in range(4000))]
    path = compressed(tmp_path, written(*records))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    imported(store, path)
    texts = texts_of(store)
    assert len(texts) > 1000
    assert texts[0] == "0 0 words"
    [conversation] = store.library.conversations()
    with exported(store, conversation) as files:
        assert list(files.values()) == [path.read_bytes()]


def test_all_that_stands_before_damage_in_a_compressed_session_comes_in(store: Store, tmp_path: Path) -> None:
    records = [meta(), *(message("user", f"{number} {number**9:x} words") for number in range(50))]
    imported(store, compressed(tmp_path, written(*records), more=b"no frame" * 100))
    assert texts_of(store)[-1] == f"49 {49**9:x} words"


def test_a_compressed_session_that_is_a_bomb_is_refused_in_a_line(store: Store, tmp_path: Path) -> None:
    content = written(meta()) + written(message("user", "a" * (100 << 20)))
    path = compressed(tmp_path, content)
    report = Importer(store).run([path])
    assert report.imported == 0
    [line] = report.errors
    assert "too much for its size" in line


def test_a_session_that_came_in_compressed_goes_on_as_lines(store: Store, tmp_path: Path) -> None:
    records = [meta(), message("user", "Why?"), message("assistant", "So.")]
    archive = compressed(tmp_path, written(*records))
    imported(store, archive)
    [before] = store.library.conversations()
    number = next(row.number for row in store.records.rows(before.head) if row.kind is Kind.ASSISTANT)
    edited(store, before, number, "Thus.")
    path = archive.with_suffix("")
    path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(archive.read_bytes()))
    archive.unlink()
    imported(store, path)
    assert imported(store, path).unchanged == 1
    assert texts_of(store)[-2:] == ["Why?", "Thus."]
    path.write_bytes(written(*records, message("user", "And now?")))
    assert imported(store, path).grown == 1
    assert texts_of(store)[-2:] == ["Thus.", "And now?"]
    [conversation] = store.library.conversations()
    assert (conversation.id, conversation.format) == (before.id, "codex")
    with exported(store, conversation) as files:
        assert files == {path.name: written(*records[:2], message("assistant", "Thus."), message("user", "And now?"))}
    # compressed again, it is the same
    assert imported(store, packed(path)).unchanged == 1
    assert [one.id for one in store.library.conversations()] == [before.id]
