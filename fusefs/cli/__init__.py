"""The ``convfs`` command. Modules import at the top only what ``convfs --help`` needs; the rest when it is used."""
