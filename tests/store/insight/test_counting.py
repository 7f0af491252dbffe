"""Counts, and that each thing is counted once."""

import json
import os
import random
import shutil
import time
from math import inf
from pathlib import Path

import pytest

from fusefs.text.render import FileRenderer
from store.conversations.contexts import Append
from store.editing.editor import DELETED, Editor
from store.errors import StoreFailed
from store.events.conversation import ARTIFACTS
from store.events.usage import Tokens
from store.importing.importer import Importer
from store.paths import INSIGHT
from store.retention.pruner import delete, prune_versions
from store.service import background
from store.service.call import Holder
from store.service.upkeep import gc
from store.store import Store
from tests.model import instead, unreadable_packs
from tests.store.importing.sessions import NO_SAMPLES, SAMPLES
from tests.store.insight.answers import (
    CLAUDE,
    CODEX,
    about,
    answered,
    asked,
    called,
    counted,
    counted_on,
    forget,
    report_of,
    returned,
    took,
)

LARGE = int(os.environ.get("CONVFS_LARGE_TESTS") or 0)


def begun(store: Store, name: str, *lines: bytes, project: str = "shop", type_name: str = CLAUDE) -> int:
    """Make a conversation of some lines."""
    context = store.contexts.create(metadata={"project": project, "name": name}).context
    if lines:
        store.contexts.append_many(context, [Append(line, type_name) for line in lines])
    return context


def session(folder: Path, name: str, *lines: bytes) -> Path:
    path = folder / "projects" / "-home-ada-shop" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


TALK = (asked(0), answered(1, "msg_a", 5), answered(2, "msg_a", 20), asked(3), answered(4, "msg_b", 7, day=6))


def test_an_answer_on_several_lines_counts_once(store: Store) -> None:
    begun(store, "one", *TALK)
    assert took(store) == (2, Tokens(20, 27, 200))
    report = report_of(store)
    assert [(day.day, day.output) for day in report.days] == [("2026-03-05", 20), ("2026-03-06", 7)]
    (model,) = report.models
    assert model.model == "claude-opus-4-5"
    assert model.cost == pytest.approx((20 * 5 + 200 * 0.5 + 27 * 25) / 1e6)
    (project,) = report.projects
    assert (project.project, project.conversations, project.bytes) == ("shop", 1, sum(map(len, TALK)))
    assert [(part.day, part.project, part.model, part.output) for part in report.parts] == [
        ("2026-03-05", "shop", "claude-opus-4-5", 20),
        ("2026-03-06", "shop", "claude-opus-4-5", 7),
    ]


def test_copies_and_forks_and_later_checkpoints_count_once(store: Store, tmp_path: Path) -> None:
    Importer(store).run([session(tmp_path, "one", *TALK)])
    alone = took(store)
    # the same session under other names, and one that goes on from a copy of its beginning
    session(tmp_path, "two", *TALK)
    session(tmp_path, "three", *TALK[:3], asked(5), answered(6, "msg_c", 1))
    Importer(store).run([tmp_path / "projects"])
    first = store.library.conversations()[0]
    Editor(store).fork(first.id, "fork", at=2)
    assert took(store) == (3, Tokens(30, alone[1].output + 1, 300))
    report = report_of(store)
    assert report.shared_bytes > 0
    assert report.logical_bytes >= sum(project.bytes for project in report.projects)


def test_a_subagents_progress_and_its_own_session_count_once(store: Store) -> None:
    said = json.loads(answered(1, "msg_s", 3))
    progress = json.dumps({"type": "progress", "uuid": "p1", "data": {"type": "agent_progress", "message": said}})
    begun(store, "main", asked(0), progress.encode())
    begun(store, "agent", answered(1, "msg_s", 30))
    assert took(store) == (1, Tokens(10, 30, 100))


def test_an_answer_belongs_to_the_conversation_that_had_it_first(store: Store) -> None:
    first = begun(store, "first", *TALK[:3], project="old")
    fork = Editor(store).fork(first, "second").context
    store.contexts.set_metadata(fork, {"project": "new"})
    store.contexts.append(fork, answered(9, "msg_z", 1), CLAUDE)
    spent = {project.project: (project.answers, project.conversations) for project in report_of(store).projects}
    assert spent == {"old": (1, 1), "new": (1, 1)}
    # whatever it is called later
    store.contexts.set_metadata(first, {"project": "older"})
    assert {project.project: project.answers for project in report_of(store).projects} == {"older": 1, "new": 1}


@pytest.mark.parametrize("edits", ["branch", "overlay"])
def test_an_edit_costs_nothing(root: Path, edits: str) -> None:
    root.mkdir()
    (root / "convfs.toml").write_text(f'edits = "{edits}"\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        context = begun(store, "one", *TALK, called(5, "Bash"), returned(6, 5), called(7, "Bash"))
        before = report_of(store)
        Editor(store).edit(context, {1: asked(100), 6: called(5, "Bash").replace(b"ls", b"rm")})
        Editor(store).edit(context, {3: DELETED})
        after = report_of(store)
        assert after.total == before.total
        (used,) = after.tools
        assert (used.tool, used.calls, used.results) == ("Bash", 2, 1)
        assert after.tools == before.tools


def test_what_names_no_answer_counts_by_where_it_stands(store: Store) -> None:
    told = b"> Tokens: 1k sent, 10 received. Cost: $0.01 message, $0.01 session.  "
    passages = (
        b"# aider chat started at 2026-03-05 19:31:54",
        b"> Model: gpt-4o with diff  ",
        told,
        b"#### more",
        told,
    )
    context = begun(store, "one", *passages, type_name="aider.passage.v1")
    assert took(store) == (2, Tokens(2000, 20))
    Editor(store).fork(context, "two")
    begun(store, "copy", *passages, type_name="aider.passage.v1")
    Editor(store).edit(context, {4: b"#### less"})
    report = report_of(store)
    assert (report.total.answers, report.total.cost, report.total.told_cost) == (2, 0.02, 0.02)
    assert [(model.model, model.answers) for model in report.models] == [("gpt-4o", 2)]


def test_what_has_no_price_is_said(store: Store) -> None:
    begun(store, "one", answered(1, "msg_a", 5, model="nobody-knows"), answered(2, "msg_b", 5))
    total = report_of(store).total
    assert (total.answers, total.unpriced) == (2, 1)
    assert total.cost > 0


def test_a_price_of_the_settings(root: Path) -> None:
    root.mkdir()
    (root / "convfs.toml").write_text('[prices."nobody-knows"]\ninput = 1000\noutput = 2000\n')
    with Store.open(root, renderer=FileRenderer()) as store:
        begun(store, "one", answered(1, "msg_a", 5, model="nobody-knows"))
        total = report_of(store).total
        assert (total.cost, total.unpriced) == (pytest.approx((10 * 1000 + 100 * 1000 + 5 * 2000) / 1e6), 0)


# -- sessions that count on and on -----------------------------------------------------------------------------------

ROLLOUT = (about("session_meta", id="s1"), about("turn_context", model="gpt-5.4"), counted_on(100, 60, 10))


def test_a_rollout_that_grows_line_by_line(store: Store) -> None:
    context = begun(store, "one", *ROLLOUT, type_name=CODEX)
    expected = Tokens(40, 10, 60)
    for number in range(1, 600):
        store.contexts.append(context, counted_on(100 + number, 60, 10 + number), CODEX)
        if number % 97 == 1:
            assert took(store) == (number + 1, Tokens(40 + number, 10 + number, 60))
    # somebody goes on from far behind
    fork = Editor(store).fork(context, "two", at=300).context
    store.contexts.append(fork, counted_on(1000, 500, 400), CODEX)
    assert took(store) == (601, Tokens(40 + 599 + (1000 - 500) - (40 + 297), 609 + 400 - 307, 60 + 440))
    assert expected.output < report_of(store).models[0].output


def test_little_is_kept_of_what_goes_on_to_hold(store: Store) -> None:
    context = begun(store, "one", *ROLLOUT, type_name=CODEX)
    for number in range(1, 50):
        store.contexts.append(context, counted_on(100 + number, 60, 10), CODEX)
        report_of(store)
    ledger = store.insight._opened().ledger
    assert len(ledger.running(1, store.files.turns.count)) == 1


# -- however it came to be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edits", ["branch", "overlay"])
@pytest.mark.parametrize("seed", range(LARGE * 40 + 2))
def test_counted_on_the_way_or_at_the_end(root: Path, edits: str, seed: int) -> None:
    chance = random.Random(seed)
    root.mkdir()
    (root / "convfs.toml").write_text(f'edits = "{edits}"\n')
    store = Store.open(root, renderer=FileRenderer())
    contexts = [begun(store, "claude", asked(0)), begun(store, "codex", *ROLLOUT, type_name=CODEX)]
    totals = [100, 60, 10]
    try:
        for number in range(1, 120):
            context = chance.choice(contexts)
            records = store.library.conversation(context).records
            match chance.randrange(12):
                case 0:
                    at = chance.randint(1, records) if records else 0
                    contexts.append(Editor(store).fork(context, f"fork{number}", at=at).context)
                case 1 if records > 1:
                    Editor(store).edit(context, {chance.randint(1, records): asked(1000 + number)})
                case 2 if records > 3:
                    Editor(store).edit(context, {chance.randint(2, records): DELETED})
                case 3 if len(versions := store.catalogue.versions(context)) > 1:
                    Editor(store).restore(context, chance.choice(versions).number)
                case 4 if len(contexts) > 3:
                    contexts.remove(context)
                    delete(store, context, store.contexts.tip(context))
                case 5:
                    store.contexts.set_metadata(context, {"project": chance.choice(["shop", "garden"])})
                case 6:
                    for _ in range(chance.randint(1, 3)):
                        store.insight.step()
                case 7:
                    store.insight.count()
                case 8 if number % 3 == 0:
                    store.close()
                    store = Store.open(root, renderer=FileRenderer())
                case 9:
                    totals = [total + chance.randint(0, 50) for total in totals]
                    store.contexts.append(context, counted_on(*totals), CODEX)
                case 10:
                    store.contexts.append(context, called(number, "Bash"), CLAUDE)
                case _:
                    answer = f"msg_{chance.randint(0, number)}"
                    store.contexts.append(context, answered(number, answer, chance.randint(1, 99)), CLAUDE)
        grown = counted(store)
    finally:
        store.close()
    forget(root)
    with Store.open(root, renderer=FileRenderer()) as again:
        assert counted(again) == grown


def test_what_was_deleted_counts_no_more(store: Store) -> None:
    first, second = begun(store, "first", *TALK), begun(store, "second", answered(9, "msg_z", 1))
    fork = Editor(store).fork(first, "fork").context
    assert took(store)[0] == 3
    delete(store, second, store.contexts.tip(second))
    assert took(store)[0] == 2
    delete(store, first, store.contexts.tip(first))
    assert took(store)[0] == 2
    delete(store, fork, store.contexts.tip(fork))
    assert took(store) == (0, Tokens())


def test_a_damaged_file_is_made_anew(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        begun(store, "one", *TALK)
        whole = counted(store)
    path = root / INSIGHT
    data = bytearray(path.read_bytes())
    for place in range(4096, len(data), 512):
        data[place] ^= 0xFF
    path.write_bytes(data)
    with Store.open(root, renderer=FileRenderer()) as store:
        try:
            found = counted(store)
        except Exception:
            # whoever came upon it is told; the next one finds it made anew
            found = counted(store)
        assert found == whole
    path.write_bytes(b"no database at all")
    with Store.open(root, renderer=FileRenderer()) as store:
        assert counted(store) == whole


def test_a_slice_of_the_work_is_small(store: Store) -> None:
    for number in range(3):
        begun(store, f"long{number}", *(asked(at) for at in range(500)))
    insight, steps, last = store.insight, 0, 0
    while insight.step():
        reached = insight._opened().ledger.last
        assert reached - last <= 128
        steps, last = steps + 1, reached
    assert steps > 1500 // 128
    assert not insight.step()


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=NO_SAMPLES)
def test_claude_codes_samples_against_their_lines(store: Store) -> None:
    expected: dict[str, dict[str, int]] = {}
    for path in (SAMPLES / "claude-code" / "projects").rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            try:
                message = json.loads(line).get("message") or {}
            except (ValueError, AttributeError):
                continue
            usage = message.get("usage") if isinstance(message, dict) else None
            if usage and any(isinstance(usage.get(key), int) and usage[key] for key in usage):
                known = expected.setdefault(message["id"], {})
                for key, value in usage.items():
                    if isinstance(value, int):
                        known[key] = max(known.get(key, 0), value)
    Importer(store).run([SAMPLES / "claude-code" / "projects"])
    keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    sums = [sum(usage.get(key, 0) for usage in expected.values()) for key in keys]
    assert took(store) == (len(expected), Tokens(*sums))


def test_what_was_reclaimed_counts_no_more(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        context = begun(store, "one", *TALK, called(5, "Bash"))
        Editor(store).edit(context, {2: answered(1, "msg_x", 500), 6: asked(7)})
        assert took(store)[0] == 3
        prune_versions(store, context, store.catalogue.versions(context)[-1].seq)
        Holder(store).call(gc())
        assert store.turns.get(2).reclaimed
        assert took(store) == (3, Tokens(30, 500 + 20 + 7, 300))
        assert report_of(store).tools == []
        left = counted(store)
    forget(root)
    with Store.open(root, renderer=FileRenderer()) as store:
        assert counted(store) == left


def test_a_daemon_counts_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_COUNT_SECONDS", 0.0)
    insight = store.insight
    begun(store, "one", *TALK)
    assert insight.report().counted_turns == 0
    until = time.monotonic() + 20
    with background.in_background(store):
        while insight.report().counted_turns < len(TALK) and time.monotonic() < until:
            time.sleep(0.01)
    assert insight.report().total.answers == 2


def test_what_is_kept_beside_records_counts_in_every_conversation(store: Store) -> None:
    context = begun(store, "one", *TALK)
    plain = report_of(store).logical_bytes
    artifacts = store.artifacts
    output = os.urandom(5000)
    artifacts.add(context, ARTIFACTS, artifacts.begin(context, ARTIFACTS, "make"), output)
    artifacts.end(context, ARTIFACTS, "0.make.log")
    assert report_of(store).logical_bytes == plain + len(output)
    Editor(store).fork(context, "two")
    report = report_of(store)
    assert report.logical_bytes == 2 * (plain + len(output))
    assert report.projects[0].bytes == report.logical_bytes
    store.checkpointer.flush()
    assert report_of(store).saved.deduplication >= plain + len(output) - 1000


def test_nobody_counts_in_a_store_that_is_closed(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        begun(store, "one", *TALK)
        insight = store.insight
        insight.step()
    with pytest.raises(StoreFailed):
        insight.count()


@pytest.mark.parametrize("steps", [1, 3, 6, 9])
def test_whoever_is_killed_while_he_counts_has_counted_nothing_twice(root: Path, tmp_path: Path, steps: int) -> None:
    copy = tmp_path / "copy"
    with Store.open(root, renderer=FileRenderer()) as store:
        context = begun(store, "one", *(asked(number) for number in range(300)))
        store.contexts.append_many(
            context, [Append(answered(at, f"msg_{at % 90}", at, day=at % 9), CLAUDE) for at in range(300)]
        )
        begun(store, "codex", *ROLLOUT, type_name=CODEX)
        Editor(store).fork(context, "fork", at=450)
        for _ in range(steps):
            store.insight.step()
        # what is on the disk at this moment, as a kill would leave it
        shutil.copytree(root, copy)
        instead(copy)
        whole = counted(store)
    with Store.open(copy, renderer=FileRenderer()) as store:
        again = counted(store)
    assert {**again, "report": None} == {**whole, "report": None}


@pytest.mark.parametrize("seed", range(LARGE * 60 + 4))
def test_what_is_damaged_is_counted_around(root: Path, seed: int) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        for name in ("one", "two"):
            context = begun(store, name, *(answered(number, f"{name}{number}", 5) for number in range(40)))
            begun(store, f"codex-{name}", *ROLLOUT, type_name=CODEX)
            Editor(store).edit(context, {3: asked(3)})
        whole = report_of(store)
    chance = random.Random(seed)
    for path in (root / "turns" / "turns.log", root / "turns" / "heads.log", root / "blobs" / "00000001.pack"):
        data = bytearray(path.read_bytes())
        data[chance.randrange(64, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    forget(root)
    with Store.open(root, renderer=FileRenderer()) as store:
        report = report_of(store)
        assert report.total.answers <= whole.total.answers
        assert report.counted_turns == whole.counted_turns


def test_what_could_not_be_read_for_a_moment_is_counted_later(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun(store, "one", *TALK, called(5, "Bash"), returned(6, 5))
    begun(store, "codex", *ROLLOUT, type_name=CODEX)
    store.checkpointer.flush()
    store.blobs.forget()
    insight = store.insight
    with unreadable_packs(monkeypatch):
        insight.count()
        assert insight.report().total.answers == 0
    store.blobs.forget()
    insight._opened().counting._again = insight._opened().packs._again = 0.0
    again = counted(store)
    insight.renew()
    assert again == counted(store)
    assert again["uses"]
    assert not insight._opened().ledger.unread()


def test_what_is_damaged_is_not_counted_again_and_again(root: Path) -> None:
    with Store.open(root, renderer=FileRenderer()) as store:
        begun(store, "one", *TALK)
        begun(store, "two", *(answered(number, f"two{number}", 5) for number in range(9)))
    path = root / "blobs" / "00000001.pack"
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data), 16):
        data[place] ^= 0xFF
    path.write_bytes(data)
    (root / "index.db").unlink()
    with Store.open(root, renderer=FileRenderer()) as store:
        insight = store.insight
        insight.count()
        counting = insight._opened().counting
        insight._opened().packs._again = inf
        assert insight._opened().ledger.unread()
        last = insight._opened().ledger.last
        counting._again = 0.0
        assert not insight.step()
        assert insight._opened().ledger.last == last
