"""What conversations are called, and what their titles become as they grow."""

import json
import re
import threading
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.importing.naming import project_name, slug
from store.store import Store
from tests.importing.sessions import SESSION, by_source, event, imported, jp, line, lines, session


@given(st.text())
@example("\U0002070e" * 100)
@example("word " * 100)
@example("x" * 1000)
@example("ẞ ŉ İ")
def test_a_slug_is_a_name_anywhere(title: str) -> None:
    made = slug(title)
    assert len(made.encode()) <= 180
    assert re.fullmatch(r"(?:[^\W_]|\d)[\w-]*|", made), made
    assert not made.endswith("-")
    assert "/" not in made
    assert slug(made) == made or unicodedata.normalize("NFC", made) != made or made.lower() != made


@given(st.text())
@example("..")
@example("a/../b")
@example("\udcff")
@example(" . ")
def test_a_project_is_a_name_anywhere(name: str) -> None:
    made = project_name(name)
    assert made
    assert made not in (".", "..")
    assert len(made.encode()) <= 100
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char == "/" for char in made)


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Fix the login bug", "fix-the-login-bug"),
        ("  Größe & Höhe?! ", "größe-höhe"),
        ("日本語 の タイトル", "日本語-の-タイトル"),
        ("snake_case_name", "snake-case-name"),
        ("../../etc/passwd", "etc-passwd"),
        ("🎉", ""),
        ("a" * 100, "a" * 60),
    ],
)
def test_slugs(title: str, expected: str) -> None:
    assert slug(title) == expected


def names(store: Store) -> list[str]:
    return [f"{conversation.project}/{conversation.name}" for conversation in store.conversations()]


def test_names_are_unique_within_a_project(store: Store, tmp_path: Path) -> None:
    for number in range(4):
        session(tmp_path, lines("Fix the login"), f"a{number}")
    session(tmp_path, line("Fix the login", cwd="/home/ada/other") + b"\n", "b")
    imported(store, tmp_path)
    assert names(store) == [
        "other/2026-03-05-fix-the-login",
        "shop/2026-03-05-fix-the-login",
        "shop/2026-03-05-fix-the-login-2",
        "shop/2026-03-05-fix-the-login-3",
        "shop/2026-03-05-fix-the-login-4",
    ]


def test_a_name_stays_and_a_title_follows(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Fix the login"))
    imported(store, path)
    (before,) = names(store)
    title: dict[str, object] = {"type": "ai-title", "aiTitle": "Login repaired", "sessionId": SESSION}
    for content, expected in (
        (lines("Done.", start=1), "Fix the login"),
        (json.dumps(title).encode() + b"\n", "Login repaired"),
        (lines(*["And on."] * 300, start=2), "Login repaired"),
        (json.dumps(title | {"aiTitle": "Login and logout"}).encode() + b"\n", "Login and logout"),
        (b'{"type":"custom-title","customTitle":"Mine","sessionId":"x"}\n', "Mine"),
        (json.dumps(title).encode() + b"\n", "Mine"),
        (lines("More.", start=400), "Mine"),
    ):
        with path.open("ab") as file:
            file.write(content)
        imported(store, path)
        assert by_source(store, path).title == expected
    assert names(store) == [before]
    again = session(tmp_path, path.read_bytes(), "again")
    imported(store, again)
    assert by_source(store, again).title == "Mine"
    assert by_source(store, again).metadata["titled"] == by_source(store, path).metadata["titled"]


def test_a_title_goes_with_the_lines_that_gave_it(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Fix the login", *["And on."] * 250))
    with path.open("ab") as file:
        file.write(b'{"type":"custom-title","customTitle":"Mine","sessionId":"x"}\n')
    imported(store, path)
    assert by_source(store, path).title == "Mine"
    path.write_bytes(lines("Fix the login", *["And on."] * 250))
    imported(store, path)
    assert by_source(store, path).title == "Fix the login"


def test_a_session_that_began_empty_gets_its_title(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"")
    imported(store, path)
    empty = by_source(store, path)
    assert empty.title == ""
    assert empty.project == "home-ada-shop"
    path.write_bytes(lines("Fix the login"))
    imported(store, path)
    grown = by_source(store, path)
    assert (grown.title, grown.name) == ("Fix the login", empty.name)
    assert grown.created_ms == 1772737200000
    assert grown.metadata["cwd"] == "/home/ada/shop"


def test_the_title_of_a_jp_conversation_changes(store: Store, tmp_path: Path) -> None:
    folder = jp(tmp_path, [event()])
    imported(store, folder)
    assert by_source(store, folder).title == "Fix the login"
    (folder / "metadata.json").write_text('{"title": "Login repaired"}')
    imported(store, folder)
    assert by_source(store, folder).title == "Login repaired"


def test_a_title_costs_no_more_than_the_lines_that_may_give_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that grows by ordinary lines is not described again, nor are its old records read."""
    from store.formats.claude_code.session import ClaudeCode

    path = session(tmp_path, lines("Fix the login", "Done."))
    imported(store, path)

    def about(*_arguments: object) -> None:
        raise AssertionError("described again")

    monkeypatch.setattr(ClaudeCode, "about", about)
    path.write_bytes(lines("Fix the login", "Done.", "And on."))
    assert imported(store, path).grown == 1


def test_two_imports_at_once_do_not_take_each_others_names(store: Store, tmp_path: Path) -> None:
    for number in range(20):
        session(tmp_path, lines("Fix the login", *[f"{number}"] * number), f"a{number}")
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(imported(store, tmp_path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(report.imported for report in reports) == 20
    assert sum(report.unchanged for report in reports) == 60
    assert len(set(names(store))) == store.conversation_count() == 20
