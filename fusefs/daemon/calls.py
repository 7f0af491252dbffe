"""All calls that a daemon answers.

A command imports the subject that it needs, and starts sooner without the others.
"""

from fusefs.daemon.operations import SHOWN
from store.service.exchange import EXCHANGE
from store.service.operations import OPERATIONS
from store.service.transfers import TRANSFERS
from store.service.upkeep import UPKEEP

ALL_OPERATIONS = (*OPERATIONS, *TRANSFERS, *UPKEEP, *EXCHANGE, *SHOWN)
