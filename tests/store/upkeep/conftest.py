from tests.fusefs.tree.conftest import store_path

__all__ = ["store_path"]
