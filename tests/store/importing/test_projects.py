"""Projects are repositories: whatever directory of one a session ran in, and whatever else settings and people say."""

import json
import subprocess
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.formats.core.format import About
from store.importing.projects import Repositories, repository_project
from store.store import Store
from tests.store.formats.rollouts import message, meta, written
from tests.store.importing.sessions import by_source, imported, line, session


def git(folder: Path, *arguments: object) -> None:
    base = ("git", "-C", folder, "-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run([*map(str, base), *map(str, arguments)], check=True, capture_output=True, timeout=60)


def repository(folder: Path, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


def project(directory: Path | str, **said: str) -> str:
    name = str(directory).replace("\\", "/").rstrip("/").rpartition("/")[2]
    return repository_project(Repositories(), About(project=name, extra={"cwd": str(directory), **said}))


def test_gits_own_files_tell(tmp_path: Path) -> None:
    main = repository(tmp_path / "work" / "cli")
    (main / "docs" / "api").mkdir(parents=True)
    git(main, "worktree", "add", "-q", tmp_path / "elsewhere" / "attempt")
    git(main, "worktree", "add", "-q", main / ".worktrees" / "2")
    places = (main, main / "docs" / "api", tmp_path / "elsewhere" / "attempt", main / ".worktrees" / "2")
    assert {project(place) for place in places} == {"cli"}
    assert project(tmp_path / "work") == "work"


@pytest.mark.parametrize(
    "remote", ["git@github.com:acme/shop.git", "https://ada:token@example.com/acme/shop.git/", "ssh://git@host:22/shop"]
)
def test_clones_are_one(tmp_path: Path, remote: str) -> None:
    for name in ("one", "another"):
        clone = repository(tmp_path / name, remote)
        (clone / "src").mkdir()
        assert project(clone) == project(clone / "src") == "shop"
    assert project("/gone/somewhere", repository=remote) == "shop"


def test_a_damaged_repository_is_a_directory(tmp_path: Path) -> None:
    main = repository(tmp_path / "cli")
    (main / ".git" / "config").write_text("[remote\nnothing = here\n\x00")
    assert project(main) == "cli"
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".git").write_bytes(b"\xff\xfe")
    assert project(tmp_path / "file") == "file"


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("/gone/cli/.worktrees/2", "cli"),
        ("/gone/cli/.worktrees/2/docs", "cli"),
        ("/gone/cli/worktrees/feature", "cli"),
        ("/gone/cli/.claude/worktrees/brave-fox", "cli"),
        ("/gone/.codex/worktrees/a1b2/cli", "cli"),
        ("/gone/.codex/worktrees/a1b2/cli/src", "cli"),
        ("/gone/.cursor/worktrees/cli/x9", "cli"),
        ("C:\\work\\cli\\.worktrees\\2", "cli"),
        ("/gone/worktrees", "worktrees"),
        ("/gone/cli", "cli"),
    ],
)
def test_the_shape_of_a_path_tells_where_nothing_else_does(directory: str, expected: str) -> None:
    assert project(directory) == expected


def test_what_is_no_directory_stays() -> None:
    assert repository_project(Repositories(), About(project="chatgpt")) == "chatgpt"
    about = About(project="-home-ada-cli", extra={"cwd": "/gone/x/worktrees/2"}, placed=False)
    assert repository_project(Repositories(), about)


def run_in(store: Store, folder: Path, directory: str, name: str) -> str:
    path = session(folder, line(f"Question {name}", cwd=directory) + b"\n", name)
    imported(store, path)
    return by_source(store, path).project


def test_sessions_of_a_repository_are_one_project(store: Store, tmp_path: Path) -> None:
    assert run_in(store, tmp_path, "/gone/cli", "a") == run_in(store, tmp_path, "/gone/cli/.worktrees/2", "b") == "cli"
    head = meta(cwd="/gone/copy", git={"repository_url": "https://github.com/acme/cli"})
    path = tmp_path / "rollout-2026-03-05T12-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
    path.write_bytes(written(head, message("user", "Go")))
    imported(store, path)
    assert by_source(store, path).project == "cli"


def test_a_moved_project_takes_what_comes_later(store: Store, tmp_path: Path) -> None:
    assert run_in(store, tmp_path, "/gone/shop", "a") == "shop"
    assert run_in(store, tmp_path, "/gone/cli", "b") == "cli"
    editor = Editor(store)
    editor.move_project("shop", "store")
    assert store.catalogue.projects() == ["cli", "store"]
    assert run_in(store, tmp_path, "/gone/shop", "c") == "store"
    # grown sessions stay, and get their better names there
    path = session(tmp_path, line("Question a", cwd="/gone/shop") + b"\n", "a")
    with path.open("ab") as file:
        title: dict[str, object] = {"type": "ai-title", "aiTitle": "Better", "sessionId": "x"}
        file.write(json.dumps(title).encode() + b"\n")
    imported(store, path)
    assert (by_source(store, path).project, by_source(store, path).title) == ("store", "Better")
    # into another one, with names that are there already
    editor.move_project("store", "cli")
    assert run_in(store, tmp_path, "/gone/shop", "d") == "cli"
    names = {entry.name for entry in store.catalogue.page("cli")}
    assert len(names) == 4
    # and back, under their own names
    editor.move_project("cli", "shop")
    assert {entry.name for entry in store.catalogue.page("shop")} == names
    assert run_in(store, tmp_path, "/gone/cli", "e") == "shop"
    assert run_in(store, tmp_path, "/gone/shop", "f") == "shop"


def test_one_that_a_person_moves_moves_no_others(store: Store, tmp_path: Path) -> None:
    run_in(store, tmp_path, "/gone/shop", "a")
    editor = Editor(store)
    editor.move_project("shop", "store")
    (entry,) = store.catalogue.page("store")
    editor.rename(entry.id, "mine", entry.name)
    assert run_in(store, tmp_path, "/gone/shop", "b") == "shop"


@pytest.mark.parametrize("rule", ["/gone/a", "/gone/*", "x*", "github.com/acme/x"])
def test_settings_decide(memory_path: Path, tmp_path: Path, rule: str) -> None:
    root = memory_path / "store"
    root.mkdir()
    (root / "convfs.toml").write_text(f'[projects]\nours = ["{rule}"]\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        head = meta(cwd="/gone/a/x-1", git={"repository_url": "git@github.com:acme/x.git"})
        path = tmp_path / "rollout-2026-03-05T12-00-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
        path.write_bytes(written(head, message("user", "Go")))
        imported(store, path)
        assert by_source(store, path).project == "ours"
        assert run_in(store, tmp_path, "/other/y", "b") == "y"
