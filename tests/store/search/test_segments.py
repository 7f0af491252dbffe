"""Segments of words: what may be found in them, as they are added and merged, against looking."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import DamageError
from store.index.database import Database
from store.search.collecting import Collected, joined
from store.search.folding import fold
from store.search.follower import SEARCH
from store.search.needs import Every, all_of, literal, one_of
from store.search.segments import Segments, _Segment, made
from store.search.words import END

SYLLABLES = ("ba", "Ce", "di", "fo", "gu", "-", " ", " ", "\n", "é", "\u2014", "東", "京", "0123456789" * 8)
RANK = 1 << 36


@pytest.fixture
def segments(memory_path: Path) -> Iterator[Segments]:
    db = Database(memory_path / "search.db", boot="this", schema=SEARCH)
    yield Segments(db)
    with suppress(DamageError):
        db.close()


def add(segments: Segments, texts: dict[int, str], first: int, more: list[str]) -> None:
    collected = Collected()
    for number, text in enumerate(more):
        if number:
            collected.next()
        collected.add(text.encode())
    with segments.db.writing() as sql:
        segments.add(sql, first, made(collected, len(more)))
    texts.update(enumerate(more, first))


def says(need: Every, text: str) -> bool:
    return all(one in text for one in need.literals) and all(
        any(says(one, text) for one in choice) for choice in need.either
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_block_is_missed(segments: Segments, seed: int) -> None:
    chance = random.Random(seed)

    def text(most: int) -> str:
        return "".join(chance.choices(SYLLABLES, k=chance.randrange(1, most)))

    texts: dict[int, str] = {}
    nexts = {RANK: RANK, 2 * RANK: 2 * RANK}
    looked, beside = 0, 0
    for _round in range(150):
        rank = chance.choice([*nexts])
        more = [text(30) for _ in range(chance.randrange(1, 12))]
        add(segments, texts, nexts[rank], more)
        nexts[rank] += len(more)
        for _ in range(chance.randrange(3)):
            segments.merge()
        some = [literal(text(4)) for _ in range(3)]
        need = chance.choice([some[0], all_of(some[:2]), one_of(some[:2]), all_of([some[0], one_of(some[1:])])])
        if need.vacuous:
            continue
        first, below = sorted(chance.sample(range(RANK, 2 * RANK + 500, RANK // 9), 2))
        for start, end in ((RANK, 3 * RANK), (first, below), (RANK, max(texts) - 3)):
            found = list(segments.blocks(need, start, end))
            assert found == sorted(set(found), reverse=True)
            right = {block for block, said in texts.items() if start <= block < end and says(need, fold(said))}
            if start == RANK:
                assert right <= set(found)
                looked, beside = looked + len(right), beside + len(found) - len(right)
    assert beside < 2 * looked
    while segments.merge():
        pass
    assert segments.span == len(texts)
    [[count]] = segments.db.query("SELECT count(*) FROM segments")
    assert count <= 2 * 3 * 8


def test_words_that_do_not_follow_each_other_are_not_looked_at(segments: Segments) -> None:
    chance = random.Random(2)
    words = [f"word{number}" for number in range(60)]
    texts: dict[int, str] = {}
    for number in range(200):
        more = [" ".join(["here", *chance.sample(words, 12), "there", "is"]) for _ in range(20)]
        add(segments, texts, RANK + 20 * number, more)
    add(segments, texts, RANK + 4000, ["here there, at last"])
    for _round in range(2):
        assert list(segments.blocks(literal(" here there,"), RANK, 2 * RANK))[:1] == [RANK + 4000]
        assert len(list(segments.blocks(literal(" here there,"), RANK, 2 * RANK))) < 2000
        assert len(list(segments.blocks(literal(" here word7 "), RANK, 2 * RANK))) < 3500
        while segments.merge():
            pass
    assert len(list(segments.blocks(all_of([literal(" here "), literal(" there ")]), RANK, 2 * RANK))) == 4001


def test_a_word_in_one_block_spares_looking_up_the_shorter_ones(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: dict[int, str] = {}
    common = " ".join(f"filler{number:04}" for number in range(3000))
    add(segments, texts, RANK, [f"in any of them, {common}, {rare}" for rare in ("heliotropes", *[""] * 8)])
    looked_up: list[int] = []
    part = segments._part
    monkeypatch.setattr(segments, "_part", lambda segment, number: looked_up.append(number) or part(segment, number))
    need = all_of([literal(" in "), literal(" any "), literal("heliotropes"), literal("filler0007")])
    assert list(segments.blocks(need, RANK, 2 * RANK)) == [RANK]
    # the words that come behind "filler" stand in the last part
    assert len(looked_up) == 1
    assert looked_up != [0]


def test_of_very_many_segments_a_few_are_merged_at_a_time(segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[int, str] = {}
    for number in range(100):
        add(segments, texts, RANK + number, [f"all of them, but word{number}"])
    merged: list[int] = []
    merging = segments._merged
    monkeypatch.setattr(segments, "_merged", lambda some: merged.append(len(some)) or merging(some))
    while segments.merge():
        pass
    assert max(merged) == 16
    assert len(segments.db.query("SELECT id FROM segments")) <= 4
    assert list(segments.blocks(literal("of them"), RANK, 2 * RANK)) == sorted(texts, reverse=True)
    assert list(segments.blocks(literal("word77"), RANK, 2 * RANK)) == [RANK + 77]


def test_what_is_merged_while_somebody_reads_is_told_once(segments: Segments) -> None:
    texts: dict[int, str] = {}
    for number in range(40):
        add(segments, texts, RANK + 2 * number, [f"one word{number}", f"another {number}"])
    found = segments.blocks(literal("word"), RANK, 2 * RANK)
    seen = [next(found) for _ in range(11)]
    while segments.merge():
        pass
    seen += found
    assert seen == [RANK + 2 * number for number in reversed(range(40))]


def test_of_more_segments_than_are_kept_those_that_a_search_reads_last_are_read_anew(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: dict[int, str] = {}
    for number in range(40):
        add(segments, texts, RANK + number, [f"all of them, but word{number:02}"])
    monkeypatch.setattr(
        "store.search.segments._KEPT_BYTES", 10 * len(joined([b"all", b"but", b"of", b"them", b"word00"]))
    )
    read: list[int] = []
    reading = segments._read
    monkeypatch.setattr(segments, "_read", lambda row: read.append(row[1] - RANK) or reading(row))
    for _search in range(3):
        read.clear()
        assert list(segments.blocks(literal("of them"), RANK, 2 * RANK)) == sorted(texts, reverse=True)
    assert read == [*reversed(range(30))]
    while segments.merge():
        pass
    assert list(segments.blocks(literal("word39"), RANK, 2 * RANK)) == [RANK + 39]
    assert segments._held == sum(len(segment.words) for segment in segments._kept.values())
    assert len(segments._kept) <= len(segments.db.query("SELECT id FROM segments"))


def test_a_rare_piece_of_a_word_and_what_is_damaged(segments: Segments) -> None:
    texts: dict[int, str] = {}
    add(segments, texts, RANK, [f"zebra cle guplan {number * 7919:x}" for number in range(3000)] + ["xzebraclegupla"])
    assert list(segments.blocks(literal("braclegu"), RANK, 2 * RANK)) == [RANK + 3000]
    assert len(list(segments.blocks(literal("cle gup"), RANK, 2 * RANK))) == 3000
    with segments.db.writing() as sql:
        sql.execute("UPDATE parts SET data = zeroblob(20) WHERE part = 0")
    with pytest.raises(DamageError, match="damaged"):
        list(segments.blocks(literal("1eef"), RANK, 2 * RANK))
    assert segments.db.damaged


WORDS = st.text(alphabet="ab_é東", min_size=1, max_size=4).map(str.encode)


@given(st.sets(WORDS, min_size=1), WORDS, st.booleans(), st.booleans())
def test_the_words_with_a_piece_are_told(words: set[bytes], piece: bytes, begins: bool, ends: bool) -> None:
    piece = END * begins + piece + END * ends
    expected = [number for number, word in enumerate(sorted(words)) if piece in END + word + END]
    segment = _Segment(1, 0, 1, joined(sorted(words)), {0: 0})
    assert list(segment.with_piece(piece)) == expected


def test_words_are_numbered_however_many_there_are() -> None:
    words = sorted(f"word{number}x".encode() for number in range(10_000))
    segment = _Segment(1, 0, 1, joined(words), {0: 0})
    for place in (9_999, 0, 5_000, 2_345, 2_346):
        assert list(segment.with_piece(END + words[place] + END)) == [place]
        assert list(segment.with_piece(words[place][4:] + END)) == [
            number for number, word in enumerate(words) if word.endswith(words[place][4:])
        ]
