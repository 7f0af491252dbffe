"""From where a space is to the space."""

from pathlib import Path

from store.errors import UsageError
from store.shared import directory
from store.shared.space import Place, Space


def create(place: Place, name: str) -> None:
    """Make the empty space ``name`` at a place. Raises UsageError if there is one, or it cannot be; Unreachable."""
    if place.directory:
        directory.create(Path(place.directory) / name)
        return
    try:
        from store.shared import bucket, postgres
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    postgres.check(place.postgres)
    # before there is a space: what is found here is most often a mistake in the URL
    bucket.check(place.objects)
    postgres.create(place.postgres, name)


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
        return Space(server.id, f"{server.where} and {bucket.where}", server, server, bucket, server.close)
    except BaseException:
        server.close()
        raise


def _missing(error: ModuleNotFoundError) -> UsageError:
    return UsageError(f"a space on servers needs {error.name}: install it with: pip install 'convfs[shared]'")
