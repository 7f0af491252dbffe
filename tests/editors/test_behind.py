"""Changes of an event behind the programs that have it open: by the daemon itself, asked by a command or a service."""

import os
import time
from collections.abc import Callable

import pytest

from tests.editors.patterns import Pattern
from tests.editors.place import MountedPlace
from tests.editors.sessions import ANSWER
from tests.fusefs.tree.mounting import until

BEFORE: dict[str, str] = {
    "drawn": "true",
    "saved in place": "sed 's/omega/OMEGA/' $1 > ../new; cat ../new > $1; rm ../new",
    "renamed onto": "sed -i s/omega/OMEGA/ $1",
    "moved away": "mv $1 $1~; sed 's/omega/OMEGA/' $1~ > $1; rm $1~",
    "saved in other words": "{ sed 's/omega/OMEGA/' $1; echo; } > ../new; cat ../new > $1; rm ../new",
}
"""Things that a program did with the event before."""


def edited(mount: MountedPlace) -> None:
    """Have the daemon give the event another content, of the same length."""
    payload = mount.payloads()[1]
    assert b"alpha" in payload
    mount.mount.tell(edit=[1, {2: payload.replace(b"alpha", b"ALEPH").decode()}])


def restored(mount: MountedPlace) -> None:
    """Have the daemon bring back the first version."""
    mount.mount.tell(restore=[1, 1])


CHANGES = pytest.mark.parametrize("change", [edited, restored], ids=lambda change: str(change.__name__))


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_its_time_is_another(mount: MountedPlace, before: str) -> None:
    path = mount.directory / ANSWER
    mount.shell(before, ANSWER)
    with path.open("rb") as file:
        held, content = os.fstat(file.fileno()), file.read()
        assert path.stat().st_ino == held.st_ino
        edited(mount)
        until(lambda: path.stat().st_mtime_ns != held.st_mtime_ns)
        until(lambda: os.fstat(file.fileno()).st_mtime_ns != held.st_mtime_ns)
        assert path.stat().st_ino == held.st_ino
        file.seek(0)
        assert file.read() == path.read_bytes() != content
        assert b"ALEPH" in path.read_bytes()
        assert path.stat().st_size == len(path.read_bytes())


def test_what_is_not_changed_keeps_its_time(mount: MountedPlace) -> None:
    names = [name for name in mount.drawn if name != ANSWER]
    before = {name: (mount.directory / name).stat() for name in names}
    edited(mount)
    until(lambda: b"ALEPH" in (mount.directory / ANSWER).read_bytes())
    for name in names:
        now = (mount.directory / name).stat()
        assert (now.st_ino, now.st_size, now.st_mtime_ns) == (
            before[name].st_ino,
            before[name].st_size,
            before[name].st_mtime_ns,
        )


def test_the_files_that_show_all_of_it_have_another_time_too(mount: MountedPlace) -> None:
    paths = [mount.transcript, mount.conversation / "events.json", mount.conversation / "metadata.json"]
    before = [path.stat().st_mtime_ns for path in paths]
    contents = [path.read_bytes() for path in paths]
    edited(mount)
    for path, time_ns, content in zip(paths, before, contents, strict=True):
        until(lambda path=path, time_ns=time_ns: path.stat().st_mtime_ns != time_ns)
        until(lambda path=path, content=content: path.read_bytes() != content)


def test_metadata_has_another_time(mount: MountedPlace) -> None:
    path = mount.conversation / "metadata.json"
    os.setxattr(mount.conversation, "user.convfs.label.one", b"")
    before = path.stat()
    assert '"one"' in path.read_text()
    mount.mount.tell(metadata=[1, {"labels": ["two"]}])
    until(lambda: path.stat().st_mtime_ns != before.st_mtime_ns)
    assert path.stat().st_size == before.st_size
    until(lambda: '"two"' in path.read_text())


@CHANGES
@pytest.mark.parametrize(
    "writes", ["", ":set backupcopy=yes", ":set backupcopy=no"], ids=["opened", "in place", "renames"]
)
def test_vim_notices(mount: MountedPlace, change: Callable[[MountedPlace], None], writes: str) -> None:
    Pattern("", lambda place, name: None, bytes, ("vim", "tmux")).check_needs()
    path = mount.directory / ANSWER
    if change is restored:
        mount.shell("sed -i s/parts/halves/ $1", ANSWER)
    with mount.terminal("vim", ANSWER) as terminal:
        terminal.wait_for("alpha")
        if writes:
            terminal.type(f"{writes}\n:%s/omega/OMEGA/\n:w\n")
            terminal.wait_for("written")
        terminal.type("oMine.")
        terminal.press("Escape")
        time.sleep(1.1)  # vim looks at seconds
        before = path.stat().st_mtime_ns
        change(mount)
        until(lambda: path.stat().st_mtime_ns != before)
        terminal.type(":w\n")
        terminal.wait_for("has been changed since reading it")
        terminal.wait_for(r"\(y/n\)\?$")
        terminal.type("n")
        terminal.wait_for("Press ENTER")
        terminal.press("Enter")
        terminal.type(":e!\n")
        terminal.wait_for("ALEPH" if change is edited else "parts")
        terminal.type(":q!\n")
        terminal.wait_end()
    assert b"Mine." not in path.read_bytes()
    assert path.read_bytes() == mount.drawn[ANSWER] or change is edited
