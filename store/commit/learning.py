"""The dictionary that small groups are compressed with, learnt from the store's own payloads.

What is appended now and then goes into packs in groups of a few records, too few to say much about each other. A zstd
dictionary knows what they have in common with all the others; with its tables even a line of text does not stay
readable in the pack.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.commit.intake import Intake
from store.commit.pending import Waiting
from store.commit.request import Request
from store.content.compression import SMALL_GROUP_BYTES, Member, pack_single
from store.content.cutting import cut
from store.content.dictionaries import train
from store.disk.blob_format import Form
from store.errors import ConvfsError, DamageError
from store.ids import hash_bytes

_FEWEST_TURNS = 512
_FEWEST_BYTES = 256 << 10
_MOST_TURNS = 4096
_MOST_BYTES = 4 << 20
_AT_ONCE = 64


class Learning:
    """Trains a dictionary once: as soon as there is enough to learn from, and small groups that would use it."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._writer = intake.writer
        self._wanted = False
        self._next_try = _FEWEST_TURNS

    def packed(self, blobs: Sequence[Waiting]) -> None:
        """Take note of what was packed together."""
        if blobs and sum(blob.length for blob in blobs) < SMALL_GROUP_BYTES:
            self._wanted = True

    @property
    def due(self) -> bool:
        """Whether :meth:`learn` is worth a try."""
        return (
            self._wanted
            and self._writer.turns.count >= self._next_try
            and not self._writer.failed
            and not self._intake.has_dictionary
        )

    def learn(self) -> None:
        """Train a dictionary and register it, if there is enough to learn from. Not to be called under any lock."""
        self._next_try = 2 * self._writer.turns.count
        try:
            data = train(self._samples())
            if data is not None:
                self._register(data)
        except ConvfsError:
            # a store that has failed says so to whoever writes next; it can do without a dictionary
            return

    def _samples(self) -> list[bytes]:
        """Return bodies as the packs hold them, of turns from all over the log; none if they are too few."""
        intake, turns = self._intake, self._writer.turns
        step = max(1, turns.count // _MOST_TURNS)
        ids = range(turns.count, 0, -step)
        samples: list[bytes] = []
        size = 0
        for start in range(0, len(ids), _AT_ONCE):
            digests = []
            for turn_id in ids[start : start + _AT_ONCE]:
                try:
                    digests.append(turns.get(turn_id).payload_hash)
                except DamageError:
                    continue
            for payload in intake.resolver.blobs(digests).values():
                if isinstance(payload, bytes):
                    taken = cut(payload, intake.inline_limit)
                    samples.append(taken.body if taken else payload)
                    size += len(samples[-1])
            if size >= _MOST_BYTES:
                break
        return samples if size >= _FEWEST_BYTES else []

    def _register(self, data: bytes) -> None:
        digest = hash_bytes(data)
        record = pack_single(Member(digest, Form.PLAIN, len(data), data))
        # twice: one damaged block must not take every small group with it
        # held until the dictionary is registered
        region = self._intake.reliance.region()
        self._intake.write([(record, [digest]), (record, [digest])], region)
        self._intake.sync()
        self._writer.submit(Request(0, dictionaries=((0, digest),)))
        self._intake.use_dictionary(digest, data)
