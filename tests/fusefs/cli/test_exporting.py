"""``convfs export --format`` and ``convfs show --files``, here and through a daemon."""

import json
import os
from pathlib import Path

from fusefs.cli import export
from store.exporting.export import forms
from store.service.client import Client
from store.service.exporting import ExportProgress, export_as
from tests.fusefs.cli.user import User, serving


def conversation(user: User) -> str:
    user.session("shop", "a", "Fix the login", "Done.")
    user.run("import")
    (found,) = user.list()
    return f"shop/{found['name']}"


def test_the_formats_are_those_that_there_are() -> None:
    assert list(export.FORMATS) == forms()


def test_every_format_is_written_and_told(user: User) -> None:
    name = conversation(user)
    for form in forms():
        done = user.convfs("export", name, "--format", form, "-o", f"out/{form}")
        # these know none of the models of others
        unknown = "a model that the tool knows" in done.stderr
        assert (done.returncode, unknown) == (0, form in ("opencode", "kilo")), done
        printed = done.stdout.splitlines()
        out = user.home / "out" / form
        assert {Path(line) for line in printed} == {path for path in out.rglob("*") if path.is_file()}
        told = user.run("show", "--files", name, "--format", form).splitlines()
        assert [str(out / line) for line in told] == printed
    assert user.run("show", "--files", name) == user.run("show", "--files", name, "--format", "jp")


def test_what_is_lost_is_told_in_lines_and_to_programs(user: User) -> None:
    path = user.session("shop", "a", "Fix the login", "Done.")
    note = {
        "parentUuid": None,
        "sessionId": "a",
        "type": "system",
        "content": "so",
        "uuid": "n",
        "subtype": "informational",
    }
    with path.open("a") as file:
        file.write(json.dumps(note) + "\n")
    user.run("import")
    (found,) = user.list()
    done = user.convfs("export", found["id"], "--format", "codex", "-o", "out")
    assert done.returncode == 0
    assert done.stderr == f"shop/{found['name']}: not in codex: a note of the tool (event 3)\n"
    done = user.convfs("export", found["id"], "--format", "codex", "-o", "again", "--json")
    (told,) = json.loads(done.stdout)
    assert told["lost"] == [{"what": "a note of the tool", "events": [3]}]
    assert [Path(path).suffix for path in told["files"]] == [".jsonl"]
    assert told["conversation"] == f"shop/{found['name']}"


def test_a_daemon_exports_too(user: User) -> None:
    name = conversation(user)
    with serving(user):
        (path,) = user.run("export", name, "--format", "html", "-o", "out").splitlines()
        assert "Fix the login" in Path(path).read_text()
        assert user.run("show", "--files", name).splitlines()[-1].endswith("/events.json")


def test_a_long_export_says_how_far_it_is(user: User) -> None:
    user.session("shop", "a", *(f"{number} " + "words " * 100_000 for number in range(4)))
    user.run("import")
    told: list[ExportProgress] = []
    with serving(user), Client.of(user.store) as client:
        asked = export_as(1, os.fsencode(user.home / "out"), "json")
        done = client.call(asked, told.append)
    size = Path(os.fsdecode(done.files[0])).stat().st_size
    assert told
    assert all(1 << 20 <= progress.bytes <= size for progress in told)


def test_wrong_usage(user: User) -> None:
    name = conversation(user)
    told = user.fails("export", name, "--format", "pdf", "-o", "out")
    assert told.startswith("convfs: there is no format pdf to export to: choose one of native, markdown")
    assert "--files" in user.fails("show", name, "--format", "jp", code=2)
    assert "--json" in user.fails("show", name, "--json", "--files", code=2)
    for _ in range(2):
        (path,) = user.run("export", name, "--format", "json", "-o", "out").splitlines()
        Path(path).write_text("of somebody else")
    assert "exists already" in user.fails("export", name, "--format", "json", "-o", "out")
