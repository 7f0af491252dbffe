"""SWE-agent: trajectories of runs over an issue, ``.traj``; those of mini-SWE-agent too."""

from store.formats.swe_agent.session import SweAgent

__all__ = ["SweAgent"]
