"""The meaning of queries."""

import pytest

from store.errors import UsageError
from store.events.event import Kind
from store.search.query import Query, parse
from store.search.terms import Text

NOW = 1_772_742_714_000
"""2026-03-05, half past eight in the evening."""
DAY = 86_400_000
MIDNIGHT = NOW - NOW % DAY


def fits(query: str, text: str) -> bool:
    asked = parse(query, NOW)
    searched = Text(text)
    return all(any(True for _ in one.lines(searched)) for one in asked.terms) and not any(
        True for one in asked.without for _ in one.lines(searched)
    )


@pytest.mark.parametrize(
    ("query", "found", "not_found"),
    [
        ("reset connection", "the connection\nwas reset", "the connection"),
        ("RESET", "RESET", "reset"),
        ("reset", "RESET", "rest"),
        ('"reset by" peer', "peer: reset by", "by peer: reset"),
        ("/re.et\\b/", "Reset", "resets"),
        ("/\\S+T/", "aT", "at"),
        ("/home/ada/x.py", "in /home/ada/x.py:", "home ada x.py"),
        ("/a b/", "a b", "ab"),
        ("reset -peer", "reset", "reset by peer"),
        ("--flag", "a --flag", "a flag"),
        ("-- x", "x --", "x"),
        ('say"hi', 'say"hi', "sayhi"),
        ('"never closed', '"never closed', "never closed"),
        ("http://a.b", "http://a.b/c", "a.b"),
        ('"owner:ada"', "owner:ada", "ada"),
        ("std::move", "std::move", "move"),
        ("c:\\x", "in c:\\x", "x"),
        ("PR:fix", "PR:fix", "fix"),
        ("OR2 or", "OR2 or", "OR2"),
        ('"OR"', "x OR y", "x y"),
        ("project:", "project:", "x"),
        ("straße", "STRASSE", "strase"),
        ("x -/y+/", "x", "x y"),
    ],
)
def test_words_phrases_expressions(query: str, found: str, not_found: str) -> None:
    assert fits(query, found)
    assert not fits(query, not_found)


def test_filters() -> None:
    asked = parse('project:shop* -project:"shop old" label:bug tool:bash uri:Main.py role:assistant -role:call', NOW)
    wanted, unwanted, label = asked.conversation
    assert [one.fits("SHOP-2") for one in (wanted, unwanted)] == [True, True]
    assert [one.fits("shop old") for one in (wanted, unwanted)] == [True, False]
    assert [one.fits("a shop") for one in (wanted, unwanted)] == [False, True]
    assert label.fits("x", "Bug")
    assert not label.fits()
    tool, uri = asked.event
    assert tool.fits("Bash")
    assert not tool.fits("BashOutput")
    assert uri.fits("file:///src/main.py#L1")
    assert [asked.of("project"), asked.of("uri")] == [[wanted], [uri]]
    assert asked.kinds == {Kind.ASSISTANT, Kind.REASONING, Kind.QUESTION}
    assert asked.terms == ()


@pytest.mark.parametrize(
    ("query", "time_ms"),
    [
        ("after:2026-03-05", MIDNIGHT),
        ("after:2026-03", MIDNIGHT - 4 * DAY),
        ("after:2026", MIDNIGHT - 63 * DAY),
        ("after:today", MIDNIGHT),
        ("after:yesterday", MIDNIGHT - DAY),
        ("after:7", MIDNIGHT - 7 * DAY),
        ("after:1000d", MIDNIGHT - 1000 * DAY),
        ("after:2w", MIDNIGHT - 14 * DAY),
        ("after:1Y", MIDNIGHT - 365 * DAY),
        ("after:12h", NOW - DAY // 2),
        ("after:2026-03-05T06:00:00", MIDNIGHT + DAY // 4),
        ("after:2026-03-05T06:00:00+06:00", MIDNIGHT),
        ("after:2026 after:7", MIDNIGHT - 7 * DAY),
    ],
)
def test_days(query: str, time_ms: int) -> None:
    assert parse(query, NOW).after_ms == time_ms
    assert parse(query.replace("after", "before"), NOW).before_ms in (time_ms, MIDNIGHT - 63 * DAY)
    assert parse(query, NOW).in_time(time_ms)
    assert not parse(query, NOW).in_time(time_ms - 1)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "  ",
        '""',
        "-x",
        "/(/",
        "role:boss",
        "after:never",
        "before:2026-13",
        "-after:7",
        "after:9999999d",
        "x" * 20_000,
    ],
)
def test_what_cannot_be_asked(query: str) -> None:
    with pytest.raises(UsageError):
        parse(query, NOW)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("prject:shop", r"no filter prject: \(the nearest is project:\).*\"prject:shop\""),
        ("-titel:x", "the nearest is title:"),
        ('lable:"a b"', "the nearest is label:"),
        ("kind:boss", "it is one of user, assistant, .*call"),
        ("is:open", "it is one of subagent, fork, pinned, archived"),
        ("OR x", "OR stands between two"),
        ("x OR", "OR stands between two"),
        ("x OR OR y", "OR stands between two"),
        ('x OR ""', "OR stands between two"),
    ],
)
def test_what_is_wrong_is_said(query: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(query, NOW)


def test_or_binds_closer_than_a_space() -> None:
    asked = parse("a b OR c OR role:user -d", NOW)
    assert [len(asked.terms), len(asked.without), len(asked.either)] == [1, 1, 1]
    words, more, role = asked.either[0]
    assert [len(words.terms), len(more.terms), role.kinds] == [1, 1, {Kind.USER, Kind.ANSWER}]


def test_a_kind_is_one_of_those_of_files() -> None:
    assert parse("kind:assistant", NOW).kinds == {Kind.ASSISTANT}
    assert parse("kind:call OR kind:result", NOW).either[0][1].kinds == {Kind.TOOL_RESULT}


def test_nothing_is_asked_for_by_a_query_without_terms() -> None:
    assert parse("role:user", NOW) == Query(kinds=frozenset((Kind.USER, Kind.ANSWER)))
