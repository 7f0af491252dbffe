"""From where a space is to the space."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from store import paths
from store.errors import DamageError, UsageError
from store.shared import directory
from store.shared.archive import archived
from store.shared.space import ANOTHER, ENCRYPTED, Membership, Place, Space

if TYPE_CHECKING:
    from store.shared.access import Access


def create(place: Place, name: str, records: Mapping[str, bytes]) -> None:
    """Make the space ``name`` at a place, with some records. Raises UsageError if there is one, or it cannot be.

    Unreachable if the place is.
    """
    if place.directory:
        directory.create(Path(place.directory) / name, records)
        return
    try:
        from store.shared import bucket, postgres
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    postgres.check(place.postgres)
    # before there is a space: what is found here is most often a mistake in the URL
    bucket.check(place.objects)
    postgres.create(place.postgres, name, records)


def upgrade(server: str) -> bool:
    """Bring a PostgreSQL server up to date; return whether it was not. Raises UsageError, NotFound, Unreachable."""
    try:
        from store.shared import postgres
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return postgres.upgrade(server)


def risks(place: Place) -> list[str]:
    """Return the settings by which the server of a place may lose commits. Raises Unreachable, UsageError."""
    if place.directory:
        return []
    try:
        from store.shared import postgres
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return postgres.risks(place.postgres)


def connect(place: Place, name: str) -> Space:
    """Return the space ``name`` at a place. Raises NotFound, Unreachable, DamageError, FormatTooNew, UsageError."""
    if place.directory:
        return directory.connect(Path(place.directory) / name)
    try:
        from store.shared.bucket import Objects
        from store.shared.postgres import Postgres
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    server = Postgres(place.postgres, name)
    try:
        bucket = Objects(place.objects, server.id)
        return Space(server.id, f"{server.where} and {bucket.where}", server, server, bucket, server.close, server)
    except BaseException:
        server.close()
        raise


def _missing(error: ModuleNotFoundError) -> UsageError:
    return UsageError(f"a space on servers needs {error.name}: install it with: pip install 'convfs[shared]'")


def enter(root: Path, member: Membership) -> tuple[Space, Access | None]:
    """Return the space of the replica at ``root``, as its keys open it, and its access if the space is encrypted.

    Raises as :func:`connect`, and DamageError if the keys are missing, wrong, or no longer enough.
    """
    space = connect(member.place, member.space)
    try:
        if space.id != member.files_id:
            raise DamageError(f"the space {member.space} is another one than this replica was made of: {ANOTHER}")
        if not (root / paths.KEYS).exists():
            if space.records.record(ENCRYPTED).version:
                raise DamageError(f"{root / paths.KEYS} is missing, and the space {member.space} is encrypted: {_ANEW}")
            return archived(space), None
        need_cryptography()
        from store.shared import keys
        from store.shared.access import Access
        from store.shared.encrypted import encrypted

        keyring = keys.read(root)
        assert keyring is not None
        access = Access(space.records, space.id, member.space, member.number, root, keyring)
        access.refresh()
        return archived(encrypted(space, access)), access
    except BaseException:
        space.close()
        raise


def need_cryptography() -> None:
    """Raise UsageError if the library that encrypts is not installed."""
    if find_spec("cryptography") is None:
        raise UsageError("encrypted spaces need another library: pip install 'convfs[shared]'")


_ANEW = "put it back from a backup, or join anew, in another directory, with a line of convfs remote invite"
