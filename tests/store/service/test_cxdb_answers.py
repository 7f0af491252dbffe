"""Requests that CXDB's own server answered: what it said is recorded beside what we say, and why where that differs.

``cxdb_answers.json`` has the cases in order, for one server that was empty before the first; each has a connection of
its own. ``sent`` are the frames, ``server`` the answers of the real server (commit c7bab7c), ``ours`` is there where
ours are others, and ``why`` says what for. An answer is its message, flags and payload in hex; or an error's code.
"""

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.service.server import Service, serving
from store.store import Store

CASES = json.loads(Path(__file__).with_name("cxdb_answers.json").read_text())
WHY = {
    "answered": "an error is answered by its code, and the connection goes on",
    "key": "an idempotency key stands for one turn",
    "later": "the same, but for turns that were refused or were there already",
    "length": "clients expect a length where no payload was asked for",
    "ours": "a message or flag of our own",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    root = tmp_path_factory.mktemp("cxdb") / "store"
    with Store.open(root, renderer=FileRenderer(), create=True) as store, serving(Service(store, ())) as place:
        yield {case["case"]: ask(place.socket, case) for case in CASES}


def ask(path: Path, case: dict[str, list[str]]) -> list[str]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(os.fspath(path))
        sock.sendall(bytes.fromhex("".join(case["sent"])))
        sock.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    found = []
    while data:
        size, message, flags, _req_id = struct.unpack_from("<IHHQ", data)
        payload, data = data[16 : 16 + size], data[16 + size :]
        error = f"error {struct.unpack_from('<I', payload)[0]}"
        found.append(error if message == 255 else f"{message} {flags} {payload.hex()}")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_answer_is_the_servers_or_differs_for_a_reason(
    answers: dict[str, list[str]], case: dict[str, list[str]]
) -> None:
    assert answers[case["case"]] == case.get("ours", case["server"])
    assert ("ours" in case) == ("why" in case)


def test_each_difference_has_one_of_few_reasons() -> None:
    assert {case["why"] for case in CASES if "why" in case} == set(WHY)
    closed = [case for case in CASES if "closed" in case["server"]]
    assert all(case["why"] in ("answered", "ours") for case in closed)
    assert sum("why" not in case for case in CASES) >= 40
