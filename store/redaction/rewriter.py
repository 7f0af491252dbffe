"""The rewriting of frames and loose files without secrets.

Frames keep their lengths: a place in a log is a name, as an offset in the index and in COMMITs, so nothing moves. A
shortened text is padded with white space where that means nothing, and filled up elsewhere.

Loose files (scratch, drafts, session data that tools are writing, settings) are overwritten in place at their old
lengths: a process that has one open can go on, and nothing of the old bytes stays on the disk. Copies of derived files
are removed.
"""

import os
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import structs

from store import paths
from store.commit.open_texts import veiled
from store.disk import durable
from store.disk import head_format as heads
from store.disk.file_header import HEADER_SIZE, Damage
from store.disk.head_log import HeadLog
from store.disk.turn_format import REDACTED
from store.errors import DamageError, NotFound
from store.formats.core.budget import LARGEST_WHOLE
from store.ids import HASH_SIZE, Hash, hash_bytes, tip_of
from store.redaction import containers
from store.redaction.replacements import Replacements
from store.redaction.secrets import Occurrence, Secrets
from store.redaction.survey import renamed

_NOTHING_SAID = b"{}"
_UNKNOWN_PREFIX = "0" * 2 * HASH_SIZE
_TIME_SIZE = 8
APART = frozenset((paths.BLOBS, paths.TURNS, paths.JOURNAL))
"""Directories whose files have formats of their own."""
_DATABASES = tuple(f".db{part}" for part in paths.DATABASE_PARTS)
_AT_ONCE = 8 << 20
_DIGEST = b'"digest":"%b"'


class FrameRewriter:
    """The new frames of the head log.

    ``new`` has the replacements of blobs; ``dictionaries`` have none. ``forget`` are contexts whose metadata must lose
    the hash of the imported bytes, and ``begins`` the new identities of their beginnings.
    """

    def __init__(
        self, secrets: Secrets, new: Replacements, dictionaries: Set[Hash], forget: Set[int], begins: Mapping[str, str]
    ) -> None:
        self._secrets = secrets
        self._new = new
        self._dictionaries = dictionaries
        self._forget = forget
        self._begins = begins
        self.texts: dict[int, list[Occurrence]] = {}
        """The places of secrets in turns that were written piece by piece, by number."""
        self.patched: set[int] = set()
        """The turns with new payloads through patches."""
        self.described: set[int] = set()
        """The contexts with new metadata."""

    def read_texts(self, log: HeadLog) -> None:
        """Find the secrets in texts that were written piece by piece: one may span several pieces."""
        growing: dict[int, bytearray] = {}
        for frame in log.frames():
            if isinstance(frame, Damage):
                continue
            body = frame.body
            if isinstance(body, heads.TextAdded):
                text = growing.setdefault(body.number, bytearray())
                if body.offset <= len(text):
                    text[body.offset :] = veiled(body.number, body.offset, body.text)
            elif isinstance(body, heads.Closed) and (found := growing.pop(body.number, None)):
                self._note(body.number, bytes(found))
        for number, found in growing.items():
            self._note(number, bytes(found))

    def _note(self, number: int, text: bytes) -> None:
        if places := self._secrets.places(text):
            self.texts[number] = places

    def body(self, frame: heads.HeadFrame) -> heads.Body:
        body = frame.body
        match body:
            case heads.Metadata():
                return self._metadata(frame.context, body)
            case heads.Patched():
                return self._patched(body)
            case heads.HeadMoved():
                action = self._text(body.action)
                return body if action == body.action else structs.replace(body, action=action)
            case heads.Alias():
                return self._alias(body)
            case heads.Dictionary():
                return _nothing(HASH_SIZE + 8) if body.hash in self._dictionaries else body
            case heads.FsRoot():
                new = self._new.new(body.root)
                return body if new is None else structs.replace(body, root=new)
            case heads.AppendNoted():
                key = self._secrets.blanked(body.key)
                return body if key == body.key else structs.replace(body, key=key)
            case heads.TextAdded():
                return self._added(body)
            case _:
                return body

    def blank(self, damaged: bytes) -> bytes:
        """Return the new form of bytes that are no frame."""
        return renamed(self._secrets.blanked(damaged), self._new.name)

    def _metadata(self, context: int, body: heads.Metadata) -> heads.Metadata:
        changes = renamed(body.changes, self._new.name)
        if changes != body.changes and b'"size"' in changes:
            changes = self._with_sizes(changes)
        if self._secrets.hold(changes):
            shorter = self._secrets.removed(changes)
            changes = shorter if len(shorter) <= len(changes) else self._secrets.blanked(changes)
        if context in self._forget and (b'"prefix"' in changes or b'"begins"' in changes):
            changes = self._without_prefix(changes)
        if changes == body.changes:
            return body
        self.described.add(context)
        return structs.replace(body, changes=changes.ljust(len(body.changes)))

    def _with_sizes(self, changes: bytes) -> bytes:
        try:
            told = msgspec.json.decode(changes)
        except msgspec.DecodeError:
            return changes
        before = msgspec.json.encode(told)
        for value in told.values():
            if isinstance(value, dict) and isinstance(blob := value.get("blob"), str) and "size" in value:
                with suppress(ValueError, NotFound):
                    value["size"] = self._new.size(Hash(bytes.fromhex(blob)))
        now = msgspec.json.encode(told)
        return now if now != before and len(now) <= len(changes) else changes

    def _without_prefix(self, changes: bytes) -> bytes:
        try:
            told = msgspec.json.decode(changes)
        except msgspec.DecodeError:
            return changes
        begins, rewritten = told.get("begins"), told.get("rewritten")
        for state in (told.get("cursor"), *(rewritten if isinstance(rewritten, list) else ())):
            if isinstance(state, dict) and isinstance(prefix := state.get("prefix"), str) and prefix:
                changes = changes.replace(prefix.encode(), _UNKNOWN_PREFIX[: len(prefix)].encode())
        for key in begins if isinstance(begins, list) else ():
            if isinstance(key, str) and (now := self._begins.get(key)):
                changes = changes.replace(f'"{key}"'.encode(), f'"{now}"'.encode())
        return changes

    def _patched(self, body: heads.Patched) -> heads.Patched:
        turns = []
        for turn, digest, flags, created in body.turns:
            if (new := self._new.new(Hash(digest))) is not None:
                self.patched.add(tip_of(turn, body.number))
                digest, flags = new, flags | REDACTED
            turns.append((turn, digest, flags, created))
        changed = structs.replace(body, turns=tuple(turns), action=self._text(body.action))
        return body if changed == body else changed

    def _alias(self, body: heads.Alias) -> heads.Body:
        new = self._new.new(body.hash)
        if new is None:
            return body
        digest = self._new.digest(body.algorithm, new)
        if digest is not None and len(digest) == len(body.digest):
            return structs.replace(body, hash=new, digest=digest)
        # a blob's digest by another algorithm is forgotten
        return _nothing(HASH_SIZE + 1 + len(body.algorithm) + len(body.digest))

    def _added(self, body: heads.TextAdded) -> heads.TextAdded:
        places = self.texts.get(body.number)
        if not places:
            return body
        text = bytearray(veiled(body.number, body.offset, body.text))
        for start, end, _mark, filling in places:
            first, last = max(start - body.offset, 0), min(end - body.offset, len(text))
            if first < last:
                text[first:last] = filling[first + body.offset - start : last + body.offset - start]
        return structs.replace(body, text=veiled(body.number, body.offset, bytes(text)))

    def _text(self, text: str) -> str:
        return self._secrets.blanked(text.encode()).decode(errors="replace")


def _nothing(length: int) -> heads.Metadata:
    """Return a meaningless body of a given length, for no context."""
    return heads.Metadata(0, _NOTHING_SAID.ljust(length - _TIME_SIZE))


class Loose:
    """The loose files of the store at ``root`` without ``secrets``; ``new`` has new names for the blobs in them."""

    def __init__(self, root: Path, secrets: Secrets, new: Mapping[Hash, Hash]) -> None:
        self._root = root
        self._secrets = secrets
        self._new = new
        self.changed: list[str] = []
        """The paths of files that held a secret, relative to the store."""

    def run(self) -> None:
        """Clean all loose files. Raises OSError."""
        for path in self._files():
            with suppress(FileNotFoundError):
                if path.is_symlink():
                    self._link(path)
                elif path.is_file():
                    self._attributes(path)
                    self._file(path)
        self._names()

    def _files(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self._root):
            if Path(folder) == self._root:
                folders[:] = [name for name in folders if name not in APART]
                names = [name for name in names if not name.endswith(_DATABASES)]
            yield from (Path(folder, name) for name in names)

    def _file(self, path: Path) -> None:
        fd = durable.open_file(path)
        try:
            size, start, written = os.fstat(fd).st_size, 0, False
            digests = _digests(fd, size) if size <= _AT_ONCE else None
            while start < size:
                data = os.pread(fd, _AT_ONCE, start)
                clean = renamed(self._secrets.blanked(data), lambda digest: self._new.get(Hash(digest)))
                if clean != data:
                    durable.pwrite_all(fd, clean, start)
                    written = True
                # what lies across is seen the next time
                start += max(len(data) - self._secrets.reach, 1) if start + len(data) < size else len(data)
            written = self._within(fd) or written
            if written:
                if digests is not None:
                    _say_digest(fd, *digests)
                durable.fdatasync(fd)
                self.changed.append(str(path.relative_to(self._root)))
        finally:
            os.close(fd)

    def _within(self, fd: int) -> bool:
        """Clean an archive or a database that holds a secret where it is not seen; return whether it did."""
        size, scratch = os.fstat(fd).st_size, self._root / paths.SCRATCH
        if size > LARGEST_WHOLE or not containers.is_one(os.pread(fd, HEADER_SIZE, 0)):
            return False
        data = os.pread(fd, size, 0)
        try:
            if not containers.hold(data, self._secrets, scratch):
                return False
        except DamageError:
            # it only begins like one
            return False
        durable.pwrite_all(fd, clean := containers.clean(data, self._secrets, scratch), 0)
        os.ftruncate(fd, len(clean))
        return True

    def _link(self, path: Path) -> None:
        target = os.fsencode(os.readlink(path))
        if self._secrets.hold(target):
            path.unlink()
            path.symlink_to(os.fsdecode(self._secrets.blanked(target)))
            self.changed.append(str(path.relative_to(self._root)))

    def _attributes(self, path: Path) -> None:
        for name in os.listxattr(path):
            if name.startswith("user."):
                value = os.getxattr(path, name)
                if self._secrets.hold(value):
                    os.setxattr(path, name, self._secrets.blanked(value))

    def _names(self) -> None:
        for folder, folders, names in os.walk(self._root, topdown=False):
            for name in (*names, *folders):
                if self._secrets.hold(os.fsencode(name)):
                    self._rename(Path(folder), name)

    def _rename(self, folder: Path, name: str) -> None:
        stem = os.fsdecode(self._secrets.blanked(os.fsencode(name)).replace(b"/", b"*"))
        number = 0
        while (path := folder / (f"{stem}~{number}" if number else stem)).exists():
            number += 1
        durable.replace(folder / name, path)
        durable.sync_directory(folder)
        self.changed.append(str(path.relative_to(self._root)))


def _digests(fd: int, size: int) -> tuple[int, bytes] | None:
    """Return the start of the text of a file whose first line has its digest, and that digest in hex."""
    data = os.pread(fd, size, 0)
    head, _, text = data.partition(b"\n")
    digest = hash_bytes(text).hex().encode()
    return (len(head) + 1, digest) if _DIGEST % digest in head else None


def _say_digest(fd: int, start: int, before: bytes) -> None:
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    digest = hash_bytes(data[start:]).hex().encode()
    durable.pwrite_all(fd, data[:start].replace(before, digest), 0)
