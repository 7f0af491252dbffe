"""Versions of large contents, through every order of edits, restarts and kills that hypothesis thinks of."""

import json
import shutil

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fusefs.text.render import FileRenderer
from store.content.cuts import cut
from store.disk.blob_format import Compression
from store.disk.file_header import Damage
from store.editing.editor import Editor
from store.paths import SETTINGS
from store.store import Store
from store.upkeep import recovery
from store.upkeep.fsck import fsck
from tests.conftest import scratch
from tests.model import freeze
from tests.store.content.noise import edited, noise
from tests.store.editing.records import conversation

RECORDS = st.sampled_from([1, 2, 3])
TEXTS = st.integers(0, 1)
PLACES = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])


class VersionsMachine(RuleBasedStateMachine):
    """Three records of two texts each; every edit is a version, and all versions stay readable."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = scratch()
        self.copies = self.edits = 0
        self.patch = pytest.MonkeyPatch()
        self.expected: list[dict[int, bytes]] = []

    @initialize(
        journal=st.sampled_from([256 << 10, 32 << 20]), many=st.booleans(), edits=st.sampled_from(["branch", "overlay"])
    )
    def begin(self, journal: int, many: bool, edits: str) -> None:
        """Begin with records that are journalled, or are written to the packs at once; of lines, if ``many``."""
        self.many = many
        self.patch.setattr(recovery, "JOURNAL_BYTES", journal)
        self.texts = {number: [noise(30_000, number), noise(20_000, number + 10)] for number in (1, 2, 3)}
        root = self.directory / "store"
        root.mkdir()
        (root / SETTINGS).write_text(f'edits = "{edits}"\n')
        self.store = Store.open(root, renderer=FileRenderer())
        self.context = conversation(self.store, [self.payload(number) for number in (1, 2, 3)])
        self.note()

    def payload(self, number: int) -> bytes:
        one, other = (text.decode() for text in self.texts[number])
        return json.dumps({"type": "user", "lines": one.split("\n") if self.many else one, "text": other}).encode()

    def note(self) -> None:
        self.expected.append({number: self.payload(number) for number in self.texts})

    def commit(self, *numbers: int) -> None:
        before = self.store.writer.head(self.context)
        if Editor(self.store).edit(self.context, {number: self.payload(number) for number in numbers}) != before:
            self.note()

    @rule(record=RECORDS, text=TEXTS, places=st.lists(PLACES, min_size=1, max_size=3))
    def change(self, record: int, text: int, places: list[float]) -> None:
        self.edits += 1
        changed = edited(self.texts[record][text], *places)
        self.texts[record][text] = changed.replace(b"edited", b"edited %d" % self.edits, 1)
        self.commit(record)

    @rule(text=TEXTS, place=PLACES)
    def change_all(self, text: int, place: float) -> None:
        for texts in self.texts.values():
            texts[text] = edited(texts[text], place)
        self.commit(1, 2, 3)

    @rule(record=RECORDS, text=TEXTS)
    def write_anew(self, record: int, text: int) -> None:
        self.edits += 1
        self.texts[record][text] = noise(25_000, 100 + self.edits)
        self.commit(record)

    @rule(record=RECORDS, other=RECORDS)
    def exchange(self, record: int, other: int) -> None:
        self.texts[record], self.texts[other] = [self.texts[other][0], self.texts[record][1]], self.texts[record]
        self.commit(*{record, other})

    @rule(which=st.integers(0, 1000), record=RECORDS)
    def return_to(self, which: int, record: int) -> None:
        """Give a record the payload that it had in an earlier version."""
        old = self.expected[which % len(self.expected)][record]
        view = json.loads(old)
        one = "\n".join(view["lines"]) if self.many else view["lines"]
        self.texts[record] = [one.encode(), view["text"].encode()]
        self.commit(record)

    @rule()
    def flush(self) -> None:
        self.store.checkpointer.flush()

    @rule(reindex=st.booleans())
    def reopen(self, reindex: bool) -> None:
        self.store.close()
        self.store = Store.open(self.store.root, renderer=FileRenderer(), create=False, reindex=reindex)

    @rule()
    def kill(self) -> None:
        self.copies += 1
        copy = freeze(self.store, self.directory / f"copy{self.copies}")
        self.store.close()
        shutil.rmtree(self.store.root)
        self.store = Store.open(copy, renderer=FileRenderer(), create=False)

    def check(self) -> None:
        versions = self.store.catalogue.versions(self.context)
        assert len(versions) == len(self.expected)
        for version, expected in zip(versions, self.expected, strict=True):
            turns = self.store.turns.path_to_root(version.head)
            found = dict(self.store.contents.payloads([turn.turn_id for turn in turns]))
            assert [found[turn.turn_id] for turn in turns] == list(expected.values())
        self.store.checkpointer.flush()
        for payload in {payload for expected in self.expected for payload in expected.values()}:
            taken = cut(payload, self.store.settings.inline_limit_bytes)
            assert taken is not None
            for digest, content in taken.contents:
                assert self.store.blobs.blob(digest) == content
                assert len(self.store.blobs.bases(digest)) <= 8
        assert fsck(self.store) == []

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                try:
                    self.check()
                finally:
                    self.store.close()
                with Store.open(self.store.root, renderer=FileRenderer(), reindex=True) as self.store:
                    self.check()
                    records = [record for *_, record in self.store.files.packs.scan()]
                    deltas = sum(
                        1
                        for found in records
                        if not isinstance(found, Damage) and found.compression == Compression.DELTA
                    )
                    totals["deltas"] += deltas
        finally:
            self.patch.undo()
            shutil.rmtree(self.directory)


totals = {"deltas": 0}


def test_versions_of_large_contents() -> None:
    totals["deltas"] = 0
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        VersionsMachine,
        settings=settings(
            max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert totals["deltas"] > 0
