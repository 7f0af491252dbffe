"""Spaces: stores that several machines have, each with a replica."""
