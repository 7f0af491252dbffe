"""The bucket of a space in S3, or in what speaks its protocol.

Where it is says a URL: ``s3://BUCKET/PREFIX`` (Amazon, or whom AWS_ENDPOINT_URL names), ``https://HOST/BUCKET/PREFIX``
(any other service; KEY:SECRET@ before the host, else AWS_ACCESS_KEY_ID and its like), ``file:///DIR``. With
``?cacert=FILE`` behind it, or AWS_CA_BUNDLE, the authorities in a file of PEM are trusted besides those of the system.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, GenericError
from obstore.store import LocalStore, ObjectStore, S3Store

from store.errors import Missing, Unreachable, UsageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_SECONDS = timedelta(seconds=10)
"""For how long is tried what a server does not answer."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REFUSED = re.compile(r"InvalidCertificate\(\s*(\w+)")
"""A refusal of rustls, as the errors of obstore show it."""
_CERTIFICATES = {
    "UnknownIssuer": "its certificate is of no authority that is trusted: ?cacert=FILE behind the URL names one",
    "NotValidForName": "its certificate is that of another host",
}


def check(url: str) -> None:
    """See that a bucket takes, gives and removes objects. Raises UsageError if what is removed can be had still."""
    probe = Objects(url, os.urandom(16))
    probe.put("probe", b"convfs")
    version = probe.version("probe")
    probe.get("probe")
    probe.delete("probe")
    if version:
        raise UsageError(f"{_shown(url)}: this bucket keeps what is removed: a redaction could not: turn versions off")


class Objects:
    """The objects of one space; see :class:`store.shared.space.Bucket`."""

    def __init__(self, url: str, space: bytes) -> None:
        """Raises UsageError."""
        self._store = _store(url, space.hex())
        self.where = _shown(url)

    def put(self, key: str, data: bytes) -> None:
        with self._reaching():
            obstore.put(self._store, key, data, use_multipart=False)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        with self._reaching(key):
            if length is None and not start:
                return bytes(obstore.get(self._store, key).bytes())
            if length:
                try:
                    return bytes(obstore.get_range(self._store, key, start=start, end=start + length))
                except GenericError as error:
                    # some of nothing, behind the end, is one for all kinds of stores
                    if "range" not in str(error).lower():
                        raise
            size = obstore.head(self._store, key)["size"]
            end = size if length is None else min(start + length, size)
            return bytes(obstore.get_range(self._store, key, start=start, end=end)) if start < end else b""

    def version(self, key: str) -> str:
        """Return which version of an object is the last, "" where the bucket has no others."""
        with self._reaching(key):
            return obstore.head(self._store, key)["version"] or ""

    def delete(self, key: str) -> None:
        with self._reaching(), suppress(FileNotFoundError):
            obstore.delete(self._store, key)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        with self._reaching():
            # a prefix of a listing is made of whole names
            for found in obstore.list(self._store, prefix.rpartition("/")[0] or None):
                yield from ((one["path"], one["size"]) for one in found if one["path"].startswith(prefix))

    @contextmanager
    def _reaching(self, key: str = "") -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            if key and isinstance(error, FileNotFoundError):
                raise Missing(f"there is no object {key} in {self.where}") from None
            told = str(error).strip()
            if refused := _REFUSED.search(told):
                line = _CERTIFICATES.get(refused[1], f"its certificate does not hold: {refused[1]}")
            else:
                line = told.partition("\n")[0].partition(": <?xml")[0]
            raise Unreachable(f"the bucket {self.where} cannot be reached: {line}; try again once it can") from error


def _store(url: str, space: str) -> ObjectStore:
    split = urlsplit(url)
    bucket, _, prefix = f"{split.netloc}{split.path}".partition("/")
    given: dict[str, str] = {}
    trusted = _authorities(url, parse_qs(split.query).get("cacert", [os.environ.get("AWS_CA_BUNDLE", "")])[0])
    if split.scheme == "file":
        root = Path(unquote(split.path)) / space
        root.mkdir(parents=True, exist_ok=True)
        return LocalStore(root)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if split.scheme in ("http", "https") and split.hostname:
        bucket, _, prefix = split.path.strip("/").partition("/")
        host = f"[{split.hostname}]" if ":" in split.hostname else split.hostname
        endpoint = given["endpoint"] = f"{split.scheme}://{host}" + (f":{split.port}" if split.port else "")
        if split.username:
            given["access_key_id"] = unquote(split.username)
            given["secret_access_key"] = unquote(split.password or "")
    elif split.scheme != "s3":
        raise UsageError(f"{_shown(url)}: a bucket is given as s3://BUCKET or https://HOST/BUCKET")
    unprotected = endpoint.startswith("http:")
    if unprotected and urlsplit(endpoint).hostname not in _LOOPBACK:
        raise UsageError(f"{_shown(endpoint)}: everything would go there unprotected: use https")
    if not bucket:
        raise UsageError(f"{_shown(url)}: the URL names no bucket")
    try:
        return S3Store(
            bucket,
            prefix="/".join(part for part in (prefix.strip("/"), space) if part),
            client_options={
                "allow_http": unprotected,
                "timeout": _SECONDS,
                "connect_timeout": _SECONDS / 2,
                **trusted,
            },
            retry_config={"max_retries": 5, "retry_timeout": _SECONDS},
            **given,  # type: ignore[arg-type]  # names of its options
        )
    except BaseError as error:
        raise UsageError(f"{_shown(url)}: {error}") from None


def _authorities(url: str, path: str) -> "ClientConfig":
    if not path:
        return {}
    try:
        return {"root_certificate": Path(path).read_bytes()}
    except OSError as error:
        raise UsageError(f"{_shown(url)}: the authorities that are to be trusted cannot be read: {error}") from None


def _shown(url: str) -> str:
    """Return a URL without the secrets in it."""
    split = urlsplit(url)
    return split._replace(netloc=split.netloc.rpartition("@")[2], query="").geturl()
