"""What telling whose file it is needs to see of a path: read once, however many formats look at it."""

import os
from functools import cached_property
from pathlib import Path

from store.formats.files import HEAD_SIZE, head_lines, open_regular
from store.formats.json_beginning import completed
from store.formats.json_view import BYTE_ORDER_MARK, JsonObject, decode, is_object

_SHORTEST_BEGINNING = 16


class Look:
    """A path that a session may stand at. What is asked of its content is read then, and kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._decoded: list[JsonObject | None] = []

    @cached_property
    def is_folder(self) -> bool:
        """Whether there is a directory."""
        return os.path.isdir(self.path)

    @cached_property
    def head(self) -> bytes:
        """The first 64 KB of a regular file, nothing of a directory. Raises OSError for what cannot be read.

        A FIFO is never waited for.
        """
        if self.is_folder:
            return b""
        with open_regular(self.path) as file:
            return file.read(HEAD_SIZE)

    @cached_property
    def document(self) -> object:
        """The first JSON document of the head as far as it is there and makes sense, None where there is none.

        A text that is cut off is an empty one. Takes some 20 ms: look for what must be in the head first.

        Raises OSError as ``head`` does.
        """
        head = self.head.removeprefix(BYTE_ORDER_MARK)
        if not head.lstrip().startswith((b"{", b"[")):
            return None
        for whole in (head, *head_lines(head, 1)):
            if (decoded := decode(whole)) is not None:
                return decoded.value
        while len(head) >= _SHORTEST_BEGINNING:
            if (begun := completed(head)) is not None and (decoded := decode(begun.empty)) is not None:
                return decoded.value
            head = head[: len(head) // 2]
        return None

    def lines(self, limit: int = 50) -> list[bytes]:
        """Return the first lines of the head that are not blank; the last may be cut off. Raises OSError as it does."""
        return head_lines(self.head, limit)

    def objects(self, limit: int = 50) -> list[JsonObject]:
        """Return those of the first lines that are JSON objects. Raises OSError as ``head`` does."""
        if limit > len(self._decoded):
            self._decoded += map(_object, self.lines(limit)[len(self._decoded) :])
        return [value for value in self._decoded[:limit] if value is not None]


def _object(line: bytes) -> JsonObject | None:
    decoded = decode(line)
    return decoded.value if decoded and is_object(decoded.value) else None
