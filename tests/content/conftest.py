"""Property tests here have no deadline: they share the machine with whatever else runs."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
