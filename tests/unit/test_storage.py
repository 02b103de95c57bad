"""Files appear whole or not at all, and folders are only replaced when they are datasets."""

import hashlib
import os

import pytest

from packtool.errors import UsageError
from packtool.format import FileEntry
from packtool.storage import (
    claimed_scratch,
    file_entries,
    free_place,
    publish,
    sha256_file,
    sha256_text,
    tree_size,
    write_atomic,
)

# From FIPS 180-2 and its usual companions, not from this code.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
MILLION_A = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"


def test_sums(tmp_path):
    for name, data, digest in (("abc", b"abc", ABC), ("nothing", b"", NOTHING), ("many", b"a" * 10**6, MILLION_A)):
        (tmp_path / name).write_bytes(data)
        assert sha256_file(tmp_path / name) == digest
    assert sha256_text("abc") == ABC
    assert sha256_text("é") == hashlib.sha256(b"\xc3\xa9").hexdigest()


def test_a_file_longer_than_a_chunk_is_hashed_whole(tmp_path):
    data = bytes(range(256)) * (5 << 12)  # 5 MiB
    (tmp_path / "long").write_bytes(data)
    assert sha256_file(tmp_path / "long") == hashlib.sha256(data).hexdigest()
    (tmp_path / "long").write_bytes(data[:-1] + b"!")
    assert sha256_file(tmp_path / "long") != hashlib.sha256(data).hexdigest()


def test_write_atomic_replaces_and_leaves_nothing_beside(tmp_path):
    write_atomic(tmp_path / "file", b"one")
    write_atomic(tmp_path / "file", b"two")
    assert (tmp_path / "file").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_write_atomic_keeps_the_old_file_when_the_rename_fails(tmp_path, monkeypatch):
    write_atomic(tmp_path / "file", b"old")

    def refuse(source, target):
        raise OSError("no rename today")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no rename today"):
        write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_reader_of_the_old_file_keeps_it(tmp_path):
    write_atomic(tmp_path / "file", b"old")
    with (tmp_path / "file").open("rb") as file:
        write_atomic(tmp_path / "file", b"new")
        assert file.read() == b"old"


def test_file_entries_keep_the_order_of_the_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").write_bytes(b"abc")
    (tmp_path / "a").write_bytes(b"")
    assert file_entries(tmp_path, ["sub/b", "a"]) == (FileEntry("sub/b", 3, ABC), FileEntry("a", 0, NOTHING))
    assert file_entries(tmp_path, []) == ()


def test_tree_size_counts_files_in_all_folders(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x").write_bytes(b"12345")
    (tmp_path / "y").write_bytes(b"12")
    assert tree_size(tmp_path) == 7


def test_a_run_has_its_scratch_folder_beside_its_output_for_itself_and_removes_it(tmp_path):
    out = tmp_path / "set.packed"
    with claimed_scratch(out) as scratch:
        assert scratch == tmp_path / ".set.packed.packing"
        (scratch / "work").mkdir()
        with (
            pytest.raises(UsageError, match=r"another run is making `.*set\.packed`"),
            claimed_scratch(out),
        ):
            pass
        assert (scratch / "work").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_swept(tmp_path):
    left = tmp_path / ".set.packed.packing"
    (left / "store").mkdir(parents=True)
    (left / "store" / "tokens.bin").write_bytes(b"x")
    (left / "link").symlink_to(tmp_path)
    (left / "packtool-scratch").touch()
    with claimed_scratch(tmp_path / "set.packed") as scratch:
        assert [path.name for path in scratch.iterdir()] == ["packtool-scratch"]
    assert tmp_path.is_dir()


def test_what_is_not_packtool_s_own_is_never_removed(tmp_path):
    """Another program's manifest, a user's file in a dataset, a link or folder where scratch or an old dataset goes."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "manifest.json").write_text('{"name": "app"}')
    with pytest.raises(UsageError, match="is no packed dataset"):
        free_place(app, overwrite=True)
    (app / "manifest.json").write_text('"format": "packtool"')
    (app / "thesis.txt").touch()
    with pytest.raises(UsageError, match=r"holds `thesis\.txt`, which packtool did not write"):
        free_place(app, overwrite=True)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis.txt").touch()
    (tmp_path / ".set.packing").symlink_to(victim)
    with pytest.raises(UsageError, match="cannot be written to"), claimed_scratch(tmp_path / "set"):
        pass
    victim.rename(tmp_path / ".other.packing")
    with pytest.raises(UsageError, match="is in the way, and it is none of"), claimed_scratch(tmp_path / "other"):
        pass
    assert (tmp_path / ".other.packing" / "thesis.txt").is_file()
    (tmp_path / ".other.packing").rename(tmp_path / ".third.old")
    with pytest.raises(UsageError, match=r"third\.old` is in the way"):
        free_place(tmp_path / "third", overwrite=True)


def test_an_old_dataset_comes_back_when_it_cannot_be_replaced(tmp_path):
    old = tmp_path / "set.packed"
    old.mkdir()
    (old / "manifest.json").write_text('"format": "packtool" old')
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "missing", old, overwrite=True)
    assert (old / "manifest.json").read_text().endswith("old")
    assert [path.name for path in tmp_path.iterdir()] == ["set.packed"]


# ---------------------------------------------------------------------------------------------------------- free_place


def refused(out, *, overwrite):
    with pytest.raises(UsageError) as caught:
        free_place(out, overwrite=overwrite)
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_free_place_is_free(tmp_path, overwrite):
    free_place(tmp_path / "new", overwrite=overwrite)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_missing_parent_is_named(tmp_path, overwrite):
    out = tmp_path / "missing" / "new"
    assert refused(out, overwrite=overwrite) == f"`{out.parent}` is no folder, so `new` cannot be made in it"
    (tmp_path / "file").touch()
    assert "is no folder" in refused(tmp_path / "file" / "new", overwrite=overwrite)


def test_what_is_there_is_kept_unless_it_is_to_be_overwritten(tmp_path):
    out = tmp_path / "set"
    out.mkdir()
    assert refused(out, overwrite=False) == f"`{out}` is there already"
    free_place(out, overwrite=True)  # an empty folder may go
    (out / "manifest.json").write_text('"format": "packtool"')
    assert refused(out, overwrite=False) == f"`{out}` is there already"
    free_place(out, overwrite=True)


def test_overwrite_replaces_datasets_only(tmp_path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.tex").touch()
    message = "is no packed dataset, so `--overwrite` does not replace it"
    assert message in refused(folder, overwrite=True)
    (tmp_path / "file").touch()
    assert message in refused(tmp_path / "file", overwrite=True)
    dataset = tmp_path / "set"
    dataset.mkdir()
    (dataset / "manifest.json").write_text('"format": "packtool"')
    (tmp_path / "link").symlink_to(dataset)
    assert message in refused(tmp_path / "link", overwrite=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert "is there already" in refused(tmp_path / "dangling", overwrite=False)
    assert message in refused(tmp_path / "dangling", overwrite=True)


# ------------------------------------------------------------------------------------------------------------- publish


def make(folder, text):
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(f'"format": "packtool" {text}')
    return folder


def test_publish_renames(tmp_path):
    built = make(tmp_path / ".set.packing" / "dataset", "new")
    publish(built, tmp_path / "set", overwrite=False)
    assert (tmp_path / "set" / "manifest.json").read_text().endswith("new")
    assert not built.exists()


def test_publish_replaces_and_removes_what_was_there(tmp_path):
    make(tmp_path / "set", "old")
    (tmp_path / "set" / "shard-00007").mkdir()
    make(tmp_path / ".set.old", "left by a killed run")
    publish(make(tmp_path / "built", "new"), tmp_path / "set", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["manifest.json"]
    assert (tmp_path / "set" / "manifest.json").read_text().endswith("new")
