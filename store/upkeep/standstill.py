"""Changing what a store has said for good: the logs are written once more, and what follows from them follows.

Nobody commits meanwhile, and nothing waits in the journal. Readers go on: they see what was before, or what is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from store.commit.checkpointer import Checkpointer
from store.commit.intake import Intake
from store.commit.learning import Learning
from store.disk.file_header import Damage
from store.disk.head_format import Body, Frame
from store.ids import Hash
from store.index.views import Views
from store.upkeep.recovery import Files


class Standstill:
    """Lets one store stand still. ``forget`` has it forget what it remembers of records and contents."""

    def __init__(
        self, files: Files, checkpointer: Checkpointer, intake: Intake, views: Views, forget: Callable[[], None]
    ) -> None:
        self._files = files
        self._checkpointer = checkpointer
        self._intake = intake
        self._views = views
        self._forget = forget
        self._rewriting = False

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Let commits wait while the block runs; nothing is left then of what the journals have held.

        The index is not to be trusted while it does: who is killed within makes it anew. If the block fails once logs
        were :meth:`rewrite`-n, the store takes no more, until it is opened again. Raises StoreFailed.
        """
        with self._checkpointer.still():
            self._rewriting = False
            try:
                self._files.journal.erase()
                with self._files.index.db.distrusted():
                    yield
            except Exception as error:
                if self._rewriting or isinstance(error, OSError):
                    raise self._intake.writer.fail(error) from error
                raise

    def rewrite(
        self,
        records: Callable[[int, bytes], bytes],
        body: Callable[[Frame], Body],
        blank: Callable[[bytes], bytes],
    ) -> None:
        """Put others in the places of all records of turns, and of all frames; see the logs' own ``rewrite``."""
        self._rewriting = True
        self._files.heads.rewrite(body, blank)
        self._files.turns.rewrite(records)

    def read_anew(self, turns: Sequence[int], contexts: Iterable[int]) -> None:
        """Have the index say what the logs say now; ``turns`` are those whose payloads are others, in ``contexts``."""
        self._files.index.renew(self._frames())
        self._views.drop(turns, contexts)
        self._intake.forget_packed()
        self._forget()

    def _frames(self) -> Iterator[Frame]:
        return (frame for frame in self._files.heads.frames() if not isinstance(frame, Damage))

    def blank(self, number: int, start: int, text: bytes) -> None:
        """Let an open turn say something else from ``start`` on, as its frames do."""
        self._intake.writer.texts.blank(number, start, text)

    def replaced(self, new: Mapping[Hash, Hash]) -> None:
        """Take note of blobs that took the places of others: somebody may be about to name these."""
        self._intake.writer.replaced.add(new)

    def use_no_dictionary(self) -> None:
        """Have nothing compressed with the dictionary of before, until :meth:`learn`."""
        self._intake.use_no_dictionary()

    def learn(self) -> None:
        """Train a dictionary if there is none and there is enough to learn from. Not within a standstill."""
        if not self._intake.has_dictionary:
            Learning(self._intake).learn()

    def erase(self) -> None:
        """Leave nothing on the disk of what the logs and the index have said before."""
        self._files.turns.erase_old()
        self._files.heads.erase_old()
        self._files.index.db.purge()
