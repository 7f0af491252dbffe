"""Times, MIME types, URIs, titles, base64."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats.core.format import first_line
from store.formats.core.media import file_uri, from_base64, mime_of, suffix_of
from store.formats.core.times import milliseconds
from store.formats.jp import plain_text


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-01-20T04:15:00.614Z", 1768882500614),
        ("2026-01-20T05:15:00.614+01:00", 1768882500614),
        ("2026-01-20 04:15:00.6149", 1768882500614),
        ("2026-01-20 04:15:00", 1768882500000),
        ("1969-12-31T23:59:59Z", 0),
        ("0001-01-01T00:00:00+23:59", 0),
        ("yesterday", 0),
        (1768882500614, 0),
        (None, 0),
    ],
)
def test_timestamps(stamp: object, expected: int) -> None:
    assert milliseconds(stamp) == expected


@pytest.mark.parametrize(
    ("path", "mime", "uri"),
    [
        ("/project/src/main.rs", "text/x-rust", "file:///project/src/main.rs"),
        ("/a b/100%/ü.MD", "text/markdown", "file:///a%20b/100%25/%C3%BC.MD"),
        ("C:\\code\\app.py", "text/x-python", "file:///C:/code/app.py"),
        ("notes", "text/plain", "file:///notes"),
        ("/x.d/Makefile", "text/plain", "file:///x.d/Makefile"),
        ("/what?#.txt", "text/plain", "file:///what%3F%23.txt"),
    ],
)
def test_files(path: str, mime: str, uri: str) -> None:
    assert mime_of(path) == mime
    assert file_uri(path) == uri


@pytest.mark.parametrize(
    ("mime", "suffix"),
    [
        ("image/png", "png"),
        ("image/svg+xml", "svg"),
        ("text/plain; charset=utf-8", "txt"),
        ("", "bin"),
        ("a/b-c", "bin"),
    ],
)
def test_suffixes(mime: str, suffix: str) -> None:
    assert suffix_of(mime) == suffix


def test_base64_of_bytes() -> None:
    assert from_base64("aGk=") == b"hi"
    assert from_base64("a") is None
    assert from_base64("ü") is None


@given(st.text())
def test_what_jp_encodes_is_decoded(text: str) -> None:
    assert plain_text(base64.b64encode(text.encode()).decode()) == text


@given(st.text(alphabet="ABCDwQgAEx019+/= \n-_ü", max_size=12))
def test_only_canonical_base64_of_text_is_decoded(text: str) -> None:
    plain = plain_text(text)
    if plain is not None:
        assert base64.b64encode(plain.encode()).decode() == text


@pytest.mark.parametrize("text", ["YQ", "YR==", "YQ==\n", "/w==", "a b=", "====", "YQ=="[:3] + "A"])
def test_other_strings_stand_for_themselves(text: str) -> None:
    assert plain_text(text) is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n\n  # Fix   the *login*\nplease", "Fix the *login"),
        ("Implement the following plan:\n\n# Plan: log in\n\ntext", "Implement the following plan: Plan: log in"),
        ("only:", "only:"),
        ("", ""),
        ("---\n- a", "a"),
        ("<user_query>\nrun ls\n</user_query>", "run ls"),
        ("<timestamp>Sunday</timestamp>\n<user_query>\nGo on\n</user_query>", "Go on"),
        ("<USER_REQUEST>\nList the files.\n</USER_REQUEST>\n<SETTINGS>\nlight\n</SETTINGS>", "List the files."),
        ("<system-reminder>be brief</system-reminder>\n\nfix it", "fix it"),
        ("<git-context>\nOn main\n</git-context>", "On main"),
        ("[[ ## user_query ## ]]\n\nReply.", "Reply."),
        ("[[ ## user_query ## ]]", "[[ ## user_query ## ]]"),
        ("<br> or <p> in a list?", "<br> or <p> in a list?"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert first_line(text) == title


def test_long_titles_are_cut() -> None:
    title = first_line("word " * 100)
    assert len(title) <= 120
    assert title.endswith("…")
