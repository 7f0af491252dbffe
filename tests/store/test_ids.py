"""Hashes of bytes, by whatever computes them."""

import hashlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import ids


@given(st.binary(max_size=200), st.integers(0, 2 * ids._SHA256_AT_ONCE))
def test_sha256_is_that_of_all_bytes(begin: bytes, more: int) -> None:
    data = begin + bytes(more)
    expected = hashlib.sha256(data).digest()
    assert ids.sha256(data) == expected
    assert ids.sha256(memoryview(b"x" + data)[1:]) == expected


def test_where_python_has_none_of_its_own_it_is_that_of_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_sha2", "_sha256"):
        monkeypatch.setitem(sys.modules, name, None)
    ids._begun_sha256.cache_clear()
    try:
        assert ids._begun_sha256() is hashlib.sha256
        assert ids.sha256(b"convfs") == hashlib.sha256(b"convfs").digest()
    finally:
        ids._begun_sha256.cache_clear()
