"""The mount: conversations of a store as directories and files."""

import fusefs.opens  # noqa: F401  # before anything imports pyfuse3
