"""An import that is interrupted anywhere leaves whole conversations only, and the next one completes it."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fusefs.text.render import FileRenderer
from store.commit import interrupts
from store.disk import durable
from store.errors import StoreFailed
from store.importing import group
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck
from tests.model import instead
from tests.store.importing.sessions import by_source, event, imported, jp, lines, long_lines, native, session

ROOT = Path(__file__).parents[3]
CALLS = ("pwrite_all", "fdatasync", "truncate", "sync_directory", "replace", "remove")


class Scene:
    """Sessions in two states each, and a store that has the first states of some."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sessions = folder / "sessions"
        self.template = folder / "template"
        self.states: dict[Path, list[bytes | None]] = {}
        for name, before, after in (
            ("grown", lines("One", "Two"), lines("One", "Two", "Three")),
            ("rewritten", lines(*"abcdef"), lines("a", "b", "X", "d")),
            ("large", None, long_lines(300)),
            ("new", None, lines("One")),
            ("same", lines("One"), lines("One")),
        ):
            path = session(self.sessions, before or b"", name)
            if before is None:
                path.unlink()
            self.states[path] = [before, after]
        path = jp(self.sessions, [event()]) / "events.json"
        self.states[path] = [path.read_bytes(), path.read_bytes().replace(b"\n]", b',\n  {"type": "turn_start"}\n]')]
        with self.open(self.template) as store:
            imported(store, self.sessions)
        for path, (_before, after) in self.states.items():
            path.write_bytes(after or b"")

    @staticmethod
    def open(root: Path) -> Store:
        return Store.open(root, renderer=FileRenderer())

    def copy(self) -> Path:
        root = self.folder / "store"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.template, root)
        instead(root)
        return root

    def check(self, root: Path) -> None:
        """Fail unless each conversation of the store is in one of its two states; then have the import completed."""
        with self.open(root) as store:
            self.check_states(store, {0, 1})
            assert fsck(store) == []
            imported(store, self.sessions)
            self.check_states(store, {1})
            assert len(store.catalogue.page()) == len(self.states)
            assert fsck(store) == []

    def check_states(self, store: Store, allowed: set[int]) -> None:
        for path, states in self.states.items():
            source = path.parent if path.name == "events.json" else path
            entry = store.catalogue.by_source(str(source))
            found = native(store, source) if entry else None
            assert found in [states[number] for number in allowed], path
            if entry:
                conversation = store.library.conversation(entry.id)
                assert conversation.records == len(store.records.rows(conversation.head))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "_BATCH_RECORDS", 50)


class Fault:
    """Counts what is asked of the disk, and fails the call of a given number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.at = 0
        self.error: BaseException = OSError(5, "the disk is gone")
        self.strike: Callable[[], object] = self._raise
        self._main = threading.get_ident()
        for name in CALLS:
            monkeypatch.setattr(durable, name, self._wrapped(getattr(durable, name)))

    def _raise(self) -> None:
        raise self.error

    def _wrapped(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            # an interrupt comes to the main thread
            if isinstance(self.error, Exception) or threading.get_ident() == self._main:
                self.calls += 1
                if self.calls == self.at:
                    self.strike()
            return real(*arguments, **options)

        return call


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    return Fault(monkeypatch)


def attempts(scene: Scene, fault: Fault) -> Iterator[int]:
    """Yield the numbers of the calls that importing and closing makes: all, or evenly some."""
    root = scene.copy()
    fault.at = 0
    with scene.open(root) as store:
        fault.calls = 0
        imported(store, scene.sessions)
    total = fault.calls
    assert total > 10
    yield from sorted({1 + step * total // 24 for step in range(24)} | {total})


@pytest.mark.parametrize("interrupt", [False, True], ids=["error", "interrupt"])
def test_at_any_call_to_the_disk(scene: Scene, fault: Fault, interrupt: bool) -> None:
    fault.error = KeyboardInterrupt() if interrupt else OSError(5, "the disk is gone")
    hit = 0
    for number in attempts(scene, fault):
        root = scene.copy()
        fault.at = 0
        store = scene.open(root)
        fault.calls, fault.at = 0, number
        try:
            Importer(store).run([scene.sessions])
        except (StoreFailed, KeyboardInterrupt):
            hit += 1
        with suppress(StoreFailed, KeyboardInterrupt):
            store.close()
        fault.at = 0
        scene.check(root)
    assert hit > 5


def test_after_an_interrupt_that_waits_for_the_end_of_a_write_nothing_is_recovered(scene: Scene, fault: Fault) -> None:
    fault.error = KeyboardInterrupt()
    fault.strike = lambda: signal.raise_signal(signal.SIGINT)
    hit = 0
    for number in attempts(scene, fault):
        root = scene.copy()
        fault.at = 0
        with scene.open(root) as store:
            try:
                with interrupts.waits():
                    fault.calls, fault.at = 0, number
                    Importer(store).run([scene.sessions])
                    fault.at = 0
            except KeyboardInterrupt:
                hit += 1
        with scene.open(root) as store:
            assert store.recovered == []
        scene.check(root)
    assert hit > 5


class Interruption(BaseException):
    """Comes from anywhere, as Ctrl-C does."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file may be left open
@pytest.mark.parametrize("step", [97, 397, 1201])
def test_at_any_line_of_code(scene: Scene, step: int) -> None:
    """Interrupted in the middle of any function of the importer."""
    root = scene.copy()
    first = rounds = 0
    finished = False
    while not finished and rounds < 40:
        first += step
        store = scene.open(root)
        try:
            with interrupted_at_line(first):
                Importer(store).run([scene.sessions])
            finished = True
        except Interruption:
            rounds += 1
        finally:
            with suppress(StoreFailed):
                store.close()
        with scene.open(root) as store:
            scene.check_states(store, {0, 1})
    scene.check(root)
    assert rounds


@contextmanager
def interrupted_at_line(number: int) -> Iterator[None]:
    """Raise Interruption at the line of the importer that is the ``number``th to be run."""
    count = 0

    def trace(frame: FrameType, what: str, _argument: object) -> Callable[..., object] | None:
        nonlocal count
        code = frame.f_code.co_filename
        if "/importing/" not in code or "/tests/" in code:
            return None
        if what == "line":
            count += 1
            if count == number:
                raise Interruption
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


IMPORT = """
import sys
from pathlib import Path
from typing import Any
from fusefs.text.render import FileRenderer
from store.importing import group
from store.importing.importer import Importer
from store.store import Store
group._BATCH_RECORDS = 50
with Store.open(Path(sys.argv[1]), renderer=FileRenderer()) as store:
    print("begun", flush=True)
    Importer(store).run([Path(sys.argv[2])])
    print("imported", flush=True)
"""


def test_killed_at_any_time(scene: Scene) -> None:
    chance = random.Random(7)
    killed = 0
    root = scene.copy()
    for attempt in range(40):
        if killed == 5:
            break
        process = subprocess.Popen(
            [sys.executable, "-c", IMPORT, root, scene.sessions],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        with process.stdout as output:
            assert output.readline() == "begun\n"
            time.sleep(chance.random() * 0.02)
            process.send_signal(signal.SIGKILL)
            killed += "imported" not in output.read()
        process.wait(10)
        if attempt % 2:
            scene.check(root)
            root = scene.copy()
        else:
            with scene.open(root) as store:
                scene.check_states(store, {0, 1})
                assert fsck(store) == []
    assert killed


def test_an_error_in_the_middle_leaves_nothing_unfiled(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content of a session that then failed lies in the packs: it is filed, and found when it comes again."""
    from store.formats.claude_code.session import ClaudeCode

    path = session(tmp_path, long_lines(300))

    told = ClaudeCode.about
    asked: list[object] = []

    def about(*arguments: Any) -> object:  # noqa: ANN401  (handed on as they are)
        # first it is looked whether this is a session that has moved
        asked.append(arguments)
        if len(asked) == 1:
            return told(*arguments)
        raise OSError(5, "the neighbour cannot be read")

    with monkeypatch.context() as patched:
        patched.setattr(ClaudeCode, "about", about)
        report = Importer(store).run([path])
    assert report.imported == 0
    assert len(report.errors) == 1
    assert fsck(store) == []
    assert len(store.catalogue.page()) == 0
    packed = store.files.packs.end
    imported(store, path)
    assert native(store, path) == path.read_bytes()
    assert store.files.packs.end[1] - packed[1] < packed[1] / 2
    assert by_source(store, path).records == 300
