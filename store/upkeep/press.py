"""The press: packs what sealing has gathered, in a process of its own.

To compress as hard as that takes most of the time of sealing, and tables of tens of megabytes. Those who ask the
process that has the store must feel neither, so a helper does it (``store.helper``), at a low priority.
"""

import queue
import threading
from collections.abc import Generator, Iterator

from store.content.sealed import LEVEL, GroupSealer
from store.content.zstd import compress_in_steps
from store.errors import DamageError
from store.helper import Answer, Helper, Work, give_way, processes
from store.ids import HASH_SIZE, Hash

_WORTH_BYTES = 1 << 20
"""Less than this is packed at once: a process takes a moment to start."""
_WAIT_SECONDS = 0.05
_NUMBER_SIZE = 4
_STEP, _DONE, _DAMAGED = range(3)


class Press:
    """Packs large groups and bodies, one at a time; for one thread. Its process starts when it is first needed."""

    def __init__(self) -> None:
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._helper: Helper | None = None
        self._reader = threading.Thread(target=self._read, name="convfs-press", daemon=True)

    def group(self, group: GroupSealer) -> Generator[int, None, tuple[bytes, list[Hash]]]:
        """As :meth:`GroupSealer.finish`, wherever it is done."""
        data = (yield from self._done(group)) if group.size >= _WORTH_BYTES else None
        if data is None:
            return (yield from group.finish())
        end = _NUMBER_SIZE + HASH_SIZE * int.from_bytes(data[:_NUMBER_SIZE], "little")
        return data[end:], [Hash(data[at : at + HASH_SIZE]) for at in range(_NUMBER_SIZE, end, HASH_SIZE)]

    def frame(self, body: bytes) -> Generator[int, None, bytes]:
        """As :func:`store.content.zstd.compress_in_steps`, wherever it is done."""
        frame = (yield from self._done(body)) if len(body) >= _WORTH_BYTES else None
        return frame if frame is not None else (yield from compress_in_steps([body], LEVEL))

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._helper is not None:
            self._helper.end(self._reader)

    def _done(self, job: GroupSealer | bytes) -> Generator[int, None, bytes | None]:
        """Return what the process makes of a job; None where there is none, or it has ended."""
        if self._helper is None:
            if not processes():
                return None
            self._helper = Helper(__name__, ())
            self._reader.start()
        self._helper.give(0, job)
        while True:
            try:
                answer = self._answers.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                yield 0
                continue
            if answer is None:
                # for the next job, too
                self._answers.put(None)
                return None
            what, data = answer
            if what == _DONE:
                return data
            if what == _DAMAGED:
                raise DamageError(data.decode())
            yield int.from_bytes(data, "little")

    def _read(self) -> None:
        assert self._helper is not None
        for _number, what, data in self._helper.answers():
            self._answers.put((what, data))
        self._answers.put(None)


def work() -> Work:
    """Return what the process does."""
    give_way()
    return _packed


def _packed(_number: int, job: object) -> Iterator[Answer]:
    steps: Generator[int, None, object]
    if isinstance(job, GroupSealer):
        steps = job.finish()
    else:
        assert isinstance(job, bytes)
        steps = compress_in_steps([job], LEVEL)
    try:
        while True:
            yield _STEP, next(steps).to_bytes(_NUMBER_SIZE, "little")
    except DamageError as error:
        yield _DAMAGED, str(error).encode()
    except StopIteration as end:
        if isinstance(end.value, bytes):
            yield _DONE, end.value
        else:
            record, names = end.value
            yield _DONE, b"".join((len(names).to_bytes(_NUMBER_SIZE, "little"), *names, record))
