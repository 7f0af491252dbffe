import re
import subprocess
import sys
from pathlib import Path

import pytest

from store.errors import UsageError
from store.formats import registry
from store.formats.core.unknown import UnknownLens
from store.formats.registry import FORMATS, format_named, lens_for

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
