"""Keys: kept for their owner, and wrapped for one machine alone."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import paths
from store.errors import DamageError
from store.shared import keys
from store.shared.keys import Keyring, new_space_key, unwrap, wrap

SPACE = bytes(range(16))
OWN = bytes(range(32))
OTHER = bytes(range(1, 33))

# Made once by OTHER for OWN, with the secret, and unwrapped by every version from then on.
WRAPPED = (
    "4a278fb4ddbf0327f222c07899341bf2c2876a34dea00fc975a32d48113fdb4e293ea50cf5192ed9c644fb21782d0af8472c"
    "9fc05244a5e5f0405e10a99bfcb91f61a2d7e81e2c83b2059146a6446b7a"
)


def test_what_was_wrapped_once_is_unwrapped() -> None:
    own, other = Keyring(OWN, {}), Keyring(OTHER, {})
    assert unwrap(bytes.fromhex(WRAPPED), 7, SPACE, own, other.public, b"secret") == bytes(range(2, 34))


@given(st.binary(min_size=32, max_size=32), st.integers(1, 2**32 - 1), st.binary(max_size=20))
def test_a_key_is_wrapped_for_one_machine(key: bytes, generation: int, secret: bytes) -> None:
    sender, recipient, other = Keyring.new(), Keyring.new(), Keyring.new()
    wrapped = wrap(key, generation, SPACE, sender, recipient.public, secret)
    assert key not in wrapped
    assert unwrap(wrapped, generation, SPACE, recipient, sender.public, secret) == key
    for wrong in (
        (generation, SPACE, other, sender.public, secret),
        (generation, SPACE, recipient, other.public, secret),
        (generation, SPACE, recipient, sender.public, secret + b"!"),
        (generation - 1, SPACE, recipient, sender.public, secret),
        (generation, bytes(16), recipient, sender.public, secret),
    ):
        with pytest.raises(DamageError, match="not wrapped for this machine"):
            unwrap(wrapped, *wrong)


@given(st.data())
def test_no_bit_of_a_wrapped_key_can_be_changed(data: st.DataObject) -> None:
    sender, recipient = Keyring.new(), Keyring.new()
    wrapped = bytearray(wrap(new_space_key(), 1, SPACE, sender, recipient.public))
    # the highest bit of a public key means nothing to X25519, but the wrapping is over all of it
    at = data.draw(st.integers(0, len(wrapped) - 1))
    wrapped[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamageError):
        unwrap(bytes(wrapped), 1, SPACE, recipient, sender.public)


@given(st.binary(max_size=100))
def test_noise_is_no_wrapped_key(noise: bytes) -> None:
    with pytest.raises(DamageError):
        unwrap(noise, 1, SPACE, Keyring(OWN, {}), Keyring(OTHER, {}).public)


def test_a_public_key_that_is_none() -> None:
    for public in (b"short", bytes(32)):
        with pytest.raises(DamageError, match="makes no sense"):
            wrap(new_space_key(), 1, SPACE, Keyring(OWN, {}), public)


def test_a_keyring_is_kept_for_its_owner(tmp_path: Path) -> None:
    assert keys.read(tmp_path) is None
    keyring = Keyring.new({1: new_space_key()})
    keyring.write(tmp_path)
    assert keys.read(tmp_path) == keyring
    assert stat.S_IMODE((tmp_path / paths.KEYS).stat().st_mode) == 0o600
    more = keyring.having({2: new_space_key()})
    assert (more.newest, more.since(2).newest, list(more.since(2).generations)) == (2, 2, [2])
    more.write(tmp_path)
    assert keys.read(tmp_path) == more
    # of two that write, none takes from the other
    keyring.write(tmp_path)
    assert keys.read(tmp_path) == more
    given_up = keyring.generations[1].hex().encode()
    more.since(2).replace(tmp_path)
    assert keys.read(tmp_path) == more.since(2)
    assert [path.name for path in tmp_path.iterdir()] == [paths.KEYS]
    assert given_up not in (tmp_path / paths.KEYS).read_bytes()
    assert keyring.private.hex() not in repr(more)
    assert repr(more.generations[2]) not in repr(more)


@pytest.mark.parametrize("text", ["", "{}", '{"private":"00","generations":{}}', '{"private":"zz","generations":{}}'])
def test_a_damaged_keyring_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / paths.KEYS).write_text(text)
    with pytest.raises(DamageError, match=paths.KEYS):
        keys.read(tmp_path)
