"""Training zstd dictionaries from a store's own payloads."""

from collections.abc import Sequence

import zstandard

DICTIONARY_BYTES = 112 << 10
"""The largest dictionary that is trained."""

_FEWEST_SAMPLES = 32
_LEAST_RATIO = 4
_MOST_BYTES = 8 << 20
_LARGEST_SAMPLE = 128 << 10
_SEGMENT = 1024
_DMER = 8


def train(samples: Sequence[bytes]) -> bytes | None:
    """Return a dictionary for bodies like ``samples``; None where these are too few or too small to learn from.

    At most some 8 MB of the samples are looked at, spread evenly over them.
    """
    usable: list[bytes | bytearray | memoryview] = [
        sample[:_LARGEST_SAMPLE] for sample in samples if len(sample) >= _DMER
    ]
    total = sum(map(len, usable))
    if total > _MOST_BYTES:
        step = total / _MOST_BYTES
        usable = [usable[int(index * step)] for index in range(int(len(usable) / step))]
        total = sum(map(len, usable))
    size = min(DICTIONARY_BYTES, total // _LEAST_RATIO)
    if len(usable) < _FEWEST_SAMPLES or size < 1024:
        return None
    try:
        return zstandard.train_dictionary(size, usable, k=_SEGMENT, d=_DMER).as_bytes()
    except zstandard.ZstdError:
        return None  # the samples have nothing in common
