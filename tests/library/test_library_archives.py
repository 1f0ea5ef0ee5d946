"""A tree of mixed formats: every take is a clip, with its character and licence; what is no motion is listed."""

from __future__ import annotations

import json
import sqlite3
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.base import MareyError
from marey.io import clips, save, write_clip
from marey.library import Library, Query
from marey.library.records import SAME_MOTION_TOL, motion_signature, signature_check, signature_key
from marey.library.survey import survey_paths
from marey.lie import SO3
from marey.motion import Motion
from marey.samples import walk
from marey.skeleton import HUMAN


def two_takes(path: Path) -> None:
    """A GLB whose second animation has half of the channels of the first."""
    save(walk()[:40], path)
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    scene = json.loads(data[20 : 20 + length])
    first = scene["animations"][0]
    scene["animations"] = [first | {"name": "Walk"}, first | {"name": "Stroll", "channels": first["channels"][::2]}]
    text = json.dumps(scene).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    head = struct.pack("<4sII", b"glTF", 2, 20 + len(text) + len(rest)) + struct.pack("<I4s", len(text), b"JSON")
    path.write_bytes(head + text + rest)


def a_scene_at_rest(path: Path) -> None:
    path.write_text(json.dumps({"asset": {"version": "2.0"}, "scenes": [{"nodes": [0]}], "nodes": [{"name": "Box"}]}))


@pytest.fixture
def tree(tmp_path) -> Path:
    top = tmp_path / "archive"
    (top / "studio" / "props").mkdir(parents=True)
    (top / "lab").mkdir()
    save(walk()[10:50], top / "lab" / "07_01.bvh")
    two_takes(top / "studio" / "hero.glb")
    a_scene_at_rest(top / "studio" / "props" / "box.gltf")
    rng = np.random.default_rng(0)
    poses = 0.1 * rng.normal(size=(30, 66))
    np.savez(top / "lab" / "amass.npz", poses=poses, trans=np.zeros((30, 3)), mocap_framerate=30.0)
    np.savez(top / "lab" / "shape.npz", betas=np.zeros(10), gender="male")
    (top / "lab" / "markers.trc").write_text("PathFileType\t4\n")
    (top / "studio" / "texture.png").write_bytes(b"\x89PNG")
    (top / "lab" / "broken.bvh").write_text("HIERARCHY\nnothing\n")
    (top / "LICENSE").write_text("\n  Creative Commons Zero  \nmore\n")
    (top / "lab" / "README.md").write_text("# The laboratory\n\n- Origin: here\n- Licence: CC BY 4.0\n")
    return top


def test_every_take_is_a_clip_and_what_is_no_motion_is_listed(tree, tmp_path):
    assert clips(tree / "studio" / "hero.glb") == ("Walk", "Stroll")
    with Library(tmp_path / "lib") as library:
        report = library.add(tree)
        found = {(Path(r.path).name, r.take): r.outcome for r in report.results}
        assert found == {
            ("07_01.bvh", ""): "added",
            ("amass.npz", ""): "added",
            ("broken.bvh", ""): "failed",
            ("hero.glb", "Walk"): "added",
            ("hero.glb", "Stroll"): "added",
            ("box.gltf", ""): "skipped",
        }
        why = {Path(result.path).name: result.message for result in report.skipped}
        assert why["box.gltf"] == "no animation in it"
        assert why["shape.npz"] == "arrays without motion: betas, gender"
        assert why["markers.trc"].startswith("markers, no skeleton")
        assert why["texture.png"] == "no motion format (.png)"
        assert why["LICENSE"] == "no motion format (no suffix)"
        assert str(report) == "4 added, 0 duplicates, 0 unchanged, 1 failed, 6 skipped"
        assert {record.name for record in library.clips()} == {"07_01", "amass", "hero:Walk", "hero:Stroll"}
        assert library.load("hero:Stroll").name == "hero:Stroll"
        assert library.verify().is_sound


def test_a_clip_keeps_its_take_its_character_and_its_licence(tree, tmp_path):
    with Library(tmp_path / "lib") as library:
        library.add(tree)
        hero, subject = library.find("hero:Walk"), library.find("07_01")
        assert (hero.take, hero.character, subject.take) == ("Walk", library.find("hero:Stroll").character, "")
        assert hero.character
        assert hero.licence == f"{tree / 'LICENSE'}: Creative Commons Zero"
        assert subject.licence == f"{tree / 'lab' / 'README.md'}: Licence: CC BY 4.0"
        assert [r.name for r in library.clips(Query(text="stroll"))] == ["hero:Stroll"]


def test_a_gltf_file_brings_its_own_copyright_note(tmp_path):
    save(walk()[:10], tmp_path / "fox.gltf")
    document = json.loads((tmp_path / "fox.gltf").read_text())
    document["asset"]["copyright"] = 'CC-BY 4.0 by "Ann"'
    (tmp_path / "fox.gltf").write_text(json.dumps(document))
    (tmp_path / "LICENSE").write_text("All rights reserved\n")
    assert survey_paths(tmp_path).licences == (f'{tmp_path / "fox.gltf"}: CC-BY 4.0 by "Ann"',)


def test_a_second_run_reads_nothing_again(tree, tmp_path, monkeypatch):
    with Library(tmp_path / "lib") as library:
        library.add(tree)
        (tree / "lab" / "broken.bvh").unlink()
        (tree / "studio" / "props" / "box.gltf").unlink()
        monkeypatch.setattr("marey.library.clip_library.stage_clips", lambda *_, **__: pytest.fail("a file was read"))
        report = library.add(tree, tags=["late"])
        assert [r.outcome for r in report.results] == ["unchanged"] * 4
        assert [r.take for r in report.results] == ["", "", "Walk", "Stroll"]
        assert len(library.clips(Query(tags=("late",)))) == 4


def test_a_take_that_was_removed_comes_back_alone(tree, tmp_path):
    with Library(tmp_path / "lib") as library:
        library.add(tree / "studio" / "hero.glb")
        library.remove("hero:Stroll")
        outcomes = {r.take: r.outcome for r in library.add(tree / "studio" / "hero.glb").results}
        assert outcomes == {"Walk": "unchanged", "Stroll": "added"}


def test_a_run_killed_between_two_takes_is_resumed(tree, tmp_path, monkeypatch):
    """The first take is in, the second is staged only: opening the library adopts it, the next run is complete."""
    from marey.library.store import Store

    with Library(tmp_path / "lib") as library:
        real = Store.take_in

        def die(self, staged, *rest, **more):
            if staged.job.take == "Stroll":
                raise KeyboardInterrupt
            return real(self, staged, *rest, **more)

        monkeypatch.setattr(Store, "take_in", die)
        with pytest.raises(KeyboardInterrupt):
            library.add(tree / "studio" / "hero.glb")
        monkeypatch.undo()
        assert [record.take for record in library.clips()] == ["Walk"]
        report = library.add(tree / "studio" / "hero.glb")
        assert {r.take: r.outcome for r in report.results} == {"Walk": "unchanged", "Stroll": "added"}
        again = library.add(tree / "studio" / "hero.glb")
        assert [r.outcome for r in again.results] == ["unchanged"] * 2
        assert library.verify().is_sound


def test_workers_and_this_process_make_the_same_of_takes(tree, tmp_path):
    with Library(tmp_path / "a") as alone, Library(tmp_path / "b") as many:
        one, two = alone.add(tree, workers=0), many.add(tree, workers=2)
        assert [(r.path, r.take, r.outcome, r.clip_id) for r in one.results] == [
            (r.path, r.take, r.outcome, r.clip_id) for r in two.results
        ]


def test_a_take_that_cannot_be_read_does_not_stop_the_others(tree, tmp_path, monkeypatch):
    import marey.library.ingest as ingest

    real = ingest._read_take

    def read(job, *rest):
        if job.take == "Walk":
            raise MareyError("this take is broken")
        return real(job, *rest)

    monkeypatch.setattr(ingest, "_read_take", read)
    with Library(tmp_path / "lib") as library:
        report = library.add(tree / "studio" / "hero.glb", workers=0)
        assert {r.take: (r.outcome, r.message) for r in report.results} == {
            "Stroll": ("added", ""),
            "Walk": ("failed", "this take is broken"),
        }
        monkeypatch.undo()
        assert {r.take: r.outcome for r in library.add(tree / "studio" / "hero.glb").results} == {
            "Walk": "added",
            "Stroll": "unchanged",
        }


def test_notes_above_the_tree_do_not_count(tmp_path):
    (tmp_path / "README").write_text("the whole disk")
    (tmp_path / "inner").mkdir()
    save(walk()[:5], tmp_path / "inner" / "a.bvh")
    assert survey_paths(tmp_path / "inner").licences == ("",)
    assert survey_paths(tmp_path / "inner" / "a.bvh").licences == ("",)
    assert survey_paths(tmp_path).licences == (f"{tmp_path / 'README'}: the whole disk",)


# ---- duplicates by an index


def still(rng, name: str = "x") -> Motion:
    turns = SO3.exp(0.2 * rng.standard_normal((20, HUMAN.num_joints, 3)))
    return Motion(HUMAN, 30.0, np.tile(HUMAN.offsets[0], (20, 1)), turns, name=name)


def test_the_number_of_a_signature_moves_no_more_than_the_motion():
    rng = np.random.default_rng(1)
    for _ in range(50):
        motion = still(rng)
        near = replace(
            motion,
            root_positions=motion.root_positions + rng.uniform(-4e-5, 4e-5, size=3),
            rotations=motion.rotations @ SO3.exp(1e-6 * rng.standard_normal((20, HUMAN.num_joints, 3))),
        )
        one, two = (signature_key(motion_signature(m)) for m in (motion, near))
        assert one[0] == two[0]
        assert abs(one[1] - two[1]) <= SAME_MOTION_TOL
        first, second = (signature_check(motion_signature(m)) for m in (motion, near))
        assert abs(first - second) <= SAME_MOTION_TOL


def test_motions_of_one_place_are_told_apart_by_two_numbers():
    """Of two million pairs of motions in place, hardly one is near in both numbers: a look-up reads no other's row."""
    rng = np.random.default_rng(3)
    signatures = [motion_signature(still(rng)) for _ in range(2000)]
    numbers = np.array([(signature_key(one)[1], signature_check(one)) for one in signatures])
    numbers = numbers[np.argsort(numbers[:, 0])]
    near = np.abs(numbers[:, None] - numbers[None]).max(axis=-1) < SAME_MOTION_TOL
    assert np.count_nonzero(near) - len(numbers) <= 2 * 4


def test_motions_of_one_shape_have_numbers_far_apart():
    """Of 300 motions in place, hardly two lie as near as a rounded copy: a look-up compares a few, not all."""
    rng = np.random.default_rng(2)
    keys = np.sort([signature_key(motion_signature(still(rng)))[1] for _ in range(300)])
    assert np.mean(np.diff(keys) < SAME_MOTION_TOL) < 0.2
    assert keys[-1] - keys[0] > 100 * SAME_MOTION_TOL


def test_a_look_up_uses_the_index_and_holds_no_lock(tmp_path, monkeypatch):
    with Library(tmp_path / "lib") as library:
        catalogue = library._store.catalogue
        asked, seen = [], []
        catalogue._db.set_trace_callback(asked.append)
        real = catalogue.same_motion
        monkeypatch.setattr(
            catalogue, "same_motion", lambda *given: (seen.append(catalogue._db.in_transaction), real(*given))[1]
        )
        library.add_motion(still(np.random.default_rng(0)))
        assert seen == [False]
        look_up = next(text for text in asked if "signatures JOIN clips" in text)
        plan = " ".join(str(row[3]) for row in catalogue._db.execute(f"EXPLAIN QUERY PLAN {look_up}"))
        assert "signatures_by_key (tree=? AND key>? AND key<?)" in plan
        assert "SCAN" not in plan


def test_a_clip_that_another_process_adds_meanwhile_is_still_a_duplicate(tmp_path, monkeypatch):
    """Between the look-up and the lock somebody else takes in the same motion."""
    motion = still(np.random.default_rng(0))
    with Library(tmp_path / "lib") as here, Library(tmp_path / "lib") as there:
        catalogue, real = here._store.catalogue, here._store.catalogue.same_motion

        def look(*given):
            found = real(*given)
            if not len(there):
                assert there.add_motion(motion).outcome == "added"
            return found

        monkeypatch.setattr(catalogue, "same_motion", look)
        assert here.add_motion(motion).outcome == "duplicate"
        assert len(here) == 1
        assert here.verify().is_sound


@pytest.mark.parametrize(("version", "name", "character"), [(1, "07_01", ""), (2, "walk", "bvh")])
def test_an_old_catalogue_gets_its_numbers_and_its_files(tmp_path, version, name, character):
    script = Path(__file__).with_name(f"catalogue-v{version}.sql").read_text()
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        db.executescript(script)
    db.close()
    with Library(tmp_path) as library:
        record = library.find(name)
        assert (record.take, record.character, record.licence) == ("", character, "")
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        stored, tree, key, second = db.execute("SELECT signature, tree, key, second FROM signatures").fetchone()
        assert (tree, key) == signature_key(stored)
        assert second == signature_check(stored)
        sources = db.execute("SELECT count(*) FROM sources").fetchone()
        assert db.execute("SELECT count(*) FROM files").fetchone() == sources
    db.close()


def test_a_rounded_copy_is_found_among_many_of_its_shape(tmp_path):
    rng = np.random.default_rng(3)
    motions = [still(rng, f"{n:02d}") for n in range(40)]
    with Library(tmp_path / "lib") as library:
        for motion in motions:
            library.add_motion(motion)
        rounded = replace(motions[17], root_positions=np.round(motions[17].root_positions + 2e-5, 6), name="again")
        write_clip(rounded, tmp_path / "again.safetensors")
        report = library.add(tmp_path / "again.safetensors")
        assert report.duplicates[0].clip_id == library.find("17").id
