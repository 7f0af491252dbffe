"""Outputs kept beside conversations, in a store."""

import os
import random
import threading
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.artifacts.artifacts import Artifacts
from store.artifacts.names import Output
from store.content.resolver import Reader
from store.editing.editor import Editor
from store.errors import Conflict, NotFound, StoreFailed, UsageError
from store.events.conversation import AGENTS, ARTIFACTS
from store.ids import hash_bytes
from store.store import Store
from store.upkeep.fsck import fsck

LOG = b"".join(b"%d: what a build says, %d\n" % (line, line * 7919 % 104729) for line in range(40_000))


def write(artifacts: Artifacts, context: int, asked: str, data: bytes) -> str:
    name = artifacts.begin(context, ARTIFACTS, asked)
    artifacts.add(context, ARTIFACTS, name, data)
    artifacts.end(context, ARTIFACTS, name)
    return name


def read(reader: Reader) -> bytes:
    return reader.read(0, 1 << 24)


def content(artifacts: Artifacts, context: int, name: str) -> bytes:
    listed = artifacts.listed(context, ARTIFACTS)
    return read(artifacts.reader(context, ARTIFACTS, listed[name]))


def test_one_is_written_piece_by_piece_and_read_meanwhile(store: Store, context: int) -> None:
    artifacts = store.artifacts
    name = artifacts.begin(context, ARTIFACTS, "make")
    assert name == "0.make.log"
    assert artifacts.add(context, ARTIFACTS, name, b"first\n") == 6
    growing = artifacts.listed(context, ARTIFACTS)[name]
    assert (growing.size, growing.blob) == (6, None)
    reader = artifacts.reader(context, ARTIFACTS, growing)
    assert artifacts.add(context, ARTIFACTS, name, b"second\n", 6) == 13
    assert read(reader) == b"first\nsecond\n"
    kept = artifacts.end(context, ARTIFACTS, name)
    assert artifacts.listed(context, ARTIFACTS) == {name: kept}
    assert (kept.size, kept.blob) == (13, hash_bytes(b"first\nsecond\n"))
    assert content(artifacts, context, name) == b"first\nsecond\n"
    # who began to read goes on, and who saw it grow finds it
    assert read(reader) == b"first\nsecond\n"
    assert read(artifacts.reader(context, ARTIFACTS, growing)) == b"first\nsecond\n"
    assert artifacts.end(context, ARTIFACTS, name) == kept
    assert list(artifacts.left()) == []


def test_a_piece_that_is_sent_again_is_there_once(store: Store, context: int) -> None:
    artifacts = store.artifacts
    name = artifacts.begin(context, ARTIFACTS, "make")
    for data, at, size in ((b"abc", 0, 3), (b"abc", 0, 3), (b"bcde", 1, 5), (b"f", None, 6), (b"", 6, 6)):
        assert artifacts.add(context, ARTIFACTS, name, data, at) == size
    with pytest.raises(Conflict, match="has 6 bytes, not 7"):
        artifacts.add(context, ARTIFACTS, name, b"x", 7)
    artifacts.end(context, ARTIFACTS, name)
    assert content(artifacts, context, name) == b"abcdef"
    with pytest.raises(NotFound, match="is not being written"):
        artifacts.add(context, ARTIFACTS, name, b"x")


def test_a_long_one_is_chunked_and_read_anywhere(store: Store, context: int) -> None:
    artifacts = store.artifacts
    name = write(artifacts, context, "make", LOG)
    output = artifacts.listed(context, ARTIFACTS)[name]
    assert output.blob == hash_bytes(LOG)
    reader = artifacts.reader(context, ARTIFACTS, output)
    assert len(LOG) > 1 << 20
    draw = random.Random(3)
    for _ in range(50):
        offset, size = draw.randrange(len(LOG) + 10), draw.randrange(300_000)
        assert reader.read(offset, size) == LOG[offset : offset + size]
    assert b"".join(store.blobs.pieces(output.blob)) == LOG
    assert fsck(store) == []


def test_names_of_others_lead_nowhere(store: Store, context: int) -> None:
    artifacts = store.artifacts
    for name in ("0.make.log", "../0.make.log", "0./../../x.log", "x"):
        with pytest.raises(NotFound):
            artifacts.add(context, ARTIFACTS, name, b"x")
    with pytest.raises(NotFound):
        artifacts.begin(99, ARTIFACTS, "make")


def test_ids_go_on_after_the_highest_whatever_is_open(store: Store, context: int, memory_path: Path) -> None:
    artifacts = store.artifacts
    assert write(artifacts, context, "a", b"1") == "0.a.log"
    assert artifacts.begin(context, ARTIFACTS, "b") == "1.b.log"
    assert write(artifacts, context, "9.c.log", b"3") == "9.c.log"
    assert artifacts.begin(context, AGENTS, "Explore") == "0-Explore.md"
    store.close()
    with Store.open(memory_path / "store", renderer=FileRenderer()) as again:
        artifacts = again.artifacts
        assert artifacts.begin(context, ARTIFACTS, "d") == "10.d.log"
        assert artifacts.begin(context, AGENTS, "Explore") == "1-Explore.md"
        assert artifacts.begin(context, AGENTS, "Deep", parent="0-Explore") == "0-Explore.0-Deep.md"
        left = [(sort.directory, name) for _context, sort, name in artifacts.left()]
        agents = ["0-Explore.0-Deep.md", "0-Explore.md", "1-Explore.md"]
        assert left == [("agents", name) for name in agents] + [("artifacts", "1.b.log"), ("artifacts", "10.d.log")]
        artifacts.drop(context, ARTIFACTS, "10.d.log")
        assert artifacts.begin(context, ARTIFACTS, "e") == "10.e.log"


def test_many_at_once_have_numbers_of_their_own(store: Store, context: int) -> None:
    names: list[str] = []

    def run() -> None:
        mine = store.artifacts
        names.extend(write(mine, context, "tool", b"x") for _ in range(10))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == sorted(f"{number}.tool.log" for number in range(40))
    assert set(store.artifacts.listed(context, ARTIFACTS)) == set(names)


def test_a_fork_shares_them_and_goes_on_by_itself(store: Store, context: int) -> None:
    artifacts = store.artifacts
    write(artifacts, context, "make", LOG)
    before = store.stats()
    made = [
        Editor(store).fork(context, "fork").context,
        store.contexts.fork(context, metadata={"project": "p", "name": "n"}).context,
    ]
    for fork in made:
        assert content(artifacts, fork, "0.make.log") == LOG
        assert write(artifacts, fork, "more", b"of the fork") == "1.more.log"
    assert set(artifacts.listed(context, ARTIFACTS)) == {"0.make.log"}
    assert store.stats().blobs <= before.blobs + 1
    artifacts.remove(context, ARTIFACTS, "0.make.log")
    assert artifacts.listed(context, ARTIFACTS) == {}
    assert content(artifacts, made[0], "0.make.log") == LOG


def test_one_is_moved_at_once_or_not_at_all(store: Store, context: int, monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts = store.artifacts
    other = store.contexts.create(metadata={"project": "project", "name": "other"}).context
    write(artifacts, context, "make", b"said")
    artifacts.move(context, ARTIFACTS, "0.make.log", "0.build.log")
    assert set(artifacts.listed(context, ARTIFACTS)) == {"0.build.log"}
    kept = artifacts.listed(context, ARTIFACTS)

    set_metadata = store.contexts.set_metadata

    def fails(of: int, changes: dict[str, object]) -> None:
        if of == context:
            raise StoreFailed("the disk is gone")
        set_metadata(of, changes)

    monkeypatch.setattr(store.contexts, "set_metadata", fails)
    with pytest.raises(StoreFailed):
        artifacts.move(context, ARTIFACTS, "0.build.log", "3.build.log", target=other)
    assert (artifacts.listed(context, ARTIFACTS), artifacts.listed(other, ARTIFACTS)) == (kept, {})
    monkeypatch.undo()
    artifacts.move(context, ARTIFACTS, "0.build.log", "3.build.log", target=other)
    assert artifacts.listed(context, ARTIFACTS) == {}
    assert content(artifacts, other, "3.build.log") == b"said"
    with pytest.raises(NotFound):
        artifacts.move(context, ARTIFACTS, "0.build.log", "1.x.log")


def test_what_came_beside_a_session_is_shown_and_stays(store: Store, context: int) -> None:
    sidecars = {
        "session/4.bash.log": b"from the tool",
        "session/0-Explore.md": b"# Found",
        "session/tool-results/toolu_01.txt": b"long",
        "session/notes/plan.md": b"none of these",
        "config.json": b"{}",
    }
    store.contexts.set_metadata(
        context, {"sidecars": {name: store.intake.put(data).hex() for name, data in sidecars.items()}}
    )
    artifacts = store.artifacts
    assert set(artifacts.listed(context, ARTIFACTS)) == {"4.bash.log", "toolu_01.txt"}
    assert set(artifacts.listed(context, AGENTS)) == {"0-Explore.md"}
    assert content(artifacts, context, "4.bash.log") == b"from the tool"
    assert artifacts.begin(context, ARTIFACTS, "x") == "5.x.log"
    with pytest.raises(UsageError, match="belongs to the session"):
        artifacts.remove(context, ARTIFACTS, "4.bash.log")
    with pytest.raises(UsageError, match="copy it"):
        artifacts.move(context, ARTIFACTS, "4.bash.log", "4.x.log")


@pytest.mark.logs("which came beside a session: no blob")
def test_one_whose_blob_is_missing_is_listed_and_reported(store: Store, context: int) -> None:
    artifacts = store.artifacts
    write(artifacts, context, "make", b"here")
    gone = Output("1.gone.log", 5, 1, hash_bytes(b"never stored"))
    artifacts.keep(context, ARTIFACTS, gone)
    store.contexts.set_metadata(context, {"artifact/2.odd.log": {"blob": 7}, "sidecars": {"s/3.lost.log": "00" * 32}})
    listed = artifacts.listed(context, ARTIFACTS)
    assert set(listed) == {"0.make.log", "1.gone.log", "3.lost.log"}
    for name in ("1.gone.log", "3.lost.log"):
        with pytest.raises(NotFound, match="no blob"):
            artifacts.reader(context, ARTIFACTS, listed[name])
    found = [finding for finding in fsck(store) if "1.gone.log" in finding.message]
    assert [finding.severity for finding in found] == ["warning"]
    fork = Editor(store).fork(context, "fork").context
    assert "1.gone.log" in artifacts.listed(fork, ARTIFACTS)


def test_what_is_interrupted_is_whole_or_still_being_written(
    store: Store, context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = store.artifacts
    name = artifacts.begin(context, ARTIFACTS, "make")
    artifacts.add(context, ARTIFACTS, name, LOG)

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(artifacts, "keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        artifacts.end(context, ARTIFACTS, name)
    monkeypatch.undo()
    assert content(artifacts, context, name) == LOG
    # committed, and killed before the file went
    monkeypatch.setattr(artifacts, "drop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        artifacts.end(context, ARTIFACTS, name)
    monkeypatch.undo()
    assert content(artifacts, context, name) == LOG
    assert artifacts.end(context, ARTIFACTS, name).blob == hash_bytes(LOG)
    assert os.listdir(artifacts.path(context, ARTIFACTS, name).parent) == []
