"""The interface that one foreign tool's module fills in, and the values that pass through it."""

import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from store.errors import UsageError
from store.events.usage import Usage
from store.formats.core import homes
from store.formats.core.editing import Lens
from store.formats.core.look import Look

AS_READ = "as-read"
"""See :meth:`Format.rendition`."""

Mark = str | int | float | None
"""A value of a cell that rises as a database grows."""


class Source(Struct, frozen=True):
    """One session as it lies on disk.

    ``path`` identifies it (a file, or a directory for tools that keep one a session). ``main`` is the file whose
    records become turns; ``first`` are files, maybe thousands, so as text, that become one record each before those of
    ``main``, of the payload types ``first_types`` (where that is empty, all of the format's ``first_type``);
    ``sidecars`` are files kept whole beside the conversation, by the name that they are exported under (relative to
    ``path``'s directory, or to ``path`` itself where that is a directory). ``beside`` are other files, in the directory
    of ``main``, that belong to that one (a database's log): they need not be there. Nor need ``folder``, where the tool
    puts the files that become ``sidecars``.
    """

    format: str
    path: Path
    main: Path
    first: tuple[str, ...] = ()
    sidecars: tuple[tuple[str, Path], ...] = ()
    first_types: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()
    folder: Path | None = None


class Span(Struct, frozen=True, gc=False):
    """One record in a file's bytes: ``[start, end)``, without separators."""

    start: int
    end: int


class Titled(IntEnum):
    """The quality of a title: made of the user's first input, of a request, or given by the tool or its user."""

    PROVISIONALLY = 1
    BY_REQUEST = 2
    BY_TOOL = 3
    BY_USER = 4


class About(Struct, frozen=True):
    """A description of a session by itself; any field may be empty. ``started_ms`` is in Unix milliseconds.

    ``forked_from`` is the tool's id of the session that this one copies the beginning of. ``titled`` says where
    ``title`` is from, ``placed`` whether the session itself names the ``project``: else that is a guess.
    ``usage`` is what all its answers took, where it tells that.
    """

    title: str = ""
    project: str = ""
    started_ms: int = 0
    session_id: str = ""
    extra: dict[str, str] = {}
    forked_from: str = ""
    titled: Titled = Titled.BY_REQUEST
    placed: bool = True
    usage: Usage | None = None


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
    NotFound where no such file is, DamageError where the file does not match its name or is too large to be believed.

    ``place`` is the path of its file in an export, relative to the directory that the session goes into ("": it is one
    of the sidecars), and ``written`` returns the bytes of that file, given the content.
    """

    algorithm: str
    digest: bytes
    read: Callable[[], bytes]
    place: str = ""
    written: Callable[[bytes], bytes] = bytes


class Resuming(Struct, frozen=True):
    """A program that goes on with sessions of a format, called ``tool`` in exports and by ``convfs resume --in``.

    ``words`` are those of its command: ``{session}`` stands for the session's id, ``{path}`` for its file. ``places``
    are the directory that exports for the program go into, the first whose variables are set; none if it takes none.
    ``taking`` are the words of the command that takes in a file written for the program, if that needs one.
    ``beside``: its files lie in the directory that is worked in.
    """

    tool: str
    words: tuple[str, ...]
    places: tuple[str, ...] = ()
    taking: tuple[str, ...] = ()
    beside: bool = False

    def home(self, home: Path) -> Path | None:
        """Return the directory that exports for the program go into, for the home of a user."""
        return homes.first(self.places, home) if self.places else None


class Format(Protocol):
    """One foreign tool. Subclass it: a default left as it is here means that the tool has no such thing."""

    name: str
    """As in ``--format`` and in the metadata of conversations: ``claude-code``, ``jp``."""

    lenses: Sequence[Lens]
    """The lenses for the payload types that this module writes."""

    main_type: str
    """The payload type of the records of ``Source.main``."""

    first_type: str = ""
    """The payload type of the files in ``Source.first`` ("" where there are none)."""

    joints: tuple[bytes, bytes, bytes] = (b"", b"\n", b"\n")
    """The bytes before the first record of a new main file, between two, and after the last."""

    keyed: str = ""
    """Of records that are members of JSON objects, the member of their own that says their key ("" where they are not).

    Their keys are not part of them.
    """

    leaf: tuple[str, str] = ("", "")
    """The member with the id of a conversation's last record, in files of many, and that record's own id member.

    Both are empty where conversations name none.
    """

    volatile: Set[str] = frozenset()
    """Top-level members of a record that a copied session has anew: records that differ in these alone are the same."""

    titling: re.Pattern[bytes] | None = None
    """Is found in every record that gives its session a title; None where no record does."""

    sums_up: bool = False
    """True if a session tells what its answers took in all, which grows with it."""

    native: Sequence[str] = ()
    """The directory in which the tool begins sessions, existing or not: the first whose variables are set.

    Only for a tool whose sessions are one file each, of one conversation: it can do without any files beside it.
    """

    native_folders: Sequence[str] = ()
    """The folders of :attr:`native` in which the tool keeps sessions; empty where that is all for them."""

    resuming: Sequence[Resuming] = ()
    """The programs that go on with these sessions."""

    outputs_beside: bool = False
    """True if outputs of tools and agents lie in a directory of the same name beside the session's file."""

    describing: Set[str] = frozenset()
    """The names of sidecars that only describe their session, and that exports in other forms need not have."""

    once_whole: bool = False
    """True if a file of many conversations came in as one before :meth:`parts` told them; that one goes on as it is."""

    unpacked: str = ""
    """The format of the session that a compressed file holds, under the same name without its suffix.

    A session that came in before it was compressed goes on as that, and one that came in compressed does once it lies
    there as lines.
    """

    keeps_file: bool = False
    """True if a file with a rendition is kept at every import, as text is, and not by hand alone, as databases are."""

    replaces_files: bool = False
    """True if files in a session's folder give way to others as it grows: one that has gone belongs to it no more."""

    def file_names(self, like: str, files: Sequence[tuple[str, bytes]]) -> Sequence[str] | None:
        """Return the names of a session's files where each record is one, in the order of the records.

        ``files`` has for each the name that it had and nothing, or no name and the new record. ``like`` is the name of
        the session's last file. None where a file holds more than a record.
        """
        return None

    kept: Sequence[str] = ()
    """The places of sessions: ``~``, ``$NAME`` (passed over where it is not set), ``*``.

    ``./`` is where one works, ``.../`` that or the nearest folder above which has such a place. ``FILE#PLACE/NAME`` is
    a name in each of the folders that a JSON file lists.
    """

    def homes(self, home: Path, cwd: Path) -> Iterator[Path]:
        """Yield the files and directories in which the tool keeps this user's sessions (only ones that exist)."""
        return homes.existing(self.kept, home, cwd)

    def in_lines(self, head: Callable[[], bytes]) -> bool:
        """Return whether a session's file is lines, each complete with its end; ``head`` returns its first 64 KB."""
        return self.joints[1] == b"\n"

    def is_ours(self, look: Look) -> bool:
        """Return whether a session of this tool stands at ``look.path`` (file or directory).

        Judge by content, from a bounded read of its beginning; an empty or damaged file may be claimed by its place and
        name. An OSError of looking at it may pass through.
        """
        return False

    def claim(self, look: Look) -> Source | None:
        """Return the session that stands at ``look.path``, None where :meth:`is_ours` says no; here, a file alone."""
        return Source(self.name, look.path, look.path) if self.is_ours(look) else None

    def spans(self, data: memoryview, start: int) -> Iterator[Span]:
        """Yield the records of a main file from offset ``start`` on (0, or the end of an earlier record).

        The importer keeps the bytes between spans; spans never overlap and rise. Bytes that make no sense are one span
        up to where sense begins again, or to the end. ``data`` may be a mapped file of many GB: touch it forwards, and
        hold none of it. Here, they are the lines that are not empty.
        """
        return line_spans(data, start)

    def type_of(self, source: Source, record: bytes) -> str:
        """Return the payload type of a record of the main file. Asked of every one, so it must cost next to nothing."""
        return self.main_type

    def about(self, source: Source, records: Sequence[bytes]) -> About:
        """Return the session's title and the project it belongs to, from its sidecars and from records, in order.

        These are its first ones (some 200), and of the later ones those for which :meth:`titles` said yes.
        """

    def titles(self, record: bytes) -> bool:
        """Return whether a record, wherever it stands, may give the session its title.

        Asked of every record of up to 64 KB, so it must cost next to nothing; it may say yes too often. Here, it is
        one of up to 4 KB in which :attr:`titling` is found.
        """
        found = self.titling.search(record) if self.titling and len(record) <= _LONGEST_TITLE_RECORD else None
        return found is not None

    def parts(self, source: Source, data: memoryview, spans: Sequence[Span]) -> Sequence[Part] | None:
        """Return the conversations that the records ``spans`` of a main file make up.

        None: all of them, in order, are one. A record belongs to one part at most; one that belongs to none, or to none
        that can be described, is kept for the export. ``data`` is as for :meth:`spans`.
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

    def reached(self, source: Source) -> dict[str, Mark]:
        """Return marks in a file with a rendition, such as its last row, for :meth:`changed`; none if it has none."""
        return {}

    def changed(
        self, source: Source, since: Mapping[str, Mark], scratch: Path, *, again: bool = False
    ) -> tuple[Path, dict[str, Mark]] | None:
        """Write a rendition of the conversations alone that may have changed since marks; return it, and new marks.

        ``again``: the last one since these marks brought nothing. It may be left for later then, and an empty one be
        written, where the file seems to be as it was.

        None: the whole file must be read. Raises UsageError for a file that cannot be read now.
        """
        return None

    def rests(self, path: Path, since: Mapping[str, Mark]) -> bool:
        """Return whether a file seems to be as :meth:`changed` last found it from these marks on, and reading it waits.

        Asked before anything else of a file that is looked at again and again, so it must cost next to nothing.
        """
        return False

    def put_off(self, path: Path) -> float:
        """Return the seconds until :meth:`changed` tells what it left out of a file as it costs much; 0: nothing."""
        return 0.0

    def restore(self, original: Path, rendition: Path, target: Path) -> None:
        """Write to ``target`` the file ``original``, from which a rendition was made, so that it says ``rendition``.

        In the rendition, records were edited, left out and put in; or it is that of a later state of the file. The
        files of :attr:`Source.beside` are beside ``original``, if they existed. Of a session that is a folder, all its
        files are, and ``target`` is the folder for those that change. Raises UsageError where that cannot be done.
        """
        raise UsageError(f"what was edited cannot be written back into a file of {self.name}")

    def blobs(self, source: Source, payload: bytes) -> Iterator[ExternalBlob]:
        """Yield the content beside the session that ``payload`` refers to; opens no file until it is read."""
        return iter(())

    def moved_outside(self, record: bytes, beginning: bytes) -> tuple[bytes, Mapping[str, bytes]]:
        """Return an edited or added record as the tool writes it, and the contents that it then keeps outside of it.

        ``beginning`` is the session's first record. The contents outside are those of files, by path relative to the
        directory that the session is exported into.
        """
        return record, {}

    def forked(self, record: bytes, session: str, parent: str, path: str) -> bytes | None:
        """Return a record as it is in the file of ``session``, a fork of ``parent``, whose file is at ``path``.

        None: the tool has no forks that are files of their own.
        """
        return None

    def without(self, records: Sequence[bytes], deleted: Set[int]) -> list[bytes]:
        """Return the records of a main file without those whose positions are ``deleted``, so that the tool goes on.

        Of a file of many conversations, these are one conversation's, and those of the ones that branch off it.

        Records that only make sense with a deleted one go too, and links to one point past it. ``deleted`` may be
        empty, where a person has added records. Here, it is what the first lens says.
        """
        return list(self.lenses[0].without(records, deleted).values())


_WINDOW = 1 << 20
_not_newline = re.compile(rb"[^\n]").search


def line_spans(data: memoryview, start: int) -> Iterator[Span]:
    """Yield every line of ``data`` that is not empty, without its newline; a carriage return stays in it."""
    begin = start
    for at in range(start, len(data), _WINDOW):
        # a copy: searching bytes is many times faster than searching a view
        window = bytes(data[at : at + _WINDOW])
        let_go(data, at, at + len(window))
        newline = window.find(b"\n")
        while newline >= 0:
            if at + newline > begin:
                yield Span(begin, at + newline)
                after = newline + 1
            else:
                # of empty lines there may be many
                found = _not_newline(window, newline)
                after = found.start() if found else len(window)
            begin = at + after
            newline = window.find(b"\n", after)
    if begin < len(data):
        yield Span(begin, len(data))


def let_go(data: memoryview, start: int, end: int) -> None:
    """Release pages of a mapped file, so that they take no memory: a line may be larger than memory."""
    whole = data.obj
    if isinstance(whole, mmap.mmap):
        start -= start % mmap.PAGESIZE
        whole.madvise(mmap.MADV_DONTNEED, start, min(end, len(whole)) - start)


def without_endings(data: memoryview, start: int, end: int, endings: bytes) -> int:
    """Return the end of what begins at ``start`` and ends at ``end``, without any of ``endings`` at its end."""
    while end > start and data[end - 1] in endings:
        end -= 1
    return end


_LONGEST = 120
_LONGEST_TITLE_RECORD = 4096
_MOST_LOOKED_AT = 1 << 16
_ELEMENT = re.compile(r"\s*<(?P<name>[A-Za-z][\w-]*)(?:\s[^<>\n]*)?>(?P<inside>.*?)</(?P=name)>", re.DOTALL)
_REQUESTS = frozenset(
    ("user_query", "user_request", "user_message", "user-request", "query", "request", "task", "feedback")
)
_HEADING = re.compile(r"\s*\[\[ ## .* ## \]\]")
"""A field's heading in prompts that programs make of signatures."""


def last_part(path: str) -> str:
    """Return the name of the directory at a path, of Windows too."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def told(**said: object) -> dict[str, str]:
    """Return for :attr:`About.extra` those of some values that are texts and say something."""
    return {name: value for name, value in said.items() if isinstance(value, str) and value}


def first_line(text: str) -> str:
    """Return the first line of ``text`` that says something, without Markdown's marks; at most 120 characters.

    A line that ends in a colon says too little: the next one goes with it. Tools wrap what a person asks in an element,
    and put others before it with what the model should know: the title is of the request.
    """
    said = ""
    for line in _request_in(text[:_MOST_LOOKED_AT]).splitlines():
        said = f"{said} {' '.join(line.strip().strip('#*`>=- ').split())}".strip()
        if said and not said.endswith(":"):
            break
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1].rstrip() + "…"


def _request_in(text: str) -> str:
    """Return what a person asked, out of the elements and headings that a tool wrapped it in."""
    inside = text
    at = 0
    while found := _ELEMENT.match(text, at):
        inside = found["inside"]
        if found["name"].lower() in _REQUESTS:
            return inside
        at = found.end()
    # where nothing follows the elements, the last of them says most
    rest = text[at:] if at else inside
    return rest if (rest := _HEADING.sub("", rest, count=1)).strip() else inside
