"""Adding, finding, loading and removing clips."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError, MareyError, MissingFileError, UnknownNameError
from marey.io import save, write_clip
from marey.library import Library, Query, is_library
from marey.library.catalogue import CATALOGUE_VERSION
from marey.library.records import content_address
from marey.library.survey import expand_paths
from marey.lie import SO3, geodesic_distance
from marey.motion import LoadReport, Motion
from marey.skeleton import HUMAN


def make_motion(seed: int = 0, *, frames: int = 40, speed_mps: float = 1.0, name: str = "clip") -> Motion:
    """A body that glides along +Z with small random joint angles: cheap, and never twice the same."""
    rng = np.random.default_rng(seed)
    rate_hz = 30.0
    root = np.zeros((frames, 3))
    root[:, 1] = HUMAN.offsets[0, 1]
    root[:, 2] = speed_mps * np.arange(frames) / rate_hz
    turns = SO3.exp(0.05 * rng.standard_normal((frames, HUMAN.num_joints, 3)))
    return Motion(HUMAN, rate_hz, root, turns, name=name)


@pytest.fixture
def clips(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "files"
    folder.mkdir()
    paths = [folder / f"07_{n:02d}.safetensors" for n in range(1, 4)]
    for n, path in enumerate(paths):
        write_clip(make_motion(n, name=path.stem, speed_mps=0.5 * n, frames=30 + 30 * n), path)
    return paths


@pytest.fixture
def library(tmp_path: Path):
    with Library(tmp_path / "library") as store:
        yield store


def test_an_added_clip_loads_as_the_motion_that_was_read(library, clips):
    report = library.add(clips)
    assert [result.outcome for result in report.results] == ["added"] * 3
    there, here = library.load("07_02"), make_motion(1, name="07_02", speed_mps=0.5, frames=60)
    np.testing.assert_array_equal(there.root_positions, here.root_positions)
    assert geodesic_distance(there.rotations, here.rotations).max() == 0.0
    assert there.contacts is not None
    assert library.verify().is_sound


def test_the_row_holds_what_was_measured(library, clips):
    library.add(clips, tags=["study", " study ", ""])
    record = library.find("07_03")
    assert (record.num_joints, record.num_frames, record.rate_hz) == (22, 90, 30.0)
    assert record.duration_s == pytest.approx(89 / 30)
    assert record.mean_speed_mps == pytest.approx(1.0)
    assert record.height_m == pytest.approx(1.75, abs=0.02)
    assert record.subject == "7"
    assert record.tags == ("study",)
    assert record.source == str(clips[2])
    assert Path(record.source_absolute).is_absolute()
    assert record.joints == HUMAN.names
    assert record.contacts


def test_a_second_run_skips_files_that_nobody_touched(library, clips):
    library.add(clips[:2])
    report = library.add(clips, tags=["late"])
    assert [result.outcome for result in report.results] == ["unchanged", "unchanged", "added"]
    assert len(library.clips(Query(tags=("late",)))) == 3


def test_a_file_that_changed_is_read_again(library, clips):
    library.add(clips)
    write_clip(make_motion(77, name="07_01"), clips[0])
    report = library.add(clips)
    assert [result.outcome for result in report.results] == ["added", "unchanged", "unchanged"]


def test_the_same_motion_under_another_name_is_a_duplicate(library, clips, tmp_path):
    library.add(clips)
    other = replace(
        make_motion(0, name="07_01", frames=30, speed_mps=0.0), name="renamed", load_report=LoadReport(["?"])
    )
    write_clip(other, tmp_path / "renamed.safetensors")
    report = library.add(tmp_path / "renamed.safetensors", tags=["again"])
    assert report.duplicates[0].clip_id == library.find("07_01").id
    assert library.find("07_01").tags == ("again",)
    assert len(library) == 3


def test_the_same_motion_in_another_format_is_a_duplicate(library, clips, tmp_path):
    library.add(clips)
    save(library.load("07_02"), tmp_path / "copy.bvh")
    assert [r.outcome for r in library.add(tmp_path / "copy.bvh").results] == ["duplicate"]


def test_a_motion_changed_by_a_millimetre_is_no_duplicate(library, clips, tmp_path):
    library.add(clips)
    motion = make_motion(0, name="07_01", frames=30, speed_mps=0.0)
    write_clip(
        replace(motion, root_positions=motion.root_positions + np.array([0.001, 0.0, 0.0])),
        tmp_path / "moved.safetensors",
    )
    assert len(library.add(tmp_path / "moved.safetensors").added) == 1


def test_the_address_ignores_the_sign_of_quaternions_and_the_last_bits():
    motion = make_motion(3)
    flipped = replace(motion, rotations=SO3(-motion.rotations.wxyz), name="other")
    nudged = replace(motion, root_positions=motion.root_positions * (1 + 1e-15))
    assert content_address(motion) == content_address(flipped) == content_address(nudged)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, rate_hz=60.0),
        lambda m: m[1:],
        lambda m: replace(m, root_positions=m.root_positions + np.array([0.0, 1e-4, 0.0])),
        lambda m: replace(m, rotations=m.rotations @ SO3.exp(np.array([0.0, 1e-3, 0.0]))),
        lambda m: replace(m, skeleton=m.skeleton.scaled(1.001)),
    ],
)
def test_the_address_changes_with_the_motion(change):
    motion = make_motion(3)
    assert content_address(change(motion)) != content_address(motion)


def test_the_address_survives_lengths_beyond_whole_numbers():
    motion = make_motion(3)
    huge = replace(motion, root_positions=motion.root_positions + 1e300)
    assert len(content_address(huge)) == 32


def test_a_bad_file_is_reported_and_the_others_are_added(library, clips, tmp_path):
    bad = tmp_path / "files" / "bad.bvh"
    bad.write_bytes(b"HIERARCHY\nROOT")
    report = library.add([bad, *clips])
    assert [result.outcome for result in report.results] == ["failed", "added", "added", "added"]
    assert "bad.bvh" in report.failed[0].message
    assert str(report) == "3 added, 0 duplicates, 0 unchanged, 1 failed"
    assert library.verify().is_sound


def test_worker_processes_do_the_same_as_this_one(tmp_path, clips):
    (tmp_path / "files" / "bad.bvh").write_bytes(b"\x00\xff")
    with Library(tmp_path / "a") as alone, Library(tmp_path / "b") as many:
        one, two = alone.add(tmp_path / "files", workers=0), many.add(tmp_path / "files", workers=2)
        assert [(r.outcome, r.clip_id) for r in one.results] == [(r.outcome, r.clip_id) for r in two.results]
        assert [asdict_but_bytes(r) for r in alone.clips()] == [asdict_but_bytes(r) for r in many.clips()]


def asdict_but_bytes(record):
    return replace(record, file_sha256="")


def test_progress_counts_every_file_once(library, clips):
    seen = []
    library.add(clips[:1])
    library.add(clips, progress=lambda done, total, result: seen.append((done, total, result.path)))
    assert [(done, total) for done, total, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert {path for _, _, path in seen} == {str(path) for path in clips}


def test_queries_join_their_conditions(library, clips):
    library.add(clips[:2], tags=["slow"])
    library.add(clips[2:], tags=["fast"], subject="anna")
    names = lambda query: [record.name for record in library.clips(query)]  # noqa: E731
    assert names(None) == ["07_01", "07_02", "07_03"]
    assert names(Query(tags=("slow",))) == ["07_01", "07_02"]
    assert names(Query(tags=("slow", "fast"))) == []
    assert names(Query(speed_mps=(0.4, 0.6))) == ["07_02"]
    assert names(Query(speed_mps=(None, 0.6), duration_s=(1.5, None))) == ["07_02"]
    assert names(Query(subject="anna")) == ["07_03"]
    assert names(Query(subject="7", limit=1)) == ["07_01"]
    assert names("FAST") == ["07_03"]
    assert names("07_0") == ["07_01", "07_02", "07_03"]
    assert names("%") == []  # a text, not a pattern
    assert names(clips[0].parent.name) == ["07_01", "07_02", "07_03"]
    assert names(clips[0].parent.parent.name + "/") == []  # where the archive stands says nothing of a clip
    assert names(Query(behaviour=library.find("07_03").behaviour, text="07_03")) == ["07_03"]


def test_a_clip_is_found_by_its_name_or_the_beginning_of_its_id(library, clips):
    library.add(clips)
    record = library.find("07_01")
    assert library.find(record.id[:8]) == record
    with pytest.raises(UnknownNameError, match=r"Did you mean '07_0"):
        library.find("07_04")


def test_two_clips_of_one_name_are_told_apart_by_id(library, clips, tmp_path):
    (tmp_path / "more").mkdir()
    write_clip(make_motion(9, name="07_01"), tmp_path / "more" / "07_01.safetensors")
    library.add([clips[0], tmp_path / "more"])
    with pytest.raises(InputError, match="means 2 clips"):
        library.find("07_01")


def test_a_removed_clip_is_gone_and_can_come_back(library, clips):
    library.add(clips)
    path = library.path("07_02")
    assert [record.name for record in library.remove("07_02")] == ["07_02"]
    assert not path.exists()
    assert len(library) == 2
    assert library.verify().is_sound
    assert len(library.add(clips).added) == 1


def test_removing_an_unknown_clip_removes_nothing(library, clips):
    library.add(clips)
    with pytest.raises(UnknownNameError):
        library.remove(["07_01", "nobody"])
    assert len(library) == 3


def test_a_motion_in_memory_can_be_added(library):
    added = library.add_motion(make_motion(5, name="made"), tags=("own",))
    assert added.outcome == "added"
    assert library.add_motion(make_motion(5, name="made")).outcome == "duplicate"
    assert library.find("made").tags == ("own",)


def test_a_folder_without_a_library_is_not_opened_for_reading(tmp_path):
    with pytest.raises(MissingFileError, match="no library here"):
        Library(tmp_path, create=False)
    assert not is_library(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_path_that_does_not_exist_is_named(library, tmp_path):
    with pytest.raises(MissingFileError, match=r"nowhere\.bvh"):
        library.add(tmp_path / "nowhere.bvh")


def test_a_file_is_no_library(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        Library(tmp_path / "file")


def test_a_catalogue_of_a_newer_version_is_refused(tmp_path):
    Library(tmp_path).close()
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        db.execute(f"PRAGMA user_version = {CATALOGUE_VERSION + 1}")
    db.close()
    with pytest.raises(InputError, match="Upgrade marey"):
        Library(tmp_path)


def test_another_programs_database_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    with pytest.raises(InputError, match="not a marey catalogue"):
        Library(tmp_path)


def test_a_damaged_catalogue_is_one_clear_error(tmp_path):
    (tmp_path / "catalogue.sqlite").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(MareyError, match="catalogue"):
        Library(tmp_path)


def test_a_catalogue_of_the_first_version_still_opens(tmp_path):
    """``catalogue-v1.sql`` is what version 1 wrote; it stays as it is, whatever the version of today."""
    script = Path(__file__).with_name("catalogue-v1.sql").read_text()
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        db.executescript(script)
    db.close()
    with Library(tmp_path) as library:
        record = library.find("07_01")
        assert (record.behaviour, record.tags, record.num_frames) == ("walk", ("old",), 90)
        assert library.verify().missing == (record.id,)
        assert library.add_motion(make_motion(1)).outcome == "added"


def test_damage_inside_the_catalogue_is_one_clear_error(tmp_path, clips):
    with Library(tmp_path / "lib") as library:
        library.add(clips)
    path = tmp_path / "lib" / "catalogue.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)  # the first page, with the tables' names, stays whole
    path.write_bytes(data)
    with pytest.raises(MareyError, match="catalogue"), Library(tmp_path / "lib") as library:
        library.clips()


def test_folders_are_searched_for_clips_only(tmp_path):
    for name in ("a.bvh", "b/c.AMC", "b/.hidden.bvh", ".git/d.bvh", "notes.txt", "package.json", "e.mp4"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    (tmp_path / "clip.txt").write_text('{ "Loop": "wrap", "Frames": [] }')
    np.savez(tmp_path / "shape.npz", betas=np.zeros(10))
    np.savez(tmp_path / "walk_poses.npz", poses=np.zeros((3, 66)))
    found = [path.relative_to(tmp_path).as_posix() for path in expand_paths(tmp_path)]
    assert found == ["a.bvh", "b/c.AMC", "clip.txt", "walk_poses.npz"]


def test_a_library_inside_a_folder_is_passed_over_but_can_be_named(tmp_path, clips):
    with Library(tmp_path / "files" / "lib") as inner, Library(tmp_path / "other") as other:
        inner.add(clips)
        assert expand_paths(tmp_path / "files") == tuple(clips)
        assert len(other.add(tmp_path / "files" / "lib").added) == 3
        assert {record.name for record in other.clips()} == {"07_01", "07_02", "07_03"}


def test_records_are_plain_data(library, clips):
    from dataclasses import asdict

    library.add(clips)
    assert json.loads(json.dumps(asdict(library.find("07_01"))))["num_joints"] == 22
