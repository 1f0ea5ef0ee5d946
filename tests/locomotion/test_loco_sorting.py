"""Captures without labels: sorted by person and by what they show, fitted, and a person from some clips."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.cli import main
from marey.io import save
from marey.lie import SO3
from marey.locomotion import (
    Engine,
    LocomotionModel,
    Sorting,
    capture_episodes,
    fit_locomotion,
    fit_person,
    load_manifest,
    load_model,
    sort_clips,
)
from marey.locomotion.fitting.sorting import examine_clip
from marey.locomotion.fitting.trials import name_unknown_units
from marey.locomotion.units.episodes import find_episodes
from marey.locomotion.units.gait_unit import detect_gait, segment_clip
from marey.motion import Motion
from marey.skeleton import HUMAN


@pytest.fixture(scope="module")
def model() -> LocomotionModel:
    return load_model()


def go(model: LocomotionModel, style: str, speed: float, run: float = 0.0, seconds: float = 4.0, **more) -> Motion:
    """Some seconds of a steady gait, without plants."""
    return Engine(model, style=style, speed=speed, run=run, plants=False, **more).run(seconds)


@pytest.fixture(scope="module")
def folder(model: LocomotionModel, tmp_path_factory) -> Path:
    """Two people with legs of 0.84 and 0.98 m, names that say nothing or lie, and things that are no clips."""
    home = tmp_path_factory.mktemp("clips")
    (home / "inner").mkdir()
    save(go(model, "35", 1.2, leg_length_m=0.84), home / "run_away.bvh")
    save(go(model, "35", 1.5, leg_length_m=0.84), home / "b.glb")
    save(go(model, "35", 3.0, 1.0, leg_length_m=0.84), home / "walk.bvh")
    save(go(model, "39", 1.3, leg_length_m=0.98), home / "inner" / "walk.bvh")
    save(go(model, "39", 0.0, leg_length_m=0.98), home / "stand.bvh")
    (home / "notes.txt").write_text("nothing moves here", encoding="utf-8")
    (home / "broken.bvh").write_text("HIERARCHY\nROOT", encoding="utf-8")
    return home


def test_walks_and_runs_are_told_by_the_pelvis(model):
    for style in ("02", "35", "69", "78"):
        for speed, run in ((0.9, 0.0), (1.9, 0.0), (2.6, 1.0), (3.5, 1.0)):
            units, _, _ = segment_clip(go(model, style, speed, run, 3.0), "x")
            assert units and {unit.gait for unit in units} == {"run" if run else "walk"}, (style, speed, run)
    flat = np.zeros((40, 3))
    assert detect_gait(flat) in ("walk", "run")  # a root that does not move is no error


@pytest.fixture(scope="module")
def sorting(folder: Path) -> Sorting:
    return sort_clips(folder)


def test_names_and_formats_of_files_do_not_matter(sorting):
    found = sorting
    groups = {(group.subject, group.gait): set(group.train) for group in found.manifest.groups}
    people = {clip: subject for (subject, _), clips in groups.items() for clip in clips}
    assert people["run_away"] == people["b"] == people["walk"] != people["inner/walk.bvh"] == people["stand"]
    first, second = people["walk"], people["stand"]
    assert groups[first, "walk"] == {"run_away", "b"}
    assert groups[first, "run"] == {"walk"}
    assert groups[second, "walk"] == {"inner/walk.bvh"}
    assert groups[second, "stand"] == {"stand"}
    assert "text" in found.left_out["notes.txt"] and "broken.bvh" in found.left_out["broken"]


def test_a_sorting_is_written_corrected_and_handed_in_again(folder, tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    assert main(["fit", "locomotion", str(folder), "-o", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["sorting"] == str(tmp_path / "m.toml") and "broken" in facts["left_out"]
    text = Path(facts["sorting"]).read_text(encoding="utf-8")
    first = next(name for name, gaits in facts["people"].items() if "run" in gaits)
    corrected = tmp_path / "mine.toml"
    corrected.write_text(text.replace(f'subject = "{first}"', 'subject = "anna"'), encoding="utf-8")
    assert main(["fit", "locomotion", str(folder), "-o", str(out), "--manifest", str(corrected), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert "anna" in again["styles"] and again["num_units"] == facts["num_units"]
    assert main(["info", str(out)]) == 0
    assert "anna" in capsys.readouterr().out


def test_who_was_seen_walking_alone_walks_and_runs(folder, model):
    walks = [
        clip for clip in sort_clips(folder).manifest.groups if clip.gait == "walk" and "inner/walk.bvh" in clip.train
    ]
    plan = replace(load_manifest(), groups=tuple(walks), default_style=(), labels={})
    fitted = fit_locomotion(folder, plan)
    assert fitted.lent.tolist() == [[False, True]] and set(fitted.jumps) == set(model.jumps) == set(
        fitted.info["lent_jumps"]
    )
    for speed, run in ((1.3, 0.0), (3.0, 1.0)):
        motion = Engine(fitted, speed=speed, run=run).run(2.0)
        assert np.isfinite(motion.root_positions).all()
        assert motion.root_positions[-1, 2] - motion.root_positions[0, 2] == pytest.approx(2.0 * speed, rel=0.05)
    # Of this model, in which everybody's run is lent, a person can be made again
    assert fit_person(go(model, "16", 1.3), fitted, name="next").lent.tolist() == [[False, True], [False, True]]
    with pytest.raises(InputError, match="no unit is a run"):
        fit_locomotion(folder, plan, prior=False, jumps=False)


def test_a_folder_where_nobody_goes_is_refused_with_what_there_is(folder, tmp_path, capsys):
    (tmp_path / "stand.bvh").write_bytes((folder / "stand.bvh").read_bytes())
    assert main(["fit", "locomotion", str(tmp_path), "-o", str(tmp_path / "m.safetensors")]) == 1
    told = capsys.readouterr().err
    assert "nobody walks or runs" in told and "stand in 1" in told
    assert not (tmp_path / "m.safetensors").exists()


def test_clips_of_nobody_in_particular_go_to_the_nearest(model):
    units = [
        replace(unit, subject=style, clip=f"{style}{speed}")
        for style in ("35", "39", "69") for speed in (1.1, 1.3)
        for unit in segment_clip(go(model, style, speed, seconds=3.0), style)[0]
    ]  # fmt: skip
    hidden = [replace(unit, subject="?") if unit.clip.endswith("1.3") else unit for unit in units]
    assert [unit.subject for unit in name_unknown_units(hidden)] == [unit.subject for unit in units]
    with pytest.raises(InputError, match=r"\?"):
        name_unknown_units([replace(unit, subject="?") for unit in units])


def test_a_person_of_one_clip_walks_as_in_the_clip(model):
    """The arms are held up by 0.4 rad: nobody in the model walks so."""
    walk = go(model, "16", 1.3)
    wxyz = walk.rotations.wxyz.copy()
    for side, sign in (("left", 1.0), ("right", -1.0)):
        joint = walk.skeleton.index(f"{side}_shoulder")
        wxyz[:, joint] = (SO3.exp(np.array([0.0, 0.0, 0.4 * sign])) @ SO3(wxyz[:, joint])).wxyz
    odd = replace(walk, rotations=SO3(wxyz), name="odd", contacts=None)
    more = fit_person(odd, model, name="odd")
    assert more.styles == (*model.styles, "odd") and dict(more.default_style) == {"odd": 1.0}
    (unit, *_), _, _ = segment_clip(odd, "odd")
    rows = more.gaits.row(unit.speed_n, 0.0, more.weights())
    made = SO3(more.gaits.means) @ SO3.exp(rows[:, 3:].reshape(len(rows), -1, 3))
    arms = [walk.skeleton.index(f"{side}_shoulder") for side in ("left", "right")]
    assert np.rad2deg((made.inverse() @ SO3(unit.wxyz)).angle()[:, arms]).mean() < 3.0
    assert more.lent[-1].tolist() == [False, True]
    same = fit_person(odd, model, name="twice", amount=2.0)
    usual = model.gaits.base[:, 0].T @ model.weights()
    ratio = (same.gaits.base[-1, 0].T - usual) - 2.0 * (more.gaits.base[-1, 0].T - usual)
    assert np.abs(ratio).max() < 1e-9


def test_a_person_without_a_stride_is_refused(model):
    with pytest.raises(InputError, match="no regular cycle in 'still'"):
        fit_person(replace(go(model, "16", 0.0), name="still"), model, name="still")


def test_a_single_cycle_that_closes_is_a_loop(model):
    walk = go(model, "35", 1.3, seconds=4.0)
    strikes = segment_clip(walk, "x")[0]
    loop = replace(walk[strikes[0].start : strikes[0].stop + 1], name="loop")
    units, _, notes = segment_clip(loop, "x")
    assert units and any("loop" in note for note in notes)
    assert units[0].speed_mps == pytest.approx(strikes[0].speed_mps, rel=0.03)


def test_episodes_of_a_walk_that_starts_turns_and_stops(model):
    engine = Engine(model)
    parts = [engine.run(1.5)]
    for seconds, changes in ((3.0, {"speed": 1.3}), (2.0, {"turn_rate": 0.8}), (2.5, {"turn_rate": 0.0, "speed": 0.0})):
        engine.set(over_s=1.0, **changes)
        parts.append(engine.run(seconds))
    whole = replace(
        parts[0],
        root_positions=np.concatenate([part.root_positions for part in parts]),
        rotations=SO3(np.concatenate([part.rotations.wxyz for part in parts])),
        contacts=None,
    )
    kinds = [one.kind for one in find_episodes(whole)]
    assert {"stand", "start", "turn", "stop"} <= set(kinds)
    assert kinds.index("start") < kinds.index("turn") < kinds.index("stop")
    turn = next(one for one in find_episodes(whole) if one.kind == "turn")
    assert 0.8 < turn.turn_rad < 2.2


def test_episodes_are_cut_on_the_canonical_human(folder, sorting):
    (episode, motion), *_ = capture_episodes(folder, sorting.manifest, "stand")
    assert episode.clip == "stand" and motion.num_frames == episode.stop - episode.start
    assert motion.skeleton.names == HUMAN.names
    np.testing.assert_allclose(motion.root_positions[0, [0, 2]], 0.0, atol=1e-9)
    assert abs(motion.joint_positions()[..., 1].min()) < 0.06
    with pytest.raises(UnknownNameError):
        capture_episodes(folder, sorting.manifest, "hop")


@pytest.mark.mocap
@pytest.mark.parametrize(
    ("clip", "gaits"),
    [
        ("132_20", {"walk"}), ("141_03", {"run", "stand", "start"}), ("75_09", {"standing-jump"}),
        ("49_02", set()), ("16_19", {"turn"}), ("104_56", {"run", "stop", "stand"}),
    ],
)  # fmt: skip
def test_captures_are_sorted_by_what_they_show(mocap, clip, gaits):
    from marey.io import load

    file = mocap / "cmu-bvh" / f"{clip}.bvh"
    if not file.is_file():
        pytest.skip(f"no {clip}")
    found = examine_clip(clip, lambda: load(file))
    assert gaits <= set(found.gaits), found.gaits
