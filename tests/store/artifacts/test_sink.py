"""The sink for a tool's output."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from store.artifacts.artifacts import Artifacts
from store.artifacts.sink import TAIL_BYTES, OutputSink
from store.errors import NotFound, StoreFailed
from store.events.conversation import ARTIFACTS, Outputs
from store.store import Store

LINE = b"a line of what a build says\n"


class Memory:
    """Keeps outputs in memory; ``fail`` has one of its calls fail, the ``after``-th time."""

    def __init__(self, fail: str = "", after: int = 0) -> None:
        self.kept: dict[str, bytes] = {}
        self.ended: list[str] = []
        self._fail = fail
        self._left = after

    def _check(self, call: str) -> None:
        if call == self._fail:
            self._left -= 1
            if self._left < 0:
                raise OSError(28, "No space left on device")

    def begin(self, context: int, outputs: Outputs, asked: str, *, parent: str = "") -> str:
        self._check("begin")
        name = f"{len(self.kept)}.{asked}.log"
        self.kept[name] = b""
        return name

    def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
        self._check("add")
        assert at == len(self.kept[name])
        assert len(data) <= 64 << 10
        self.kept[name] += data
        return len(self.kept[name])

    def end(self, context: int, outputs: Outputs, name: str) -> object:
        self._check("end")
        self.ended.append(name)
        return None

    def drop(self, context: int, outputs: Outputs, name: str) -> None:
        del self.kept[name]


def test_what_is_short_is_all_there_and_no_artifact() -> None:
    memory = Memory()
    with OutputSink(memory, 1, "bash") as sink:
        sink.write(b"\x1b[32mok\x1b[0m\r\n")
        sink.write("2 passed")
    summary = sink.close()
    assert summary.output == "ok\n2 passed"
    assert json.decode(json.encode(summary)) == {
        "output": "ok\n2 passed",
        "truncated": False,
        "totalBytes": 11,
        "totalLines": 2,
        "outputBytes": 11,
        "outputLines": 2,
    }
    assert (memory.kept, summary.notice()) == ({}, "")


def test_exactly_the_tail_is_not_yet_too_much() -> None:
    memory = Memory()
    sink = OutputSink(memory, 1, "bash")
    sink.write(b"x" * TAIL_BYTES)
    assert memory.kept == {}
    sink.write(b"y")
    assert sink.close().artifact_id == "0"
    assert memory.kept == {"0.bash.log": b"x" * TAIL_BYTES + b"y"}


def test_the_whole_is_spilled_what_was_kept_first() -> None:
    memory = Memory()
    with OutputSink(memory, 1, "bash") as sink:
        for _ in range(10_000):
            sink.write(LINE)
        summary = sink.close()
    assert memory.kept == {"0.bash.log": LINE * 10_000}
    assert memory.ended == ["0.bash.log"]
    told = json.decode(json.encode(summary))
    assert told["artifactId"] == "0"
    assert (told["totalBytes"], told["totalLines"]) == (280_000, 10_000)
    assert told["outputBytes"] == len(told["output"]) == TAIL_BYTES
    assert (LINE * 10_000).decode().endswith(told["output"])
    assert summary.notice() == "[the first 228800 of 280000 bytes are left out: all of it is artifact://0]"


@given(st.lists(st.text(st.sampled_from("aé€😀\n"), max_size=30), max_size=20), st.integers(0, 40))
def test_the_tail_never_begins_within_a_character(pieces: list[str], tail: int) -> None:
    memory = Memory()
    sink = OutputSink(memory, 1, "bash", tail_bytes=tail)
    for piece in pieces:
        sink.write(piece)
    summary, whole = sink.close(), "".join(pieces)
    assert whole.endswith(summary.output)
    assert "\ufffd" not in summary.output
    assert summary.output_bytes == len(summary.output.encode()) <= tail or not summary.truncated
    assert summary.output_bytes > tail - 4 or not summary.truncated
    assert summary.cut_bytes + summary.output_bytes == summary.total_bytes == len(whole.encode())
    assert summary.total_lines == len(whole.split("\n")) - (whole == "" or whole.endswith("\n"))
    assert memory.kept == ({"0.bash.log": whole.encode()} if summary.truncated else {})


@pytest.mark.parametrize(("call", "after"), [("begin", 0), ("add", 0), ("add", 3), ("end", 0)])
@pytest.mark.logs("not kept as a whole: .*No space left")
def test_where_it_cannot_be_made_the_tail_goes_on_alone(call: str, after: int) -> None:
    memory = Memory(call, after)
    with OutputSink(memory, 1, "bash") as sink:
        for _ in range(20):
            sink.write(LINE * 1000)
    summary = sink.close()
    assert summary.artifact_id == ""
    assert "artifactId" not in json.decode(json.encode(summary))
    assert (summary.truncated, summary.total_lines, summary.output_bytes) == (True, 20_000, TAIL_BYTES)
    assert memory.kept == {}
    assert "it was not kept" in summary.notice()


@pytest.mark.parametrize(
    "keeping", [None, pytest.param(lambda store: store.artifacts, marks=pytest.mark.logs("there is no conversation"))]
)
def test_a_conversation_that_is_not_there_gets_none(store: Store, keeping: Callable[[Store], Artifacts] | None) -> None:
    sink = OutputSink(keeping(store) if keeping else None, 99, "bash")
    sink.write(LINE * 5000)
    assert (sink.close().artifact_id, sink.close().output_lines) == ("", 1829)


@pytest.mark.of_one_machine("in a space another call says which numbers are taken")
@pytest.mark.logs("not kept as a whole: the disk is full")
def test_in_a_store_each_has_the_next_id(store: Store, context: int, monkeypatch: pytest.MonkeyPatch) -> None:
    artifacts = store.artifacts
    for number in range(3):
        with OutputSink(artifacts, context, "make -j4") as sink:
            sink.write(b"\x1b[1m" + LINE * 5000)
        assert sink.close().artifact_id == str(number)
    listed = artifacts.listed(context, ARTIFACTS)
    assert set(listed) == {f"{number}.make_-j4.log" for number in range(3)}
    assert artifacts.reader(context, ARTIFACTS, listed["2.make_-j4.log"]).read(0, 1 << 20) == LINE * 5000

    def fails(_context: int, _changes: dict[str, object]) -> None:
        raise StoreFailed("the disk is full")

    monkeypatch.setattr(store.contexts, "set_metadata", fails)
    sink = OutputSink(artifacts, context, "make")
    sink.write(LINE * 5000)
    assert artifacts.listed(context, ARTIFACTS)["3.make.log"].size > 0
    assert sink.close().artifact_id == ""
    assert set(artifacts.listed(context, ARTIFACTS)) == set(listed)
    with pytest.raises(NotFound):
        artifacts.add(context, ARTIFACTS, "3.make.log", b"")


def test_memory_does_not_grow_with_the_output() -> None:
    class Counting(Memory):
        size = 0

        def add(self, context: int, outputs: Outputs, name: str, data: bytes, at: int | None = None) -> int:
            self.size += len(data)
            return self.size

    counting = Counting()
    with OutputSink(counting, 1, "bash") as sink:
        for _ in range(400):
            sink.write(b"x" * 99_999 + b"\n")
            held = sum(len(value) for value in vars(sink).values() if isinstance(value, bytearray | bytes | str))
            assert held < 1 << 19
    assert counting.size == sink.close().total_bytes == 40_000_000
