"""The tables of gestures: what removes and what moves a name, for all that names stand for."""

from itertools import product

import pytest

from fusefs.editing.gestures import RENAMES, UNLINKS, Named, Where

ON_DISK = {Named.SCRATCH, Named.SPECIAL, Named.SCRATCH_FOLDER}
SAVED = {Named.SAVED, Named.RESOURCE}
DIRECTORIES = {Named.SCRATCH_FOLDER, Named.FOLDER, Named.CONVERSATION, Named.PROJECT, Named.LABEL}


def moves(source: Named) -> set[tuple[Where, Named]]:
    """Return where something can be moved to, and onto what."""
    return {(where, target) for what, where, target in RENAMES if what is source}


def anywhere(*targets: Named) -> set[tuple[Where, Named]]:
    return set(product(Where, targets))


MOVES = {
    Named.NOTHING: set(),
    Named.SCRATCH: anywhere(Named.NOTHING, *ON_DISK, *SAVED, Named.SESSION, Named.SIDECAR)
    | {(Where.OUTPUTS, Named.OUTPUT)},
    Named.SPECIAL: anywhere(Named.NOTHING, *ON_DISK),
    Named.SCRATCH_FOLDER: anywhere(Named.NOTHING, *ON_DISK),
    Named.SAVED: anywhere(Named.NOTHING, *ON_DISK),
    Named.RESOURCE: anywhere(Named.NOTHING, *ON_DISK),
    Named.KNOWN: set(),
    Named.OUTPUT: anywhere(Named.NOTHING, Named.SCRATCH) | {(Where.OUTPUTS, Named.OUTPUT)},
    Named.SESSION: {
        (Where.TOOL, Named.NOTHING),
        (Where.TOOL, Named.SCRATCH),
        (Where.TOOL, Named.SESSION),
        (Where.TOOLS, Named.SESSION),
    },
    Named.SIDECAR: {(Where.TOOL, Named.NOTHING), (Where.TOOL, Named.SCRATCH), (Where.TOOL, Named.SIDECAR)},
    Named.FOLDER: set(product((Where.TOOL, Where.TOOLS), (Named.NOTHING, Named.FOLDER))),
    Named.CONVERSATION: anywhere(Named.NOTHING),
    Named.FORMER: set(),
    Named.PROJECT: anywhere(Named.NOTHING, Named.PROJECT),
    Named.LINK: anywhere(Named.NOTHING),
    Named.LABEL: anywhere(Named.NOTHING),
    Named.OTHER: set(),
}


@pytest.mark.parametrize("source", Named)
def test_what_can_be_moved_where_and_onto_what(source: Named) -> None:
    assert moves(source) == MOVES[source]


def test_files_can_be_removed_but_not_directories_nor_what_programs_cannot_change() -> None:
    assert set(UNLINKS) == set(Named) - DIRECTORIES - {Named.NOTHING, Named.OTHER}


@pytest.mark.parametrize(("where", "action"), [(where, where is Where.OUTPUTS) for where in Where])
def test_a_scratch_file_becomes_an_output_under_a_name_that_asks_for_one(where: Where, action: bool) -> None:
    becomes_output = RENAMES[Named.SCRATCH, where, Named.NOTHING] is RENAMES[Named.OUTPUT, Where.OUTPUTS, Named.OUTPUT]
    assert becomes_output is action
