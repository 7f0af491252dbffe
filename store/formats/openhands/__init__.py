"""OpenHands: trajectories of events, in a file of their own or a line each of an evaluation's output."""

from store.formats.openhands.session import OpenHands

__all__ = ["OpenHands"]
