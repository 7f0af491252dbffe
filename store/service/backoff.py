"""How long a client waits before it tries once more to reach a service that is not there."""

import random
from collections.abc import Iterator

_FIRST_SECONDS = 0.02
_LONGEST_SECONDS = 1.0


def pauses(patience: float) -> Iterator[float]:
    """Yield seconds to wait, each time longer, until they add up to ``patience``."""
    pause, waited = _FIRST_SECONDS, 0.0
    while waited < patience:
        # those who lost the same service do not come back all at once
        this = min(pause * random.uniform(0.5, 1.5), patience - waited)
        yield this
        waited += this
        pause = min(pause * 2, _LONGEST_SECONDS)
