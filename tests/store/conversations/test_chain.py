"""Records before, as a lens learns them: the same whether they were gone through or are looked up backwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.conversations.chain import Chain, Recorded
from store.events.event import Event, Kind

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
DEFINES = st.lists(st.tuples(KEYS, st.sampled_from(["", "Bash", "Read"])), max_size=2, unique_by=lambda pair: pair[0])
# None is a record that cannot be read
RECORDS = st.lists(st.one_of(st.none(), DEFINES.map(tuple)), max_size=12)
QUESTIONS = st.lists(st.tuples(st.booleans(), st.one_of(st.none(), KEYS, st.just("never"))), max_size=8)


def event(defines: tuple[tuple[str, str], ...] | None) -> Event:
    return Event(Kind.USER, defines=defines or ())


def answers(chain: Chain, questions: list[tuple[bool, str | None]]) -> list[object]:
    return [chain.tool(key or "") if tool else chain.parent(key) for tool, key in questions]


@given(RECORDS, QUESTIONS, st.integers(0, 12))
def test_looking_backwards_tells_the_same_as_having_gone_forwards(
    records: list[tuple[tuple[str, str], ...] | None], questions: list[tuple[bool, str | None]], start: int
) -> None:
    forwards = Chain(1, unasked, no_blob)
    for defines in records:
        forwards.advance(event(defines))
    asked: list[int] = []

    def earlier(number: int) -> Event | None:
        asked.append(number)
        defines = records[number - 1]
        return None if defines is None else event(defines)

    start = min(start, len(records))
    backwards = Chain(start + 1, earlier, no_blob)
    for defines in records[start:]:
        backwards.advance(event(defines))
    assert answers(backwards, questions) == answers(forwards, questions)
    # nearest first, each once, and none that is known
    assert asked == sorted(set(asked), reverse=True)
    assert all(number <= start for number in asked)


@given(st.integers(1, 12), st.integers(0, 12))
def test_no_more_is_looked_up_than_is_in_reach(number: int, reach: int) -> None:
    asked: list[int] = []
    chain = Chain(number, lambda earlier: asked.append(earlier), no_blob, reach)
    assert (chain.tool("never"), chain.parent("never")) == ("", -1)
    assert asked == list(range(number - 1, 0, -1))[:reach]


@given(RECORDS, st.one_of(st.none(), KEYS))
def test_what_the_answers_mean(records: list[tuple[tuple[str, str], ...] | None], key: str | None) -> None:
    chain = Chain(1, unasked, no_blob)
    for defines in records:
        chain.advance(event(defines))
    defining = [number for number, defines in enumerate(records, 1) if defines]
    of_key = [number for number in defining if key in dict(records[number - 1] or ())]
    if key is None:
        assert chain.parent(None) == (-1 if defining else 0)
    elif not of_key:
        assert (chain.parent(key), chain.tool(key)) == (-1, "")
    else:
        assert chain.parent(key) == (0 if of_key[-1] == defining[-1] else of_key[-1])
        assert chain.tool(key) == dict(records[of_key[-1] - 1] or ())[key]


def test_no_more_is_read_than_a_question_needs() -> None:
    asked: list[int] = []

    def earlier(number: int) -> Event:
        asked.append(number)
        return event(((f"k{number}", "Bash"),))

    chain = Chain(1000, earlier, no_blob)
    assert chain.parent("k999") == 0
    assert asked == [999]
    assert chain.parent("k997") == 997
    assert chain.tool("k998") == "Bash"
    assert asked == [999, 998, 997]


def test_what_was_recorded_is_answered_without_looking() -> None:
    recorded = Recorded("Bash", 17, lambda algorithm, digest: algorithm.encode() + digest)
    assert (recorded.tool("any"), recorded.parent("any"), recorded.parent(None)) == ("Bash", 17, 17)
    assert recorded.blob("sha256", b"x") == b"sha256x"


def unasked(_number: int) -> Event:
    pytest.fail("everything is known")


def no_blob(_algorithm: str, _digest: bytes) -> None:
    return None
