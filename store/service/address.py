"""The place of the service's socket, and how a client finds it.

The socket is ``$XDG_RUNTIME_DIR/convfs/<key of the store's directory>.sock``, or lies in a directory of this user's own
under /run or /tmp where that is not set. The daemon notes the path in the store's ``lock`` file, so that a client finds
it also from another environment than the daemon's (cron, su, a container's shell). Neither proves anything: a note may
have been copied. Client and service agree on the directory by its key (``store.disk.identity``) before anything else.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.disk import durable
from store.disk.identity import directory_key
from store.errors import ConvfsError, UsageError
from store.paths import LOCK, TOKEN

if TYPE_CHECKING:
    import socket

_MAX_PORT = 65_535
_MAX_SOCKET_PATH = 107
_MAX_NOTE = 4096
_PEER = struct.Struct("3i")


def runtime_directories() -> Iterator[Path]:
    """Yield the directories that sockets of this user may lie in, best first; none of them need exist."""
    uid = os.geteuid()
    configured = os.environ.get("XDG_RUNTIME_DIR")
    if configured and os.path.isabs(configured):
        yield Path(configured) / "convfs"
    yield Path(f"/run/user/{uid}/convfs")
    yield Path(f"/run/convfs-{uid}")
    yield Path(f"/tmp/convfs-{uid}")  # noqa: S108  (taken only if it is its owner's alone)


def is_private(directory: Path) -> bool:
    """Return whether ``directory`` is a real directory of this user's that nobody else may enter."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def new_socket_path(key: str) -> Path:
    """Return the path for the socket of the directory ``key``, in a directory that is made if need be.

    Raises ConvfsError where no place is safe.
    """
    refused = []
    for directory in runtime_directories():
        path = directory / f"{key}.sock"
        if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
            refused.append(f"{directory} is too long a path for a socket")
            continue
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, exist_ok=True)
        if is_private(directory):
            return path
        if os.path.lexists(directory):
            refused.append(f"{directory} is not a directory of this user's own with mode 0700")
    reason = "; ".join(refused) or "none of the usual directories can be made"
    raise ConvfsError(f"there is no safe place for the socket ({reason}): set XDG_RUNTIME_DIR to a directory of yours")


def note(root: Path, directory: str, path: Path | None = None, tcp: str = "") -> None:
    """Note in the store's lock file that this process holds it, and the path of its socket (None: it has none).

    ``directory`` is its key: nothing is noted if ``root`` has become another directory, or without room. ``tcp`` is the
    ``HOST:PORT`` that it listens on, "" for none.
    """
    try:
        if directory_key(root) == directory:
            _write_note(root, directory, path, tcp)
    except FileNotFoundError:
        return
    except OSError as error:
        # a socket is found by the directory's key, too
        if error.errno not in durable.FULL:
            raise


def _write_note(root: Path, directory: str, path: Path | None, tcp: str) -> None:
    lines = [f"pid {os.getpid()}", f"directory {directory}"]
    lines += [f"socket {path}"] if path else []
    lines += [f"tcp {tcp}"] if tcp else []
    # Opened beside the descriptor that holds the lock: flock belongs to that one alone and is not disturbed.
    fd = durable.open_file(root / LOCK, create=True)
    try:
        text = os.fsencode("".join(f"{line}\n" for line in lines))
        # never empty: a reader meanwhile finds this process, and at worst a socket that was there before
        durable.pwrite_all(fd, text, 0)
        durable.truncate(fd, len(text))
    finally:
        os.close(fd)


def sockets(root: Path) -> Iterator[Path]:
    """Yield paths where a service of the store at ``root`` may listen, likeliest first; each may be another store's."""
    noted = noted_socket(root)
    if noted is not None:
        yield noted
    with contextlib.suppress(OSError):
        name = f"{directory_key(root)}.sock"
        for directory in runtime_directories():
            path = directory / name
            if path != noted and is_private(directory) and path.exists():
                yield path


def noted_socket(root: Path) -> Path | None:
    """Return the socket's path as noted in the store's lock file, None if there is none; it may be a stale one."""
    path = noted(root, "socket")
    return Path(path) if path else None


def noted_process(root: Path) -> int:
    """Return the process that noted itself last in the store's lock file, 0 if none did; it may be gone."""
    number = noted(root, "pid")
    return int(number) if number.isascii() and number.isdecimal() else 0


def noted(root: Path, key: str) -> str:
    """Return a line of the note in the store's lock file (:func:`note`), "" if there is none; it may be stale."""
    try:
        with (root / LOCK).open("rb") as file:
            lines = os.fsdecode(file.read(_MAX_NOTE)).split("\n")
        own = directory_key(root)
    except OSError:
        return ""
    words = dict(reversed([line.partition(" ")[::2] for line in lines]))
    # a note that was copied is of another directory; one of an earlier version does not say of which
    return words.get(key, "") if words.get("directory", own) == own else ""


class _HasOptions(Protocol):
    def getsockopt(self, level: int, option: int, length: int) -> bytes: ...


def peer(connection: _HasOptions) -> tuple[int, int]:
    """Return (pid, uid) of the process at the other end, as the kernel knows them."""
    # here, as most commands find no service that they could connect to
    import socket

    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(raw)
    return pid, uid


# -- loopback ----------------------------------------------------------------------------------------------------------


def parsed(place: str) -> tuple[str, int]:
    """Return the host and the port of ``HOST:PORT`` or ``[HOST]:PORT``; UsageError if it is neither."""
    host, colon, port = place.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _MAX_PORT:
        raise UsageError(f"{place} is no HOST:PORT: say for example 127.0.0.1:9009")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def loopback(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the family and the address of a host of this machine; UsageError where others could reach it."""
    # here, as most connect to a socket in a directory
    import ipaddress
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(f"{host} is no address of this machine: {error.strerror or error}") from error
    for family, _kind, _protocol, _name, place in found:
        if not ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback:
            raise UsageError(f"{host} can be reached from other machines: use 127.0.0.1 or ::1, and ssh to forward it")
        if family in (socket.AF_INET, socket.AF_INET6):
            return family, (str(place[0]), port)
    raise UsageError(f"{host} is no address that can be listened on")


def host_and_port(listener: socket.socket) -> str:
    """Return the address at which a socket listens, as ``HOST:PORT``."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def token(root: Path) -> str:
    """Return the token of the store at ``root``, which is in its file ``token`` (0600); made where there is none."""
    path = root / TOKEN
    with contextlib.suppress(FileExistsError):
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(os.urandom(32).hex() + "\n")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not text:
        raise ConvfsError(f"{path} is empty: remove it, and a new token is made")
    return text
