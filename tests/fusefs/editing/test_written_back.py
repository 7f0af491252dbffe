"""Text that was just read is written back: no version comes of it, whatever it is and however it is written."""

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyfuse3
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyfuse3 import FUSEError

from fusefs.inodes import Place
from fusefs.operations import Operations
from fusefs.tree.events import EventFile
from fusefs.tree.node import Directory, File, Node
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.conversations.contexts import Append
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.text import strategies
from tests.fusefs.tree.mounting import TYPE, answered, can_mount, mounted, new_store, run
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES, imported

THROUGH_THE_MOUNT = 300
"""Files of the samples that are written back in a mount."""


def files_below(router: Router, directory: Directory) -> Iterator[File]:
    """Yield the files that can be written below a directory of a conversation."""
    for entry in answered(lambda: [*router.entries(directory, 0)]):
        mode = entry.attributes.mode
        node: Node = router.node(entry.attributes.ino)
        if isinstance(node, Directory):
            yield from files_below(router, node)
        elif stat.S_ISREG(mode) and mode & stat.S_IWUSR:
            assert isinstance(node, File)
            yield node


class Written:
    """Writes files as the kernel has it done."""

    def __init__(self, store: Store) -> None:
        self.operations = Operations(Tree(store))

    def files(self, context: int) -> list[File]:
        """Return all files of a conversation that can be written."""
        router = self.operations.router
        place = router.place(router.tree.view_id(context), Place.CONVERSATION)
        assert isinstance(place, Directory)
        transcript = router.place(router.tree.view_id(context), Place.TRANSCRIPT)
        assert isinstance(transcript, File)
        return [*files_below(router, place), transcript]

    def shown(self, node: File) -> bytes:
        """Return what a file shows."""
        fh = run(self.operations.open(node.ino, os.O_RDONLY, None)).fh
        data = run(self.operations.read(fh, 0, 1 << 30))
        run(self.operations.release(fh))
        assert len(data) == node.attributes().size
        return data

    def write(self, node: File, data: bytes, *, anew: bool) -> None:
        """Write all of a file: cut to nothing first, or over what is there."""
        trio.run(self._write, node, data, anew)

    async def _write(self, node: File, data: bytes, anew: bool) -> None:
        flags = os.O_WRONLY | os.O_TRUNC if anew else os.O_RDWR
        fh = run(self.operations.open(node.ino, flags, None)).fh
        try:
            middle = len(data) // 2
            for at, part in ((0, data[:middle]), (middle, data[middle:])):
                assert await self.operations.write(fh, at, part) == len(part)
            if not anew:
                self.cut(node, fh, len(data))
            # a thread may compare what is large
            await self.operations.flush(fh)
        finally:
            run(self.operations.release(fh))

    def cut(self, node: File, fh: int, size: int) -> None:
        fields, attributes = pyfuse3.SetattrFields(), pyfuse3.EntryAttributes()
        if node.attributes().size != size:
            # only the kernel can say which fields are meant, so what it calls is called
            self.operations._truncate(node, size, fh)
        run(self.operations.setattr(node.ino, attributes, fields, fh, None))


def versions(store: Store) -> dict[int, tuple[int, int]]:
    """Return the head of every conversation, and how many versions it has had."""
    return {talk.id: (talk.head, len(store.catalogue.versions(talk.id))) for talk in store.library.conversations()}


def check_nothing_left(store: Store) -> None:
    """Check that nothing was refused, that no draft is left, and that the store is sound."""
    assert [path for path in (store.root / "scratch").rglob("*") if path.is_file()] == []
    assert fsck(store) == []


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
@pytest.mark.parametrize("tool", ["claude-code", "jp"])
@pytest.mark.timeout(300)
def test_every_file_of_every_sample(memory_path: Path, tool: str) -> None:
    with new_store(memory_path / "store") as store:
        imported(store, SAMPLES / tool)
        before = versions(store)
        written = Written(store)
        count = 0
        for context in before:
            for node in written.files(context):
                data = written.shown(node)
                written.write(node, data, anew=count % 2 == 0)
                assert written.shown(node) == data
                count += 1
        assert count > 500
        assert versions(store) == before
        check_nothing_left(store)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
@pytest.mark.skipif(not can_mount(), reason="/dev/fuse or fusermount3 is not there")
def test_files_of_samples_in_a_mount(tmp_path: Path) -> None:
    with new_store(tmp_path / "store") as store:
        imported(store, SAMPLES / "claude-code", SAMPLES / "jp")
        before = versions(store)
    with mounted(tmp_path / "store") as mount:
        top = mount.root / "conversations"
        paths = [
            path for path in top.rglob("*") if path.is_file() and not path.is_symlink() and os.access(path, os.W_OK)
        ]
        paths = [path for path in paths if path.stat().st_mode & stat.S_IWUSR]
        for number, path in enumerate(paths[:: len(paths) // THROUGH_THE_MOUNT]):
            data = path.read_bytes()
            if number % 3 == 0:
                path.write_bytes(data)
            elif number % 3 == 1:
                beside = path.with_name("beside.tmp")
                beside.write_bytes(data)
                beside.rename(path)
            else:
                with open(path, "r+b", buffering=0) as file:
                    file.write(data[: len(data) // 2])
                    file.write(data[len(data) // 2 :])
            assert path.read_bytes() == data
        assert mount.messages.read_text() == ""
    with new_store(tmp_path / "store") as store:
        assert versions(store) == before
        check_nothing_left(store)


# -- whatever an event says --------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), strategies.texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(strategies.words, inner, max_size=3)),
    max_leaves=5,
)
parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, strategies.texts),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "x"}, strategies.texts),
    st.builds(
        lambda name, given: {"type": "tool_use", "id": "toolu_1", "name": name, "input": given},
        strategies.words,
        st.dictionaries(strategies.words, json_values, max_size=3),
    ),
    st.builds(
        lambda text, wrong: {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": wrong},
        st.one_of(strategies.texts, st.lists(st.builds(lambda text: {"type": "text", "text": text}, strategies.texts))),
        st.booleans(),
    ),
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """Draw a record of a session: what tools write, and anything else."""
    role = draw(st.sampled_from(["user", "assistant", "system"]))
    content = draw(st.one_of(strategies.texts, st.lists(parts, min_size=1, max_size=3)))
    record = {
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": "u1",
        "timestamp": draw(st.one_of(st.just("2026-03-05T12:00:00.000Z"), strategies.strings)),
        **draw(st.dictionaries(strategies.keys, json_values, max_size=2)),
    }
    spelled = json.dumps(record, ensure_ascii=draw(st.booleans())).encode(errors="replace")
    return draw(st.one_of(st.just(spelled), st.just(spelled), st.binary(max_size=40)))


@pytest.mark.logs("the text is kept as", sometimes=True)
def test_whatever_an_event_says(memory_path: Path) -> None:
    with new_store(memory_path / "store") as store:
        written = Written(store)

        # how long it takes is the machine's load, not the strategies'
        @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.lists(records(), min_size=1, max_size=4), st.booleans())
        def check(lines: list[bytes], anew: bool) -> None:
            context = store.contexts.create(metadata={"project": "p", "format": "claude-code"}).context
            store.contexts.append_many(context, [Append(line, TYPE) for line in lines])
            for node in written.files(context):
                data = written.shown(node)
                written.write(node, data, anew=anew)
                assert written.shown(node) == data
                if isinstance(node, EventFile):
                    write_carelessly(written, node, lossy=store.records.event(node.row).lossy)
            assert len(store.catalogue.versions(context)) == 1

        check()
        # what was refused is kept, and is not more than it may be
        assert fsck(store) == []


def write_carelessly(written: Written, node: EventFile, *, lossy: bool) -> None:
    """Write an event without its last newline: that changes nothing, but is refused where nothing may be written."""
    data = written.shown(node)
    if data.endswith(b"\n\n") or not data.endswith(b"\n"):
        return
    try:
        written.write(node, data[:-1], anew=True)
    except FUSEError as error:
        refused = error.errno
        assert written.shown(node) == data
    else:
        refused = 0
        assert written.shown(node) == data[:-1]
    assert refused == (errno.EINVAL if lossy else 0)
