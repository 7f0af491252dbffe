"""The settings of a store: ``convfs.toml`` in its directory, every key optional.

The file is flat: one ``key = value`` a setting, the fields of :class:`Settings`.
"""

import tomllib
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from store.errors import UsageError

FILE_NAME = "convfs.toml"
_MIB = 1 << 20
_TOO_LARGE = 1 << 63
_CHOICES = {"edits": ("branch", "overlay")}


class Settings(Struct, frozen=True):
    """What a user may set. Sizes are bytes.

    ``inline_limit_bytes``: a string of a payload that is this long or longer is stored as a blob of its own (0: every
    string); holds for new writes only. ``content_cache_bytes``: how much decompressed content is remembered.
    ``row_cache_branches``: of how many branches the event rows are remembered. ``poll_microseconds``: how long the
    mount looks for a next request before it sleeps (0: not at all); costs a little processor time, saves waking up.
    ``edits``: what an edit of records in their places appends: them and all after them (``branch``), or a patch
    (``overlay``). ``canonical_json``: payloads in JSON that are appended are stored in their canonical form, not as
    they were spelled; what is imported stays as it is.
    """

    inline_limit_bytes: int = 1024
    content_cache_bytes: int = 64 * _MIB
    row_cache_branches: int = 256
    poll_microseconds: int = 50
    edits: Literal["branch", "overlay"] = "branch"
    canonical_json: bool = False


def load(root: Path) -> tuple[Settings, list[str]]:
    """Read the settings of the store at ``root``; return them with one warning for each unknown key.

    Without a file, all settings have their defaults. Raises UsageError, in one line that names the file and the key,
    where the file is not TOML, not readable, or a value does not fit.
    """
    path = root / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings(), []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}): mend it or move it away") from error
    return parse(text, str(path))


def parse(text: str, origin: str) -> tuple[Settings, list[str]]:
    """Read settings from the text of a ``convfs.toml``; as :func:`load`, naming ``origin`` in what it says."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: not valid TOML ({error}): mend it or move it away") from error
    known = {field.name: field for field in structs.fields(Settings)}
    values = {key: value for key, value in table.items() if key in known}
    for key, value in values.items():
        if (choices := _CHOICES.get(key)) is not None:
            if value not in choices:
                which = " or ".join(f'"{choice}"' for choice in choices)
                raise UsageError(f'{origin}: {key} must be {which}, not {value!r} (default "{choices[0]}")')
            continue
        if known[key].type is bool:
            if type(value) is not bool:
                raise UsageError(f"{origin}: {key} must be true or false, not {value!r} (default false)")
            continue
        # Not isinstance: true and false are integers to Python.
        if type(value) is not int or not 0 <= value < _TOO_LARGE:
            default = known[key].default
            raise UsageError(f"{origin}: {key} must be a whole number from 0 up, not {value!r} (default {default})")
    warnings = [f"{origin}: unknown setting {key!r} is ignored" for key in table if key not in known]
    return Settings(**values), warnings
