"""Names of conversations, and their titles as they grow."""

import json
import re
import shutil
import sqlite3
import threading
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fusefs.text.render import FileRenderer
from store.conversations.names import project_name, slug
from store.editing.keeper import Keeper
from store.events.event import Kind
from store.importing.exporter import export_native
from store.importing.importer import Importer
from store.store import Store
from store.upkeep.fsck import fsck, reindex
from tests.store.formats.databases import opencode_database
from tests.store.formats.rollouts import SESSION as ROLLOUT
from tests.store.formats.rollouts import event as rollout_event
from tests.store.formats.rollouts import message, meta, written
from tests.store.importing.sessions import SESSION, by_source, event, imported, jp, line, lines, session


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
        ("Let's see what we\u2019ve got, 'quoted'", "lets-see-what-weve-got-quoted"),
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
    return [f"{conversation.project}/{conversation.name}" for conversation in store.library.conversations()]


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


def test_a_title_follows_and_the_name_follows_a_better_one(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, lines("Fix the login"))
    imported(store, path)
    (before,) = names(store)
    title: dict[str, object] = {"type": "ai-title", "aiTitle": "Login repaired", "sessionId": SESSION}
    for content, expected, name in (
        (lines("Done.", start=1), "Fix the login", "fix-the-login"),
        (json.dumps(title).encode() + b"\n", "Login repaired", "login-repaired"),
        (lines(*["And on."] * 300, start=2), "Login repaired", "login-repaired"),
        (json.dumps(title | {"aiTitle": "Login and logout"}).encode() + b"\n", "Login and logout", "login-repaired"),
        (b'{"type":"custom-title","customTitle":"Mine","sessionId":"x"}\n', "Mine", "mine"),
        (json.dumps(title).encode() + b"\n", "Mine", "mine"),
        (b'{"type":"custom-title","customTitle":"Still mine","sessionId":"x"}\n', "Still mine", "mine"),
        (lines("More.", start=400), "Still mine", "mine"),
    ):
        with path.open("ab") as file:
            file.write(content)
        imported(store, path)
        assert by_source(store, path).title == expected
        assert names(store) == [f"shop/2026-03-05-{name}"]
    for earlier in (before, "shop/2026-03-05-login-repaired"):
        found = store.library.find(*earlier.split("/"))
        assert found is not None
        assert found.id == by_source(store, path).id
    again = session(tmp_path, path.read_bytes(), "again")
    imported(store, again)
    assert by_source(store, again).title == "Still mine"
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


def test_an_empty_file_is_no_conversation_until_there_is_something(store: Store, tmp_path: Path) -> None:
    path = session(tmp_path, b"")
    assert Importer(store).run([tmp_path]).skipped == 1
    assert store.library.conversations() == []
    path.write_bytes(lines("Fix the login"))
    imported(store, path)
    assert names(store) == ["shop/2026-03-05-fix-the-login"]


def begun(*, codex: bool) -> list[bytes]:
    """Return what a session is written in, a piece at a time."""
    if codex:
        pieces = [written(meta())[:40], written(meta()), written(message("user", "Fix the login"))]
        return [
            pieces[0],
            pieces[1][40:],
            pieces[2],
            written(rollout_event("thread_name_updated", thread_name="The login")),
        ]
    mode = json.dumps({"type": "mode", "mode": "default", "sessionId": SESSION}).encode() + b"\n"
    title: dict[str, object] = {"type": "ai-title", "aiTitle": "The login", "sessionId": SESSION}
    return [mode[:40], mode[40:], lines("Fix the login"), json.dumps(title).encode() + b"\n"]


@pytest.mark.parametrize("codex", [True, False])
def test_a_session_that_was_imported_when_it_began_is_named_when_it_tells_what_it_is(
    store: Store, tmp_path: Path, *, codex: bool
) -> None:
    rollout = tmp_path / f"sessions/2026/11/22/rollout-2026-11-22T08-18-20-{ROLLOUT}.jsonl"
    rollout.parent.mkdir(parents=True)
    path = rollout if codex else session(tmp_path, b"")
    seen: list[str] = []
    for number, piece in enumerate(begun(codex=codex)):
        with path.open("ab") as file:
            file.write(piece)
        imported(store, path)
        if number == 0:
            Keeper(store).relabel(by_source(store, path).id, add=["mine"])
        [name] = names(store)
        seen += [name] if name not in seen else []
    day = "2026-04-13" if codex else "2026-03-05"
    assert seen[0].split("/")[0] == ("codex" if codex else "home-ada-shop")
    assert seen[-2:] == [f"shop/{day}-fix-the-login", f"shop/{day}-the-login"]
    [talk] = store.library.conversations()
    assert talk.labels == ["mine"]
    for name in seen:
        found = store.library.find(*name.split("/"))
        assert found is not None
        assert found.id == talk.id
    # none of these names is given to another one
    other = session(tmp_path, line("Fix the login", uuid="x", sessionId="y") + b"\n", "other", "-home-ada-other")
    imported(store, other)
    taken = f"2026-03-05-fix-the-login{'' if codex else '-2'}"
    assert f"{by_source(store, other).project}/{by_source(store, other).name}" == f"shop/{taken}"


def test_who_names_a_conversation_has_named_it_for_good(store: Store, tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b", "c")):
        path = session(tmp_path, lines(f"Question {number}"), name)
        imported(store, path)
        conversation = by_source(store, path)
        if name == "a":
            Keeper(store).rename(conversation.id, "mine", "own")
        if name == "b":
            Keeper(store).describe(conversation.id, {"title": "Own"})
        with path.open("ab") as file:
            file.write(b'{"type":"custom-title","customTitle":"Better","sessionId":"x"}\n')
        imported(store, path)
    assert names(store) == ["mine/own", "shop/2026-03-05-better", "shop/2026-03-05-own"]
    assert store.library.find("shop", "2026-03-05-question-0") is None
    # also after the index was made anew
    copy = tmp_path / "copy"
    shutil.copytree(store.root, copy, ignore=shutil.ignore_patterns("lock"))
    reindex(copy, FileRenderer())
    with Store.open(copy, renderer=FileRenderer()) as again:
        found = again.library.find("shop", "2026-03-05-question-2")
        assert found is not None
        assert found.name == "2026-03-05-better"
        Keeper(again).forget_name(found.id, "shop", "2026-03-05-question-2")
        assert again.library.find("shop", "2026-03-05-question-2") is None
        assert fsck(again) == []


def test_a_session_of_a_database_is_named_when_its_title_comes(store: Store, tmp_path: Path) -> None:
    home = tmp_path / "opencode.db"
    opencode_database(home)
    title = "New session - 2026-03-05T19:31:54.356Z"
    with closing(sqlite3.connect(home)) as database:
        database.execute("UPDATE session SET title = ?", (title,))
        database.commit()
        imported(store, home)
        before = names(store)
        assert any("new-session" in name for name in before)
        database.execute("UPDATE session SET title = 'Fix the login'")
        database.commit()
    imported(store, home)
    assert all("fix-the-login" in name for name in names(store))
    found = [store.library.find(*name.split("/")) for name in before]
    assert sorted(one.id for one in found if one) == sorted(one.id for one in store.library.conversations())


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
    assert len(set(names(store))) == len(store.catalogue.page()) == 20


def test_a_summary_of_another_session_is_neither_its_name_nor_an_event(store: Store, tmp_path: Path) -> None:
    other = {"type": "summary", "summary": "Another session's {title}", "leafUuid": "elsewhere"}
    own = {"type": "summary", "summary": "Its own title", "leafUuid": "u2"}
    said = [line("", number) for number in range(1, 4)]
    for name, summaries in (("a", [other]), ("b", [other, own])):
        (tmp_path / f"{name}.jsonl").write_bytes(
            b"\n".join([*(json.dumps(one).encode() for one in summaries), *said]) + b"\n"
        )
    Importer(store).run([tmp_path])
    foreign, both = (by_source(store, tmp_path / f"{name}.jsonl") for name in "ab")
    assert "Another" not in foreign.title + both.title
    assert both.title == "Its own title"
    kinds = [[row.kind for row in store.records.rows(one.head)][:2] for one in (foreign, both)]
    assert kinds[0][0] is Kind.RECORD
    assert kinds[1] == [Kind.RECORD, Kind.SUMMARY]
    [exported] = export_native(store, both, tmp_path / "out")
    assert exported.read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert fsck(store) == []
