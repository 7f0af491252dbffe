"""Abuse of a daemon: nothing that the rest would feel, or that takes memory without bound."""

import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from store.ids import Hash
from store.service.client import Client
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.service.daemon import Daemon, daemon
from tests.store.service.generated import frame

LARGE = 24 << 20
PEERS = 12
MOST_GROWTH = 450 << 20
"""Four large requests of at most 64 MiB, or as many answers and those that a few threads are at; far less than what is
asked for, or sent."""


@pytest.fixture
def held(memory_path: Path) -> Iterator[Daemon]:
    with daemon(memory_path, "--tcp", "127.0.0.1:0") as held:
        yield held
        assert "Traceback" not in held.log.read_text()
    with Store.open(held.root, create=False) as store:
        assert store.recovered == []
        assert fsck(store) == []


def asks_for_gigabytes(peers: list[socket.socket], blob: Hash) -> None:
    """Ask for the same large blob a hundred times each, and take nothing."""
    for peer in peers:
        peer.sendall(frame(9, 0, 2, blob) * 100)


def sends_what_never_ends(peers: list[socket.socket], blob: Hash) -> None:
    """Begin frames of 60 MiB each, as far as they are taken, but for their last byte."""
    pour(peers, frame(11, 0, 2, blob + struct.pack("<I", 60 << 20) + bytes(60 << 20))[:-1], 1)


def asks_and_asks(peers: list[socket.socket], blob: Hash) -> None:
    """Ask for small things as long as questions are taken, and to be told of everything, and take nothing."""
    questions = frame(4, 0, 2, struct.pack("<Q", 1)) + frame(6, 0, 2, struct.pack("<QII", 1, 64, 1))
    questions += frame(258, 0, 2, b"{}") + frame(262, 0, 2, b"") + frame(1, 0, 2, b"")
    for peer in peers:
        peer.sendall(frame(290, 0, 2, b'{"texts":true}'))
    pour(peers, questions * 20_000, 1000)


def pour(peers: list[socket.socket], data: bytes, times: int) -> None:
    """Send the same bytes over and over, until no more of them is taken for a while."""
    left = dict.fromkeys(peers, len(data) * times)
    moved = time.monotonic()
    for peer in peers:
        peer.setblocking(False)
    while any(left.values()) and time.monotonic() < moved + 0.3:
        for peer, size in left.items():
            at = -size % len(data)
            try:
                left[peer] -= peer.send(memoryview(data)[at : at + min(size, 1 << 20)]) if size else 0
                moved = time.monotonic() if size else moved
            except BlockingIOError:
                continue
        time.sleep(0.001)


@pytest.mark.parametrize("doing", [asks_for_gigabytes, sends_what_never_ends, asks_and_asks])
def test_peers_that_take_nothing_cost_the_others_nothing(
    held: Daemon, doing: Callable[[list[socket.socket], Hash], None]
) -> None:
    meta = b'{"token":"%s"}' % held.token.encode()
    hello = frame(1, 0, 1, struct.pack("<HHI", 1, 0, len(meta)) + meta)
    with Client(held.path) as client:
        context = client.create_context(metadata={"project": "p", "name": "n"}).context
        blob = client.put_blob(os.urandom(LARGE))
        client.append(context, b"first", "t")
        before = held.memory()
        with ExitStack() as stack:
            peers = [stack.enter_context(held.connect(tcp=number % 2 == 0)) for number in range(PEERS)]
            for peer in peers:
                peer.sendall(hello)
                assert peer.recv(100)[4] == 1
            doing(peers, blob)
            for number in range(1, 51):
                assert client.append(context, b"%d" % number, "t").depth == number
                assert len(client.last(context, 64)) == number + 1
            assert client.find("p", "n") is not None
            assert held.memory("VmHWM") < before + MOST_GROWTH
        # what had to wait for a place has one, now that they are gone
        assert len(client.blob(blob)) == LARGE
        assert client.put_blob(os.urandom(LARGE)) != blob


@pytest.mark.parametrize("tcp", [False, True])
def test_what_cannot_be_understood_ends_one_connection(held: Daemon, tcp: bool) -> None:
    meta = b'{"token":"%s"}' % held.token.encode()
    hello = frame(1, 0, 1, struct.pack("<HHI", 1, 0, len(meta)) + meta)
    with Client(held.path) as client:
        for header in (struct.pack("<IHHQ", 0xFFFFFFFF, 5, 0, 7), struct.pack("<IHHQ", (64 << 20) + 1, 5, 0, 7)):
            with held.connect(tcp=tcp) as peer:
                peer.sendall(hello + header)
                found = b""
                while data := peer.recv(1000):
                    found += data
            # the answer to HELLO, then ERROR 413 to the request, then the end
            assert struct.unpack_from("<IHHQI", found, 26)[1:] == (255, 0, 7, 413)
            assert len(found) == 26 + 16 + struct.unpack_from("<I", found, 26)[0]
            assert client.stats().turns == 0
    assert held.memory("VmHWM") < 150 << 20


def test_a_daemon_that_was_killed_is_replaced(memory_path: Path) -> None:
    with daemon(memory_path) as first:
        client = Client(first.path)
        context = client.create_context().context
        turns = [client.append(context, b"%d" % number, "t") for number in range(20)]
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    stale = first.path
    assert stale.is_socket()
    # the same client goes on, and what it has been told holds
    with client, daemon(memory_path) as second:
        assert second.path == stale
        assert client.last(context, 100) == turns
        assert client.append(context, b"more", "t").parent == turns[-1].turn_id
    assert not stale.exists()
