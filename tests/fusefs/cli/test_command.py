"""The command run as a process, with a store that nobody else holds."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from fusefs.cli import backend
from fusefs.cli.main import COMMANDS, cli
from store.errors import StoreBusy
from tests.fusefs.cli.user import ROOT, User, on_a_terminal

ESCAPE_SEQUENCE = "\x1b[31mred\x1b[0m"


# --- help and usage -----------------------------------------------------------------------------------


def test_help_shows_every_command_and_loads_none() -> None:
    program = "import sys; from fusefs.cli.main import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(re.search(rf"^  {name} ", done.stdout, re.MULTILINE) for name in COMMANDS)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & {"trio", "pyfuse3", "rich", "msgspec", "store.store", "sqlite3"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_the_same_in_both_places(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str(200) == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(user: User, name: str) -> None:
    assert user.run(name, "--help").startswith(f"Usage: convfs {name} ")


@pytest.mark.parametrize(
    "arguments", [["nosuch"], ["ls", "--nosuch"], ["show"], ["export", "1"], ["mount"], ["import", "--demo", "x"]]
)
def test_wrong_usage_is_one_line_and_exits_with_2(user: User, arguments: list[str]) -> None:
    assert "--help`" in user.fails(*arguments, code=2)


def test_no_command_shows_help(user: User) -> None:
    assert user.run("remote") == user.run("remote", "--help")
    done = user.convfs()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == user.run("--help")
    assert "\nLook:\n  ls " in done.stdout
    assert "\\n" not in done.stdout


def test_a_command_that_does_not_exist_is_told_with_the_one_that_was_meant(user: User) -> None:
    said = user.fails("serach", "roses", code=2)
    assert said == "convfs: there is no command serach: did you mean search: see `convfs --help`\n"
    assert user.fails("xyzzy", code=2) == "convfs: there is no command xyzzy: see `convfs --help`\n"


# --- import and ls ------------------------------------------------------------------------------------


def test_import_finds_this_users_own_sessions(user: User) -> None:
    user.session("shop", "a", "Fix the login bug", "Done.")
    told, by_tool = user.run("import").splitlines()
    assert told == "Conversations: 1 imported, 0 grown, 0 unchanged (2 records, 396 B read)."
    assert by_tool.split() == ["claude-code", "1", "imported"]
    (line,) = user.list()
    assert {"id", "name", "project", "title", "source", "events", "created", "updated", "path"} <= line.keys()
    assert line["title"] == "Fix the login bug"
    assert line["events"] == 2
    assert line["created"] == "2026-03-05T19:31:00.000Z"
    assert (line["labels"], line["pinned"], line["archived"]) == ([], False, False)
    assert line["path"] == f"conversations/{line['project']}/{line['name']}"
    assert line["source"].endswith("/a.jsonl")


def test_importing_again_brings_only_what_is_new(user: User) -> None:
    user.session("shop", "a", "One", "Two")
    user.session("shop", "b", "Other")
    user.run("import")
    assert "0 imported, 0 grown, 2 unchanged" in user.run("import")
    user.session("shop", "a", "Three")
    assert "0 imported, 1 grown, 1 unchanged" in user.run("import")
    assert sorted(line["events"] for line in user.list()) == [1, 3]


def test_a_dry_run_imports_nothing(user: User) -> None:
    user.session("shop", "a", "One")
    assert "1 new" in user.run("import", "--dry-run")
    assert not user.store.exists()
    user.run("import")
    assert "1 unchanged" in user.run("import", "--dry-run")


def test_a_dry_run_lists_what_it_would_do(user: User) -> None:
    grown = user.session("shop", "a", "One")
    user.run("import")
    user.session("shop", "a", "And more")
    new = user.session("blog", "b", "Two")
    several = user.home / "conversations.json"
    chats = [
        {"uuid": str(at), "name": "", "chat_messages": [{"uuid": f"m{at}", "sender": "human", "text": "Hi"}]}
        for at in range(2)
    ]
    several.write_text(json.dumps(chats))
    [known] = user.list()
    name = f"{known['project']}/{known['name']}"
    assert [" ".join(line.split()) for line in user.run("import", "--dry-run", user.home).splitlines()] == [
        f"2 new claude-ai {several}",
        f"new claude-code {new}",
        f"grown claude-code {name} {grown}",
        "Conversations: 3 new, 1 grown, 0 unchanged. Nothing was imported: a dry run.",
        "claude-ai 2 new",
        "claude-code 1 new, 1 grown",
    ]
    assert len(user.list()) == 1


def test_what_was_imported_is_counted_by_tool(user: User) -> None:
    user.session("shop", "a", "One")
    user.session("shop", "b", "Two")
    told = user.run("import").splitlines()
    assert [line.split() for line in told[1:]] == [["claude-code", "2", "imported"]]
    assert user.run("import").splitlines()[1].split() == ["claude-code", "2", "unchanged"]


def test_folders_to_look_in_are_a_setting(user: User) -> None:
    for folder, name in (("work/sessions", "a"), ("old", "b"), ("unnamed", "c")):
        path = user.session("shop", name, f"In {folder}")
        (user.home / folder).mkdir(parents=True)
        shutil.move(path, user.home / folder / path.name)
    user.store.mkdir(parents=True)
    folders = json.dumps(["work/sessions", "~/old", "/no/such", "~nobody"])
    (user.store / "convfs.toml").write_text(f"[sessions]\nfolders = {folders}\n")
    assert "2 imported" in user.run("import")
    assert {line["title"] for line in user.list()} == {"In work/sessions", "In old"}
    assert f"sessions in {user.home}/old\n" in user.convfs("doctor").stdout


def test_sessions_are_imported_from_where_they_are_named(user: User, tmp_path: Path) -> None:
    path = user.session("shop", "a", "One")
    moved = tmp_path / "elsewhere.jsonl"
    shutil.move(path, moved)
    assert "1 imported" in user.run("import", moved)
    assert [line["source"] for line in user.list()] == [str(moved)]


def test_with_no_sessions_it_says_what_to_do(user: User) -> None:
    assert "convfs import DIR" in user.run("import")
    assert not user.store.exists()


def test_the_demo_set_comes_only_where_nothing_else_is_found(user: User) -> None:
    assert "demo" in user.run("import", "--demo")
    titles = {line["title"] for line in user.list()}
    assert len(titles) == 3
    assert all(title.startswith("Demo: ") for title in titles)


def test_own_sessions_win_over_the_demo_set(user: User) -> None:
    user.session("shop", "a", "Mine")
    user.run("import", "--demo")
    assert [line["title"] for line in user.list()] == ["Mine"]


def test_what_cannot_be_imported_is_said_and_the_rest_is_imported(user: User) -> None:
    good = user.session("shop", "a", "One")
    bad = user.home / "notes.txt"
    bad.write_text("No session at all.")
    done = user.convfs("import", bad, good)
    assert done.returncode == 1
    assert "1 imported" in done.stdout
    assert done.stderr.count("\n") == 1
    assert "notes.txt" in done.stderr


@pytest.mark.parametrize("arguments", [["nowhere.jsonl"], ["--format", "nosuch", "."]])
def test_import_of_what_is_not_there(user: User, arguments: list[str]) -> None:
    assert arguments[-1] in user.fails("import", *arguments) or "nosuch" in user.fails("import", *arguments)


def test_ls_lists_one_project_or_all(user: User) -> None:
    user.session("shop", "a", "One")
    user.session("blog", "b", "Two")
    user.run("import")
    project = next(line["project"] for line in user.list() if line["title"] == "Two")
    assert [line["title"] for line in json.loads(user.run("ls", "--json", project))] == ["Two"]
    assert user.run("ls").count("\n") == 3
    assert user.run("ls", project).count("\n") == 2
    assert "nosuch" in user.fails("ls", "nosuch")


def test_ls_of_an_empty_store_is_an_empty_array(user: User) -> None:
    user.session("shop", "a", "One")
    assert "convfs import" in user.fails("ls")
    (user.home / "empty").mkdir()
    user.convfs("import", user.home / "empty")
    assert json.loads(user.run("ls", "--json")) == []


def test_ls_into_a_pipe_that_closes_is_quiet(user: User) -> None:
    for number in range(50):
        user.session("shop", f"session-{number}", "A question that is long enough to fill a pipe " * 4)
    user.run("import")
    # A pipe holds 64 KB: enough lines that the writer meets its closed end.
    listing = f"{sys.executable} -m fusefs.cli ls --json"
    script = f"(for i in 1 2 3 4 5; do {listing}; done) | head -n 1"
    done = subprocess.run(
        ["bash", "-c", script], env=user.environment, cwd=user.home, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[\n")


# --- show and export ------------------------------------------------------------------------------------


def test_show_prints_the_transcript(user: User) -> None:
    user.session("shop", "a", "Fix the login bug", "Done:\n\nit was the *case*.")
    user.run("import")
    (line,) = user.list()
    shown = user.run("show", f"{line['project']}/{line['name']}")
    assert "# Fix the login bug\n" in shown
    assert "\nit was the *case*.\n" in shown
    assert shown == user.run("show", line["id"]) == user.run("show", line["name"])


def test_show_json_is_one_object_with_every_event(user: User) -> None:
    user.session("shop", "a", "Fix the bug", "Done.")
    user.run("import")
    shown = json.loads(user.run("show", "1", "--json"))
    assert shown["title"] == "Fix the bug"
    assert [(event["event"], event["kind"]) for event in shown["events"]] == [(1, "user"), (2, "assistant")]
    assert shown["events"][1]["blocks"] == [{"type": "text", "text": "Done."}]


def test_show_of_a_lone_surrogate_is_valid_json(user: User) -> None:
    path = user.session("shop", "a", "X")
    path.write_text(path.read_text().replace('"X"', '"half: \\ud83d"'))
    user.run("import")
    assert json.loads(user.run("show", "1", "--json"))["events"][0]["blocks"][0]["text"].startswith("half: ")
    assert "half: " in user.run("show", "1")


@pytest.mark.parametrize("name", ["77", "nosuch", "no/such", "/", "../..", ""])
def test_a_conversation_that_is_not_there(user: User, name: str) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    assert "convfs ls" in user.fails("show", name)


def test_a_name_in_two_projects_has_to_be_said_in_full(user: User) -> None:
    user.session("shop", "a", "Hello")
    user.session("blog", "b", "Hello")
    user.run("import")
    names = {line["name"] for line in user.list()}
    assert len(names) == 1
    said = user.fails("show", names.pop())
    assert all(f"{line['project']}/{line['name']}" in said for line in user.list())


def test_export_gives_back_the_same_bytes(user: User, tmp_path: Path) -> None:
    path = user.session("shop", "a", "One", "Two \u2603")
    with path.open("ab") as file:
        file.write(b'{"cut off\r\n\n\xff not text')
    user.run("import")
    out = tmp_path / "out"
    written = user.run("export", "1", "--format", "native", "-o", out).splitlines()
    assert [Path(name).read_bytes() for name in written] == [path.read_bytes()]
    assert Path(written[0]).is_relative_to(out)


# --- what a terminal sees -------------------------------------------------------------------------------


def test_control_characters_are_escaped_on_a_terminal_and_raw_in_a_pipe(user: User) -> None:
    user.session("shop", "a", f"Look: {ESCAPE_SEQUENCE} \u202eback")
    user.run("import")
    assert ESCAPE_SEQUENCE in user.run("show", "1")
    shown = on_a_terminal(user, "show", "1")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[31mred\x1b[0m \u202eback" in shown


def test_a_listing_never_holds_control_characters(user: User) -> None:
    user.session("shop", "a", f"Look: {ESCAPE_SEQUENCE}\nsecond line")
    user.run("import")
    for listing in (user.run("ls"), on_a_terminal(user, "ls").replace("\r\n", "\n")):
        assert listing.count("\n") == 2
        assert "\x1b" not in listing


def test_progress_shows_on_a_terminal_only(user: User) -> None:
    for number in range(30):
        user.session("shop", f"session-{number}", "x" * 20_000)
    assert "\x1b" in on_a_terminal(user, "import")
    user.session("shop", "more", "y" * 20_000)
    done = user.convfs("import")
    assert "\x1b" not in done.stdout + done.stderr


# --- the store ------------------------------------------------------------------------------------------


def test_the_store_is_where_one_says(user: User, tmp_path: Path) -> None:
    user.session("shop", "a", "One")
    user.run("--store", tmp_path / "by option", "import")
    user.run("import", CONVFS_STORE=str(tmp_path / "by variable"))
    user.run("import", XDG_DATA_HOME=str(tmp_path / "data"))
    user.run("import")
    for place in (tmp_path / "by option", tmp_path / "by variable", tmp_path / "data/convfs", user.store):
        assert (place / "lock").exists()
        assert place.stat().st_mode & 0o777 == 0o700
    # which is no absolute path, and so is none
    assert "1 unchanged" in user.run("import", XDG_DATA_HOME="data")


def test_commands_at_the_same_time_wait_for_each_other(user: User) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    command = [sys.executable, "-m", "fusefs.cli", "ls", "--json"]
    running = [subprocess.Popen(command, env=user.environment, cwd=user.home, stdout=subprocess.PIPE) for _ in range(6)]
    assert [len(json.loads(process.communicate(timeout=60)[0])) for process in running] == [1] * 6


def test_stats_say_what_is_there(user: User) -> None:
    user.session("shop", "a", "One", "Two")
    user.run("import")
    numbers = json.loads(user.run("stats", "--json"))
    assert numbers["conversations"] == 1
    assert numbers["events"] == 2
    assert numbers["root"] == str(user.store)
    assert numbers["socket"] is None
    assert (numbers["complete"], numbers["counted_turns"]) == (True, 2)
    assert [project["project"] for project in numbers["projects"]] == ["shop"]
    assert "1 conversation, 2 events" in user.run("stats")
    assert user.run("stats", "--by", "project").splitlines()[0].startswith("PROJECT")
    assert user.run("stats", "--by", "day").splitlines() == user.run("stats", "--by", "day").splitlines()[:1]


def test_stats_tell_of_credits(user: User) -> None:
    kept = user.home / ".kiro" / "sessions" / "shop" / "sess_1"
    kept.mkdir(parents=True)
    told = {"type": "usage_summary", "promptTurnSummaries": [{"unit": "credit", "usage": 1.375}]}
    said = ({"type": "user", "content": "Why?"}, told)
    lines = [{"timestamp": "2026-08-01T11:00:05Z", "payload": one} for one in said]
    (kept / "messages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    user.run("import")
    assert "1.38 of the makers of tools" in user.run("stats")
    assert json.loads(user.run("stats", "--json"))["credits"] == 1.375


def test_fsck_and_reindex(user: User) -> None:
    user.session("shop", "a", "One", "Two")
    user.run("import")
    before = user.run("ls", "--json")
    assert "sound" in user.run("fsck")
    user.run("reindex")
    assert user.run("ls", "--json") == before
    assert "sound" in user.run("fsck")


def test_fsck_finds_damage(user: User) -> None:
    user.session("shop", "a", "One" * 5000, "Two")
    user.run("import")
    pack = next((user.store / "blobs").iterdir())
    content = bytearray(pack.read_bytes())
    content[200] ^= 1
    pack.write_bytes(content)
    done = user.convfs("fsck")
    assert done.returncode == 1
    assert "error: " in done.stdout


def test_a_bad_setting_is_one_line(user: User) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    (user.store / "convfs.toml").write_text("inline_limit_bytes = -5\n")
    assert "inline_limit_bytes" in user.fails("ls")
    (user.store / "convfs.toml").write_text("nosuch = 5\n")
    done = user.convfs("ls")
    assert done.returncode == 0
    assert "nosuch" in done.stderr


def test_doctor_looks_at_this_machine(user: User) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    said = user.convfs("doctor").stdout
    assert "Python" in said
    assert str(user.store) in said
    assert str(user.home / ".claude/projects") in said


def test_an_import_that_is_interrupted_ends_quietly_and_goes_on_the_next_time(user: User) -> None:
    for number in range(100):
        user.session("shop", f"large-{number}", *[os.urandom(40_000).hex() for _ in range(4)])
    importing = subprocess.Popen(
        # who runs the tests in the background has them ignore the signal, and all that they begin
        ["env", "--default-signal=INT", sys.executable, "-m", "fusefs.cli", "import"],
        env=user.environment,
        cwd=user.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    turns = user.store / "turns/turns.log"
    end = time.monotonic() + 30
    while not (turns.exists() and turns.stat().st_size > 2000):
        assert time.monotonic() < end
        time.sleep(0.002)
    importing.send_signal(signal.SIGINT)
    said, _ = importing.communicate(timeout=60)
    assert (importing.returncode, said.strip()) == (130, "")
    checked = user.convfs("fsck")
    assert "sound" in checked.stdout
    # each write was whole
    assert "recovered" not in checked.stdout + checked.stderr
    assert 0 < len(user.list()) < 100
    user.run("import")
    assert len(user.list()) == 100
    assert "sound" in user.run("fsck")


def test_one_who_holds_the_store_for_long_is_named(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.session("shop", "a", "One")
    user.run("import")
    monkeypatch.setattr(backend, "_PATIENCE_SECONDS", 0.2)
    with backend.open_store(user.store), pytest.raises(StoreBusy) as caught, backend.reach(user.store):
        pass
    assert str(os.getpid()) in str(caught.value)
    assert Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode() in str(caught.value)


def test_a_path_that_is_no_text_is_exported_to(user: User) -> None:
    session = user.session("shop", "a", "One")
    user.run("import")
    out = Path(os.fsdecode(os.fsencode(user.home) + b"/odd \xff"))
    user.run("export", "1", "-o", out)
    assert (out / "a.jsonl").read_bytes() == session.read_bytes()
