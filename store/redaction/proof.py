"""The proof that secrets are gone: a search through every file of a store and every record, decompressed.

It relies on nothing that the redaction has found. It reads the files as anybody with access could: records, veiled
bytes, and the tables of databases. It looks for the secrets in all their spellings, for the names of the blobs that
held them, and for pieces of secrets in compression dictionaries.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from store.commit.open_texts import veiled
from store.content import zstd
from store.content.compression import MAX_BODY_BYTES
from store.content.resolver import Resolver, bodies
from store.disk import head_format, skeleton_format
from store.disk.blob_format import Form
from store.disk.file_header import Damage
from store.disk.head_log import HeadLog
from store.disk.pack import PackSet
from store.disk.turn_format import Turn
from store.disk.turn_log import TurnLog
from store.errors import ConvfsError, DamageError, NotFound
from store.formats.core.look import DATABASE
from store.ids import Hash, hash_key
from store.paths import SCRATCH
from store.redaction import containers
from store.redaction.secrets import Secrets
from store.redaction.survey import across_chunks, kept_files, keys_in
from store.store import Store

_AT_ONCE = 1 << 16
"""The bytes of a file that are read at a time."""
_LEAST_REACH = 64
"""The bytes that pieces have in common at least: as many as a name in hexadecimal."""
_FEW = 32
_ROWS = 128
_BREATH_SECONDS = 0.0001
"""After so many rows of a database, others have this time: SQLite lets them run at each row, too briefly to wake up."""


class Proof(Struct):
    """The extent of a proof: files, records in packs, and bytes of both; ``found`` lists the remains of secrets.

    ``unread`` lists the places that could not be searched: damaged records.
    """

    files: int = 0
    records: int = 0
    bytes: int = 0
    found: list[str] = []
    unread: list[str] = []


def prove(
    store: Store, secrets: Secrets, gone: Collection[Hash], passed: Callable[[int], None] = lambda _bytes: None
) -> Proof:
    """Look for secrets, and for the names of blobs that are ``gone``, in all of a store; ``passed`` is told how far."""
    store.checkpointer.flush()
    prover = _Prover(store.root, secrets, gone, {hash_key(digest) for digest in gone})
    prover.files()
    for size in prover.packs(store.files.packs, store.blobs):
        passed(size)
    prover.turns(store.files.turns)
    prover.texts(store.files.heads)
    prover.originals(store.files.heads, store.blobs)
    return prover.proof


def prove_gone(store: Store, keys: Collection[int], databases: Iterable[Path]) -> Generator[None, None, Proof]:
    """Look for blobs, by their keys, in all packs of a store, and for their names in some databases; pauses often."""
    prover = _Prover(store.root, Secrets(()), (), keys)
    for path in databases:
        yield
        prover.database(path)
    for _size in prover.packs(store.files.packs, store.blobs):
        yield
    return prover.proof


class _Prover:
    """Looks for secrets, and for blobs that are gone: by their names, as far as these are known, and by their keys."""

    def __init__(self, root: Path, secrets: Secrets, gone: Collection[Hash], keys: Collection[int]) -> None:
        self._root = root
        self._secrets = secrets
        self._gone = frozenset(gone)
        self._keys = frozenset(keys)
        self._reach = max(secrets.reach, _LEAST_REACH)
        self._step = max(_AT_ONCE, self._reach)
        self.proof = Proof()

    def files(self) -> None:
        for folder, _folders, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                where = str(path.relative_to(self._root))
                if self._secrets.hold(os.fsencode(where)):
                    self.proof.found.append(f"the name of {where}")
                with suppress(FileNotFoundError):
                    if path.is_symlink():
                        self._look(os.fsencode(os.readlink(path)), where)
                    elif path.is_file():
                        self.proof.files += 1
                        self._file(path, where)

    def database(self, path: Path) -> None:
        """Look into a database and its log, if there is one."""
        for one in (path, path.with_name(f"{path.name}-wal")):
            if one.exists():
                self.proof.files += 1
                self._file(one, one.name)

    def packs(self, packs: PackSet, resolver: Resolver) -> Iterator[int]:
        """Look into all packs; yields the size of each record."""
        for pack, offset, found in packs.scan():
            where = f"{packs.path(pack).name}, offset {offset}"
            if isinstance(found, Damage):
                self.proof.unread.append(f"{where}: {found.reason}")
                continue
            self.proof.records += 1
            try:
                opened = resolver.open(found)
                needed = [opened.base, *(chunk.hash for chunk in opened.chunks or ())]
                if any(map(self._is_gone, needed)):
                    self.proof.found.append(f"{where}: it needs a blob that held a secret")
                if opened.chunks is not None:
                    for start, window in across_chunks(resolver, opened.chunks, self._secrets.reach):
                        self._look(window, where)
                        if not start and containers.is_one(window):
                            self._look_within(resolver.blob(found.hash), where)
                for digest, form, body in bodies(resolver, opened):
                    self._look(body, where)
                    if containers.is_one(body):
                        self._look_within(body, where)
                    if self._is_gone(digest):
                        self.proof.found.append(f"{where}: a blob that held a secret")
                    cuts = skeleton_format.decode(body).cuts if form == Form.SKELETON else ()
                    if any(self._is_gone(cut[3]) for cut in cuts):
                        self.proof.found.append(f"{where}: a payload that is made of a blob that held a secret")
            except ConvfsError as error:
                self.proof.unread.append(f"{where}: {error}")
            yield len(found.stored)

    def turns(self, log: TurnLog) -> None:
        for turn_id, turn in log.scan():
            if isinstance(turn, Turn) and turn.payload_hash in self._gone:
                self.proof.found.append(f"turn {turn_id}: it names a payload that held a secret")

    def texts(self, log: HeadLog) -> None:
        before: dict[int, bytes] = {}
        for frame in log.frames():
            if isinstance(frame, Damage):
                continue
            body = frame.body
            if isinstance(body, head_format.TextAdded):
                text = before.get(body.number, b"") + veiled(body.number, body.offset, body.text)
                self._look(text, f"heads.log, seq {frame.seq}")
                before[body.number] = text[-self._secrets.reach :]
            elif isinstance(body, head_format.Closed):
                before.pop(body.number, None)
            elif isinstance(body, head_format.Patched) and any(turn[1] in self._gone for turn in body.turns):
                self.proof.found.append(f"heads.log, seq {frame.seq}: it names a payload that held a secret")

    def originals(self, log: HeadLog, resolver: Resolver) -> None:
        """Look into files as an export gives them: a database with the log beside it."""
        for kept in containers.originals(log):
            try:
                data, beside = kept_files(resolver, kept)
                if beside and containers.hold(data, self._secrets, self._root / SCRATCH, beside):
                    self.proof.found.append(f"blob {kept[''].hex()}: within what it and the files beside it hold")
            except NotFound:
                continue
            except ConvfsError as error:
                self.proof.unread.append(f"blob {kept[''].hex()}: {error}")

    def _file(self, path: Path, where: str) -> None:
        with path.open("rb") as file:
            head = file.read(len(DATABASE))
            file.seek(0)
            before = b""
            while piece := file.read(self._step):
                self._look(before + piece, where)
                before = piece[-self._reach :]
        if head == DATABASE:
            for row in _rows(path):
                self._look(row, where)
        elif containers.is_one(head):
            self._look_within(path.read_bytes(), where)

    def _look(self, data: bytes, where: str) -> None:
        self.proof.bytes += len(data)
        if self._secrets.hold(data):
            self.proof.found.append(where)
        if self._keys and self._names(data):
            self.proof.found.append(f"{where}: the name of a blob that held a secret")

    def _look_within(self, data: bytes, where: str) -> None:
        try:
            if containers.hold(data, self._secrets, self._root / SCRATCH):
                self.proof.found.append(f"{where}: within what it holds")
        except DamageError as error:
            self.proof.unread.append(f"{where}: {error}")

    def _is_gone(self, digest: Hash | None) -> bool:
        return digest is not None and hash_key(digest) in self._keys

    def _names(self, data: bytes) -> bool:
        if any(key in self._keys for key in keys_in(data)):
            return True
        # of many, those places are looked at where names stand
        return len(self._gone) <= _FEW and any(data.find(digest) >= 0 for digest in self._gone)


def _rows(path: Path) -> Iterator[bytes]:
    """Yield every text and bytes value of a database, compressed ones as they were, too; in its file lie pieces."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.text_factory = bytes
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'")
        for (table,) in tables.fetchall():
            # tables of extensions that are not there say what they hold in tables of their own
            with suppress(sqlite3.Error):
                for count, row in enumerate(database.execute(f'SELECT * FROM "{table.decode()}"'), 1):
                    if count % _ROWS == 0:
                        time.sleep(_BREATH_SECONDS)
                    values = [value for value in row if isinstance(value, bytes)]
                    yield b"\0".join(values)
                    for value in values:
                        if value.startswith(zstd.MAGIC):
                            with suppress(DamageError):
                                yield zstd.decompress(value, MAX_BODY_BYTES)
