"""Files as conversations knew them, in real sessions: no part passes for a whole, and what can be checked is right."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from fusefs.text.render import FileRenderer
from fusefs.text.resource_names import lines_of, resource_paths
from store.events.conversation import Conversation, ResourceRow
from store.events.event import Kind
from store.exporting.steps import steps_of
from store.ids import hash_bytes
from store.importing.importer import Importer
from store.store import Store
from store.worktree.known_files import FileRow
from tests.store.content.samples import directory

IDLE = (Kind.ASSISTANT, Kind.REASONING, Kind.RECORD)
"""Events in which nobody changes a file."""


class Talk:
    """A conversation with the files that it knew, and their contents."""

    def __init__(self, store: Store, conversation: Conversation) -> None:
        self.store = store
        self.format = conversation.format
        self.source = conversation.source
        self.head = conversation.head
        context, head = conversation.id, conversation.head
        self.known = store.known_files.rows(context, head)
        self.held = store.records.resources(head)
        there = {(row.turn, row.seq) for row in self.held}
        self.derived = [row for row in self.known if (row.turn, row.seq) not in there]
        self.paths = resource_paths([*self.held, *self.derived])
        self.kinds = [row.kind for row in store.records.rows(head)]
        store.known_files.forget()
        self.contents = {
            (row.number, row.seq): store.known_files.content(context, head, row, self.known) for row in self.derived
        } | {(row.number, row.seq): store.records.resource(row) for row in self.held}

    def content(self, row: ResourceRow) -> bytes:
        return self.contents[row.number, row.seq]

    def wholes(self) -> dict[str, list[FileRow]]:
        """Return the states of each file, in order."""
        found: dict[str, list[FileRow]] = {}
        for row in self.known:
            if not lines_of(row.uri):
                found.setdefault(row.uri, []).append(row)
        return found

    def is_read(self, row: FileRow) -> bool:
        """Return whether an event read a file as a whole: its result is made of nothing else."""
        [shown] = self.store.views.rows([(row.turn, 1)], row.number)
        changing = ("write", "edit", "patch", "create", "insert", "modify")
        return row.since == row.asked and not any(word in shown.tool.lower() for word in changing)

    def asked_for(self, row: FileRow) -> tuple[int, int]:
        """Return the first line that a call asked for and how many, 0 where it said nothing, as far as that is told."""
        call = self.store.records.event(self.store.records.rows(self.head)[row.asked - 1])
        given = [step.arguments for step in steps_of(row.asked, call) if isinstance(step.arguments, dict)]
        if len(given) != 1:
            return 0, 0
        number = {key: value for key, value in given[0].items() if isinstance(value, int)}
        first = number.get("offset", number.get("start_line", 0))
        last = number.get("end_line", 0)
        return first, number.get("limit", last - max(first, 1) + 1 if last else 0)

    def lines_told(self, row: FileRow) -> int:
        """Return how many lines the file has, as the record says, 0 where it does not."""
        event = self.store.records.event(self.store.records.rows(self.head)[row.number - 1])
        return next((one.lines for one in event.resources if one.uri == row.uri), 0)

    def may_have_changed(self, first: int, beyond: int) -> bool:
        """Return whether something else than the tools for files happened between two events."""
        known = {number for row in self.known for number in (row.asked, row.number)}
        return any(self.kinds[at - 1] not in IDLE and at not in known for at in range(first + 1, beyond))


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Talk]]:
    root = directory()
    with Store.open(tmp_path_factory.mktemp("known") / "store", renderer=FileRenderer()) as store:
        Importer(store).run([root])
        while store.known_files.step():
            pass
        contexts = [(context, head) for context, head in store.catalogue.states() if head]
        assert all(store.known_files.is_known(context, head) for context, head in contexts)
        yield [Talk(store, store.library.conversation(context)) for context, _head in contexts]


def test_every_content_is_as_its_row_says(talks: list[Talk]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for talk in talks:
        for row in talk.derived:
            data = talk.content(row)
            assert (len(data), hash_bytes(data)) == (row.size, row.hash), (talk.source, row)
        for row in talk.paths.values():
            what = ("follows, " if isinstance(row, FileRow) else "held, ") + ("lines" if lines_of(row.uri) else "whole")
            counts[talk.format, what] += 1
            sizes[talk.format, what] += row.size
    for key, count in sorted(counts.items()):
        print(*key, count, "contents,", sizes[key], "bytes")
    assert {key[0] for key in counts if key[1] == "follows, whole"} >= {"claude-code", "codex", "jp", "pi"}


def test_no_part_of_a_file_passes_for_the_file(talks: list[Talk]) -> None:
    wrong = []
    looked = 0
    for talk in talks:
        wrong += [(talk.source, path) for path, row in talk.paths.items() if lines_of(row.uri) not in path]
        for states in talk.wholes().values():
            for row in filter(talk.is_read, states):
                looked += 1
                first, most = talk.asked_for(row)
                lines = talk.content(row).decode().removesuffix("\n").count("\n") + 1
                if first > 1 or (most == lines and talk.lines_told(row) != lines):
                    wrong.append((talk.source, row.uri))
    print(looked, "whole files that were read")
    assert looked > 0
    assert wrong == []


def test_what_is_read_again_is_what_was_known(talks: list[Talk]) -> None:
    compared: Counter[str] = Counter()
    wrong = []
    for talk in talks:
        for states in talk.wholes().values():
            for before, row in pairwise(states):
                if not talk.is_read(row) or before.number == row.number:
                    continue
                if before.hash == row.hash:
                    compared["equal"] += 1
                elif talk.may_have_changed(before.number, row.number):
                    compared["changed by something else meanwhile"] += 1
                else:
                    wrong.append((talk.source, before, row))
    print(dict(compared))
    assert compared["equal"] > 0
    assert wrong == []
