"""Runs of subagents are in the conversation that started them; warm-ups and empty sessions are beside the others."""

import base64
import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.tree.node import Directory
from fusefs.tree.router import Router
from fusefs.tree.tree import Tree
from store.conversations.places import Places
from store.editing.editor import Editor
from store.importing.importer import Importer
from store.store import Store
from tests.fusefs.tree.mounting import Mounted, add, errno_of, mounted, new_store, until, user

PARENT = "11111111-1111-4111-8111-111111111111"
MAIN, FIRST, SECOND = "2026-03-05-fix-the-login", "2026-03-05-look-for-callers", "2026-03-05-read-the-tests"
INSIDE = f"conversations/shop/{MAIN}/subagents"
BESIDE = f"transcripts/shop/{MAIN}"


def said(*texts: str, session: str = PARENT, agent: str = "") -> bytes:
    """Return the lines of a session, or of a subagent's run in it; every other is the model's."""
    lines = []
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        content: object = [{"type": "text", "text": text}] if number % 2 else text
        record = {
            "type": role,
            "message": {"role": role, "content": content},
            "uuid": f"{agent}{number}",
            "parentUuid": f"{agent}{number - 1}" if number else None,
            "isSidechain": bool(agent),
            "sessionId": session,
            "cwd": "/home/ada/shop",
            "timestamp": f"2026-03-05T12:00:{number:02}.000Z",
        }
        lines.append(json.dumps(record | ({"agentId": agent} if agent else {})))
    return "\n".join([*lines, ""]).encode()


def write(folder: Path, **files: bytes) -> Path:
    """Write sessions as Claude Code keeps them: runs of subagents beside their session, as it first did."""
    project = folder / "projects" / "-home-ada-shop"
    project.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (project / f"{name.replace('_', '-')}.jsonl").write_bytes(content)
    return folder


def sessions(folder: Path) -> Path:
    write(
        folder,
        agent_a1=said("Look for callers", "There are two", agent="a1"),
        agent_a2=said("Read the tests", "They pass", agent="a2"),
        agent_w1=said("Warmup", "Ready inside", agent="w1"),
        agent_w2=said("Warmup", "Ready alone", session="99999999-9999-4999-8999-999999999999", agent="w2"),
        agent_o1=said("Only here", "Alone", session="99999999-9999-4999-8999-999999999999", agent="o1"),
    )
    (folder / "projects" / "-home-ada-shop" / f"{PARENT}.jsonl").write_bytes(said("Fix the login", "Done"))
    empty = {"type": "system", "subtype": "informational", "content": "a lonely notice", "uuid": "x"}
    line = {**empty, "sessionId": "e", "parentUuid": None, "isSidechain": False, "cwd": "/home/ada/shop"}
    write(folder, **{"22222222-2222-4222-8222-222222222222": json.dumps(line).encode() + b"\n"})
    return folder


@pytest.fixture
def filled(store_path: Path, tmp_path: Path) -> Path:
    with new_store(store_path) as store:
        report = Importer(store).run([sessions(tmp_path)])
        assert report.errors == []
    return store_path


@pytest.fixture
def mount(filled: Path) -> Iterator[Mounted]:
    with mounted(filled) as mount:
        yield mount


def listed(mount: Mounted, path: str) -> list[str]:
    return sorted(os.listdir(mount.root / path))


def test_a_listing_shows_what_a_person_had(mount: Mounted) -> None:
    people = [MAIN, "2026-03-05-only-here"]
    assert [name for name in listed(mount, "conversations/shop") if not name.startswith(".")] == people
    assert mount.run("ls", "conversations/shop").stdout.split() == people
    assert listed(mount, "recent") == people
    assert sorted(mount.shell("ls by-date/2026/03/05").split()) == people
    assert mount.run("ls", "transcripts/shop").stdout.split() == [MAIN, *(f"{name}.md" for name in people)]
    inside = listed(mount, INSIDE)
    assert inside == [FIRST, SECOND, "2026-03-05-warmup"]
    assert listed(mount, BESIDE) == [f"{name}.md" for name in inside]
    assert len(listed(mount, "conversations/shop/.aside")) == len(listed(mount, "transcripts/shop/.aside")) == 2
    assert "subagents" not in listed(mount, "conversations/shop/2026-03-05-only-here")


@pytest.mark.parametrize(
    "text", ["There are two", "They pass", "Ready inside", "Ready alone", "lonely notice", "Alone"]
)
def test_grep_finds_each_text_once(mount: Mounted, text: str) -> None:
    for top, within in (("conversations", "events/"), ("transcripts", "")):
        found = mount.run("grep", "-rlF", text, top).stdout.splitlines()
        assert len([path for path in found if within in path]) == 1, found
    walked = mount.run("find", "conversations", "-name", "*-assistant.md").stdout.splitlines()
    assert len(walked) == len(set(walked)) == 6


@pytest.mark.skipif(not shutil.which("rg"), reason="ripgrep is not installed")
def test_ripgrep_looks_into_what_listings_leave_out(mount: Mounted) -> None:
    for top in (".", "conversations", "transcripts/shop"):
        assert ".aside/" in mount.run("rg", "-lF", "Ready alone", top).stdout


def test_a_former_path_is_a_link(mount: Mounted) -> None:
    for path in (f"conversations/shop/{FIRST}", f"transcripts/shop/{FIRST}.md"):
        assert (mount.root / path).is_symlink()
        assert FIRST not in mount.run("ls", os.path.dirname(path)).stdout
    assert "There are two" in (mount.root / f"conversations/shop/{FIRST}/events/00002-assistant.md").read_text()
    assert "There are two" in (mount.root / f"transcripts/shop/{FIRST}.md").read_text()
    same = (mount.root / f"{INSIDE}/{FIRST}").stat()
    assert (mount.root / f"conversations/shop/{FIRST}").stat().st_ino == same.st_ino
    # it is no entry of its own
    assert mount.run("rm", f"conversations/shop/{FIRST}", check=False).returncode == 1


def test_it_is_edited_forked_and_labelled_where_it_is(mount: Mounted) -> None:
    own = f"{INSIDE}/{FIRST}"
    mount.shell(f"sed -i 's/two/three/' {own}/events/00002-assistant.md")
    assert "There are three" in (mount.root / f"{BESIDE}/{FIRST}.md").read_text()
    assert len(listed(mount, f"{own}/.versions")) == 2
    mount.shell(f"mkdir {own}/forks/another@00001")
    # a fork is a person's, beside what people had
    assert "another" in listed(mount, "conversations/shop")
    assert (mount.root / own / "forks/another").samefile(mount.root / "conversations/shop/another")
    mount.shell(f"mkdir by-label/todo && ln -s ../../{own} by-label/todo/")
    assert (mount.root / f"by-label/todo/{FIRST}").samefile(mount.root / own)
    assert [link for link in listed(mount, "search/three") if "look-for" in link]
    assert INSIDE in (mount.root / "search/three/hits.txt").read_text()


def test_a_name_changes_in_place_and_a_person_may_take_it_out(mount: Mounted) -> None:
    mount.shell(f"mv {INSIDE}/{FIRST} {INSIDE}/callers")
    assert listed(mount, INSIDE) == [SECOND, "2026-03-05-warmup", "callers"]
    mount.shell(f"mv {INSIDE}/callers conversations/shop/my-callers")
    assert listed(mount, INSIDE) == [SECOND, "2026-03-05-warmup"]
    assert not (mount.root / "conversations/shop/my-callers").is_symlink()
    assert "There are two" in (mount.root / "transcripts/shop/my-callers.md").read_text()
    mount.shell(f"mv conversations/shop/my-callers {INSIDE}/back")
    assert listed(mount, INSIDE) == [SECOND, "2026-03-05-warmup", "back"]
    other = f"conversations/shop/2026-03-05-only-here {INSIDE}/other"
    assert "Operation not permitted" in mount.run("bash", "-c", f"mv {other}", check=False).stderr


def test_what_was_left_out_is_brought_back_by_a_name(mount: Mounted) -> None:
    (empty,) = (name for name in listed(mount, "conversations/shop/.aside") if "warmup" not in name)
    mount.shell(f"mv conversations/shop/.aside/{empty} conversations/shop/mine")
    assert "mine" in listed(mount, "conversations/shop")
    assert len(listed(mount, "conversations/shop/.aside")) == 1
    assert mount.run("touch", "conversations/shop/.aside/new", check=False).returncode == 1


def test_it_goes_and_comes_with_its_parent(mount: Mounted) -> None:
    mount.run("rm", "-r", f"conversations/shop/{MAIN}")
    assert listed(mount, ".convfs/trash") == [MAIN]
    assert listed(mount, f".convfs/trash/{MAIN}/subagents") == [FIRST, SECOND, "2026-03-05-warmup"]
    assert [name for name in listed(mount, "conversations/shop") if name[0] != "."] == ["2026-03-05-only-here"]
    mount.shell(f"mv .convfs/trash/{MAIN} conversations/shop/")
    assert listed(mount, INSIDE) == [FIRST, SECOND, "2026-03-05-warmup"]
    assert "There are two" in (mount.root / INSIDE / FIRST / "events/00002-assistant.md").read_text()
    mount.run("rm", "-r", f"{INSIDE}/{SECOND}")
    assert listed(mount, INSIDE) == [FIRST, "2026-03-05-warmup"]
    mount.shell(f"mv .convfs/trash/{SECOND} {INSIDE}/")
    assert listed(mount, INSIDE) == [FIRST, SECOND, "2026-03-05-warmup"]


def test_a_copy_has_all_of_it(mount: Mounted, tmp_path: Path) -> None:
    mount.run("cp", "-r", f"conversations/shop/{MAIN}", str(tmp_path / "copy"))
    there = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*.md")}
    assert Path("subagents", FIRST, "events/00002-assistant.md") in there


def test_it_moves_in_when_its_parent_comes(store_path: Path, tmp_path: Path) -> None:
    write(tmp_path, agent_a1=said("Look for callers", "There are two", agent="a1"))
    with new_store(store_path) as store:
        Importer(store).run([tmp_path])
    with mounted(store_path) as mount:
        path = mount.root / "conversations/shop" / FIRST
        assert path.is_dir()
        assert not path.is_symlink()
        ino = path.stat().st_ino
        (mount.root / f"import/{PARENT}.jsonl").write_bytes(said("Fix the login", "Done"))
        until((mount.root / INSIDE).is_dir)
        until(path.is_symlink)
        assert (mount.root / INSIDE / FIRST).stat().st_ino == ino


def test_links_in_its_files_lead_to_contents(store_path: Path, tmp_path: Path) -> None:
    run = said("Look for callers", agent="a1")
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 16
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    image = {"type": "image", "source": source}
    record = json.loads(run)
    record["message"]["content"] = [{"type": "text", "text": "Look for callers"}, image]
    write(tmp_path, agent_a1=json.dumps(record).encode() + b"\n", **{PARENT.replace("-", "_"): said("Fix the login")})
    with new_store(store_path) as store:
        Importer(store).run([tmp_path])
    with mounted(store_path) as mount:
        transcript = mount.root / BESIDE / f"{FIRST}.md"
        (link,) = [part.split()[0] for part in transcript.read_text().split("](")[1:]]
        assert (transcript.parent / link).read_bytes() == data
        path = mount.root / INSIDE / FIRST
        assert os.path.relpath(mount.root, path) == "../../../../.."
        assert (path / "events" / "../../../../.convfs/blobs").is_dir()


def test_a_setting_lists_all(filled: Path) -> None:
    (filled / "convfs.toml").write_text("list_all = true\n")
    with mounted(filled) as mount:
        names = listed(mount, "conversations/shop")
        assert len(names) == 4
        assert ".aside" not in names
        assert len(listed(mount, "recent")) == 4


def test_the_index_made_anew_is_the_same(filled: Path) -> None:
    def rows(store: Store) -> list[tuple[object, ...]]:
        return store.files.index.db.query("SELECT * FROM asides ORDER BY context")

    with new_store(filled) as store:
        before = rows(store)
        assert len(before) == 5
    with Store.open(filled, reindex=True) as store:
        assert rows(store) == before


def test_runs_that_name_each_other_are_in_no_circle(memory_path: Path) -> None:
    with new_store(memory_path / "store") as store:
        one, two = add(store, [user("one")], name="one"), add(store, [user("two")], name="two")
        for context, session, parent in ((one, "a", "b"), (two, "b", "a")):
            store.contexts.set_metadata(context, {"source": "/s", "session": session, "parent_session": parent})
        tree = Router(Tree(store))
        top = tree.fixed("conversations", "project")
        assert isinstance(top, Directory)
        (shown,) = (entry.name.decode() for entry in tree.entries(top, 0))
        assert len(Places(store.catalogue).of(store.catalogue.entry(one if shown == "two" else two))) == 4
        # a parent that is gone for good leaves a conversation like others
        Editor(store).remove(one)
        Editor(store).remove(two)
        assert store.catalogue.page("project") == []


def test_the_command_nests_them(filled: Path, tmp_path: Path) -> None:
    def ls(*options: str) -> list[str]:
        command = [sys.executable, "-m", "fusefs.cli", "--store", str(filled), "ls", *options]
        environment = os.environ | {"HOME": str(tmp_path), "TZ": "Asia/Tokyo"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        return done.stdout.splitlines()

    names = [line[line.index("shop/") - 2 :] for line in ls()[1:]]
    assert [name.strip().split("  ")[0] for name in names] == [
        f"shop/{MAIN}",
        f"shop/{FIRST}",
        f"shop/{SECOND}",
        "shop/2026-03-05-only-here",
    ]
    assert len(ls("--all")) == 1 + 7
    found = {one["name"]: one for one in json.loads("\n".join(ls("--json")))}
    assert found[FIRST]["parent"] == found[MAIN]["id"]
    assert found[FIRST]["path"] == f"{INSIDE}/{FIRST}"


@pytest.mark.parametrize("pattern", [f"{BESIDE}/{FIRST}.md", "transcripts/shop/.aside/*warmup*.md"])
def test_transcripts_of_subagents_and_those_aside_are_edited_like_others(filled: Path, pattern: str) -> None:
    with mounted(filled) as mount:
        (file,) = mount.root.glob(pattern)
        before, names = file.read_text(), sorted(os.listdir(file.parent))
        mount.shell(f"cd '{file.parent}'; sed -i 's/^Look/See/; s/^Warmup/Warm up/' {file.name}")
        after = file.read_text()
        assert after != before
        assert after == before.replace("\nLook", "\nSee").replace("\nWarmup", "\nWarm up")
        assert errno_of(lambda: file.write_text(after.replace("## 1", "## 3"))) == errno.EINVAL
        assert sorted(os.listdir(file.parent)) == sorted([*names, f"{file.name}.draft"])
        file.with_name(f"{file.name}.draft").unlink()
