"""A session in which every message of the wire protocol is sent: its bytes are written out, both ways, in a file.

Nothing here encodes or decodes: what the service is, byte for byte, is what the file says.
"""

import os
import re
import socket
from pathlib import Path

import pytest

from store.service.operations import OPERATIONS
from store.service.server import Service, serving
from store.store import Store

STEPS = [
    (block.split("\n", 1)[0], *(bytes.fromhex("".join(re.findall(rf"(?m)^{way} (.*)$", block))) for way in "><"))
    for block in (Path(__file__).parent / "session.hex").read_text().strip().split("\n\n")[1:]
]


def test_every_message_and_every_flag_of_the_wire_protocol_is_there() -> None:
    sent = {(request[4], answer[4]) for _, request, answer in STEPS}
    assert {number for number, answered in sent if number == answered} == set(range(1, 12))
    assert {answer[16] | answer[17] << 8 for _, _, answer in STEPS if answer[4] == 255} == {404, 409, 413, 422}
    assert {(request[4], request[6]) for _, request, _ in STEPS} >= {(5, 1 | 2), (5, 2), (6, 4)}


@pytest.mark.parametrize("split", [False, True])
def test_a_session_byte_for_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: bool) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    store = Store.open(tmp_path / "store")
    with store, serving(Service(store, OPERATIONS)) as place, socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(os.fspath(place.socket))
        for name, request, answer in STEPS:
            for piece in [bytes([byte]) for byte in request] if split else [request]:
                peer.sendall(piece)
            found = b""
            while len(found) < len(answer):
                data = peer.recv(len(answer) - len(found))
                assert data, name
                found += data
            assert found == answer, name
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1) == b""
