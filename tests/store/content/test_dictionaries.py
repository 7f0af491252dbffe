import os

from store.content import zstd
from store.content.zstd import DICTIONARY_BYTES, Dictionary, train


def samples(count: int) -> list[bytes]:
    return [
        b'{"parentUuid":"%s","isSidechain":false,"userType":"external","cwd":"/home/someone/project","version":"2.1.%d",'
        b'"type":"assistant","message":{"role":"assistant","content":[]}}' % (os.urandom(16).hex().encode(), number)
        for number in range(count)
    ]


def test_a_dictionary_helps_bodies_like_its_samples() -> None:
    trained = train(samples(2000))
    assert trained is not None
    assert len(trained) <= DICTIONARY_BYTES
    [body] = samples(1)
    dictionary = Dictionary(trained)
    frame = zstd.compress(body, dictionary=dictionary)
    assert len(frame) * 2 < len(zstd.compress(body))
    assert zstd.decompress(frame, len(body), dictionary) == body


def test_too_little_teaches_nothing() -> None:
    assert train([]) is None
    assert train(samples(10)) is None
    assert train([b"tiny"] * 1000) is None
    assert train([b""] * 1000) is None


def test_much_is_looked_at_in_part() -> None:
    trained = train([sample + os.urandom(3000).hex().encode() for sample in samples(3000)])
    assert trained is None or len(trained) <= DICTIONARY_BYTES
