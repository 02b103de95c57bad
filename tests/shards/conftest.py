"""A shard to damage."""

import pytest
from shard_helpers import make_rows, read_all, resized, write_shard

from packtool.errors import FormatError

PACKS = [[3, 4], [8], [1, 1, 1], [2, 6]]


@pytest.fixture
def shard(tmp_path):
    """Writes a shard, lets the test change files, and opens it; with `forge`, sizes in the manifest are made to fit."""

    class Shard:
        folder = tmp_path

        def write(self, storage, compression):
            self.rows = make_rows(PACKS, 8, storage=storage)
            self.entry, self.manifest = write_shard(tmp_path, self.rows, storage, compression)
            return self

        def refuses(self, file, match, *, forge=False):
            entry = resized(tmp_path, self.entry) if forge else self.entry
            with pytest.raises(FormatError, match=match) as caught:
                read_all(tmp_path, entry, self.manifest)
            assert str(tmp_path / file) in caught.value.message
            assert "expected" in caught.value.message
            assert "got" in caught.value.message
            assert caught.value.hint

    return Shard()
