"""Outputs in a mount, written, moved and removed in any order: each holds what was last written to it.

A run does 100 things in each of two mounts of a store; ``CONVFS_LARGE_TESTS=1`` many more, in other orders.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from store.upkeep.fsck import fsck
from tests.fusefs.tree.mounting import Mounted, add, mounted, new_store, user

LARGE = "CONVFS_LARGE_TESTS" in os.environ
NAMES = ("one", "other")
THINGS = 1500 if LARGE else 100

Output = tuple[str, str]
"""A conversation, and the name of an output."""


class Model:
    """A model of the outputs of two conversations, and programs that change them."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._count = 0
        self._holds: dict[Output, bytes] = {}
        self._open: list[BinaryIO] = []
        self._root = Path()
        self._things: list[Callable[[], object]] = [
            self.make, self.make, self.append, self.rewrite, self.change, self.truncate, self.remove, self.rename,
            self.replace, self.move, self.put, self.keep_a_backup, self.open, self.close, self.wait,
        ]  # fmt: skip

    def run(self, mount: Mounted) -> None:
        """Do things, look at some of the outputs after each, and at all of them before and afterwards."""
        self._root = mount.root / "conversations" / "project"
        self.check(len(self._holds))
        for _ in range(THINGS):
            self._count += 1
            thing = self._draw.choice(self._things)
            if self._holds or thing == self.make:
                thing()
            self.check(3)
        for file in self._open:
            file.close()
        self._open.clear()
        self.check(len(self._holds))

    def check(self, most: int) -> None:
        for name in NAMES:
            folder = self._root / name / "artifacts"
            assert set(os.listdir(folder)) == {output for of, output in self._holds if of == name}
        for output in self._draw.sample(sorted(self._holds), min(most, len(self._holds))):
            path = self._path(output)
            assert path.read_bytes() == self._holds[output]
            assert path.stat().st_size == len(self._holds[output])

    def _path(self, output: Output) -> Path:
        return self._root / output[0] / "artifacts" / output[1]

    def _any(self) -> Output:
        return self._draw.choice(sorted(self._holds))

    def _ids(self, name: str) -> list[int]:
        return [int(output.partition(".")[0]) for of, output in self._holds if of == name]

    def _new(self, name: str) -> Output:
        """A name with a number that is free."""
        return name, f"{max(self._ids(name), default=-1) + 1}.named-{self._count}.log"

    def _data(self) -> bytes:
        return self._draw.randbytes(self._draw.choice([0, 10, 5000, 300_000]))

    def make(self) -> None:
        name, asked, data = self._draw.choice(NAMES), f"made-{self._count}", self._data()
        highest = max(self._ids(name), default=-1)
        (self._root / name / "artifacts" / asked).write_bytes(data)
        self._holds[name, f"{highest + 1}.{asked}.log"] = data

    def append(self) -> None:
        output, data = self._any(), self._draw.randbytes(100)
        with self._path(output).open("ab") as file:
            file.write(data)
        self._holds[output] += data

    def rewrite(self) -> None:
        output, data = self._any(), self._data()
        self._path(output).write_bytes(data)
        self._holds[output] = data

    def change(self) -> None:
        output = self._any()
        with self._path(output).open("r+b") as file:
            file.seek(5)
            file.write(b"HELLO")
        held = self._holds[output].ljust(5, b"\0")
        self._holds[output] = held[:5] + b"HELLO" + held[10:]

    def truncate(self) -> None:
        output, size = self._any(), self._draw.choice([0, 3, 50])
        os.truncate(self._path(output), size)
        self._holds[output] = self._holds[output][:size].ljust(size, b"\0")

    def remove(self) -> None:
        if len(self._holds) > 8:
            output = self._any()
            self._path(output).unlink()
            del self._holds[output]

    def _rename(self, source: Output, target: Output) -> None:
        os.rename(self._path(source), self._path(target))
        self._holds[target] = self._holds.pop(source)

    def rename(self) -> None:
        name, output = self._any()
        self._rename((name, output), (name, f"{output.partition('.')[0]}.renamed-{self._count}.log"))

    def replace(self) -> None:
        source, target = self._any(), self._any()
        if source != target:
            self._rename(source, target)

    def move(self) -> None:
        source = self._any()
        self._rename(source, self._new(NAMES[source[0] == NAMES[0]]))

    def put(self) -> None:
        temporary, data = self._root / f"temporary-{self._count}", self._data()
        temporary.write_bytes(data)
        output = self._draw.choice([self._any(), self._new(self._draw.choice(NAMES))])
        os.rename(temporary, self._path(output))
        self._holds[output] = data

    def keep_a_backup(self) -> None:
        output, data = self._any(), self._data()
        backup = self._path(output).with_name(output[1] + "~")
        os.rename(self._path(output), backup)
        assert backup.read_bytes() == self._holds[output]
        self._path(output).write_bytes(data)
        backup.unlink()
        self._holds[output] = data

    def open(self) -> None:
        if len(self._open) < 4:
            output, data = self._any(), self._draw.randbytes(70)
            file = self._path(output).open("ab", buffering=0)
            file.write(data)
            self._open.append(file)  # type: ignore[arg-type]  # it is one that buffers nothing
            self._holds[output] += data

    def close(self) -> None:
        if self._open:
            self._open.pop(self._draw.randrange(len(self._open))).close()

    def wait(self) -> None:
        time.sleep(self._draw.choice([0, 0, 0, 0.01, 0.1, 1.3]))


@pytest.mark.parametrize("seed", range(20) if LARGE else [5])
def test_each_holds_what_was_last_written_to_it(store_path: Path, seed: int) -> None:
    with new_store(store_path) as store:
        for name in NAMES:
            add(store, [user("Hello")], name=name)
    model = Model(seed)
    for _ in range(2):
        with mounted(store_path) as mount:
            model.run(mount)
    with new_store(store_path) as store:
        assert fsck(store) == []
