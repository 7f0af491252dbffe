"""Where very many blobs lie."""

from store.ids import Hash, hash_bytes, hash_key
from store.index.index import BlobPlace, Places


def test_they_come_back_in_the_order_of_their_keys() -> None:
    given: list[tuple[Hash, BlobPlace]] = [
        (hash_bytes(b"%d" % number), (1 << 32 | number % 3, 100 * number, number % 7)) for number in range(100)
    ]
    places = Places(given)
    assert len(places) == 100
    assert list(places.rows()) == sorted((hash_key(digest), *place) for digest, place in given)
    assert all(digest in places for digest, _place in given)
    assert hash_bytes(b"another") not in places
    places.add(hash_bytes(b"another"), (1, 2, 3))
    assert hash_bytes(b"another") in places
    assert hash_bytes(b"100") not in Places()
