import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store.errors import UsageError
from store.formats import registry
from store.formats.core.look import Look
from store.formats.core.sqlite import DatabaseFormat
from store.formats.core.unknown import UnknownLens
from store.formats.registry import FORMATS, WITH_GUESSES, candidates, format_named, guesses, lens_for, packing
from tests.store.importing.sessions import lines

STORE = Path(registry.__file__).parents[1]


def test_every_format_is_found_by_its_names() -> None:
    for format_ in FORMATS:
        assert format_named(format_.name) is format_
        assert lens_for(format_.main_type) in format_.lenses
        assert not format_.first_type or lens_for(format_.first_type) in format_.lenses
    # two programs may share lenses
    types = {id(lens): lens.type_name for format_ in FORMATS for lens in format_.lenses}
    assert len(set(types.values())) == len(types)
    assert all(lens_for(lens.type_name) is lens for format_ in FORMATS for lens in format_.lenses)
    assert isinstance(lens_for("none"), UnknownLens)


def test_what_asks_for_no_format_loads_none() -> None:
    script = "import sys, fusefs.cli.backend; print(*[name for name in sys.modules if name in ('trio', 'pyfuse3')])"
    script += "; print(*[name for name in sys.modules if name.startswith('store.formats.') and '_code' in name])"
    ran = subprocess.run([sys.executable, "-c", script], cwd=STORE.parent, capture_output=True, check=True)
    assert ran.stdout == b"\n\n"


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'emacs'.*claude-code, .*jp"):
        format_named("emacs")


def test_nothing_but_the_registry_knows_formats_by_name() -> None:
    """But for exports, which write what other tools read."""
    private = re.compile(r"store\.formats\.(?:claude_code|jp|example)\b")
    for path in STORE.rglob("*.py"):
        if path.parent.name in ("claude_code", "exporting", "jp") or path.name == "registry.py":
            continue
        assert not private.search(path.read_text()), path


def test_a_directory_is_offered_to_those_that_may_claim_one(tmp_path: Path) -> None:
    for name in ("events", "sessions.jsonl", "state.vscdb", "conversations.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "events.json").write_text('[{"timestamp": "2026-03-05 23:12:00.3", "type": "chat_request"}]')
        event = {"id": 0, "timestamp": "2026-03-05T19:00:00", "source": "user", "action": "message", "args": {}}
        (folder / "0.json").write_text(json.dumps(event))
        every = {format_.name for format_ in FORMATS if format_.claim(Look(folder)) is not None}
        assert every <= {format_.name for format_ in candidates(FORMATS, Look(folder))}
        assert every
    assert list(candidates(FORMATS, Look(folder / "0.json"))) == list(FORMATS)
    assert [*WITH_GUESSES] == [*FORMATS, *guesses()]


def test_a_database_is_offered_to_those_that_may_claim_one(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE talks (id)")
    offered = list(candidates(FORMATS, Look(path)))
    assert offered == [format_ for format_ in FORMATS if isinstance(format_, DatabaseFormat)]


def test_formats_that_pack_others() -> None:
    for format_ in FORMATS:
        assert packing(format_.name) == [one.name for one in FORMATS if one.unpacked == format_.name]
    assert (packing("codex"), packing("pi")) == (["codex-zst"], ["pi-zst"])


def test_few_formats_are_loaded_for_the_sessions_of_one(tmp_path: Path) -> None:
    """To read all pages and modules takes as long as to import some megabytes."""
    path = tmp_path / "projects" / "-home-ada-shop" / "a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines("Hello.", "Yes."))
    loaded = _loaded_to_import(path.parent.parent, tmp_path / "store")
    assert "store.formats.claude_code.session" in loaded
    assert not loaded & {"store.formats.chatgpt", "store.formats.opencode", "store.formats.declared.database"}


def test_few_formats_are_loaded_for_a_database(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE threads (id TEXT, summary TEXT, updated_at TEXT, data_type TEXT, data BLOB)")
        data = json.dumps({"title": "A talk", "messages": [{"User": {"id": "1", "content": [{"Text": "Hello."}]}}]})
        database.execute("INSERT INTO threads VALUES ('1', 'A talk', '2026-01-01T00:00:00Z', 'json', ?)", (data,))
    loaded = _loaded_to_import(path, tmp_path / "store")
    assert "store.formats.declared.database" in loaded
    assert not loaded & {"store.formats.codex.session", "store.formats.chatgpt", "store.formats.openhands"}


def _loaded_to_import(path: Path, store: Path) -> set[str]:
    """Return the modules of formats that importing one session loads."""
    program = (
        "import sys; from fusefs.cli.main import main\n"
        "try: main(sys.argv[1:])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--store", store, "import", "--no-wait", path],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "1 imported" in done.stdout
    return {module for module in done.stderr.split() if module.startswith("store.formats.")}
