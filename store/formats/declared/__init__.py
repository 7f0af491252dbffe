"""Formats that are described by a page of TOML, and the engine that reads by it."""
