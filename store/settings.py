"""The settings of a store: ``convfs.toml`` in its directory, every key optional.

The file has one ``key = value`` a setting and a ``[section]`` for each group of them: the fields of :class:`Settings`.

A conversation's metadata may have some of the sections, too: so tables come from TOML and from JSON, and are laid
over a struct that has the defaults.

A setting is a field of a msgspec Struct, and what it takes is said by its type: ``bool``, ``int``, ``float``, ``str``,
``Literal`` of strings, ``tuple[str, ...]``, ``T | None`` (None can only be the default), a Struct (a section), a
``tuple`` of Structs (a list of sections), or a ``dict`` from names to any of these (a section for each name). Numbers
are 0 or more.
"""

import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, TypeVar, get_args, get_origin

from msgspec import NODEFAULT, Struct, structs

from store.errors import UsageError
from store.paths import SETTINGS

_TOO_LARGE = 1 << 63

S = TypeVar("S", bound=Struct)


def merged(base: S, table: Mapping[str, object], origin: str, within: str = "") -> tuple[S, list[str]]:
    """Return ``base`` with what ``table`` sets, and one warning for each key that is no setting.

    ``origin`` (a file) begins every message, and ``within`` (``section.``) the name of every setting in it. Raises
    UsageError, in one line, where a value does not fit.
    """
    known = {field.encode_name: field for field in structs.fields(base)}
    values: dict[str, object] = {}
    warnings = []
    for key, value in table.items():
        name = within + key
        if (field := known.get(key)) is None:
            warnings.append(f"{origin}: unknown setting {name!r} is ignored")
            continue
        values[field.name], more = _value(field.type, getattr(base, field.name), value, origin, name)
        warnings += more
    return structs.replace(base, **values), warnings


def _value(kind: object, default: object, value: object, origin: str, name: str) -> tuple[object, list[str]]:
    """Return what a setting of the type ``kind`` becomes by ``value``, and warnings."""
    if get_origin(kind) is UnionType:
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if isinstance(kind, type) and issubclass(kind, Struct):
        if not isinstance(value, Mapping):
            raise UsageError(f"{origin}: {name} must be a section of its own, not {reprlib.repr(value)}")
        return merged(default if isinstance(default, kind) else kind(), value, origin, f"{name}.")
    if get_origin(kind) is tuple and issubclass(get_args(kind)[0], Struct):
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise UsageError(f"{origin}: {name} must be sections of its own ([[{name}]]), not {reprlib.repr(value)}")
        each = get_args(kind)[0]
        several = [merged(each(), table, origin, f"{name}.") for table in value]
        return tuple(one for one, _more in several), [line for _one, more in several for line in more]
    if get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            raise UsageError(f"{origin}: {name} must be a section of its own, not {reprlib.repr(value)}")
        each = get_args(kind)[1]
        found = dict(default) if isinstance(default, Mapping) else {}
        warnings = []
        for key, inner in value.items():
            found[key], more = _value(each, found.get(key, NODEFAULT), inner, origin, f"{name}.{key}")
            warnings += more
        return found, warnings
    if (taken := _fitting(kind, value)) is None:
        otherwise = "" if default is NODEFAULT else f" (default {_shown(default)})"
        raise UsageError(f"{origin}: {name} must be {_wanted(kind)}, not {reprlib.repr(value)}{otherwise}")
    return taken, []


def _fitting(kind: object, value: object) -> object:
    """Return ``value`` as a setting of a plain type ``kind`` takes it; None where it does not."""
    # Not isinstance: true and false are integers to Python.
    number = type(value) is int and 0 <= value < _TOO_LARGE
    if kind is float and (number or (type(value) is float and 0 <= value < math.inf)):
        return float(value)  # type: ignore[arg-type]  # a number, as was just seen
    if kind is int:
        return value if number else None
    if get_origin(kind) is Literal:
        return value if isinstance(value, str) and value in get_args(kind) else None
    if get_origin(kind) is tuple:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return tuple(value) if fits else None  # type: ignore[arg-type]  # a list, as was just seen
    return value if kind in {bool, str} and type(value) is kind else None


def _wanted(kind: object) -> str:
    """Return what a setting of the type ``kind`` takes, in words."""
    if get_origin(kind) is Literal:
        return " or ".join(f'"{choice}"' for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "a list of strings"
    words = {bool: "true or false", int: "a whole number from 0 up", float: "a number from 0 up", str: "a string"}
    return next(word for each, word in words.items() if each is kind)


def _shown(value: object) -> str:
    """Return a setting's value as TOML spells it; "none" for what has none."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_shown(each) for each in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


_MIB = 1 << 20


class Deduplication(Struct, frozen=True):
    """``[conversation.deduplication]``: what is not sent to a model a second time.

    ``enabled``: whether anything is left out. ``min_bytes``: content of at most this size is always sent.
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


class Remote(Struct, frozen=True):
    """``[remote]``: of a replica of a space.

    ``cache_bytes``: how much it keeps of packs that only the space has whole. ``keep_entries``: so many of the last
    commits stay in the space's log, and those of the last ``keep_hours``; earlier ones go into its archive.
    """

    cache_bytes: int = 4096 * _MIB
    keep_entries: int = 1000
    keep_hours: float = 1.0


class Sessions(Struct, frozen=True):
    """``[sessions]``: in which ``folders`` this user's sessions lie besides those of the tools, from their home on."""

    folders: tuple[str, ...] = ()


class PriceSettings(Struct, frozen=True):
    """``[prices.MODEL]``: what a million tokens of MODEL cost, in US dollars, whatever the price that is built in.

    ``cache_read``, ``cache_write`` and ``cache_write_hour`` (what is kept for an hour) are as ``input`` where left out.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None


class ShareRule(Struct, frozen=True, rename={"place": "with"}):
    """``[[share]]``: the conversations of ``project`` go to the store ``with`` when that is pushed to."""

    project: str = ""
    place: str = ""


class Settings(Struct, frozen=True):
    """The settings of a store. Sizes are bytes.

    ``inline_limit_bytes``: a string of a payload that is this long or longer is stored as a blob of its own (0: every
    string); holds for new writes only. ``content_cache_bytes``: how much decompressed content is remembered.
    ``row_cache_bytes``: how much is remembered of what the index says of events. ``text_cache_share``: how much of
    what was drawn is kept, as a share of what the packs take (64 MiB at least; 0: nothing). ``poll_microseconds``: how
    long the mount looks for a next request before it sleeps (0: not at all); costs a little processor time, saves
    waking up. ``opens_in_c``: opens of what the kernel has in its page cache are answered by the extension for that,
    if it was built and the mount polls. ``edits``: what an edit of records in their places appends: them and all
    after them, unless these are very many (``branch``), or a patch (``overlay``). ``version_seconds``: saves of one
    program that follow each other within so many seconds are one version (0: each is one). ``canonical_types``:
    payloads of these types that are appended are stored in the canonical form of JSON, MessagePack or CBOR, not as
    they were spelled; what is imported stays as it is. ``canonical_json``: the same for JSON of any type.
    ``list_all``: listings show warm-ups of tools, and sessions in which nobody speaks, among the conversations.
    ``projects``: the sessions of a project, by name: their directories or some above them (``*`` as in a shell),
    their remotes, or the projects that they would be of. ``conversation``, ``tools`` (by a tool's name),
    ``retention``, ``sealing``, ``gc``, ``remote``, ``sessions`` and ``prices`` (by a model's) are sections, ``share``
    several.
    """

    inline_limit_bytes: int = 1024
    content_cache_bytes: int = 24 * _MIB
    row_cache_bytes: int = 24 * _MIB
    text_cache_share: float = 1.0
    poll_microseconds: int = 50
    opens_in_c: bool = True
    edits: Literal["branch", "overlay"] = "branch"
    version_seconds: float = 5.0
    canonical_types: tuple[str, ...] = ()
    canonical_json: bool = False
    list_all: bool = False
    projects: dict[str, tuple[str, ...]] = {}
    conversation: ConversationSettings = ConversationSettings()
    tools: dict[str, ToolSettings] = {}
    retention: Retention = Retention()
    sealing: Sealing = Sealing()
    gc: GarbageCollection = GarbageCollection()
    remote: Remote = Remote()
    sessions: Sessions = Sessions()
    prices: dict[str, PriceSettings] = {}
    share: tuple[ShareRule, ...] = ()


def load(root: Path) -> tuple[Settings, list[str]]:
    """Read the settings of the store at ``root``; return them with one warning for each unknown key.

    Without a file, all settings have their defaults. Raises UsageError, in one line that names the file and the key,
    where the file is not TOML, not readable, or a value does not fit.
    """
    path = root / SETTINGS
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings(), []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}): mend it or move it away") from error
    return parse(text, str(path))


def parse(text: str, origin: str) -> tuple[Settings, list[str]]:
    """Read settings from the text of a ``convfs.toml``; as :func:`load`, naming ``origin`` in what it says."""
    # imported here: most stores have no such file, and every command starts with this module
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: not valid TOML ({error}): mend it or move it away") from error
    return merged(Settings(), table, origin)


class Rules(Struct, frozen=True):
    """The sections of ``convfs.toml`` that a conversation's metadata may have, too, under the same names."""

    conversation: ConversationSettings = ConversationSettings()
    tools: dict[str, ToolSettings] = {}

    @property
    def deduplication(self) -> Deduplication:
        """The rule for what is not sent twice."""
        return self.conversation.deduplication

    def hold_for(self, tool: str) -> bool:
        """Say whether what a tool returns may be left out."""
        return self.deduplication.enabled and self.tools.get(tool, ToolSettings()).deduplicate


OVERRIDING = Rules.__struct_fields__
"""The keys of metadata that override settings."""


def rules_of(settings: Settings, metadata: Mapping[str, object]) -> Rules:
    """Return what holds for the conversation with that metadata; what does not fit there is passed over."""
    rules = Rules(settings.conversation, settings.tools)
    for key in OVERRIDING:
        if key in metadata:
            try:
                rules = overridden(rules, {key: metadata[key]})
            except UsageError:
                continue
    return rules


def overridden(rules: Rules, table: Mapping[str, object]) -> Rules:
    """Return ``rules`` with what ``table`` sets. Raises UsageError for what does not fit, and for unknown keys."""
    found, unknown = merged(rules, table, "metadata.json")
    if unknown:
        raise UsageError(unknown[0].removesuffix(" is ignored"))
    return found
