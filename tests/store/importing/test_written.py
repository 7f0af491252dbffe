"""Sessions as tools write them: the file that the store then has is what was written, whatever people edited."""

import random
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import DELETED, Editor
from store.formats.registry import format_named
from store.importing import native
from store.importing.exporter import export_native
from store.importing.native import NativeFile
from store.index.catalogue import ContextEntry
from store.paths import SETTINGS
from store.store import Store
from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import assistant, user

CLAUDE = format_named("claude-code")
PATH = Path("/home/somebody/.claude/projects/-work/0b1f8d5e-7a55-4d0e-9c3d-2f4e6a1b7c90.jsonl")
EVERYTHING = 1 << 40
TIME = 1_700_000_000_123_456_789


class Session:
    """A session in a store, and what its file is to be."""

    def __init__(self, store: Store, folder: Path, chance: random.Random) -> None:
        self.store = store
        self.folder = folder
        self.chance = chance
        self.name = folder / "-work" / PATH.name
        self.said = 0
        self.content = self.lines(chance.randint(1, 4))
        if chance.random() < 0.2:
            self.content = self.content.rstrip()
        self.file = NativeFile(store, native.begin(store, CLAUDE, PATH, self.name, self.content, TIME))

    @property
    def entry(self) -> ContextEntry:
        return self.file.entry

    def lines(self, count: int) -> bytes:
        return b"".join(self.line() for _ in range(count))

    def line(self) -> bytes:
        self.said += 1
        spoken = f"text {self.said} " + "x" * self.chance.choice([1, 1, 1, 3000])
        end = self.chance.choice(["\n"] * 8 + ["\r\n", "\n\n"])
        return (self.chance.choice([user, assistant])(spoken, self.said) + end).encode()

    def append(self) -> None:
        added = self.lines(self.chance.randint(1, 3))
        if not self.content.endswith(b"\n"):
            added = b"\n" + added
        self.content += added
        self.file = self.file.go_on(native.go_on(self.store, CLAUDE, self.file, self.name, added, TIME))

    def write_anew(self) -> None:
        lines = self.content.splitlines(keepends=True)
        at = self.chance.randrange(len(lines) + 1)
        match self.chance.randrange(3):
            case 0:
                del lines[at : at + 1]
            case 1:
                lines[at : at + 1] = [self.line()]
            case 2:
                lines.insert(at, self.line())
        self.content = b"".join(lines)
        self.file = self.file.go_on(native.write_anew(self.store, CLAUDE, self.file, self.name, self.content, TIME))

    def edit(self) -> None:
        rows = self.store.records.rows(self.entry.head) if self.entry.head else ()
        if not rows:
            return
        number = self.chance.choice(rows).number
        change = DELETED if self.chance.random() < 0.3 else self.line().rstrip()
        Editor(self.store).edit(self.entry.id, {number: change})
        self.file = self.file.go_on(self.store.catalogue.entry(self.entry.id))
        self.content = self.file.read(0, EVERYTHING)

    def check(self) -> None:
        assert self.file.size == len(self.content)
        assert self.file.read(0, EVERYTHING) == self.content
        start, size = self.chance.randrange(len(self.content) + 1), self.chance.randrange(300)
        assert self.file.read(start, size) == self.content[start : start + size]
        anew = NativeFile(self.store, self.store.catalogue.entry(self.entry.id))
        assert anew.size == len(self.content)
        assert anew.read(start, size) == self.content[start : start + size]

    def check_export(self, where: Path) -> None:
        [path] = export_native(self.store, self.store.library.conversation(self.entry.id), where)
        assert path.read_bytes() == self.content


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_the_file_is_what_was_written(memory_path: Path, seed: int, edits: str) -> None:
    chance = random.Random(seed)
    root = memory_path / "store"
    root.mkdir()
    (root / SETTINGS).write_text(f'edits = "{edits}"\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        session = Session(store, memory_path, chance)
        for step in range(10):
            session.check()
            chance.choices([session.append, session.write_anew, session.edit], [5, 2, 2])[0]()
            if step % 3 == 0:
                session.check_export(memory_path / f"out-{step}")
        session.check()
        session.check_export(memory_path / "out")
        assert fsck(store) == []
