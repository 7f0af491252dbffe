"""``python -m fusefs.cli`` is ``convfs``."""

from fusefs.cli.main import command

command()
