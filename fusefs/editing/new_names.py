"""Names that people give to what they make: projects, conversations, labels."""

import errno

from pyfuse3 import FUSEError

from fusefs.text.names import NAME_MAX, safe_name

_LONGEST = NAME_MAX - 25
"""What is added to a name still has room."""


def new_name(name: bytes) -> str:
    """Return a name that what is made will be shown under as it stands; EINVAL or ENAMETOOLONG for any other."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise FUSEError(errno.EINVAL) from None
    if len(name) > _LONGEST:
        raise FUSEError(errno.ENAMETOOLONG)
    if safe_name(text, limit=_LONGEST) != text or text.startswith("."):
        raise FUSEError(errno.EINVAL)
    return text
