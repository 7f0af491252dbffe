"""The call of the command that brings conversations in: import.

Apart from the others: most commands need no formats, and an import nothing of what exports take.
"""

import os
from pathlib import Path

from msgspec import Struct

from store.importing.importer import Importer, ImportReport
from store.service.call import Emit, Holder, Table
from store.service.naming import Names

IMPORTING = Table()


class ImportProgress(Struct, frozen=True):
    """How far an import is: bytes dealt with so far, and the session that it is at."""

    bytes: int
    session: str


@IMPORTING.telling(260, progress=True)
def import_sessions(
    holder: Holder,
    emit: Emit[ImportProgress],
    paths: tuple[bytes, ...],
    format_name: str = "",
    dry_run: bool = False,
    watched: bool = False,
    pruned: bool = False,
) -> ImportReport:
    """Import what lies at absolute ``paths``, bytes since not every path is text; of one format, or of any ("").

    ``watched``: they are imported as they grow, again and again. ``pruned``: also those that were deleted for good.
    """
    places = [Path(os.fsdecode(path)) for path in paths]
    holder.keep_out(places)
    done = 0

    def progress(size: int, session: str) -> None:
        nonlocal done
        done += size
        emit(ImportProgress(done, session))

    report = Importer(holder.store).run(
        places, format_name=format_name or None, dry_run=dry_run, by_hand=not watched, pruned=pruned, progress=progress
    )
    if "cxdb" in (report.tools or {}) and not dry_run:
        # the sessions of tools have names of their own
        Names(holder.store).give(holder.store.catalogue.nameless())
    return report
