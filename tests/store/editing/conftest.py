from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from fusefs.text.render import FileRenderer
from store.editing.editor import Editor
from store.paths import SETTINGS
from store.store import Store
from store.upkeep.fsck import fsck
from tests.store.editing.growing import file_of, texts
from tests.store.editing.measured import check_measures
from tests.store.importing.sessions import imported, session


@pytest.fixture
def edits() -> str:
    """The setting of this name; tests of both values have their own."""
    return "branch"


@pytest.fixture
def switch(store: Store) -> Callable[[str], None]:
    """Return what changes how the store keeps edits."""

    def to(edits: str) -> None:
        store.settings = msgspec.structs.replace(store.settings, edits=edits)

    return to


@pytest.fixture
def store(tmp_path: Path, edits: str) -> Iterator[Store]:
    """Yield a store of the test's own; whatever the test did to it, it must be sound afterwards."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / SETTINGS).write_text(f'edits = "{edits}"\n')
    with Store.open(tmp_path / "store", renderer=FileRenderer()) as store:
        yield store
        check_measures(store)
        assert fsck(store) == []


@pytest.fixture
def editor(store: Store) -> Editor:
    return Editor(store)


@pytest.fixture
def path(store: Store, tmp_path: Path) -> Path:
    """A session of five texts, imported."""
    path = session(tmp_path, file_of(texts(5)))
    imported(store, path)
    return path
