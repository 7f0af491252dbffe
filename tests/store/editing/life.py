"""A life of edits that goes on until its process is killed: ``python -m tests.store.editing.life STORE FIRST-STEP``.

What every step does follows from its number alone, so that whoever finds the store can tell what must be in it.
"""

import sys
from pathlib import Path
from random import Random

import msgspec

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.commit import Changed, Item
from store.editing.editor import DELETED, Editor
from store.store import Store
from store.upkeep import recovery
from tests.store.content.noise import edited, noise
from tests.store.editing.records import TYPE, dialogue

RECORDS = 300
JOURNAL_BYTES = 96 << 10
LARGE = noise(18 << 10)

State = list[bytes | None]


def begin(root: Path) -> int:
    """Make the store and the conversation of step 0."""
    with Store.open(root, renderer=FileRenderer()) as store:
        context = store.contexts.create(metadata={"project": "p", "name": "life"}).context
        for start in range(0, RECORDS, 50):
            store.contexts.append_many(context, [Append(line, TYPE) for line in dialogue(RECORDS)[start : start + 50]])
        return context


class Life:
    """Steps, done to an editor and to the model; the model alone where there is no editor."""

    def __init__(self, context: int, editor: Editor | None = None) -> None:
        self.context = context
        self.editor = editor
        self.payloads = dialogue(RECORDS)
        self.deleted = [False] * RECORDS
        self.states: list[State] = [self.state]

    @property
    def state(self) -> State:
        return [None if gone else payload for payload, gone in zip(self.payloads, self.deleted, strict=True)]

    def step(self, number: int) -> None:
        """Do step ``number``; the editor's part comes last."""
        random = Random(number)
        count = len(self.payloads)
        at = random.randrange(count)
        text = b"word " * random.randrange(600) if number % 3 else edited(LARGE, random.random()).replace(b"\n", b"\\n")
        new = b'{"step":%d,"text":"%s"}' % (number, text)
        mode = random.choice(["branch", "overlay"])
        if self.editor:
            store = self.editor._store
            store.settings = msgspec.structs.replace(store.settings, edits=mode)
        what = random.choice(["edit", "edit", "delete", "back", "add", "rewrite", "program"])
        if what == "rewrite":
            items: list[Item] = [
                *range(1, at + 1),
                Append(new, TYPE),
                Changed(at + 1, b"{}"),
                *range(at + 2, count + 1),
            ]
            self.payloads[at : at + 1] = [new, b"{}"]
            self.deleted[at : at + 1] = [False, False]
            if self.editor:
                self.editor.rewrite(self.context, items)
        elif what in ("add", "program"):
            self.payloads.append(new)
            self.deleted.append(False)
            if self.editor and what == "add":
                self.editor.append(self.context, [Append(new, TYPE)])
            elif self.editor:
                self.editor._store.contexts.append(self.context, new, TYPE)
        elif what == "delete":
            self.deleted[at] = True
            if self.editor:
                self.editor.edit(self.context, {at + 1: DELETED})
        else:
            # with the name that others know it by, so that it can be a patch
            named = self.payloads[at].replace(b'"Line', b'"Step %d, line' % number)
            self.payloads[at] = (named if mode == "overlay" else new) if what == "edit" else self.payloads[at]
            self.deleted[at] = False
            if self.editor:
                self.editor.edit(self.context, {at + 1: self.payloads[at]})
        self.states.append(self.state)


def main() -> None:
    root, first = Path(sys.argv[1]), int(sys.argv[2])
    recovery.JOURNAL_BYTES = JOURNAL_BYTES
    with Store.open(root, renderer=FileRenderer()) as store:
        life = Life(1)
        for number in range(1, first):
            life.step(number)
        life.editor = Editor(store)
        number = first
        while True:
            life.step(number)
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    main()
