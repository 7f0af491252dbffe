import json

import pytest

from store.artifacts.urls import extract, parse_query
from store.errors import NotFound, UsageError

BODY = json.dumps({"findings": [{"title": "one", "a.b": 1}, {"title": "two"}], "0": "zero", "none": None}).encode()


@pytest.mark.parametrize(
    ("query", "steps"),
    [
        ("findings[0].title", ["findings", 0, "title"]),
        (".findings[1]", ["findings", 1]),
        ("[2][0]", [2, 0]),
        ('findings[0]["a.b"]', ["findings", 0, "a.b"]),
        ("", []),
    ],
)
def test_a_query_is_a_dotted_path(query: str, steps: list[object]) -> None:
    assert parse_query(query) == steps


@pytest.mark.parametrize("query", ["a..b", "a[", "a[x]", "a]", "a.", '["a'])
def test_what_is_no_path_is_refused_where_it_ends(query: str) -> None:
    with pytest.raises(UsageError, match="makes no sense"):
        parse_query(query)


def test_a_part_is_pretty_json() -> None:
    assert json.loads(extract(BODY, ["findings", 1], "agent://0-A")) == {"title": "two"}
    assert extract(BODY, ["findings", "0", "title"], "agent://0-A") == b'"one"\n'
    assert extract(BODY, ["0"], "agent://0-A") == b'"zero"\n'
    assert extract(BODY, ["none"], "agent://0-A") == b"null\n"
    assert json.loads(extract(BODY, [], "agent://0-A")) == json.loads(BODY)


def test_what_is_not_there_is_said_with_what_is() -> None:
    with pytest.raises(NotFound, match=r"no findings\[0\]\.name: findings\[0\] has title, a\.b"):
        extract(BODY, ["findings", 0, "name"], "agent://0-A")
    with pytest.raises(NotFound, match=r"no findings\[2\]: findings is an array of 2"):
        extract(BODY, ["findings", 2], "agent://0-A")
    with pytest.raises(NotFound, match=r"no findings\.x: findings is an array"):
        extract(BODY, ["findings", "x"], "agent://0-A")
    with pytest.raises(NotFound, match="none is null"):
        extract(BODY, ["none", "x"], "agent://0-A")


@pytest.mark.parametrize("body", [b"# Findings\n", b"", b'{"a": 1', b"\xff"])
def test_a_part_needs_json(body: bytes) -> None:
    with pytest.raises(UsageError, match="agent://0-A is not JSON"):
        extract(body, ["a"], "agent://0-A")
