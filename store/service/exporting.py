"""The operations that write conversations out in other forms than those of their tools."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from store.exporting.losses import Loss
from store.service.operation import Holder, Nothing, Operation
from store.service.operations import outside_the_mount

_TOLD_AFTER = 1 << 20
"""Bytes written between two items of progress."""


class ExportAsParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``directory`` is an absolute path, ``format`` the name of a form."""

    id: int
    directory: bytes
    format: str


class ExportProgress(Struct, frozen=True):
    """How far an export is: bytes written so far."""

    bytes: int


class ExportedAs(Struct, frozen=True):
    """The paths of the files that were written, and what they do not say."""

    files: list[bytes]
    lost: list[Loss]


class NamesParams(Struct, frozen=True, forbid_unknown_fields=True):
    """``format`` is the name of a form."""

    id: int
    format: str


def _export(holder: Holder, params: ExportAsParams, emit: Callable[[ExportProgress], None]) -> ExportedAs:
    # here: most commands export nothing, and start sooner without all the forms
    from store.exporting.export import export

    directory = Path(os.fsdecode(params.directory))
    outside_the_mount(holder, [directory])
    done = told = 0

    def written(size: int) -> None:
        nonlocal done, told
        done += size
        if done - told >= _TOLD_AFTER:
            told = done
            emit(ExportProgress(done))

    exported = export(holder.store, holder.store.conversation(params.id), directory, params.format, written)
    return ExportedAs([os.fsencode(path) for path in exported.files], list(exported.lost))


def _names(holder: Holder, params: NamesParams, emit: Callable[[Nothing], None]) -> list[bytes]:
    from store.exporting.export import names

    found = names(holder.store, holder.store.conversation(params.id), params.format)
    return [os.fsencode(name) for name in found]


EXPORT_AS = Operation(267, ExportAsParams, ExportProgress, ExportedAs, _export, progress=True)
EXPORTED_NAMES = Operation(268, NamesParams, Nothing, list[bytes], _names)

EXPORTING = (EXPORT_AS, EXPORTED_NAMES)
