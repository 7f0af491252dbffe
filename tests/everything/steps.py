"""The steps of ``tests.everything.expected``, done to a store; and what a store then holds, in the same words."""

from __future__ import annotations

import json

from store.artifacts.names import Output, kept_outputs
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.events.conversation import ARTIFACTS
from store.index.catalogue import ContextEntry
from store.retention.pruner import delete, prune_versions
from store.store import Store
from tests.everything import expected
from tests.everything.expected import Step, Talk

PROJECT = "everything"
_TYPE = "x.v1"


def payload(text: str) -> bytes:
    return json.dumps({"type": "user", "text": text}).encode()


def do(store: Store, step: Step) -> None:
    """Do one step."""
    editor = Editor(store)
    if step.what == "create":
        store.contexts.create(metadata={"project": PROJECT, "name": step.name})
        return
    if step.what == "blob":
        store.intake.put(step.texts[0].encode())
        return
    entry = entry_of(store, step.name)
    context = entry.id
    match step.what:
        case "append":
            store.contexts.append_many(context, [Append(payload(text), _TYPE) for text in step.texts])
        case "stream":
            turn = store.open_turns.open(context, _TYPE)
            whole = payload(step.texts[0])
            for start in range(0, len(whole), 1000):
                turn.add(whole[start : start + 1000])
            turn.seal()
        case "branch":
            parent = store.contexts.range_by_depth(context, step.number - 1, 1)[0].turn_id
            store.contexts.append(context, payload(step.texts[0]), _TYPE, parent=parent)
        case "edit":
            editor.edit(context, {step.number: payload(step.texts[0])})
        case "remove":
            editor.edit(context, {step.number: DELETED})
        case "restore":
            editor.restore(context, step.number)
        case "fork":
            editor.fork(context, step.other, at=step.number)
        case "title":
            editor.describe(context, {"title": step.texts[0]})
        case "trash":
            editor.remove(context)
        case "bring back":
            editor.bring_back(context)
        case "artifact":
            artifacts = store.artifacts
            name = artifacts.begin(context, ARTIFACTS, step.other)
            artifacts.add(context, ARTIFACTS, name, step.texts[0].encode())
            artifacts.end(context, ARTIFACTS, name)
        case "prune":
            prune_versions(store, context, store.catalogue.version(context, step.number).seq - 1)
        case "delete":
            delete(store, context, entry.head)
        case _:
            raise AssertionError(step)


def entry_of(store: Store, name: str) -> ContextEntry:
    """Return the conversation of a name, which may be in the trash."""
    found = store.catalogue.by_name(PROJECT, name)
    return found or next(entry for entry in store.catalogue.every() if entry.metadata.get("name") == name)


def held(store: Store) -> dict[str, Talk]:
    """Return all conversations of a store; everything in them has been read."""
    read: dict[bytes, str] = {}

    def events(tip: int) -> tuple[str, ...]:
        found = []
        for turn in store.turns.path_to_root(tip) if tip else ():
            text = expected.DELETED
            if not turn.deleted:
                if turn.payload_hash not in read:
                    read[turn.payload_hash] = json.loads(store.blobs.blob(turn.payload_hash))["text"]
                text = read[turn.payload_hash]
            found.append(text)
        return tuple(found)

    talks: dict[str, Talk] = {}
    for entry in store.catalogue.every():
        name = str(entry.metadata["name"])
        assert name not in talks
        outputs = kept_outputs(store.blobs, entry, ARTIFACTS).values()
        talks[name] = Talk(
            events(entry.head),
            {version.number: events(version.head) for version in store.catalogue.versions(entry.id)},
            # what was being written when the process was killed has a number, too
            tuple(store.blobs.blob(output.blob).decode() for output in sorted(outputs, key=_number) if output.blob),
            entry.title,
            "trashed_ms" in entry.metadata,
        )
    return talks


def _number(output: Output) -> int:
    return int(output.name.partition(".")[0])
