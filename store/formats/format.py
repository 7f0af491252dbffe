"""The interface that one foreign tool's module fills in, and the values that pass through it."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from store.errors import UsageError
from store.formats.lens import Lens
from store.formats.look import Look

AS_READ = "as-read"
"""See :meth:`Format.rendition`."""


class Source(Struct, frozen=True):
    """One session as it lies on disk.

    ``path`` identifies it (a file, or a directory for tools that keep one a session). ``main`` is the file whose
    records become turns; ``first`` are files that become one record each before those of ``main``, of the payload types
    ``first_types`` (where that is empty, all of the format's ``first_type``); ``sidecars`` are files kept whole beside
    the conversation, by the name that they are exported under (relative to ``path``'s directory, or to ``path`` itself
    where that is a directory). ``beside`` are other files, in the directory of ``main``, that belong to that one (a
    database's log): they need not be there.
    """

    format: str
    path: Path
    main: Path
    first: tuple[Path, ...] = ()
    sidecars: tuple[tuple[str, Path], ...] = ()
    first_types: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()


class Span(Struct, frozen=True, gc=False):
    """One record in a file's bytes: ``[start, end)``, without what separates it from its neighbours."""

    start: int
    end: int


class About(Struct, frozen=True):
    """What a session says of itself; any field may be empty. ``started_ms`` is in Unix milliseconds.

    ``forked_from`` is the tool's id of the session that this one copies the beginning of.
    """

    title: str = ""
    project: str = ""
    started_ms: int = 0
    session_id: str = ""
    extra: dict[str, str] = {}
    forked_from: str = ""


class Part(Struct, frozen=True):
    """One conversation of a file that holds several, or one branch of a tree.

    ``key`` is the tool's own id of it: the same key in a later file is the same conversation. ``records`` are the
    positions, among the file's spans, of its own records, in the order of the conversation. Where it branches from an
    earlier part, ``base`` is that one's position among the parts (else -1), and the first ``shared`` records of that
    conversation come before its own.
    """

    key: str
    records: Sequence[int]
    about: About
    base: int = -1
    shared: int = 0


class ExternalBlob(Struct, frozen=True):
    """Content that a payload names and that lies in a file beside the session.

    ``algorithm`` and ``digest`` are its name: a hash (``sha256``), or any other id that stands for this content alone
    (``chatgpt-file``), of up to 255 bytes. ``read`` returns the content, verified where that can be done. It raises
    NotFound where no such file is, DamageError where the file is not what its name says or is too large to be
    believed.
    """

    algorithm: str
    digest: bytes
    read: Callable[[], bytes]


class Format(Protocol):
    """One foreign tool. Subclass it: what has a default here says that the tool has no such thing."""

    name: str
    """As in ``--format`` and in the metadata of conversations: ``claude-code``, ``jp``."""

    lenses: Sequence[Lens]
    """The lenses for the payload types that this module writes."""

    main_type: str
    """The payload type of the records of ``Source.main``."""

    first_type: str = ""
    """The payload type of the files in ``Source.first`` ("" where there are none)."""

    joints: tuple[bytes, bytes, bytes] = (b"", b"\n", b"\n")
    """What stands before the first record of a new main file, between two, and after the last."""

    keyed: str = ""
    """Of records that are members of JSON objects, the member of their own that says their key ("" where they are not).

    Their keys are not part of them.
    """

    leaf: tuple[str, str] = ("", "")
    """How conversations of a file of many name their last record: by which member of theirs, and which of the record.

    Both are empty where they name none.
    """

    volatile: Set[str] = frozenset()
    """Top-level members of a record that a session's copy of it has anew: what differs in nothing else is the same."""

    outputs_beside: bool = False
    """Whether outputs of tools and agents lie in a directory beside the session's file that has its name."""

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the directories in which the tool keeps this user's sessions (only ones that exist)."""

    def native_home(self, home: Path) -> Path | None:
        """Return the directory in which the tool begins sessions, there or not; nothing is looked at for it.

        Only of a tool whose sessions are one file each, of one conversation: what else lies beside one, it can do
        without. None: there is no such directory.
        """
        return None

    def claim(self, look: Look) -> Source | None:
        """Return the session that stands at ``look.path`` (file or directory), or None if it is not this tool's.

        Judged by content, from a bounded read of its beginning; an empty or damaged file may be claimed by where it
        lies and what it is called. An OSError of looking at it may pass.
        """

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the records of a main file from offset ``start`` on (0, or the end of an earlier record).

        What stands between spans is kept by the importer; spans never overlap and rise. Bytes that make no sense
        are one span up to where sense begins again, or to the end. ``data`` may be a mapped file of many GB: touch
        it forwards, and hold none of it.
        """

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Say what the session is called and belongs to, from its sidecars and from records, in order.

        These are its first ones (some 200), and of the later ones those for which :meth:`titles` said yes.
        """

    def titles(self, record: bytes) -> bool:
        """Say whether a record, wherever it stands, may give the session its title.

        Asked of every record of up to 64 KB, so it must cost next to nothing; it may say yes too often.
        """
        return False

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Say which conversations the records ``spans`` of a main file make up.

        None: all of them, in order, are one. A record belongs to one part at most; one that belongs to none, or to
        none of which anything could be told, is kept for the export. ``data`` is as for :meth:`spans`.
        """
        return None

    def rendition(self, source: Source, scratch: Path) -> Path | None:
        """Write the records of a file that is no text (a database, an archive) as lines to a new file in ``scratch``.

        Return that file: spans and parts are of it. The same content gives the same bytes. None: the main file itself
        holds the records. Raises UsageError for a file that cannot be read. Of files that others may write to
        meanwhile, copies as they were read are left in the folder ``AS_READ`` of ``scratch``, under their names.

        Where :meth:`parts` then says nothing, the lines are one conversation.
        """
        return None

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write to ``target`` the file ``original``, from which a rendition was made, so that it says ``rendition``.

        In that, records were edited, left out and put in; or it is that of a later state of the file. What
        :attr:`Source.beside` names is beside ``original``, if it was there. Raises UsageError where that cannot be
        done.
        """
        raise UsageError(f"what was edited cannot be written back into a file of {self.name}")

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield the content beside the session that ``payload`` refers to; opens no file until it is read."""
        return iter(())

    def moved_outside(self, record: bytes, beginning: bytes) -> tuple[bytes, Mapping[str, bytes]]:
        """Return a record that was edited or added, as the tool writes it, and what it keeps outside of it then.

        ``beginning`` is the session's first record. What is kept outside are contents of files, by path relative to the
        directory that the session is exported into.
        """
        return record, {}

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the records of a main file without those whose positions are ``deleted``, so that the tool goes on.

        Of a file of many conversations, these are one conversation's, and those of the ones that branch off it.

        What only makes sense with a deleted record goes too (a tool call and its result go together), and what
        pointed to one points past it. ``deleted`` may be empty, where a person has added records.
        """
        return [record for at, record in enumerate(records) if at not in deleted]
