"""A process that packs what the journals hold, where commits come faster than they can be packed beside them.

Cutting payloads apart and compressing them takes a processor most of its time, and the interpreter for much of that:
in a thread, every commit would wait for it again and again. So full journals are packed by a process of its own. It
reads the journals itself, and is told only what to do: it cuts payloads apart, and then compresses of the parts those
that the store does not have. Only records come back. What is looked up and written stays with the process that commits,
which does it while the next ones are cut and compressed.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from store.commit.pending import Waiting
from store.content.compression import Member, Packed, pack_records, taken_apart
from store.content.zstd import QUICK
from store.disk import durable
from store.disk.files import pread_around
from store.errors import DamageError
from store.ids import Hash, hash_bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_START = "import sys; sys.path[:] = sys.argv[1:]; from store.commit.packer import main; main()"
_LEAST_BYTES = 8 << 20


class Part(NamedTuple):
    """A blob that a payload was cut into, or the payload itself, as the process holds it."""

    hash: Hash
    size: int
    """The number of bytes of its body."""


class _Cut(NamedTuple):
    """An order to read blobs of the journals and to cut them apart: answered by their parts, each payload's own last.

    The parts take the place of those of the order before.
    """

    blobs: list[tuple[int, int, int, Hash]]
    """The number of the journal, offset and length of each, and its hash."""
    limit: int


class _Pack(NamedTuple):
    """An order to compress parts: answered by the records of :func:`pack_records`."""

    hashes: list[Hash]
    dictionary: tuple[Hash, bytes] | None


class _Fetch(NamedTuple):
    """An order for a part itself: answered by a :class:`Member`."""

    hash: Hash


class PackerGone(Exception):
    """The process has ended: what it was to do is to be done otherwise."""


class Packer:
    """The process, seen by the one that starts it. For one thread.

    Raises PackerGone where the process cannot be started, or has ended, by whatever means.
    """

    def __init__(self, journals: Path) -> None:
        """Start one for the journals in a directory."""
        # here, as few commit so much that they start one
        import socket
        import subprocess

        own, its = socket.socketpair()
        with its:
            # apart from the terminal: Ctrl-C is for the process that commits, whose end is this one's
            words = [sys.executable, "-P", "-c", _START, *sys.path]
            try:
                self._process = subprocess.Popen(words, stdin=its.fileno(), process_group=0)
            except OSError as error:
                own.close()
                raise PackerGone(str(error)) from error
        self._pipe = _pipe(own.detach())
        self._asked = False
        """True if the answer to an order was not taken yet."""
        self._order(journals)
        self._answer()

    def cut(self, blobs: Sequence[Waiting], limit: int) -> None:
        """Begin to cut payloads apart: :meth:`taken` returns the parts."""
        self._order(_Cut([(one.number, one.offset, one.length, one.hash) for one in blobs], limit))

    def taken(self) -> list[list[Part]]:
        """Return the parts of payloads, each payload's own last. DamageError if one is not what its hash says."""
        parts: list[list[Part]] | None = self._answer()
        if parts is None:
            raise DamageError("the journal does not hold any more what was written to it")
        return parts

    def fetch(self, part: Part) -> Member:
        """Return a part of what was cut last."""
        self._order(_Fetch(part.hash))
        found: Member = self._answer()
        return found

    def pack(self, parts: Sequence[Part], dictionary: tuple[Hash, bytes] | None) -> None:
        """Begin to compress parts of what was cut last: :meth:`packed` returns the records."""
        self._order(_Pack([part.hash for part in parts], dictionary))

    def packed(self) -> list[Packed]:
        """Return records as :func:`pack_records` does."""
        found: list[Packed] = self._answer()
        return found

    def close(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()

    def _order(self, order: object) -> None:
        if self._asked:
            # whoever was to take it has failed at something else
            self._answer()
        try:
            self._pipe.send(order)
        except OSError as error:
            raise PackerGone("it has ended") from error
        self._asked = True

    def _answer(self) -> Any:  # noqa: ANN401  (each order has an answer of its own)
        try:
            found = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise PackerGone("it has ended") from error
        self._asked = False
        return found


def _pipe(handle: int) -> "Connection":
    # imported here, as few processes pack
    from multiprocessing.connection import Connection

    return Connection(handle)


def main() -> None:
    """Do what is asked for over standard input, until that ends."""
    pipe = _pipe(0)
    parts: dict[Hash, Member] = {}
    with suppress(OSError, EOFError):
        journals = pipe.recv()
        pipe.send(None)
        while True:
            match pipe.recv():
                case _Cut(blobs, limit):
                    parts = {}
                    pipe.send(_cut(journals, blobs, limit, parts))
                case _Pack(hashes, dictionary):
                    pipe.send(pack_records([parts[name] for name in hashes], dictionary, QUICK))
                case _Fetch(name):
                    pipe.send(parts[name])


def _cut(
    journals: Path, blobs: list[tuple[int, int, int, Hash]], limit: int, parts: dict[Hash, Member]
) -> list[list[Part]] | None:
    found = []
    with ExitStack() as opened:
        files: dict[int, int] = {}
        for number, offset, length, digest in blobs:
            if number not in files:
                # each time: the one of this number may be another by now
                files[number] = durable.open_file(journals / str(number), read_only=True)
                opened.callback(os.close, files[number])
            payload = pread_around(files[number], length, offset)
            if hash_bytes(payload) != digest:
                return None
            members = taken_apart(digest, payload, limit)
            parts.update((member.hash, member) for member in members)
            found.append([Part(member.hash, len(member.body)) for member in members])
    return found


def worth(size: int) -> bool:
    """Return whether so many bytes are worth a process: starting one takes about a fifth of a second."""
    return size >= _LEAST_BYTES and len(os.sched_getaffinity(0)) > 1
