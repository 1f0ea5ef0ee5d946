"""load and save: one name for every format."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.base import FormatError, InputError, MissingFileError
from marey.io import READABLE_SUFFIXES, WRITABLE_SUFFIXES, load, save
from marey.io.dispatch import READERS, WRITERS
from marey.io.text import read_bytes
from marey.lie import SO3
from marey.motion import Motion
from marey.skeleton import HUMAN

CLIP = Motion(HUMAN, 60.0, np.tile([0.0, 0.96, 0.0], (5, 1)), SO3.exp(0.2 * np.sin(np.arange(330.0)).reshape(5, 22, 3)))


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITABLE_SUFFIXES if suffix in READABLE_SUFFIXES])
def test_every_format_that_is_written_is_read_again(tmp_path, suffix):
    path = tmp_path / f"clip{suffix}"
    save(CLIP, path)
    again = load(path)
    order = [again.skeleton.index(name) for name in HUMAN.names]
    np.testing.assert_allclose(again.joint_positions()[:, order], CLIP.joint_positions(), atol=1e-5)
    assert again.rate_hz == pytest.approx(60.0)


def test_every_home_in_the_tables_exists():
    from importlib import import_module

    for module, name in {*READERS.values(), *WRITERS.values()}:
        assert callable(getattr(import_module(module), name))


def test_suffixes_are_read_in_any_case(tmp_path):
    save(CLIP, tmp_path / "CLIP.BVH")
    assert load(tmp_path / "CLIP.BVH").num_frames == 5


def test_strings_are_paths_too(tmp_path):
    save(CLIP, str(tmp_path / "clip.bvh"))
    assert load(str(tmp_path / "clip.bvh")).num_frames == 5


@pytest.mark.parametrize("suffix", READABLE_SUFFIXES)
def test_a_missing_file_is_named(tmp_path, suffix):
    path = tmp_path / f"nowhere{suffix}"
    with pytest.raises(MissingFileError, match="nowhere"):
        load(path)


def test_a_missing_file_of_unknown_suffix_is_missing_first(tmp_path):
    with pytest.raises(MissingFileError):
        load(tmp_path / "nowhere.xyz")


def test_an_unknown_suffix_lists_the_known_ones_and_the_nearest(tmp_path):
    (tmp_path / "clip.bhv").write_text("x")
    with pytest.raises(InputError, match=r"Did you mean \.bvh\? marey can read \.bvh, \.amc, \.asf"):
        load(tmp_path / "clip.bhv")
    with pytest.raises(InputError, match=r"cannot write '\.blend' files\. marey can write \.bvh"):
        save(CLIP, tmp_path / "clip.blend")
    with pytest.raises(InputError, match="cannot write"):
        save(CLIP, tmp_path / "no_suffix")


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "clips.bvh").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(FormatError, match="this is a folder"):
        load(tmp_path / "clips.bvh")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), "fast"])
def test_rates_that_are_no_rates_are_refused(tmp_path, rate):
    save(CLIP, tmp_path / "clip.bvh")
    with pytest.raises(InputError, match="rate_hz"):
        load(tmp_path / "clip.bvh", rate_hz=rate)


def test_options_reach_the_reader_and_the_writer(tmp_path):
    save(CLIP, tmp_path / "clip.bvh", unit="m")
    motion = load(tmp_path / "clip.bvh", rate_hz=24.0, unit="cm")
    assert motion.rate_hz == 24.0
    np.testing.assert_allclose(motion.skeleton.offsets[0] * 100.0, HUMAN.offsets[0], atol=1e-8)


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "clip.bvh"
    save(CLIP, path)
    before = path.read_bytes()
    far = replace(CLIP, root_positions=np.full((5, 3), 1e12))
    with pytest.raises(InputError):
        save(far, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["clip.bvh"]


def test_saving_into_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(MissingFileError, match="Make the folder first"):
        save(CLIP, tmp_path / "not" / "there.bvh")


def test_saved_files_can_be_read_by_others(tmp_path):
    save(CLIP, tmp_path / "clip.bvh")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "clip.bvh").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_files_above_the_limit_are_not_read(tmp_path):
    path = tmp_path / "big.bvh"
    path.write_bytes(b"x" * 100)
    with pytest.raises(FormatError, match="100 bytes are too many"):
        read_bytes(path, limit=99)


def test_the_time_base_is_checked_when_warnings_are_first_asked_for(tmp_path, monkeypatch):
    calls: list[Motion] = []

    class Verdict:
        warning = "too fast"

    def check(motion: Motion) -> Verdict:
        calls.append(motion)
        return Verdict()

    monkeypatch.setattr("marey.io.dispatch.check_time_base", check)
    save(CLIP, tmp_path / "clip.bvh")
    motion = load(tmp_path / "clip.bvh")
    assert calls == []
    assert motion.load_report.warnings[-1] == "too fast"
    assert motion.load_report.warnings[-1] == "too fast" and len(calls) == 1


def test_loaded_motions_survive_pickling(tmp_path):
    save(CLIP, tmp_path / "clip.bvh")
    motion = load(tmp_path / "clip.bvh")
    again = pickle.loads(pickle.dumps(motion))
    np.testing.assert_array_equal(again.rotations.wxyz, motion.rotations.wxyz)
    assert again.load_report.notes == motion.load_report.notes


def test_paths_with_a_zero_byte_are_refused():
    with pytest.raises((FormatError, MissingFileError, InputError)):
        load(Path("a\0b.bvh"))
