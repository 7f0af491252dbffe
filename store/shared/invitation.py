"""Invitations to a space: lines that go from person to person."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct

from store import typed
from store.errors import UsageError
from store.shared.space import Place

_PREFIX = "convfs-invitation:"


class Invitation(Struct, frozen=True):
    """All that a machine needs in order to ask to be let in. ``id`` and ``code`` are hex."""

    place: Place
    space: str
    id: str
    code: str

    @property
    def line(self) -> str:
        """The invitation as one word: JSON in base64, behind a prefix."""
        return _PREFIX + urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def is_invitation(text: str) -> bool:
    """Return whether a text is meant to be an invitation, and not the name of a space."""
    return text.startswith(_PREFIX)


def parse(line: str) -> Invitation:
    """Return the invitation of a line. UsageError if it is none, or was cut."""
    text = line.strip().removeprefix(_PREFIX)
    try:
        found = typed.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), Invitation)
        bytes.fromhex(found.id + found.code)
    except (ValueError, msgspec.DecodeError):
        raise UsageError("this line is no invitation, or not all of it: copy it whole") from None
    return found
