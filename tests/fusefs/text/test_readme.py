from fusefs.text.readme import README
from store.events.event import Kind


def test_the_readme_names_every_type_of_event() -> None:
    assert all(kind.name.lower() in README for kind in Kind if kind is not Kind.RECORD)


def test_the_readme_fits_a_terminal() -> None:
    assert max(map(len, README.splitlines())) <= 120
    assert README.endswith("\n")
