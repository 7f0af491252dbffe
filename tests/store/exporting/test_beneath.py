"""Exports stay in the directory that was named, whatever names say and links there lead to."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path, PurePath

import pytest

from store.disk.beneath import Beneath
from store.errors import ConvfsError, UsageError
from store.events.conversation import AGENTS, ARTIFACTS, Conversation
from store.exporting.export import export, forms, names
from store.store import Store
from tests.store.exporting.talks import PNG, Talk
from tests.store.importing.sessions import by_source, event, imported, jp

PLACES = (
    "../../escaped",
    "../escaped",
    "..",
    ".",
    "",
    "/",
    "{outside}/escaped",
    "a/../../../escaped",
    "a/b",
    "a\0b",
    "a\nb\x1b[2J\u202e",
    "\\..\\escaped",
    "long" * 200,
    "~",
    "-rf",
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a directory in which nothing may appear."""
    path = tmp_path / "outside"
    path.mkdir()
    return path


def talk(store: Store, tmp_path: Path) -> Conversation:
    said = Talk(tmp_path)
    said.user([{"type": "text", "text": "Look"}, image()])
    said.says("I look at it.")
    said.calls("a", "Bash", {"command": "ls"})
    said.returns("a", "b\n" * 2000)
    return said.bring(store)


def image() -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def around(tmp_path: Path) -> set[str]:
    """Return all that there is but for the store and the directory that is exported to."""
    left = [path for path in tmp_path.iterdir() if path.name not in ("store", "out")]
    return {str(path) for path in left} | {str(path) for root in left for path in root.rglob("*")}


def written(store: Store, conversation: Conversation, out: Path, form: str) -> int:
    """Export in a form, and return how many files there are now, all of them where they are said to be."""
    done = export(store, conversation, out, form)
    root = os.path.realpath(out)
    for path in done.files:
        assert path.is_file()
        assert os.path.realpath(path).startswith(f"{root}/")
    return len(done.files)


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("key", ["name", "project", "title", "cwd", "session", "exported_as"])
def test_whatever_a_client_calls_it(store: Store, tmp_path: Path, outside: Path, form: str, key: str) -> None:
    conversation = talk(store, tmp_path)
    before = around(tmp_path)
    for number, place in enumerate(PLACES):
        said = place.format(outside=outside)
        store.contexts.set_metadata(conversation.id, {key: said})
        now = store.library.conversation(conversation.id)
        with suppress(UsageError) if key == "exported_as" else nullcontext():
            assert written(store, now, tmp_path / "out" / str(number), form) > 0
            # a second time, where files of somebody else are there, and all of it goes to PROJECT/NAME/
            for path in (tmp_path / "out" / str(number)).rglob("*"):
                if path.is_file():
                    path.write_bytes(b"of somebody else")
            assert written(store, now, tmp_path / "out" / str(number), form) > 0
            for name in names(store, now, form):
                assert not name.is_absolute()
                assert ".." not in name.parts
        assert around(tmp_path) == before
        assert not list((tmp_path / "out").glob("escaped*"))
    store.contexts.set_metadata(conversation.id, {key: None})


@pytest.mark.parametrize("key", ["main", "first", "sidecars", "original", "file", "layout_of", "envelope_blob"])
@pytest.mark.parametrize("form", ["native", "jp", "claude-code"])
def test_whatever_a_client_says_of_its_files(store: Store, tmp_path: Path, outside: Path, key: str, form: str) -> None:
    folder = jp(tmp_path, [event()])
    imported(store, folder)
    conversation = by_source(store, folder) if form != "claude-code" else talk(store, tmp_path)
    digest = store.intake.put(b"planted").hex()
    before = around(tmp_path)
    was = conversation.metadata.get(key)
    for number, place in enumerate(PLACES):
        said = place.format(outside=outside)
        value: object = {"first": [said], "sidecars": {said: digest}, "original": {said: digest}}.get(key, said)
        store.contexts.set_metadata(conversation.id, {key: value})
        with suppress(ConvfsError):
            written(store, store.library.conversation(conversation.id), tmp_path / "out" / str(number), form)
        assert around(tmp_path) == before
    store.contexts.set_metadata(conversation.id, {key: was})


@pytest.mark.parametrize("form", forms())
def test_links_that_somebody_planted_lead_nowhere(store: Store, tmp_path: Path, outside: Path, form: str) -> None:
    conversation = talk(store, tmp_path)
    planned = names(store, conversation, form)
    # each name that the export will use, and each directory on the way, is a link out
    for number, part in enumerate(sorted({above for name in planned for above in (name, *name.parents[:-1])})):
        out = tmp_path / "out" / str(number)
        (out / part).parent.mkdir(parents=True)
        (out / part).symlink_to(outside, target_is_directory=True)
        try:
            done = export(store, conversation, out, form)
        except UsageError as error:
            if "it is a link" not in str(error):
                raise
        else:
            # where only the name was taken, it all went elsewhere
            assert all(os.path.realpath(path).startswith(os.path.realpath(out)) for path in done.files)
        assert list(outside.iterdir()) == []
    # PROJECT/ is one as well, and all else is taken
    out = tmp_path / "out" / "own"
    for path in export(store, conversation, out, form).files:
        path.write_bytes(b"of somebody else")
    (out / conversation.project).symlink_to(outside)
    with pytest.raises(UsageError, match="it is a link"):
        export(store, conversation, out, form)
    assert list(outside.iterdir()) == []


def test_a_link_that_is_planted_in_the_last_moment(
    store: Store, tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = talk(store, tmp_path)
    out = tmp_path / "out"

    def planting(real: Callable[..., object]) -> Callable[..., object]:
        def planted(directory: Beneath, *arguments: object) -> object:
            if not (out / "projects").is_symlink():
                (out / "projects").symlink_to(outside)
            return real(directory, *arguments)

        return planted

    monkeypatch.setattr(Beneath, "take", planting(Beneath.take))
    with pytest.raises(UsageError, match="it is a link"):
        export(store, conversation, out, "claude-code")
    assert list(outside.iterdir()) == []
    assert os.listdir(out) == ["projects"]


RACE = """
import os, sys
out, outside = sys.argv[1:]
print("begun", flush=True)
while True:
    try:
        os.rename(f"{out}/projects", f"{out}/away")
        os.symlink(outside, f"{out}/projects")
        os.unlink(f"{out}/projects")
        os.rename(f"{out}/away", f"{out}/projects")
    except OSError:
        pass
"""


def test_directories_that_are_links_now_and_then(store: Store, tmp_path: Path, outside: Path) -> None:
    conversation = talk(store, tmp_path)
    out = tmp_path / "out"
    (out / "projects").mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", RACE, out, outside], stdout=subprocess.PIPE) as racing:
        try:
            assert racing.stdout
            assert racing.stdout.readline() == b"begun\n"
            for _ in range(60):
                try:
                    export(store, conversation, out, "claude-code")
                except ConvfsError:
                    continue
        finally:
            racing.kill()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", ".."])
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    with Beneath.opened(tmp_path / "in") as directory, directory.temporary("new-") as staged:
        staged.write(PurePath("file"), [b"1"])
        with pytest.raises(OSError, match=r"leads out|name for a file|exists|directory"):
            staged.write(PurePath(name), [b"1"])
        with pytest.raises(OSError, match=r"leads out|name for a file|exists|directory"):
            directory.take(staged, PurePath("file"), PurePath(name))
    assert os.listdir(tmp_path) == ["in"]
    assert os.listdir(tmp_path / "in") == []


def test_the_directory_that_is_named_may_be_a_link(store: Store, tmp_path: Path, outside: Path) -> None:
    conversation = talk(store, tmp_path)
    (tmp_path / "out").symlink_to(outside)
    (path,) = export(store, conversation, tmp_path / "out", "json").files
    assert json.loads((outside / path.name).read_bytes())["name"] == conversation.name


def test_outputs_of_tools_are_called_what_files_may_be(store: Store, tmp_path: Path) -> None:
    artifacts = store.artifacts
    context = store.contexts.create(metadata={"project": "p", "name": "n"}).context
    victim = tmp_path / "victim.log"
    victim.write_bytes(b"mine")
    for outputs in (ARTIFACTS, AGENTS):
        for led in (str(victim), f"0.{'../' * 20}{victim}", f"0-{'../' * 9}{victim}", f"../../{'../' * 9}{victim}"):
            for attempt in (artifacts.begin, artifacts.drop, artifacts.end):
                with suppress(ConvfsError):
                    attempt(context, outputs, led)
                assert victim.read_bytes() == b"mine"
        for name in artifacts.listed(context, outputs):
            assert "/" not in name
            artifacts.end(context, outputs, name)
    assert not list(tmp_path.rglob("*escaped*"))


STAGING = """
import sys, time
from pathlib import Path, PurePath
from store.importing.exporter import staging
with staging(Path(sys.argv[1])) as place:
    place.staged.write(PurePath("a/half"), [b"1"])
    print("there", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_export_has_left_is_removed_by_the_next_and_nothing_else(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    processes = [
        subprocess.Popen([sys.executable, "-c", STAGING, out], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
        killed, alive = processes
        assert len(os.listdir(out)) == 2
        killed.kill()
        killed.wait()
        mine = out / ".convfs-export-mine"
        mine.mkdir()
        (out / f".convfs-export-{'0' * 16}").symlink_to(mine)
        (path,) = export(store, talk(store, tmp_path), out, "json").files
        assert path.is_file()
        (left,) = {*os.listdir(out)} - {path.name, mine.name, f".convfs-export-{'0' * 16}"}
        assert (out / left / "a" / "half").read_bytes() == b"1"
        assert alive.poll() is None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    export(store, store.library.conversations()[0], out, "html")
    assert left not in os.listdir(out)
