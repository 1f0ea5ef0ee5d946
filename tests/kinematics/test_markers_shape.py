"""Markers without names: segments from geometry and motion; ghosts, swaps and belts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.io import find_subject, load_markers
from marey.kinematics import fit_markers
from marey.kinematics.hinges import measure_bends
from marey.kinematics.markers import Belt, find_belt
from marey.kinematics.markers.shape import group_rigid
from marey.kinematics.markers.sites import parse_marker_name, place_site
from marey.lie import SO3
from marey.motion import Markers, Motion
from marey.skeleton import HUMAN

SITES = ("L.ASIS", "R.ASIS", "L.PSIS", "R.PSIS", "C7", "CLAV", "STRN", "T10")
LIMBS = ("Shoulder", "Biceps", "Elbow", "ElbowMedial", "Forearm", "WristRadius", "WristUlna", "Thigh", "ThighFront")
LEGS = ("Knee", "MFC", "Shank", "ShankFront", "Ankle", "MMAL", "Heel", "Toe", "MT5")
NAMES = (*SITES, *(f"{side}.{name}" for side in "LR" for name in (*LIMBS, *LEGS)))


def put_markers(motion: Motion, *, noise_m: float = 0.002) -> Markers:
    """Markers on known landmarks of a moving body, named as laboratories do."""
    rng = np.random.default_rng(5)
    positions, frames = motion.joint_frames()
    columns = []
    for name in NAMES:
        site = place_site(name, HUMAN)
        j = HUMAN.index(site.joint)
        columns.append(positions[:, j] + SO3(frames.wxyz[:, j]) @ np.array(site.point))
    places = np.stack(columns, axis=1)
    places += rng.normal(0.0, noise_m, places.shape)
    return Markers(NAMES, motion.rate_hz, places, np.ones(places.shape[:2], dtype=bool))


def rename(markers: Markers) -> Markers:
    return replace(markers, names=tuple(f"m{m}" for m in range(markers.num_markers)))


@pytest.fixture(scope="module")
def walk(request) -> Motion:
    import marey

    return marey.kinematics.retarget(marey.load("walk"), HUMAN)[::4]


@pytest.fixture(scope="module")
def unnamed(walk: Motion):
    """A fit to markers without names."""
    return fit_markers(rename(put_markers(walk)))


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("LASI", "L.ASIS"),
        ("Subject 1:RPSI", "R.PSIS"),
        ("r.ASIS", "R.ASIS"),
        ("r_knee", "R.Knee"),
        ("L_calc", "L.Heel"),
        ("L_thigh3", "L.Thigh"),
        ("RLFC", "R.Knee"),
        ("LMMAL", "L.MMAL"),
        ("R_5meta", "R.MT5"),
        ("V.Sacral", "S2"),
        ("L.Ankle.Lat", "L.Ankle"),
        ("KneeRight", "R.Knee"),
        ("C7", "C7"),
        ("R_HJC_reg", "R.HJC"),
        ("heel", None),
        ("M001", None),
        ("*Unnamed_58", None),
        ("", None),
    ],
)
def test_names_of_laboratories_hint_at_sites(name, site):
    assert parse_marker_name(name) == site


def test_names_are_not_needed(walk, unnamed):
    fit = unnamed
    away = np.linalg.norm(fit.motion.joint_positions() - walk.joint_positions(), axis=-1)
    legs = [HUMAN.index(f"{side}_{joint}") for side in ("left", "right") for joint in ("hip", "knee", "ankle")]
    assert fit.rms_m < 0.012 and not fit.left_out
    assert np.median(away[:, legs]) < 0.04  # [m] joint centres, from markers on the skin
    assert fit.unnamed == tuple(f"m{m}" for m in range(len(NAMES)))
    assert fit.height_m == pytest.approx(1.75, rel=0.08)


def test_left_and_right_are_told_from_the_way_of_the_walk(unnamed):
    sides = {name: unnamed.sites[f"m{m}"].joint for m, name in enumerate(NAMES)}
    assert all(not joint.startswith("right_") for name, joint in sides.items() if name.startswith("L."))
    assert all(not joint.startswith("left_") for name, joint in sides.items() if name.startswith("R."))


def test_a_ghost_is_left_out_and_named(walk):
    markers = put_markers(walk)
    rng = np.random.default_rng(1)
    ghost = np.array([0.5, 1.0, 0.5]) + np.cumsum(rng.normal(0.0, 0.05, (markers.num_frames, 1, 3)), axis=0)
    both = replace(
        markers,
        names=(*markers.names, "X1"),
        positions=np.concatenate([markers.positions, ghost], axis=1),
        valid=np.ones((markers.num_frames, len(NAMES) + 1), dtype=bool),
    )
    fit = fit_markers(both)
    assert "no segment" in fit.left_out["X1"]
    assert fit.rms_m < 0.012


def test_labels_that_are_swapped_for_a_while_do_no_harm(walk):
    markers = put_markers(walk)
    places = np.array(markers.positions)
    a, b, some = NAMES.index("L.Knee"), NAMES.index("R.Elbow"), slice(5, 12)
    places[some, a], places[some, b] = places[some, b].copy(), places[some, a].copy()
    fit = fit_markers(replace(markers, positions=places))
    away = np.linalg.norm(fit.motion.joint_positions() - walk.joint_positions(), axis=-1)
    assert fit.swapped == 14
    assert away[some].mean() < 0.03


def test_markers_that_are_lost_for_a_while_do_no_harm(walk):
    markers = put_markers(walk)
    seen = np.array(markers.valid)
    seen[4:15, : len(NAMES) // 3] = False
    seen[:, NAMES.index("L.Toe")] = False
    fit = fit_markers(replace(markers, valid=seen))
    away = np.linalg.norm(fit.motion.joint_positions() - walk.joint_positions(), axis=-1)
    assert fit.left_out == {"L.Toe": "never seen"}
    assert away.mean() < 0.04


def test_points_that_make_no_human_are_refused():
    rng = np.random.default_rng(0)
    places = np.array([0.0, 1.0, 0.0]) + rng.uniform(-1.0, 1.0, (30, 20, 3))
    loose = Markers(tuple(f"m{m}" for m in range(20)), 100.0, places, np.ones((30, 20), dtype=bool))
    with pytest.raises(InputError, match=r"human|body"):
        fit_markers(loose)


def test_a_stature_that_no_person_has_is_refused(walk):
    with pytest.raises(InputError, match="height_m is 17"):
        fit_markers(put_markers(walk), height_m=17.0)


def test_rigid_groups_are_segments(walk):
    markers = put_markers(walk, noise_m=0.0)
    groups = group_rigid(markers.positions, markers.valid)
    thigh = [NAMES.index(f"L.{name}") for name in ("Thigh", "ThighFront", "Knee", "MFC")]
    assert len({int(groups[m]) for m in thigh}) == 1
    assert groups[NAMES.index("L.Heel")] != groups[NAMES.index("R.Heel")]


def test_a_belt_is_recognised_and_a_floor_is_not(walk):
    assert find_belt(walk) is None
    speed = float(np.linalg.norm((walk.root_positions[-1] - walk.root_positions[0])[[0, 2]]) / walk.duration_s)
    back = (walk.root_positions[0] - walk.root_positions[-1]) * [1.0, 0.0, 1.0] / walk.duration_s
    on_belt = Belt(-back).over_ground(walk)
    belt = find_belt(on_belt)
    assert belt is not None and belt.speed_mps == pytest.approx(speed, rel=0.08)
    rest = belt.over_ground(on_belt).root_positions - walk.root_positions
    assert np.abs(rest).max() < 0.1 * speed * walk.duration_s


@pytest.mark.real
@pytest.mark.parametrize("speed", [2, 3, 4, 5])
def test_belts_of_captured_runs_have_the_speed_of_their_names(real, speed):
    path = real / "addbiomechanics" / "Hamner2013Running" / "subject02" / f"run{speed}00" / "markers.trc"
    fit = fit_markers(load_markers(path), height_m=find_subject(path).height_m)
    assert fit.belt.speed_mps == pytest.approx(speed, rel=0.05)
    assert fit.start_s == load_markers(path).start_s


@pytest.mark.real
@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize(
    "trial",
    [
        "Arnold2013Walking/subject18/walk2",
        "Hamner2013Running/subject03/run500",
        "Uhlrich2022OpenCap/subject3/DJ4",
        "Uhlrich2022OpenCap/subject2/squats1",
        "Uhlrich2022OpenCap/subject3/walkingTS3",
    ],
)
def test_marker_error_is_at_most_that_of_addbiomechanics(real, trial, names):
    import json

    folder = real / "addbiomechanics" / trial
    theirs = dict(json.loads((folder / "_results.json").read_text())["markerErrors"])
    subject, markers = find_subject(folder / "markers.trc"), load_markers(folder / "markers.trc")
    fit = fit_markers(markers if names else rename(markers), height_m=subject.height_m)
    true = dict(zip(markers.names if names else rename(markers).names, markers.names, strict=True))
    # Sites on the fitted motion against every sighting, also those that the fit takes for swaps
    positions, frames = fit.motion.joint_frames()
    span = slice(fit.first_frame, fit.first_frame + fit.motion.num_frames)
    ours = {}
    for name, site in fit.sites.items():
        m, joint = markers.names.index(true[name]), fit.motion.skeleton.index(site.joint)
        place = positions[:, joint] + frames[:, joint] @ np.array(site.point)
        away = np.linalg.norm(place - markers.positions[span, m], axis=-1)[markers.valid[span, m]]
        ours[name] = float(np.sqrt((away**2).mean()))
    both = [name for name in ours if theirs.get(true[name], 0.0) > 0.0]
    assert len(both) >= 0.9 * sum(error > 0.0 for error in theirs.values())
    assert np.mean([ours[n] for n in both]) <= np.mean([theirs[true[n]] for n in both])
    assert fit.height_m == pytest.approx(subject.height_m, rel=0.05)
    bends = np.degrees(fit.motion.rotations[:, [HUMAN.index("left_knee"), HUMAN.index("right_knee")]].log()[..., 0])
    assert bends.min() > -25.0 and 40.0 < bends.max() < 150.0


def test_mass_and_stature_come_from_a_file_beside_the_capture(tmp_path):
    folder = tmp_path / "trial"
    folder.mkdir()
    assert find_subject(folder / "a.trc") is None
    (tmp_path / "_subject.json").write_text('{"massKg": 80.3, "heightM": 1.801, "sex": "male"}')
    subject = find_subject(folder / "a.trc")
    assert (subject.mass_kg, subject.height_m) == (80.3, 1.801)
    (folder / "_subject.json").write_text("{broken")
    assert find_subject(folder / "a.trc").mass_kg == 80.3
    (folder / "_subject.json").write_text('{"massKg": -4, "heightM": 180}')
    assert find_subject(folder / "a.trc").mass_kg == 80.3


def test_a_flexed_forearm_that_pronates_does_not_bend_sideways():
    """Without a marker on the inner elbow the hinge alone tells how the upper arm is turned about its length."""
    wxyz = np.tile((1.0, 0.0, 0.0, 0.0), (6, HUMAN.num_joints, 1))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        bend, twist = SO3.exp([0.0, -1.6 * sign, 0.0]), SO3.exp(np.linspace(0.2, 1.0, 6)[:, None] * [1.0, 0.0, 0.0])
        wxyz[:, HUMAN.index(f"{side}_elbow")] = (bend @ twist).wxyz
        wxyz[:, HUMAN.index(f"{side}_shoulder")] = SO3.exp([0.0, 0.0, -1.2 * sign]).wxyz
    markers = put_markers(Motion(HUMAN, 30.0, np.zeros((6, 3)), SO3(wxyz)), noise_m=0.0)
    kept = [m for m, name in enumerate(markers.names) if "ElbowMedial" not in name]
    markers = Markers(tuple(markers.names[m] for m in kept), 30.0, markers.positions[:, kept], markers.valid[:, kept])
    elbows = fit_markers(markers).motion.rotations[:, [HUMAN.index("left_elbow"), HUMAN.index("right_elbow")]]
    swing, _ = elbows.swing_twist([1.0, 0.0, 0.0])
    assert np.degrees(np.abs(swing.log()[..., 2])).max() < 6.0


@pytest.mark.parametrize(("name", "site"), [("R_Sternum", "R.Clavicle"), ("LCLAV", "L.Clavicle"), ("STRN", "STRN")])
def test_one_of_two_markers_on_the_sternum_is_the_end_of_a_clavicle(name, site):
    assert parse_marker_name(name) == site


@pytest.mark.real
def test_a_trunk_with_markers_at_both_clavicles_stands_upright(real):
    """Read as the lower end of the sternum, they would lean the thorax back by 20 degrees and pull the collars on."""
    fit = fit_markers(
        load_markers(real / "addbiomechanics" / "Uhlrich2022OpenCap" / "subject2" / "DJ1" / "markers.trc")
    )
    collars = fit.motion.rotations[:, [HUMAN.index("left_collar"), HUMAN.index("right_collar")]]
    assert np.degrees(np.median(np.abs(collars.log()[..., 1]))) < 12.0
    assert np.degrees(np.median(fit.motion.rotations[:, HUMAN.index("spine3")].log()[:, 0])) > -10.0


@pytest.mark.real
def test_knees_of_a_drop_jump_do_not_bend_backwards(real):
    """Straight legs in flight: the markers alone would bend them backwards by 10 to 17 degrees."""
    folder = real / "addbiomechanics" / "Uhlrich2022OpenCap" / "subject2" / "DJ1"
    fit = fit_markers(load_markers(folder / "markers.trc"))
    bends = {bend.role: np.degrees(bend.angles.min()) for bend in measure_bends(fit.motion)}
    assert min(bends["left_knee"], bends["right_knee"]) > -5.0
    assert fit.rms_m < 0.012
