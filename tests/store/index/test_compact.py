"""An index whose rows went is as small as what is left of them."""

from pathlib import Path

from store.ids import hash_bytes, hash_key
from store.index.index import Index


def test_what_rows_took_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    index = Index(path, "boot")
    hashes = [hash_bytes(b"%d" % number) for number in range(5000)]
    index.add_blobs((hash_key(digest), 1, number, 0) for number, digest in enumerate(hashes))
    index.forget_packs([1])
    reader = index.locate(hashes[:1])
    index.db.compact()
    index.db.set_state("key", "value")
    index.close(sync=True)
    assert reader == {}
    assert path.stat().st_size < 200_000
    again = Index(path, "boot")
    assert again.usable
    assert again.db.state("key") == "value"
    assert not list(again.db.problems())
    again.close()
