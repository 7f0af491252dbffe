"""Registered types: the names of the numbered fields of payloads, as CXDB's clients bring them in bundles.

A bundle is JSON: ``registry_version``, ``bundle_id``, ``types`` (by name, each with ``versions`` by number, each with
``fields`` by tag and perhaps a ``renderer``) and ``enums`` (by name, labels by number). Bundles are kept as they came,
in files that are numbered in their order.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from store.disk import durable
from store.errors import Conflict, UsageError
from store.paths import NEW, REGISTRY


class Reference(Struct):
    """The type of an array's items, if that is another registered type."""

    type: str
    ref: str | None = None


class FieldSpec(Struct, omit_defaults=True):
    """A field of a type."""

    name: str
    type: str
    optional: bool = False
    enum: str | None = None
    ref: str | None = None
    items: str | Reference | None = None


class RendererSpec(Struct, omit_defaults=True):
    """The place of a program that shows payloads of a type."""

    esm_url: str
    component: str | None = None
    integrity: str | None = None


class VersionSpec(Struct):
    """A version of a type."""

    fields: dict[int, FieldSpec]
    renderer: RendererSpec | UnsetType = UNSET


class TypeSpec(Struct):
    """A type, by the numbers of its versions."""

    versions: dict[int, VersionSpec]


class Bundle(Struct):
    """Types and enums that a client registers at once."""

    registry_version: int
    bundle_id: str
    types: dict[str, TypeSpec] = {}
    enums: dict[str, dict[int, str]] = {}


class Rendering(Struct, frozen=True):
    """How values without a form in JSON are written."""

    bytes_render: Literal["base64", "hex", "len_only"] = "base64"
    u64_format: Literal["string", "number"] = "string"
    enum_render: Literal["label", "number", "both"] = "label"
    time_render: Literal["iso", "unix_ms"] = "iso"


Json = dict[str, object]
_WIDE = frozenset(("int64", "u64", "uint64"))
_bundle = msgspec.json.Decoder(Bundle, strict=False).decode
_NARROW = frozenset(("int32", "u32", "u8", "uint32", "uint8"))
_TIMES = frozenset(("time_ms", "timestamp_ms", "unix_ms"))


class Registry:
    """The types of one store. Safe to call from any thread."""

    def __init__(self, root: Path) -> None:
        self._directory = root / REGISTRY
        self._bundles: dict[str, bytes] = {}
        self._types: dict[str, dict[int, VersionSpec]] = {}
        self._enums: dict[str, dict[int, str]] = {}
        self._lock = threading.Lock()
        for path in sorted(self._directory.glob("*.json")):
            data = path.read_bytes()
            self._take(_parsed(data), data)

    @property
    def last(self) -> str | None:
        """The id of the bundle that came last."""
        return next(reversed(self._bundles), None)

    def bundle(self, name: str) -> bytes | None:
        """Return a bundle as it came."""
        return self._bundles.get(name)

    def version(self, name: str, number: int | None = None) -> VersionSpec | None:
        """Return a version of a type, the latest if none is named; None if it is not registered."""
        versions = self._types.get(name, {})
        return versions.get(max(versions, default=0) if number is None else number)

    def latest(self, name: str) -> int | None:
        """Return the number of the latest version of a type."""
        return max(self._types.get(name, ()), default=None)

    def renderers(self) -> dict[str, RendererSpec]:
        """Return the renderers of types whose latest version has one."""
        found = {name: self.version(name) for name in self._types}
        return {name: one.renderer for name, one in found.items() if one and isinstance(one.renderer, RendererSpec)}

    def put(self, data: bytes) -> str | None:
        """Register a bundle; return its id, None if it is there already. UsageError or Conflict if it does not fit."""
        bundle = _parsed(data)
        with self._lock:
            known = self._bundles.get(bundle.bundle_id)
            if known == data:
                return None
            if known is not None:
                raise Conflict(f"bundle {bundle.bundle_id} is registered with other content")
            self._check(bundle)
            self._directory.mkdir(mode=0o700, exist_ok=True)
            path = self._directory / f"{len(self._bundles) + 1:08}.json"
            new = path.with_name(path.name + NEW)
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            durable.replace(new, path)
            self._take(bundle, data)
        return bundle.bundle_id

    def _take(self, bundle: Bundle, data: bytes) -> None:
        self._bundles[bundle.bundle_id] = data
        for name, labels in bundle.enums.items():
            self._enums.setdefault(name, {}).update(labels)
        for name, kind in bundle.types.items():
            versions = self._types.setdefault(name, {})
            for number, version in kind.versions.items():
                known = versions.setdefault(number, version)
                if known.renderer is UNSET:
                    known.renderer = version.renderer

    def _check(self, bundle: Bundle) -> None:
        for name, labels in bundle.enums.items():
            if self._enums.get(name, labels) != labels:
                raise Conflict(f"enum {name} is registered with other labels")
        for name, kind in bundle.types.items():
            known = dict(self._types.get(name, {}))
            for number, version in kind.versions.items():
                if number in known and known[number].fields != version.fields:
                    raise Conflict(f"version {number} of {name} is registered with other fields")
                for tag, field in version.fields.items():
                    for other in known.values():
                        before = other.fields.get(tag, field)
                        if (before.type, before.enum) != (field.type, field.enum):
                            raise Conflict(f"field {tag} of {name} is registered as another")
                    if field.enum and field.enum not in self._enums and field.enum not in bundle.enums:
                        raise UsageError(f"field {tag} of {name} names enum {field.enum}, which is not registered")
                known[number] = version

    # -- payloads --------------------------------------------------------------------------------------------------

    def project(self, value: Mapping[object, object], spec: VersionSpec, how: Rendering) -> tuple[Json, Json]:
        """Return the named fields of a payload, and those that the type does not know, by tag."""
        tagged = {tag: item for key, item in value.items() if (tag := _tag(key)) is not None}
        named = {
            field.name: self._field(tagged[tag], field, how) for tag, field in spec.fields.items() if tag in tagged
        }
        unknown = {str(tag): _plain(item, how) for tag, item in tagged.items() if tag not in spec.fields}
        return named, unknown

    def _field(self, value: object, field: FieldSpec, how: Rendering) -> object:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if field.enum and isinstance(value, int) and is_number and value >= 0:
            label = self._enums.get(field.enum, {}).get(value)
            if label is not None:
                forms = {"label": label, "number": value, "both": {"label": label, "value": value}}
                return forms[how.enum_render]
        if field.ref:
            return self._referred(value, field.ref, how)
        return self._typed(value, field, how)

    def _referred(self, value: object, name: str, how: Rendering) -> object:
        spec = self.version(name)
        return _plain(value, how) if spec is None or not isinstance(value, dict) else self.project(value, spec, how)[0]

    def _typed(self, value: object, field: FieldSpec, how: Rendering) -> object:
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        match field.type:
            case kind if kind in _WIDE:
                if number is None or number < 0:
                    return None
                return str(number) if how.u64_format == "string" else number
            case kind if kind in _NARROW:
                return number
            case "string":
                return value if isinstance(value, str) else None
            case "bool":
                return value if isinstance(value, bool) else None
            case "bytes" | "typed_blob":
                return _plain(value, how) if isinstance(value, bytes) else None
            case kind if kind in _TIMES:
                return None if number is None else _time(number) if how.time_render == "iso" else number
            case "array" if isinstance(value, list):
                return [self._item(item, field.items, how) for item in value]
        return _plain(value, how)

    def _item(self, value: object, items: str | Reference | None, how: Rendering) -> object:
        if isinstance(items, Reference) and items.ref:
            return self._referred(value, items.ref, how)
        kind = items.type if isinstance(items, Reference) else items
        return self._typed(value, FieldSpec("", kind), how) if kind else _plain(value, how)


def _parsed(data: bytes) -> Bundle:
    try:
        bundle = _bundle(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is no bundle of types: {error}") from None
    if bundle.registry_version <= 0:
        raise UsageError("registry_version must be 1 or more")
    return bundle


def _tag(key: object) -> int | None:
    """Return the tag that a key of a payload is: a number, or a text that is one."""
    if isinstance(key, str) and key.isascii() and key.isdigit():
        return int(key)
    return key if isinstance(key, int) and not isinstance(key, bool) and key >= 0 else None


def _time(ms: int) -> str | None:
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")


def _bytes(value: bytes, how: Rendering) -> str | int:
    if how.bytes_render == "len_only":
        return len(value)
    return value.hex() if how.bytes_render == "hex" else base64.b64encode(value).decode()


def _plain(value: object, how: Rendering) -> object:
    """Return a value that no type describes."""
    match value:
        case bool() | str() | float() | None:
            return value
        case int():
            return str(value) if value >= 0 and how.u64_format == "string" else value
        case bytes():
            return _bytes(value, how)
        case list():
            return [_plain(item, how) for item in value]
        case dict():
            return {str(key): _plain(item, how) for key, item in value.items()}
    return None
