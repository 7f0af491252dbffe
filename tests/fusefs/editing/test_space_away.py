"""Two machines of a space, each with its mount, while the servers go away and come back."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.events.conversation import AGENTS, ARTIFACTS, BEGUN
from store.service.client import Client, RemoteArtifacts
from store.service.server import Service, serving
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.fusefs.editing.talk import LINES, Talk, changed
from tests.fusefs.editing.test_crashes import kill
from tests.fusefs.tree.mounting import add, errno_of, mounted, until
from tests.proxy import Proxy
from tests.servers import Postgres
from tests.spaces import let_in, said


class Two:
    """Two replicas with one conversation; the line of each to the server can be cut. The second has its mount."""

    def __init__(self, directory: Path, server: Postgres, held: ExitStack) -> None:
        self.held = held
        self.roots = [directory / name for name in "ab"]
        self.lines = [held.enter_context(Proxy(server.port)) for _ in self.roots]
        places = [
            Place(postgres=server.url().replace(f":{server.port}/", f":{line.port}/"), objects=f"file://{directory}/o")
            for line in self.lines
        ]
        name = f"away-{os.urandom(4).hex()}"
        remote.init(places[0], name)
        remote.join(places[0], name, self.roots[0], "a")
        with Store.open(self.roots[0], renderer=FileRenderer()) as store:
            self.context = add(store, LINES)
        let_in(self.roots[0], self.roots[1], "b", places[1])
        self.other = held.enter_context(Store.open(self.roots[1], renderer=FileRenderer()))

    def mount(self, held: ExitStack, *options: str) -> Talk:
        return Talk(held.enter_context(mounted(self.roots[0], *options)))

    def kept_there(self) -> dict[str, bytes]:
        """Return the outputs that the other machine has."""
        self.other.writer.catch_up()
        artifacts = self.other.artifacts
        return {
            name: artifacts.reader(self.context, ARTIFACTS, output).read(0, 1 << 20)
            for name, output in artifacts.listed(self.context, ARTIFACTS).items()
        }

    def write_there(self, name: str, data: bytes) -> None:
        listed = self.other.artifacts.begin(self.context, ARTIFACTS, name)
        self.other.artifacts.add(self.context, ARTIFACTS, listed, data)
        self.other.artifacts.end(self.context, ARTIFACTS, listed)

    def said_there(self) -> bytes:
        """Return the records that the other machine has."""
        self.other.writer.catch_up()
        return b"".join(said(self.other, self.context))

    def nothing_is_reserved(self) -> bool:
        self.other.writer.catch_up()
        return BEGUN not in self.other.catalogue.entry(self.context).metadata


@pytest.fixture
def two(memory_path: Path, postgres: Postgres) -> Iterator[Two]:
    with ExitStack() as held:
        yield Two(memory_path, postgres, held)


def lists(talk: Talk) -> dict[str, bytes]:
    directory = talk.root / "artifacts"
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def test_the_metadata_that_a_program_reads_says_nothing_of_outputs_that_are_being_written(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        before = (talk.root / "metadata.json").read_text().partition('"updated"')[0]
        with (talk.root / "artifacts" / "make").open("wb", buffering=0) as writing:
            writing.write(b"one\n")
            assert not two.nothing_is_reserved()
            now = (talk.root / "metadata.json").read_text()
            assert now.partition('"updated"')[0] == before
            assert "make" not in now
        # it may be kept before this is written, or after
        (talk.root / "metadata.json").write_text(now.replace('"pinned": false', '"pinned": true'))
        until(lambda: two.kept_there() == {"0.make.log": b"one\n"})
        assert '"pinned": true' in (talk.root / "metadata.json").read_text()


def test_an_output_that_is_begun_while_the_space_is_away_is_kept_later(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        assert talk.shell("echo one | tee ../artifacts/make && cat ../artifacts/make && ls ../artifacts") == (
            "one\none\n0.make.log\n"
        )
        until(lambda: "artifacts/0.make.log" in talk.errors and "cannot be reached" in talk.errors)
        [line] = talk.errors.splitlines()
        assert "it is on this disk, and kept as soon as it can be" in line
        two.lines[0].heal()
        until(lambda: two.kept_there() == {"0.make.log": b"one\n"})
        until(lambda: talk.errors == "")
        assert lists(talk) == {"0.make.log": b"one\n"}
        assert two.nothing_is_reserved()


def test_it_gets_another_number_if_another_machine_has_taken_its_own(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        with (talk.root / "artifacts" / "make").open("wb", buffering=0) as writing:
            writing.write(b"one\n")
            two.write_there("make", b"another\n")
            two.write_there("test", b"a test\n")
            until(lambda: "0.make.log" in talk.errors)
            two.lines[0].heal()
            # while it is being written
            until(lambda: sorted(lists(talk)) == ["0.make.log", "1.test.log", "2.make.log"])
            writing.write(b"two\n")
            assert (talk.root / "artifacts" / "make").read_bytes() == b"one\ntwo\n"
            assert os.fstat(writing.fileno()).st_size == 8
        kept = {"0.make.log": b"another\n", "1.test.log": b"a test\n", "2.make.log": b"one\ntwo\n"}
        until(lambda: two.kept_there() == kept)
        assert lists(talk) == kept
        until(lambda: talk.errors == "")
        assert two.nothing_is_reserved()


def test_what_another_machine_has_under_its_number_is_not_removed_with_it(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.lines[0].cut()
        (talk.root / "artifacts" / "make").write_bytes(b"one\n")
        two.write_there("make", b"another\n")
        os.unlink(talk.root / "artifacts" / "0.make.log")
        two.lines[0].heal()
        until(lambda: lists(talk) == {"0.make.log": b"another\n"})
    assert two.kept_there() == {"0.make.log": b"another\n"}


def test_it_outlives_a_daemon_that_is_killed(two: Two) -> None:
    try:
        with ExitStack() as held:
            talk = two.mount(held)
            two.lines[0].cut()
            (talk.root / "artifacts" / "make").write_bytes(b"one\n")
            (talk.root / "agents" / "Explore").write_bytes(b"found\n")
            kill(talk.mount)
    except AssertionError:
        assert talk.mount.daemon.returncode is not None
    two.write_there("make", b"another\n")
    # mounted and unmounted while it is away
    with ExitStack() as held:
        talk = two.mount(held)
        assert lists(talk) == {"0.make.log": b"one\n"}
        until(lambda: "0.make.log" in talk.errors)
    two.lines[0].heal()
    with ExitStack() as held:
        talk = two.mount(held)
        until(lambda: lists(talk) == {"0.make.log": b"another\n", "1.make.log": b"one\n"})
        assert (talk.root / "agents" / "0-Explore.md").read_bytes() == b"found\n"
    assert two.kept_there() == {"0.make.log": b"another\n", "1.make.log": b"one\n"}
    assert two.nothing_is_reserved()


def test_closed_outputs_are_kept_when_the_space_is_back(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        with (talk.root / "artifacts" / "make").open("wb", buffering=0) as writing:
            writing.write(b"one\n")
            two.lines[0].cut()
            writing.write(b"two\n")
        until(lambda: "artifacts/0.make.log" in talk.errors)
        assert not two.nothing_is_reserved()
        two.lines[0].heal()
        until(lambda: two.kept_there() == {"0.make.log": b"one\ntwo\n"})
        until(lambda: talk.errors == "")
        assert two.nothing_is_reserved()


def test_two_files_that_are_moved_to_outputs_at_once_are_both_kept(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        (talk.root / "log").write_bytes(b"one\n")
        two.lines[0].cut()
        os.rename(talk.root / "log", talk.root / "artifacts" / "make")
        two.write_there("make", b"another\n")
        two.lines[0].heal()
        kept = {"0.make.log": b"another\n", "1.make.log": b"one\n"}
        until(lambda: two.kept_there() == kept)
        until(lambda: lists(talk) == kept)


def test_an_output_that_cannot_be_moved_onto_another_leaves_both(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        artifacts = talk.root / "artifacts"
        for name in ("make", "test"):
            (artifacts / name).write_text(f"{name}\n")
        before = {"0.make.log": b"make\n", "1.test.log": b"test\n"}
        until(lambda: two.kept_there() == before)
        two.lines[0].cut()
        with (artifacts / "1.test.log").open("rb", buffering=0) as reading:
            assert errno_of(lambda: os.rename(artifacts / "0.make.log", artifacts / "1.test.log")) == errno.EHOSTUNREACH
            assert lists(talk) == before
            two.lines[0].heal()
            until(lambda: errno_of(lambda: os.rename(artifacts / "0.make.log", artifacts / "1.test.log")) == 0)
            assert reading.read() == b"test\n"
        until(lambda: two.kept_there() == {"1.test.log": b"make\n"})


def test_the_number_of_an_output_that_was_moved_is_free_again(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        artifacts = talk.root / "artifacts"
        with (artifacts / "make").open("wb", buffering=0) as writing:
            writing.write(b"one\n")
            os.rename(artifacts / "0.make.log", artifacts / "7.make.log")
            # in each of these, another was begun under the number of the one before
            (artifacts / "0.test.log").write_text("two\n")
            os.rename(artifacts / "0.test.log", talk.root / "test")
            (artifacts / "0.test.log").write_text("three\n")
        until(lambda: two.kept_there() == {"0.test.log": b"three\n", "7.make.log": b"one\n"})
        until(two.nothing_is_reserved)
        assert (talk.root / "test").read_text() == "two\n"


def test_what_an_agent_has_started_goes_with_it_to_another_number(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        agents = talk.root / "agents"
        two.lines[0].cut()
        (agents / "Explore").write_bytes(b"found\n")
        with (agents / "0-Explore.Read").open("wb", buffering=0) as writing:
            writing.write(b"read\n")
            until(lambda: talk.errors.count("it is on this disk, and kept as soon as it can be") == 2)
            listed = two.other.artifacts.begin(two.context, AGENTS, "Explore")
            two.other.artifacts.add(two.context, AGENTS, listed, b"another\n")
            two.other.artifacts.end(two.context, AGENTS, listed)
            two.lines[0].heal()
            names = ["0-Explore.md", "1-Explore.0-Read.md", "1-Explore.md"]
            until(lambda: sorted(os.listdir(agents)) == names)
            writing.write(b"more\n")
            assert (agents / "0-Explore.Read").read_bytes() == b"read\nmore\n"
        until(two.nothing_is_reserved)
        until(lambda: talk.errors == "")
        assert [(agents / name).read_bytes() for name in names] == [b"another\n", b"read\nmore\n", b"found\n"]
    two.other.writer.catch_up()
    assert sorted(two.other.artifacts.listed(two.context, AGENTS)) == names


def test_saves_and_removals_while_the_space_is_away(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        text = changed(talk.first)
        two.lines[0].cut()
        talk.first.write_bytes(text)
        (talk.events / "assistant.md").write_text("One more.\n")
        assert errno_of(lambda: os.rename(talk.root, talk.root.with_name("other"))) == errno.EHOSTUNREACH
        os.unlink(talk.second)
        until(lambda: talk.errors.count("; what was saved is kept, and committed once it can be\n") == 2)
        until(lambda: "what was removed is hidden, and removed once it can be\n" in talk.errors)
        assert talk.first.read_bytes() == text
        assert not talk.second.exists()
        two.lines[0].heal()

        until(lambda: b"Goodbye there" in two.said_there() and b"One more." in two.said_there())
        until(lambda: not talk.errors)
        assert not talk.second.exists()
        assert talk.first.read_bytes() == text
        assert "One more." in (talk.events / "00005-assistant.md").read_text()


@pytest.mark.parametrize("again", [False, True])
def test_saves_and_new_events_are_committed_in_the_order_in_which_they_were_closed(two: Two, again: bool) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        two.other.writer.catch_up()
        before = len(two.other.catalogue.versions(two.context))
        two.lines[0].cut()
        # each by a program of its own, so that each is a version
        for number, file in enumerate((talk.first, talk.second)):
            text = file.read_text().replace("Hello", "Goodbye").replace("General", "Many")
            talk.shell(f"cat > {file.name} <<'end'\n{text}end")
            talk.shell(f"echo 'New {number}' > 0010{number}-user.md")
        until(lambda: talk.errors.count("; what was saved is kept, and committed once it can be\n") == 4)
        if not again:
            two.lines[0].heal()
            until(lambda: b"New 1" in two.said_there())
    if again:
        with ExitStack() as held:
            talk = two.mount(held)
            assert talk.errors.count("; what was saved is kept, and committed once it can be\n") == 4
            two.lines[0].heal()
            until(lambda: b"New 1" in two.said_there())
    records = [version.records for version in two.other.catalogue.versions(two.context)][before:]
    assert records == [4, 5, 5, 6]


@pytest.mark.parametrize("killed", [False, True])
def test_saves_outlive_a_daemon_that_begins_again_before_the_space_is_back(two: Two, killed: bool) -> None:
    talk: Talk | None = None
    try:
        with ExitStack() as held:
            talk = two.mount(held)
            text = changed(talk.first)
            two.lines[0].cut()
            talk.first.write_bytes(text)
            (talk.events / "assistant.md").write_text("One more.\n")
            until(lambda: talk.errors.count("; what was saved is kept, and committed once it can be\n") == 2)
            if killed:
                kill(talk.mount)
    except AssertionError:
        assert killed
        assert talk is not None
        assert talk.mount.daemon.returncode is not None
    with ExitStack() as held:
        talk = two.mount(held)
        assert talk.first.read_bytes() == text
        assert (talk.events / "assistant.md").read_text() == "One more.\n"
        assert talk.errors.count("; what was saved is kept, and committed once it can be\n") == 2
        two.lines[0].heal()
        until(lambda: "what was saved" not in talk.errors)
        assert talk.first.read_bytes() == text
        assert "One more." in (talk.events / "00005-assistant.md").read_text()
        until(lambda: all(name.startswith("0000") for name in os.listdir(talk.events)))
    assert two.said_there().count(b"Goodbye there") == two.said_there().count(b"One more.") == 1


def test_a_file_that_is_saved_again_and_again_while_the_space_is_away(two: Two) -> None:
    def put_in(file: Path, old: str, new: str) -> None:
        # in place: with what was saved before it is one text
        with file.open("r+") as opened:
            text = opened.read().replace(old, new)
            opened.seek(0)
            opened.write(text)

    with ExitStack() as held:
        talk = two.mount(held)
        before = talk.second.read_text()
        two.lines[0].cut()
        for round_ in range(12):
            talk.first.write_text(f"Round {round_}\n")
            talk.second.write_text(before.replace("General", f"Number {round_}"))
        assert talk.errors.count("what was saved is kept") == 2
        assert errno_of(lambda: put_in(talk.second, "event: 2", "event: 9")) == errno.EINVAL
        last = talk.events / "00004-user.md"
        said_last = last.read_text()
        last.write_text("Never mind\n")
        last.write_text(said_last)
        talk.first.write_bytes(b"")
        assert talk.first.read_text() == "Round 11\n"
        two.lines[0].heal()
        until(lambda: two.said_there().count(b"Round 11") == two.said_there().count(b"Number 11") == 1)
        assert talk.second.read_text() == before.replace("General", "Number 11")
        assert len(os.listdir(talk.root / ".versions")) <= 3
    assert b"The third and last" in two.said_there()


def write(over: RemoteArtifacts, context: int, away: Callable[[], None]) -> None:
    """Write two outputs over a socket, of which one is written to once more when the space is back."""
    ended = over.begin(context, ARTIFACTS, "make")
    begun = over.begin(context, ARTIFACTS, "test")
    assert (ended, begun) == ("0.make.log", "1.test.log")
    assert over.add(context, ARTIFACTS, ended, b"one\n", 0) == 4
    assert over.add(context, ARTIFACTS, begun, b"two\n", 0) == 4
    output = over.end(context, ARTIFACTS, ended)
    assert (output.name, output.size, output.blob) == (ended, 4, None)
    assert sorted(over.listed(context, ARTIFACTS)) == [ended, begun]
    away()
    until(
        lambda: any(
            output.blob for output in over.listed(context, ARTIFACTS).values() if output.name.endswith("make.log")
        )
    )
    assert over.add(context, ARTIFACTS, begun, b"three\n", 4) == 10
    assert over.end(context, ARTIFACTS, begun).blob is not None


def check(two: Two, over: RemoteArtifacts) -> None:
    """Write outputs while the space is away, in which another machine takes the number of the first one meanwhile."""

    def taken() -> None:
        two.write_there("make", b"another\n")
        two.lines[0].heal()

    two.lines[0].cut()
    write(over, two.context, taken)
    kept = two.kept_there()
    assert sorted(kept.values()) == [b"another\n", b"one\n", b"two\nthree\n"]
    assert kept["0.make.log"] == b"another\n"
    assert two.nothing_is_reserved()


def test_outputs_that_are_written_over_the_socket_of_a_mount_are_kept_later(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held, "serving")
        check(two, RemoteArtifacts(held.enter_context(Client.of(two.roots[0]))))
        assert lists(talk) == two.kept_there()
        until(lambda: talk.errors == "")


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_outputs_that_are_written_over_the_socket_of_a_service_are_kept_later(two: Two) -> None:
    with ExitStack() as held:
        store = held.enter_context(Store.open(two.roots[0], renderer=FileRenderer()))
        held.enter_context(serving(Service(store, ())))
        check(two, RemoteArtifacts(held.enter_context(Client.of(two.roots[0]))))


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_outputs_of_a_service_that_ends_while_the_space_is_away_are_kept_by_the_next(two: Two) -> None:
    with ExitStack() as held:
        store = held.enter_context(Store.open(two.roots[0], renderer=FileRenderer()))
        two.lines[0].cut()
        name = store.artifacts.begin(two.context, ARTIFACTS, "make")
        store.artifacts.add(two.context, ARTIFACTS, name, b"one\n")
        assert store.artifacts.end(two.context, ARTIFACTS, name).blob is None
    two.lines[0].heal()
    with ExitStack() as held:
        talk = two.mount(held)
        until(lambda: two.kept_there() == {"0.make.log": b"one\n"})
        assert lists(talk) == {"0.make.log": b"one\n"}


def test_what_another_machine_takes_away_is_read_on_by_who_has_it_open(two: Two) -> None:
    with ExitStack() as held:
        talk = two.mount(held)
        for name in ("make", "test"):
            two.write_there(name, f"of {name}\n".encode())
        directory = talk.root / "artifacts"
        # nothing is read before: the kernel would have it
        until(lambda: directory.exists() and sorted(os.listdir(directory)) == ["0.make.log", "1.test.log"])
        with (
            (directory / "0.make.log").open("r+b", buffering=0) as gone,
            (directory / "1.test.log").open("r+b", buffering=0) as replaced,
        ):
            two.other.artifacts.move(two.context, ARTIFACTS, "0.make.log", "1.test.log")
            until(lambda: os.listdir(directory) == ["1.test.log"])
            assert gone.read() == b"of make\n"
            # as everybody who opens it does
            assert replaced.read() == (directory / "1.test.log").read_bytes() == b"of make\n"
