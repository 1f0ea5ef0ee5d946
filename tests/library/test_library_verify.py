"""What verify finds, and what repair does about it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from marey.io import write_clip
from marey.library import Library
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN


@pytest.fixture
def library(tmp_path: Path):
    rng = np.random.default_rng(1)
    for n in range(3):
        turns = SO3.exp(0.1 * rng.standard_normal((20, HUMAN.num_joints, 3)))
        motion = Motion(HUMAN, 30.0, np.tile(HUMAN.offsets[0], (20, 1)), turns, name=f"clip{n}")
        write_clip(motion, tmp_path / f"clip{n}.safetensors")
    with Library(tmp_path / "library") as store:
        store.add(sorted(tmp_path.glob("*.safetensors")))
        yield store


def test_a_row_without_a_file_is_missing_and_repair_drops_it(library):
    record = library.find("clip1")
    library.path("clip1").unlink()
    assert library.verify().missing == (record.id,)
    assert len(library.verify(repair=True).repairs) == 1
    assert library.verify().is_sound
    assert len(library) == 2


@pytest.mark.parametrize("where", [0, 20, -1])
def test_a_single_changed_byte_is_damage(library, where):
    path = library.path("clip0")
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)
    report = library.verify()
    assert report.damaged == (library.find("clip0").id,)
    assert not report.is_sound
    assert str(report) == "3 clips: 0 missing, 1 damaged, 0 without a row"


def test_repair_keeps_the_damaged_file_aside(library):
    path = library.path("clip0")
    path.write_bytes(path.read_bytes()[:-10])
    library.verify(repair=True)
    assert (library.folder / "damaged" / path.name).is_file()
    assert library.verify().is_sound
    assert len(library) == 2


def test_a_lost_catalogue_is_written_anew_from_the_clips(library, tmp_path):
    before = {record.id: record for record in library.clips()}
    library.close()
    for path in library.folder.glob("catalogue.sqlite*"):
        path.unlink()
    with Library(library.folder) as store:
        assert len(store) == 0
        assert set(store.verify().strays) == set(before)
        store.verify(repair=True)
        assert store.verify().is_sound
        after = {record.id: record for record in store.clips()}
    assert {i: (r.name, r.behaviour, r.file_sha256) for i, r in after.items()} == {
        i: (r.name, r.behaviour, r.file_sha256) for i, r in before.items()
    }


def test_a_stranger_among_the_clips_is_moved_aside(library):
    path = library.path("clip2")
    stranger = path.with_name("f" * 32 + ".safetensors")
    shutil.copy(path, stranger)
    assert library.verify().strays == ("f" * 32,)
    # the file is a clip, but its motion has another address
    folder = library.folder / "clips" / "ff"
    folder.mkdir(exist_ok=True)
    stranger.rename(folder / stranger.name)
    library.verify(repair=True)
    assert library.verify().is_sound
    assert len(library) == 3


def test_a_removal_that_was_killed_before_its_commit_is_undone(library):
    path = library.path("clip1")
    trash = library.folder / "trash"
    trash.mkdir(exist_ok=True)
    path.rename(trash / path.name)  # as after a kill between the move and the commit
    library.close()
    with Library(library.folder) as store:
        assert store.verify().is_sound
        assert len(store) == 3


def test_a_removal_that_was_killed_after_its_commit_is_finished(library):
    path = library.path("clip1")
    copy = path.read_bytes()
    library.remove("clip1")
    trash = library.folder / "trash"
    (trash / path.name).write_bytes(copy)
    library.close()
    with Library(library.folder) as store:
        assert store.verify().is_sound
        assert len(store) == 2
    assert not list(trash.iterdir())
