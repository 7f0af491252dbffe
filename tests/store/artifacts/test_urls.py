"""URLs within a store: where they lead, and what is said where they lead nowhere."""

import hashlib
import json

import pytest

from store.artifacts.urls import Urls, parse_url
from store.commit.request import Request
from store.errors import NotFound, UsageError
from store.events.conversation import AGENTS, ARTIFACTS, Outputs
from store.ids import hash_bytes
from store.store import Store

LINES = [f"line {number}\n" for number in range(1, 1001)]
FINDINGS = {"findings": [{"title": "one"}, {"title": "two"}]}


def write(store: Store, context: int, outputs: Outputs, asked: str, data: bytes, *, end: bool = True) -> None:
    artifacts = store.artifacts
    name = artifacts.begin(context, outputs, asked)
    artifacts.add(context, outputs, name, data)
    if end:
        artifacts.end(context, outputs, name)


def read(store: Store, url: str, context: int = 0, *, offset: int = 0, limit: int = 0) -> str:
    urls = Urls(store.library, store.artifacts, store.addresses.reader)
    return b"".join(urls.read(parse_url(url), context, offset=offset, limit=limit)).decode()


@pytest.fixture
def filled(store: Store, context: int) -> int:
    write(store, context, ARTIFACTS, "make", "".join(LINES).encode())
    write(store, context, ARTIFACTS, "10.bash.log", b"no newline at its end", end=False)
    write(store, context, ARTIFACTS, "2.empty.log", b"")
    write(store, context, AGENTS, "Explore", b"# Found\n\nnothing\n")
    write(store, context, AGENTS, "Review", json.dumps(FINDINGS).encode())
    write(store, context, AGENTS, "0-Explore.Child", b"[1, [2, 3]]")
    return context


def test_each_leads_to_what_it_names(store: Store, filled: int) -> None:
    assert read(store, "artifact://0", filled) == "".join(LINES)
    assert read(store, "artifact://10", filled) == "no newline at its end"
    assert read(store, "artifact://2", filled) == ""
    assert read(store, "agent://0-Explore", filled) == "# Found\n\nnothing\n"
    assert read(store, "agent://0-Explore.0-Child", filled) == "[1, [2, 3]]"
    assert read(store, "AGENT://0%2DExplore", filled) == "# Found\n\nnothing\n"


def test_parts_of_an_agents_json(store: Store, filled: int) -> None:
    assert json.loads(read(store, "agent://1-Review/findings/1", filled)) == {"title": "two"}
    assert json.loads(read(store, "agent://1-Review?q=findings[0].title", filled)) == "one"
    assert json.loads(read(store, "agent://1-Review?q=.findings%5B1%5D", filled)) == {"title": "two"}
    assert json.loads(read(store, "agent://0-Explore.0-Child?q=[1][0]", filled)) == 2
    assert json.loads(read(store, "agent://1-Review?q=", filled)) == FINDINGS


@pytest.mark.parametrize("offset", [1, 2, 999, 1000])
@pytest.mark.parametrize("limit", [0, 1, 2, 5000])
def test_lines_are_counted_from_one(store: Store, filled: int, offset: int, limit: int) -> None:
    expected = "".join(LINES[offset - 1 :][: limit or None])
    assert read(store, "artifact://0", filled, offset=offset, limit=limit) == expected


def test_lines_of_what_ends_without_a_newline_or_is_empty(store: Store, filled: int) -> None:
    assert read(store, "artifact://10", filled, offset=1, limit=3) == "no newline at its end"
    assert read(store, "artifact://2", filled, offset=1) == ""
    for url, offset, lines in (("artifact://0", 1001, 1000), ("artifact://10", 2, 1), ("artifact://2", 2, 0)):
        with pytest.raises(NotFound, match=f"{url} has {lines} lines: there is no line {offset}"):
            read(store, url, filled, offset=offset)


def test_paging_goes_through_content_of_many_pieces(store: Store, context: int) -> None:
    lines = [f"{number:06}: {'x' * (number % 500)}\n" for number in range(20_000)]
    write(store, context, ARTIFACTS, "make", "".join(lines).encode())
    for offset, limit in ((1, 3), (7_000, 1), (12_345, 5_000), (19_999, 9), (1, 20_000)):
        assert read(store, "artifact://0", context, offset=offset, limit=limit) == "".join(
            lines[offset - 1 : offset - 1 + limit]
        )


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("artifact://1", r"artifact://1 not found in project/talk: there is 0, 2, 10$"),
        ("agent://Explore", r"not found in project/talk: there is 0-Explore, 0-Explore.0-Child, 1-Review$"),
        ("agent://1-Review?q=findings[7]", r"agent://1-Review has no findings\[7\]: findings is an array of 2"),
        ("agent://1-Review/nothing", "agent://1-Review has no nothing: it has findings"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(store: Store, filled: int, url: str, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        read(store, url, filled)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("artifact://make", "ids of artifacts are numbers"),
        ("artifact://0.make", "ids of artifacts are numbers"),
        ("artifact://-1", "ids of artifacts are numbers"),
        ("artifact://", "names nothing"),
        ("artifact://0?q=a", "parts can be taken of agent:// alone"),
        ("agent://", "names nothing"),
        ("agent://1-Review/a?q=b", r"both a path and \?q="),
        ("agent://1-Review?q=a..b", "makes no sense at '..b'"),
        ("agent://0-Explore/a", "agent://0-Explore is not JSON"),
        ("blob:sha256:12ab", "has 4 hexadecimal digits: 64 are needed"),
        ("blob:md5:" + "0" * 32, "leads to nothing"),
        ("http://example.com", "leads to nothing"),
        ("0", "leads to nothing"),
    ],
)
def test_what_makes_no_sense_is_told(store: Store, filled: int, url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read(store, url, filled)


def test_an_extraction_has_no_lines(store: Store, filled: int) -> None:
    for url in ("agent://1-Review/findings", "agent://1-Review?q=findings"):
        for paging in ({"offset": 1}, {"limit": 1}):
            with pytest.raises(UsageError, match="--offset and --limit go without"):
                read(store, url, filled, **paging)
    assert read(store, "agent://1-Review", filled, offset=1, limit=1) == json.dumps(FINDINGS)


def test_where_nothing_was_kept_there_is_no_directory(store: Store, context: int) -> None:
    for url in ("artifact://0", "agent://0-A"):
        with pytest.raises(NotFound, match="no artifacts directory: nothing was kept beside project/talk"):
            read(store, url, context)
    write(store, context, AGENTS, "A", b"x")
    with pytest.raises(NotFound, match="artifact://0 not found in project/talk: there are none"):
        read(store, "artifact://0", context)


def test_blobs_by_either_hash(store: Store) -> None:
    data = b"content that somebody refers to"
    digest, foreign = store.intake.put(data), hashlib.sha256(data).digest()
    assert read(store, f"blob:blake3:{digest.hex()}") == data.decode()
    with pytest.raises(NotFound, match="is missing: this store has no such content"):
        read(store, f"blob:sha256:{foreign.hex()}")
    store.writer.submit(Request(0, move_head=False, aliases=(("sha256", foreign, digest),)))
    assert read(store, f"blob:sha256:{foreign.hex().upper()}") == data.decode()
    with pytest.raises(NotFound, match="is missing"):
        read(store, f"blob:blake3:{hash_bytes(b'another').hex()}")


def test_content_that_is_missing_is_told(store: Store, context: int) -> None:
    store.contexts.set_metadata(context, {"artifact/3.x.log": {"blob": "ab" * 32, "size": 5, "modified_ns": 0}})
    with pytest.raises(NotFound, match=r"artifacts/3\.x\.log, whose content is missing: no blob abab"):
        read(store, "artifact://3", context)


def test_who_has_an_id(store: Store, filled: int) -> None:
    other = store.contexts.create(metadata={"project": "project", "name": "other"}).context
    write(store, other, ARTIFACTS, "x", b"x")
    urls = Urls(store.library, store.artifacts, store.addresses.reader)
    assert urls.holders(parse_url("artifact://0")) == [filled, other]
    assert urls.holders(parse_url("agent://1-Review/x")) == [filled]
    assert urls.holders(parse_url("artifact://77")) == []
