"""Connections that break off at any byte: an append is made once, whether it had been made or not."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.errors import ConvfsError
from store.service.async_client import open_client
from store.service.channel import ServiceGone
from store.service.client import Client
from store.service.server import Service, serving
from store.store import Store

APPEND, CREATE = 5, 270
LARGE = os.urandom(300_000)


class Between(threading.Thread):
    """Stands between clients and a service, and breaks off the first connections at the message ``number``.

    ``requested`` is how many bytes of that request get through, ``answered`` how many of the answer (where all of the
    request did).
    """

    def __init__(self, path: Path, service: Path, number: int, requested: int | None, answered: int) -> None:
        super().__init__(daemon=True)
        self.left = 2
        self.path = path
        self._service = service
        self._number, self._requested, self._answered = number, requested, answered
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(path))
        self._listener.listen(8)

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, socket.socket(socket.AF_UNIX) as service:
                    service.connect(os.fspath(self._service))
                    self._serve(client, service)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, client: socket.socket, service: socket.socket) -> None:
        """Hand on one request and its answer after the other, until it is time to break off."""
        while request := _frame(client):
            breaks = self.left and struct.unpack_from("<H", request, 4)[0] == self._number
            self.left -= bool(breaks)
            if breaks and self._requested is not None:
                service.sendall(request[: self._requested])
                return
            service.sendall(request)
            answer = _frame(service)
            client.sendall(answer[: self._answered] if breaks else answer)
            if breaks:
                return


def _frame(peer: socket.socket) -> bytes:
    data = b""
    while len(data) < 16 or len(data) < 16 + struct.unpack_from("<I", data)[0]:
        some = peer.recv(1 << 16)
        if not some:
            return b""
        data += some
    return data


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Store.open(tmp_path / "store") as opened:
        yield opened


@contextlib.contextmanager
def between(store: Store, number: int, requested: int | None, answered: int) -> Iterator[Between]:
    with serving(Service(store, ())) as place:
        one = Between(store.root.parent / "between", place.socket, number, requested, answered)
        one.start()
        try:
            yield one
        finally:
            one.close()


# the request is never sent, or not all of it; the answer is lost, or cut off
CUTS = [(0, 0), (15, 0), (100, 0), (None, 0), (None, 15), (None, 40)]


@pytest.mark.parametrize(("requested", "answered"), CUTS)
@pytest.mark.parametrize("payload", [b"small", LARGE])
def test_an_append_is_made_once(store: Store, payload: bytes, requested: int | None, answered: int) -> None:
    context = store.contexts.create().context
    with between(store, APPEND, requested, answered) as cut, Client(cut.path) as client:
        turn = client.append(context, payload, "t")
        assert cut.left == 0
        assert client.append(context, payload, "t").parent == turn.turn_id
    assert [one.depth for one in store.contexts.last(context, 9)] == [0, 1]


@pytest.mark.parametrize(("requested", "answered"), CUTS)
async def test_an_append_of_a_task_is_made_once(store: Store, requested: int | None, answered: int) -> None:
    context = store.contexts.create().context
    with between(store, APPEND, requested, answered) as cut:
        async with open_client(cut.path) as client:
            turn = await client.append(context, b"small", "t")
            assert cut.left == 0
            assert (await client.append(context, b"small", "t")).parent == turn.turn_id
    assert [one.depth for one in store.contexts.last(context, 9)] == [0, 1]


@pytest.mark.parametrize(("requested", "answered", "made"), [(0, 0, False), (None, 0, True)])
def test_what_has_no_key_is_not_asked_for_twice(store: Store, requested: int | None, answered: int, made: bool) -> None:
    with between(store, CREATE, requested, answered) as cut, Client(cut.path) as client:
        with pytest.raises(ServiceGone):
            client.create_context(metadata={"project": "p", "name": "n"})
        cut.left = 0
        assert (client.find("p", "n") is not None) == made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_socket_that_another_user_listens_at_is_not_talked_to(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    ready, written = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(path))
        child = os.fork()
        if child == 0:
            # who listens is who the kernel names as the peer
            os.setuid(12345)
            listener.listen(4)
            os.write(written, b".")
            time.sleep(60)
            os._exit(0)
    try:
        os.read(ready, 1)
        path.chmod(0o666)
        with pytest.raises(ConvfsError, match="another user"):
            Client(path)
        with pytest.raises(ConvfsError, match="another user"):
            async with open_client(path):
                pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(written)
