"""The settings of a store: ``convfs.toml`` in its directory, every key optional.

The file has one ``key = value`` a setting and a ``[section]`` for each group of them: the fields of :class:`Settings`.
"""

import tomllib
from pathlib import Path
from typing import Literal

from msgspec import Struct

from store.errors import UsageError
from store.sections import merged

FILE_NAME = "convfs.toml"
_MIB = 1 << 20


class Deduplication(Struct, frozen=True):
    """``[conversation.deduplication]``: what is not sent to a model a second time.

    ``enabled``: whether anything is left out. ``min_bytes``: content below this size is always sent.
    ``lookback_turns``: content that was sent this many exchanges ago, or fewer, is not sent again.
    """

    enabled: bool = True
    min_bytes: int = 300
    lookback_turns: int = 30


class ConversationSettings(Struct, frozen=True):
    """``[conversation]``: what holds for each conversation whose own metadata says nothing else."""

    deduplication: Deduplication = Deduplication()


class ToolSettings(Struct, frozen=True):
    """``[tools.NAME]``: what holds for the results of the tool NAME.

    ``deduplicate``: whether resources that it returns may be left out because they were sent before.
    """

    deduplicate: bool = True


class Retention(Struct, frozen=True):
    """``[retention]``: what is deleted for good without being asked for; for each, None means never.

    ``conversations_days``: conversations that have not changed for so many days. ``trash_days``: those that have been
    in the trash for so many. ``versions_days``: earlier versions that have been over for so many. ``artifacts_days``:
    outputs of tools and agents that were not written to for so many; not those that came beside a session.
    ``max_bytes``: while packs have more than this of what is kept, those conversations go that changed longest ago.
    ``keep_labels``: conversations with one of these labels, like those that are pinned, are never pruned.
    """

    conversations_days: float | None = None
    trash_days: float | None = None
    versions_days: float | None = None
    artifacts_days: float | None = None
    max_bytes: int | None = None
    keep_labels: tuple[str, ...] = ("keep",)


class Sealing(Struct, frozen=True):
    """``[sealing]``: whether a daemon seals by itself what was appended, and how much there must be of it."""

    background: bool = True
    at_bytes: int = 4 * _MIB


class GarbageCollection(Struct, frozen=True):
    """``[gc]``: whether a daemon collects by itself what nothing leads to, and how old that must be, in hours.

    The age is that of the last change of the pack in which something lies: what is brought in may be named later.
    """

    background: bool = True
    grace_hours: float = 24.0


class PriceSettings(Struct, frozen=True):
    """``[prices.MODEL]``: what a million tokens of MODEL cost, in US dollars, whatever the price that is built in.

    ``cache_read``, ``cache_write`` and ``cache_write_hour`` (what is kept for an hour) are as ``input`` where left out.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None


class Settings(Struct, frozen=True):
    """What a user may set. Sizes are bytes.

    ``inline_limit_bytes``: a string of a payload that is this long or longer is stored as a blob of its own (0: every
    string); holds for new writes only. ``content_cache_bytes``: how much decompressed content is remembered.
    ``row_cache_branches``: of how many branches the event rows are remembered. ``poll_microseconds``: how long the
    mount looks for a next request before it sleeps (0: not at all); costs a little processor time, saves waking up.
    ``edits``: what an edit of records in their places appends: them and all after them (``branch``), or a patch
    (``overlay``). ``canonical_json``: payloads in JSON that are appended are stored in their canonical form, not as
    they were spelled; what is imported stays as it is. ``conversation``, ``tools`` (by a tool's name), ``retention``,
    ``sealing``, ``gc`` and ``prices`` (by a model's) are sections.
    """

    inline_limit_bytes: int = 1024
    content_cache_bytes: int = 64 * _MIB
    row_cache_branches: int = 256
    poll_microseconds: int = 50
    edits: Literal["branch", "overlay"] = "branch"
    canonical_json: bool = False
    conversation: ConversationSettings = ConversationSettings()
    tools: dict[str, ToolSettings] = {}
    retention: Retention = Retention()
    sealing: Sealing = Sealing()
    gc: GarbageCollection = GarbageCollection()
    prices: dict[str, PriceSettings] = {}


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
    return merged(Settings(), table, origin)
