"""``convfs export`` into the home of a tool whose folder of sessions is a link into a mount's ``native/``."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fusefs.cli.mounted import mounted_if
from tests.fusefs.cli.user import User
from tests.waiting import until

LINKED = {
    "claude-code": (".claude", "projects", ""),
    "codex": (".codex", "sessions", "sessions"),
    "gemini-cli": (".gemini", "tmp", ""),
    "pi": (".pi/agent", "sessions", ""),
}
"""Of each tool, the directory of an export, its folder of sessions, and where that is below ``native/TOOL``."""


@pytest.fixture
def mount(user: User) -> Iterator[Path]:
    """A mount of the user's store, with a conversation of Claude Code, and one of Codex that says the same."""
    user.session("shop", "a", "Fix the login", "It is fixed.")
    user.run("import")
    user.run("export", "1", "--format", "codex", "-o", "elsewhere")
    user.run("import", "elsewhere")
    shutil.rmtree(user.home / ".claude")
    with mounted_if(user, mounted=True):
        yield Path(user.environment["MOUNTED"])


def linked(user: User, mount: Path, tool: str) -> Path:
    """Make the folder of a tool's sessions a link into the mount, and return the tool's home."""
    home, folder, inner = LINKED[tool]
    (user.home / home).mkdir(parents=True)
    (user.home / home / folder).symlink_to(mount / ".convfs/native" / tool / inner)
    return user.home / home


def of_tool(user: User, tool: str) -> list[dict[str, object]]:
    return [found for found in user.list() if found["format"] == tool]


@pytest.mark.parametrize("tool", LINKED)
def test_the_session_appears_by_the_mounts_own_way(user: User, mount: Path, tool: str) -> None:
    home = linked(user, mount, tool)
    before = {found["id"] for found in user.list()}
    source = "2" if tool == "claude-code" else "1"
    done = user.convfs("export", source, "--format", tool, "-o", home)
    assert done.returncode == 0, done
    path = Path(done.stdout.splitlines()[0])
    assert path.is_relative_to(home)
    assert os.path.realpath(path).startswith(f"{mount}/.convfs/native/{tool}/")
    assert b"It is fixed." in path.read_bytes()
    # what is imported a moment later is there before long
    until(lambda: len(of_tool(user, tool)) == 1 + (tool in ("claude-code", "codex")))
    (new,) = [found for found in user.list() if found["id"] not in before]
    assert new["title"] == "Fix the login"
    transcript = user.run("show", str(new["id"]))
    assert "It is fixed." in transcript
    # nothing else is in the tool's home, and once more changes nothing
    assert os.listdir(home) == [LINKED[tool][1]]
    size = path.stat().st_size
    again = user.convfs("export", source, "--format", tool, "-o", home)
    assert again.stdout == done.stdout
    assert (path.stat().st_size, len(user.list())) == (size, len(before) + 1)


def test_what_has_gone_on_is_updated_there_and_what_another_wrote_stays(user: User, mount: Path) -> None:
    home = linked(user, mount, "codex")
    (path,) = map(Path, user.run("export", "1", "--format", "codex", "-o", home).splitlines())
    count = len(user.list())
    user.session("shop", "a", "Fix the login", "It is fixed.", "And the logout?", "That, too.")
    user.run("import")
    assert user.run("export", "1", "--format", "codex", "-o", home) == f"{path}\n"
    assert b"That, too." in path.read_bytes()
    assert len(user.list()) == count
    (new,) = [found for found in of_tool(user, "codex") if str(found["source"]).endswith(path.name)][-1:]
    until(lambda: "That, too." in user.run("show", str(new["id"])))
    line = {"timestamp": "2026-03-06T10:00:00.000Z", "type": "event_msg", "payload": {"type": "x"}}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    there = path.read_bytes()
    user.session("shop", "a", "Thanks")
    user.run("import")
    assert "says something else" in user.fails("export", "1", "--format", "codex", "-o", home)
    assert path.read_bytes() == there


def test_native_goes_into_a_linked_folder_too(user: User, mount: Path) -> None:
    folder = mount / ".convfs/native/claude-code/-home-ada-other"
    (user.home / "linked").symlink_to(mount / ".convfs/native/claude-code")
    done = user.run("export", "1", "-o", user.home / "linked" / "-home-ada-other")
    assert done == f"{user.home}/linked/-home-ada-other/a.jsonl\n"
    assert (folder / "a.jsonl").read_bytes().count(b"\n") == 2


def test_a_bound_folder_is_one_too(user: User, mount: Path) -> None:
    folder = user.home / ".codex/sessions"
    folder.mkdir(parents=True)
    native = mount / ".convfs/native/codex/sessions"
    native.mkdir(exist_ok=True)
    if os.geteuid() or subprocess.run(["mount", "--bind", native, folder], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be bound here")
    try:
        done = user.run("export", "1", "--format", "codex", "-o", folder.parent)
        assert Path(done.strip()).read_bytes() == native.joinpath(*Path(done.strip()).parts[-4:]).read_bytes()
    finally:
        subprocess.run(["umount", folder], check=True)


def test_elsewhere_in_a_mount_nothing_is_exported_to(user: User, mount: Path) -> None:
    assert "lies in the mount" in user.fails("export", "1", "--format", "json", "-o", mount / "conversations/x")
