"""All calls that a daemon answers.

A command imports the subject that it needs, and starts sooner without the others. So does a daemon of the largest ones,
which are not asked for much.
"""

from fusefs.daemon.operations import SHOWN
from store.service.call import Late, Table
from store.service.exchange import EXCHANGE
from store.service.operations import OPERATIONS


def _importing() -> Table:
    from store.service.importing import IMPORTING

    return IMPORTING


def _exporting() -> Table:
    from store.service.exporting import EXPORTING

    return EXPORTING


def _upkeep() -> Table:
    from store.service.upkeep import UPKEEP

    return UPKEEP


def _redacting() -> Table:
    from store.service.redacting import REDACTING

    return REDACTING


_LATE = {
    _importing: (260,),
    _exporting: (261, 267, 268, 306, 307, 310, 311, 490),
    _upkeep: (400, 401, 410, 460, 470, 471),
    _redacting: (450, 451),
}

ALL_OPERATIONS = (
    *OPERATIONS,
    *EXCHANGE,
    *SHOWN,
    *(Late(number, load) for load, numbers in _LATE.items() for number in numbers),
)
