"""Writing outputs of tools and agents, in ``artifacts/`` and ``agents/``."""
