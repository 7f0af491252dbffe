"""The foreign tools that convfs knows. A new one is a module like ``example.py`` and one line in ``FORMATS``."""

from store.errors import UsageError
from store.formats.claude_code import ClaudeCode
from store.formats.format import Format
from store.formats.jp import Jp
from store.formats.lens import Lens
from store.formats.unknown import UnknownLens

FORMATS: tuple[Format, ...] = (
    ClaudeCode(),
    Jp(),
)

_UNKNOWN = UnknownLens()
_LENSES: dict[str, Lens] = {lens.type_name: lens for format_ in FORMATS for lens in format_.lenses}


def lens_for(type_name: str) -> Lens:
    """Return the lens for payloads of a type; one that shows any bytes where nothing is registered for it."""
    return _LENSES.get(type_name, _UNKNOWN)


def format_named(name: str) -> Format:
    """Return the format called ``name``. Raises UsageError where there is none."""
    for format_ in FORMATS:
        if format_.name == name:
            return format_
    known = ", ".join(format_.name for format_ in FORMATS)
    raise UsageError(f"there is no format {name!r}; known are {known}")
