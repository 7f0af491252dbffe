"""A space on a server that is reached by TLS alone, with a certificate of an authority that was made for it."""

import datetime
import ipaddress
import os
import socket
import ssl
import struct
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from store.errors import Unreachable, UsageError
from store.shared import remote
from store.shared.space import Place
from store.store import Store
from tests.servers import S3, Postgres
from tests.spaces import let_in, said

HOST = "db.example.com"


def certificate(directory: Path, issuer: str, subject: str, signer: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Write a certificate and its key, signed by itself or by ``signer``; return the path, without an ending."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    made = (
        x509.CertificateBuilder(*reversed(names))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    if signer is not None:
        own = [x509.DNSName(subject), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = made.add_extension(x509.SubjectAlternativeName(own), critical=False)
    path = directory / subject
    path.with_suffix(".crt").write_bytes(
        made.sign(signer or key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.with_suffix(".key").write_bytes(private)
    return path


def key_of(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.with_suffix(".key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


class TlsServer:
    """Takes connections by TLS, none without, and passes them on to a server."""

    def __init__(self, own: Path, target: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(own.with_suffix(".crt"), own.with_suffix(".key"))
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.served = 0
        """The connections that were made by TLS."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _address = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError), plain:
            if not self._may_begin(plain):
                return
            with (
                self._context.wrap_socket(plain, server_side=True) as client,
                socket.create_connection(("127.0.0.1", self._target)) as server,
            ):
                self.served += 1
                back = threading.Thread(target=passed, args=(server, client), daemon=True)
                back.start()
                passed(client, server)
                server.shutdown(socket.SHUT_RDWR)
                back.join()

    def _may_begin(self, plain: socket.socket) -> bool:
        return True


class PostgresTlsServer(TlsServer):
    """Does so for PostgreSQL's clients. The server that the tests bring is built without TLS."""

    REQUEST = struct.pack("!II", 8, 80877103)
    """SSLRequest, of the PostgreSQL frontend/backend protocol."""

    def _may_begin(self, plain: socket.socket) -> bool:
        asked = plain.recv(8, socket.MSG_WAITALL) == self.REQUEST
        if asked:
            plain.sendall(b"S")
        return asked


def passed(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)


@pytest.mark.logs("cannot be reached", sometimes=True)
def test_a_space_by_tls(postgres: Postgres, memory_path: Path) -> None:
    authority, other = (certificate(memory_path, name, name) for name in ("authority", "other"))
    line = PostgresTlsServer(certificate(memory_path, "authority", HOST, key_of(authority)), postgres.port)

    def place(host: str, root: Path) -> Place:
        url = f"postgresql://postgres@{host}:{line.port}/postgres?hostaddr=127.0.0.1&gssencmode=disable"
        return Place(
            postgres=f"{url}&sslmode=verify-full&sslrootcert={root.with_suffix('.crt')}",
            objects=f"file://{memory_path}/objects",
        )

    with closing(line):
        remote.init(place(HOST, authority), "by-tls")
        remote.join(place(HOST, authority), "by-tls", memory_path / "a", "a")
        let_in(memory_path / "a", memory_path / "b", "b")
        with Store.open(memory_path / "a") as a, Store.open(memory_path / "b") as b:
            context = a.contexts.create().context
            a.contexts.append(context, b'"by TLS"', "line")
            b.writer.catch_up()
            assert said(b, context) == [b'"by TLS"']
        assert line.served > 2
        for host, root in ((HOST, other), ("elsewhere.example.com", authority)):
            with pytest.raises(Unreachable, match="certificate"):
                remote.join(place(host, root), "by-tls", memory_path / "c", "c")


@pytest.mark.parametrize("named", ["in the URL", "in the environment"])
def test_packs_by_https(
    postgres: Postgres, s3: S3, memory_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    authority, other = (certificate(memory_path, name, name) for name in ("authority", "other"))
    line = TlsServer(certificate(memory_path, "authority", HOST, key_of(authority)), s3.port)

    def place(host: str, root: Path | None) -> Place:
        url = f"https://{s3.KEY}:{s3.SECRET}@{host}:{line.port}/{s3.BUCKET}/by-https"
        if named == "in the URL":
            return Place(postgres=postgres.url(), objects=url + (f"?cacert={root}" if root is not None else ""))
        monkeypatch.setenv("AWS_CA_BUNDLE", str(root or ""))
        return Place(postgres=postgres.url(), objects=url)

    trusted, untrusted = (one.with_suffix(".crt") for one in (authority, other))
    with closing(line):
        name = f"by-https-{named[7:10]}"
        remote.init(place("127.0.0.1", trusted), name)
        remote.join(place("127.0.0.1", trusted), name, memory_path / "a", "a")
        let_in(memory_path / "a", memory_path / "b", "b")
        large = os.urandom(2 << 20)
        with Store.open(memory_path / "a") as a, Store.open(memory_path / "b") as b:
            context = a.contexts.create().context
            a.contexts.append(context, large, "line")
            b.writer.catch_up()
            assert said(b, context) == [large]
        assert line.served
        served = line.served
        for host, root in (("127.0.0.1", untrusted), ("127.0.0.1", None), ("localhost", trusted)):
            with pytest.raises(Unreachable, match=r"^[^\n]*certificate[^\n]*$") as refused:
                remote.init(place(host, root), "refused")
            assert s3.SECRET not in str(refused.value)
        assert line.served == served
        with pytest.raises(UsageError, match="cannot be read"):
            remote.init(place("127.0.0.1", memory_path / "nowhere"), "refused")
