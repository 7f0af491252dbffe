"""The names of blobs within bytes: they are looked for in steps, and found wherever a step ends."""

import os
import random
import re
from collections.abc import Iterator

import pytest

from store.ids import HEX, hash_key
from store.redaction import survey

PIECES = (b"a" * 63, b"a" * 64, b"a" * 65, b"\xc4\x20", b"\xc4\x20" * 3, b" ", b"x" * 40, b"\xff\xc4")


@pytest.mark.parametrize("step", [1, 33, 34, 64, 65, 100, 1 << 17])
def test_every_name_is_found_and_replaced_once(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "_STEP", step)
    chance = random.Random(step)
    for _ in range(60):
        names = [os.urandom(32) for _ in range(4)]
        named = [*(name.hex().encode() for name in names), *(b"\xc4\x20" + name for name in names)]
        data = b"".join(chance.choice((*PIECES, *named)) for _ in range(chance.randrange(40)))
        in_hex = [bytes.fromhex(found[0].decode()) for found in survey.HEX.finditer(data)]
        in_binary = [found[2] for found in survey._BINARY.finditer(data)]
        assert list(survey.keys_in(data)) == [hash_key(name) for name in [*in_hex, *in_binary]]
        new = {name: os.urandom(32) for name in names[:2]}
        assert survey.renamed(data, new.get) == replaced_at_once(data, new)


def test_the_pattern_is_tried_only_where_there_may_be_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    name, looked = os.urandom(32), list[int]()

    class Noting:
        def finditer(self, data: bytes, start: int, end: int) -> Iterator[re.Match[bytes]]:
            looked.append(start)
            return HEX.finditer(data, start, end)

    monkeypatch.setattr(survey, "HEX", Noting())
    before = b"text, deadbeef, 0123456789, and " * (4 * survey._STEP // 32)
    assert list(survey.keys_in(before)) == looked == []
    assert list(survey.keys_in(before + name.hex().encode() + b" " + before)) == [hash_key(name)]
    assert looked == [4 * survey._STEP]


def replaced_at_once(data: bytes, new: dict[bytes, bytes]) -> bytes:
    def in_hex(found: re.Match[bytes]) -> bytes:
        name = new.get(bytes.fromhex(found[0].decode()))
        return name.hex().encode() if name else found[0]

    there = survey.HEX.sub(in_hex, data)
    return survey._BINARY.sub(lambda found: found[1] + new.get(found[2], found[2]), there)
