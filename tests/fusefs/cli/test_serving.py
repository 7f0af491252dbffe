"""``convfs serve``, and programs that come in over TCP."""

import json
import os
import re
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgpack
import pytest

from store.errors import UsageError
from store.service import address
from store.service.client import Client
from tests.fusefs.cli.user import ROOT, User, serving
from tests.store.importing.test_cxdb import Server


def port(user: User) -> tuple[str, int]:
    return address.parsed(address.noted(user.store, "tcp"))


def test_programs_and_commands_are_answered_until_it_is_told_to_end(user: User) -> None:
    with serving(user):
        path = address.noted_socket(user.store)
        assert path is not None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with Client.of(user.store) as client:
            context = client.create_context(metadata={"project": "p", "name": "n"}).context
            turn = client.append(context, b'{"type":"user"}', "claude-code.line.v1")
        assert "p/n" in user.run("ls")
        assert not (user.store / "token").exists()
    assert not path.exists()
    assert "p/n" in user.run("ls")
    assert "sound" in user.run("fsck")
    with serving(user), Client.of(user.store) as client:
        assert client.head(context).turn == turn.turn_id


def test_the_socket_can_lie_elsewhere(user: User, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with serving(user, "--socket", path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with Client(path) as client:
            assert client.stats().turns == 0
        assert "NAME" in user.run("ls")
    assert not path.exists()
    path.write_text("mine")
    assert "no socket" in user.fails("serve", "--socket", path)
    assert path.read_text() == "mine"


def test_over_tcp_a_token_is_wanted(user: User) -> None:
    with serving(user, "--tcp", "127.0.0.1:0"):
        file = user.store / "token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = file.read_text().strip()
        assert len(token) == 64
        with Client(tcp=port(user), token=token) as client:
            assert client.stats().turns == 0
        for wrong in ("", token[:-1], token.upper() + "x"):
            with pytest.raises(UsageError, match="token"):
                Client(tcp=port(user), token=wrong)
    with serving(user, "--tcp", "localhost:0"), Client(tcp=port(user), token=token) as client:
        assert client.stats().turns == 0


def test_the_token_can_be_turned_off(user: User) -> None:
    with serving(user, "--tcp", "127.0.0.1:0", "--no-token"):
        assert not (user.store / "token").exists()
        with Client(tcp=port(user)) as client:
            assert client.stats().turns == 0


@pytest.mark.parametrize("place", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.invalid:1", "9009", "host:", ":x"])
def test_only_this_machine_is_listened_to(user: User, place: str) -> None:
    for command in (("serve",), ("mount", user.home / "mnt")):
        said = user.fails(*command, "--tcp", place)
        assert said.count("\n") == 1
    assert not user.store.exists()


def test_a_store_is_served_once(user: User) -> None:
    with serving(user):
        assert "serves the store already" in user.fails("serve")
        assert "serves the store already" in user.fails("mount", user.home / "mnt")


def test_what_a_killed_service_had_acknowledged_is_there(user: User) -> None:
    with serving(user) as daemon:
        client = Client.of(user.store)
        context = client.create_context().context
        turns = [client.append(context, os.urandom(2000), "t") for _ in range(50)]
        opened = client.open_turn(context, "text.assistant.v1")
        opened.add(b"before, ")
        daemon.kill()
        daemon.wait()
    with serving(user), client:
        assert client.last(context, 100) == turns
        opened.add(b"after")
        assert client.payload(opened.seal().turn_id) == b"before, after"


def test_the_program_of_the_manual(user: User) -> None:
    text = (ROOT / "fusefs/MANUAL.md").read_text()
    program, *_others = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    with serving(user):
        done = subprocess.run(
            [sys.executable, "-c", program], env=user.environment, capture_output=True, text=True, timeout=60
        )
    assert (done.stdout, done.stderr) == ('b\'{"text": "hello"}\'\n', "")
    assert "notes/from-a-program" in user.run("ls")


@pytest.mark.parametrize("by", ["serve", "mount"])
def test_over_http_a_token_is_wanted(user: User, by: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    url = f"http://{place}/v1/contexts"
    with ExitStack() as stack:
        if by == "serve":
            stack.enter_context(serving(user, "--http", place))
        else:
            mnt = user.home / "mnt"
            user.run("mount", "--http", place, mnt)
            stack.callback(user.run, "umount", mnt)
        with Client.of(user.store) as client:
            client.append(client.create_context().context, b"{}", "demo.v1")
        with pytest.raises(HTTPError, match="401"):
            urlopen(url, timeout=60)
        token = (user.store / "token").read_text().strip()
        with urlopen(f"{url}?token={token}", timeout=60) as answer:
            assert json.load(answer)["count"] == 1
    assert "other machines" in user.fails("serve", "--http", "0.0.0.0:0")


def test_a_data_directory_of_cxdb_is_imported(user: User) -> None:
    server = Server(user.home / "cxdb")
    context = server.context()
    item = {1: "user_input", 10: {1: "Is it raining?"}, 30: {1: "weather", 2: "The weather"}}
    server.append(context, 0, msgpack.packb(item), "cxdb.ConversationItem")
    assert "1 new" in user.run("import", "--dry-run", server.root)
    assert "cxdb  1 imported" in user.run("import", server.root)
    [listed] = user.list()
    assert (listed["project"], listed["title"]) == ("weather", "The weather")
    assert "Is it raining?" in user.run("show", "weather")
    assert "1 unchanged" in user.run("import", server.root)
