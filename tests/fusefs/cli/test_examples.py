"""The examples in the help of every command, run as they stand there."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fusefs.cli.examples import EXAMPLES
from fusefs.cli.main import COMMANDS, main
from fusefs.text.render import FileRenderer
from store.events.conversation import ARTIFACTS
from store.store import Store
from tests.fusefs.cli.mounted import user_on_disk
from tests.fusefs.cli.user import SECONDS, User
from tests.fusefs.tree.mounting import can_mount

GO_ON = {"serve": "Serving ", "watch": "Watching "}
"""Commands that go on until they are told to end, and what they say when they have begun."""
ON_A_TERMINAL = ("browse",)
"""Commands that ``test_browse.py`` drives."""
UNMOUNTED = ("umount", "mount", "fsck", "reindex", "serve", "watch")
"""Commands that unmount, and those that need the store to themselves, in this order."""
SESSION = (
    '{"type":"user","message":{"role":"user","content":"My key is sk-0123456789abcdefghij"},"uuid":"a","cwd":"/x",'
    '"parentUuid":null,"sessionId":"0d3f0000-0000-4000-8000-00000000000a","timestamp":"2026-03-05T19:31:00.000Z"}\n'
)


@pytest.fixture
def user() -> Iterator[User]:
    """Somebody with the demo conversations, mounted, and what else the examples speak of."""
    if not can_mount():
        pytest.skip("/dev/fuse or fusermount3 is not there")
    with user_on_disk() as user:
        (user.home / "bin").mkdir()
        convfs = user.home / "bin/convfs"
        convfs.write_text(f'#!/bin/sh\nexec {sys.executable} -m fusefs.cli "$@"\n')
        convfs.chmod(0o755)
        user.environment["BROWSER"] = "true"
        user.environment["PATH"] = f"{user.home}/bin:{user.environment['PATH']}"
        for session in ("session.jsonl", "old-laptop/other.jsonl"):
            (user.home / session).parent.mkdir(exist_ok=True)
            (user.home / session).write_text(SESSION.replace("0a", "0b") if "old" in session else SESSION)
        user.convfs("import", "--demo")
        with Store.open(user.store, renderer=FileRenderer(), create=False) as store:
            artifacts = store.artifacts
            artifacts.add(1, ARTIFACTS, artifacts.begin(1, ARTIFACTS, "make"), b"made\n" * 200)
            artifacts.end(1, ARTIFACTS, "0.make.log")
        user.run("mount", user.home / "conversations")
        event = next((user.home / "conversations/conversations/webshop").glob("*login*/events/00018-*"))
        event.write_text(event.read_text().replace("safe", "quite safe"))
        yield user


def shell(user: User, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", command],
        env=user.environment,
        cwd=user.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def works(user: User, command: str) -> None:
    with shell(user, command) as process:
        said, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, (command, said)


def test_every_example_does_what_it_says(user: User) -> None:
    for name in (*(name for name in COMMANDS if name not in UNMOUNTED + ON_A_TERMINAL), *UNMOUNTED):
        for _said, command in EXAMPLES[name]:
            if name in GO_ON:
                with shell(user, f"exec {command}") as process:
                    assert process.stdout is not None
                    assert any(line.startswith(GO_ON[name]) for line in process.stdout)
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(SECONDS) == 0
            else:
                works(user, command)
            if name == "mount":
                assert (user.home / "elsewhere/conversations/webshop").is_dir()
                user.run("umount", user.home / "elsewhere")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert EXAMPLES[name]
    for said, command in EXAMPLES[name]:
        assert f"  # {said}\n    {command}\n" in shown
        assert f"convfs {name}" in command


def test_examples_are_of_commands() -> None:
    assert {*EXAMPLES} == {*COMMANDS}
