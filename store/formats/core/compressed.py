"""Sessions of lines that their tool compresses by zstd, once they have ended or lie still."""

from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile

from store.content import zstd
from store.errors import UsageError
from store.formats.core.budget import Budget, size_on_disk
from store.formats.core.format import Format, Source
from store.formats.core.look import HEAD_SIZE, Look, open_regular


def _opened(look: Look) -> Look | None:
    """Return the lines that a compressed file begins with, under its name without suffix; None for any other file.

    One beside which they stand as they are is passed over, too.
    """
    path = look.path.with_suffix("")
    if look.path.suffix != zstd.SUFFIX or not look.head.startswith(zstd.MAGIC) or path.exists():
        return None
    inner = Look(path)
    inner.head = b""
    with suppress(zstd.Torn):
        for piece in zstd.expanded(BytesIO(look.head)):
            inner.head += piece
            if len(inner.head) >= HEAD_SIZE:
                break
    return inner


class Compressed(Format):
    """The part of a format that reads and writes compressed sessions, for a class that is also that of the lines."""

    keeps_file = True

    def claim(self, look: Look) -> Source | None:
        """Claim a file whose lines are claimed."""
        inner = _opened(look)
        return Source(self.name, look.path, look.path) if inner and self.is_ours(inner) else None

    def rendition(self, source: Source, scratch: Path) -> Path:
        """Write the lines, of a damaged file those before the damage."""
        with (
            open_regular(source.main) as file,
            NamedTemporaryFile(prefix="rendition-", suffix=".jsonl", dir=scratch, delete=False) as lines,
        ):
            budget = Budget(source.main, size_on_disk(file), scratch)
            with suppress(zstd.Torn):
                for piece in zstd.expanded(file):
                    budget.spend(len(piece))
                    lines.write(piece)
        return Path(lines.name)

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        with original.open("rb") as file:
            try:
                for _piece in zstd.expanded(file):
                    pass
            except zstd.Torn as error:
                raise UsageError(f"what was edited cannot be written into a damaged file: {error}") from None
        with rendition.open("rb") as lines, target.open("wb") as file:
            zstd.compress_file(lines, file)
