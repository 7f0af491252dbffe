"""The ``convfs`` command. Modules import at the top only what ``convfs --help`` needs; the rest when it is used."""

import gc

from fusefs.cli.ahead import AHEAD
from fusefs.cli.libraries import load_click

_OBJECTS = 100_000
"""The new objects after which Python looks for garbage among them."""

AHEAD.read()
# what is imported is not garbage: looking for some takes up to a tenth of a short command
gc.set_threshold(_OBJECTS)
load_click()
