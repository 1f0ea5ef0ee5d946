"""Files of named arrays: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save

from marey.base import FormatError, InputError, MissingFileError, TensorFormat, WriteError, atomic_file

LEAF = TensorFormat("marey-leaf", "leaf", 2, "Grow it again.")


def test_arrays_and_facts_come_back(tmp_path):
    file = tmp_path / "leaf.safetensors"
    LEAF.write(file, {"veins": np.arange(6.0).reshape(2, 3)[:, ::2]}, {"tree": "Ahorn", "age": 3})
    tensors, facts = LEAF.read(file)
    assert tensors["veins"].tolist() == [[0.0, 2.0], [3.0, 5.0]]
    assert facts == {"tree": "Ahorn", "age": 3, "format": "marey-leaf", "version": 2}


def test_the_order_of_the_facts_does_not_change_the_bytes():
    array = {"x": np.zeros(2)}
    assert LEAF.pack(array, {"a": 1, "b": 2}) == LEAF.pack(array, {"b": 2, "a": 1})


def test_an_older_version_is_read_and_a_newer_one_is_not(tmp_path):
    file = tmp_path / "leaf.safetensors"
    for version, is_read in ((1, True), (2, True), (3, False)):
        TensorFormat("marey-leaf", "leaf", version, "").write(file, {"x": np.zeros(1)}, {})
        if is_read:
            assert LEAF.read(file)[1]["version"] == version
        else:
            with pytest.raises(FormatError, match=r"leaf version 3.*Upgrade marey"):
                LEAF.read(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        b"\xff" * 40,
        b"\x02" + b"\x00" * 7 + b"{}",
        save({"x": np.zeros(1)}),
        save({"x": np.zeros(1)}, metadata={"marey": "[1]"}),
        save({"x": np.zeros(1)}, metadata={"marey": '{"format":"marey-leaf","version":true}'}),
        save({"x": np.zeros(1)}, metadata={"marey": '{"format":"marey-root","version":1}'}),
        save({"x": np.zeros(1)}, metadata={"marey": "[" * 100_000}),
        LEAF.pack({"x": np.zeros(8)}, {})[:-8],
    ],
)
def test_other_bytes_are_refused_with_the_file_and_the_fix(tmp_path, content):
    file = tmp_path / "odd.safetensors"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=r"odd\.safetensors: .*Grow it again"):
        LEAF.read(file)


def test_names_and_folders_are_checked_before_writing(tmp_path):
    with pytest.raises(InputError, match=r"Use the suffix \.safetensors"):
        LEAF.write(tmp_path / "leaf.txt", {}, {})
    with pytest.raises(MissingFileError):
        LEAF.write(tmp_path / "none" / "leaf.safetensors", {}, {})
    with pytest.raises(MissingFileError):
        LEAF.read(tmp_path / "none.safetensors")


def test_a_full_disk_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    """Also where the draft of one writer is the target of another."""
    target = tmp_path / "clip.safetensors"
    target.write_bytes(b"old")

    def refuse(draft, name):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(target), "replace", refuse)
    with pytest.raises(WriteError) as found, atomic_file(target) as draft, atomic_file(draft) as inner:
        inner.write_bytes(b"new")
    assert found.value.path == str(target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
