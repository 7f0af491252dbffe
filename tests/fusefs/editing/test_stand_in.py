"""A mount of a space far away: others are answered while a change is committed, and one conversation in order."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from fusefs import inodes
from fusefs.editing.programs import Programs
from fusefs.editing.stand_in import ANYWHERE, StandIn
from fusefs.inodes import Space
from fusefs.text.render import FileRenderer
from fusefs.tree.tree import Tree
from store.commit import patience
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.fusefs.editing.talk import LINES, Talk, changed
from tests.fusefs.tree.mounting import PATIENCE, add, mounted, user
from tests.proxy import Proxy
from tests.servers import Postgres


class Far:
    """A replica whose line to the server is ``line``, mounted: it has a talk, and another one."""

    def __init__(self, line: Proxy, talk: Talk) -> None:
        self.line = line
        self.talk = talk
        self._names = 0

    def ask_others(self) -> None:
        """Ask for what the kernel cannot know, so that the mount is asked."""
        self._names += 1
        assert not (self.talk.mount.root / "conversations" / "others" / "talk" / f"nothing-{self._names}").exists()
        assert len(os.listdir(self.talk.mount.root / "conversations" / "others" / "talk" / "events")) == 1

    @contextmanager
    def waiting(self, change: Callable[[], object]) -> Iterator[threading.Event]:
        """Have a change wait for the space during the block; give what says that it was made."""
        made = threading.Event()

        def make() -> None:
            change()
            made.set()

        held = self.line.stall()
        thread = threading.Thread(target=make)
        thread.start()
        try:
            assert held.wait(PATIENCE)
            yield made
        finally:
            self.line.heal()
            thread.join(PATIENCE)
        assert made.is_set()


@pytest.fixture
def far(memory_path: Path, postgres: Postgres) -> Iterator[Far]:
    with ExitStack() as held:
        line = held.enter_context(Proxy(postgres.port))
        place = Place(
            postgres=postgres.url().replace(f":{postgres.port}/", f":{line.port}/"), objects=f"file://{memory_path}/o"
        )
        name = f"far-{os.urandom(4).hex()}"
        remote.init(place, name)
        remote.join(place, name, memory_path / "a", "a")
        with Store.open(memory_path / "a", renderer=FileRenderer()) as store:
            add(store, LINES)
            add(store, [user("Others speak", 1)], project="others", name="talk")
        # so patient that nothing is told to be away while a test looks
        yield Far(line, Talk(held.enter_context(mounted(memory_path / "a", f"patience={PATIENCE}"))))


def test_others_are_answered_while_a_name_is_committed(far: Far) -> None:
    talk = far.talk
    with far.waiting(lambda: os.rename(talk.root, talk.root.with_name("renamed"))) as made:
        for _ in range(20):
            far.ask_others()
        assert not made.is_set()
    assert (talk.root.with_name("renamed") / "events" / talk.first.name).exists()


def test_others_are_answered_while_a_file_is_saved_by_a_new_one(far: Far) -> None:
    talk = far.talk
    text = changed(talk.first)
    (talk.events / "new").write_bytes(text)
    with far.waiting(lambda: os.rename(talk.events / "new", talk.first)) as made:
        for _ in range(20):
            far.ask_others()
        assert not made.is_set()
    assert talk.first.read_bytes() == text
    talk.becomes(1)


def test_what_is_asked_of_a_conversation_comes_after_its_change(far: Far) -> None:
    talk = far.talk
    seen: list[list[str]] = []
    with far.waiting(lambda: (talk.events / "user.md").write_text("One.\n")) as made:
        # who writes a file does not wait for what becomes of it
        assert made.wait(PATIENCE)
        looking = threading.Thread(target=lambda: seen.append(talk.listed))
        looking.start()
        far.ask_others()
        assert not seen
    looking.join(PATIENCE)
    assert seen == [[*talk.listed]]
    assert seen[0][-1] == "00005-user.md"


def test_changes_of_one_conversation_keep_their_order(far: Far) -> None:
    talk = far.talk
    far.line.delay = 0.02
    talk.shell("for n in 1 2 3; do echo said $n > user.md; done; echo '# changed' >> 00001-user.md; ls")
    texts = [(talk.events / name).read_text() for name in talk.listed]
    assert [text.splitlines()[-1] for text in texts[3:]] == ["said 1", "said 2", "said 3"]
    assert texts[0].endswith("# changed\n")


def test_saves_by_several_programs_are_all_there(far: Far) -> None:
    talk = far.talk
    far.line.delay = 0.02
    files = [talk.first, talk.second, talk.last]

    def save(path: Path) -> None:
        for number in range(4):
            path.write_text(f"{path.read_text()}by {path.name} {number}\n")

    threads = [threading.Thread(target=save, args=(path,)) for path in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for path in files:
        lines = path.read_text().splitlines()
        assert [line for line in lines if line.startswith("by ")] == [f"by {path.name} {n}" for n in range(4)]
    assert not talk.errors


def test_a_stand_in_has_its_place_but_while_it_waits(memory_path: Path) -> None:
    order: list[str] = []
    remote.init(Place(str(memory_path / "space")), "one")
    remote.join(Place(str(memory_path / "space")), "one", memory_path / "a", "a")
    with Store.open(memory_path / "a") as store:
        programs = Programs()
        stand_in = StandIn(Tree(store), programs)
        trio.run(_changing, stand_in, programs, order)
    assert order == ["begun", "others", "ended", "once made", "here"]


async def _changing(stand_in: StandIn, programs: Programs, order: list[str]) -> None:
    goes_on = threading.Event()

    def changing() -> str:
        programs.thread = 1
        order.append("begun")
        with patience.waiting([5]):
            assert goes_on.wait(PATIENCE)
            patience.over()
            order.append("ended")
        assert programs.thread == 1
        return threading.current_thread().name

    def failing() -> None:
        raise ValueError("so it is")

    async def others() -> None:
        while "begun" not in order:
            await trio.sleep(0)
        order.append("others")
        programs.thread = 2
        assert stand_in.pending.keys() == {7, ANYWHERE, inodes.base(Space.PLACE, 5)}
        stand_in.once_made(lambda: order.append("once made"))
        nursery.start_soon(stand_in.make_here, order.append, "here")
        await trio.testing.wait_all_tasks_blocked()
        goes_on.set()

    stand_in.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        # whoever asked for it may be gone before it is made
        with trio.move_on_after(0):
            assert await stand_in.make(changing, places=[7]) == "stand-in"
        with pytest.raises(ValueError, match="so it is"):
            await stand_in.make(failing)
    assert not stand_in.pending
    stand_in.end()
    assert await stand_in.make(lambda: threading.current_thread().name) != "stand-in"
