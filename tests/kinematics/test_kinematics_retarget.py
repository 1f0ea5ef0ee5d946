"""Motions on other bodies: positions, contacts, round trips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError
from marey.kinematics import retarget
from marey.lie import SO3, geodesic_distance
from marey.motion import Contacts, Motion, contact_positions, detect_contacts
from marey.skeleton import HUMAN, RoleMap, Skeleton, contact_points, human, role_map

ENDS = ("left_ankle", "right_ankle", "left_wrist", "right_wrist")
FEET = ("left_heel", "left_toe", "right_heel", "right_toe")


def scale_and_lift(motion: Motion) -> tuple[float, float]:
    """Read back what the note of a retargeted motion says."""
    note = motion.load_report.notes[-1]
    return float(note.split("scaled by ")[1].split()[0]), float(note.split("lifted by ")[1].split()[0]) / 1000.0


def end_errors(source: Motion, target: Motion) -> dict[str, np.ndarray]:
    """Distance of ankles and wrists from the scaled source, frame by frame [m]."""
    scale, lift = scale_and_lift(target)
    a, b = role_map(source.skeleton), role_map(target.skeleton)
    wanted, got = scale * source.joint_positions() + [0.0, lift, 0.0], target.joint_positions()
    return {role: np.linalg.norm(wanted[:, a[role]] - got[:, b[role]], axis=-1) for role in ENDS}


def slides(motion: Motion) -> np.ndarray:
    """Horizontal steps of heels and toes in contact [mm]."""
    assert motion.contacts is not None
    at = contact_positions(motion)
    names = contact_points(motion.skeleton).names
    steps = []
    for name in FEET:
        down = motion.contacts.track(name)
        moved = np.hypot(*np.diff(at[:, names.index(name)][:, [0, 2]], axis=0).T)
        steps.append(1000.0 * moved[down[1:] & down[:-1]])
    return np.concatenate(steps)


def renamed(skeleton: Skeleton, offsets: np.ndarray) -> Skeleton:
    return Skeleton(skeleton.names, skeleton.parents, offsets, skeleton.tips, name="other")


def test_a_motion_on_its_own_skeleton_stays_as_it_was(stiff_walk):
    same = retarget(stiff_walk, HUMAN, contacts=False)
    assert scale_and_lift(same) == (1.0, 0.0)
    np.testing.assert_allclose(same.joint_positions(), stiff_walk.joint_positions(), atol=1e-9)
    assert geodesic_distance(same.rotations, stiff_walk.rotations).max() < 1e-6


def test_a_body_twice_as_large_moves_twice_as_far(stiff_walk):
    large = retarget(stiff_walk, human(3.5), contacts=False)
    np.testing.assert_allclose(large.joint_positions(), 2.0 * stiff_walk.joint_positions(), atol=1e-9)
    assert geodesic_distance(large.rotations, stiff_walk.rotations).max() < 1e-6


def test_rotated_joint_frames_change_nothing_to_see(stiff_walk):
    """The same body whose rest pose is an A: arms rest at 45 degrees, so local rotations differ."""
    drop = {"left": SO3.exp([0.0, 0.0, -0.8]), "right": SO3.exp([0.0, 0.0, 0.8])}
    offsets, wxyz = HUMAN.offsets.copy(), stiff_walk.rotations.wxyz.copy()
    for side in ("left", "right"):
        shoulder, elbow, wrist = (HUMAN.index(f"{side}_{p}") for p in ("shoulder", "elbow", "wrist"))
        offsets[elbow], offsets[wrist] = drop[side] @ offsets[elbow], drop[side] @ offsets[wrist]
        back = drop[side].inverse()
        wxyz[:, shoulder] = (stiff_walk.rotations[:, shoulder] @ back).wxyz
        wxyz[:, elbow] = (drop[side] @ stiff_walk.rotations[:, elbow] @ back).wxyz
        wxyz[:, wrist] = (drop[side] @ stiff_walk.rotations[:, wrist] @ back).wxyz
    a_pose = Motion(renamed(HUMAN, offsets), 60.0, stiff_walk.root_positions, SO3(wxyz))
    np.testing.assert_allclose(a_pose.joint_positions(), stiff_walk.joint_positions(), atol=1e-9)
    back_again = retarget(a_pose, HUMAN, contacts=False)
    np.testing.assert_allclose(back_again.joint_positions(), stiff_walk.joint_positions(), atol=1e-6)


def test_there_and_back_is_nearly_the_same(stiff_walk):
    offsets = HUMAN.offsets.copy()
    for name, factor in (
        ("left_knee", 1.1),
        ("right_knee", 1.1),
        ("left_elbow", 1.1),
        ("right_elbow", 1.1),
        ("neck", 1.2),
    ):
        offsets[HUMAN.index(name)] *= factor
    there = retarget(stiff_walk, renamed(HUMAN, offsets), contacts=False)
    back = retarget(there, HUMAN, contacts=False)
    assert np.abs(back.joint_positions() - stiff_walk.joint_positions()).max() < 5e-3
    assert geodesic_distance(back.rotations, stiff_walk.rotations).max() < np.radians(2.0)


def test_hands_and_feet_are_where_they_were_on_a_body_with_other_arms(stiff_walk):
    offsets = HUMAN.offsets.copy()
    for side in ("left", "right"):
        offsets[HUMAN.index(f"{side}_elbow")] *= 1.15
        offsets[HUMAN.index(f"{side}_collar")] *= 1.1
    moved = retarget(stiff_walk, renamed(HUMAN, offsets), contacts=False)
    for errors in end_errors(stiff_walk, moved).values():
        assert errors.max() < 1e-4


def test_planted_feet_do_not_slide(stiff_walk):
    assert slides(stiff_walk).max() > 5.0  # the stiff walk skates
    moved = retarget(stiff_walk, human(1.6))
    assert slides(moved).max() < 2.0


def test_the_contact_track_is_carried_and_only_shortened(stiff_walk):
    moved = retarget(stiff_walk)
    assert moved.contacts is not None
    assert stiff_walk.contacts is not None
    assert moved.contacts.names == stiff_walk.contacts.names
    assert not (moved.contacts.active & ~stiff_walk.contacts.active).any()
    untouched = retarget(stiff_walk, contacts=False)
    assert untouched.contacts is not None
    np.testing.assert_array_equal(untouched.contacts.active, stiff_walk.contacts.active)


def test_contacts_are_detected_where_there_are_none(stiff_walk):
    bare = replace(stiff_walk, contacts=None)
    assert retarget(bare).contacts is not None
    assert retarget(bare, contacts=False).contacts is None


def test_frames_rate_and_name_are_kept(stiff_walk):
    moved = retarget(stiff_walk)
    assert (moved.num_frames, moved.rate_hz, moved.name) == (stiff_walk.num_frames, 60.0, "stiff walk")
    assert moved.skeleton is HUMAN


def test_a_single_frame_can_be_retargeted(stiff_walk):
    moved = retarget(stiff_walk[3:4], human(1.5))
    assert moved.num_frames == 1
    assert np.isfinite(moved.joint_positions()).all()


def test_a_skeleton_without_legs_is_refused_with_a_way_out(stiff_walk):
    chain = Skeleton(("a", "b"), np.array([-1, 0]), np.array([(0.0, 1.0, 0.0), (0.0, 1.0, 0.0)]), name="rope")
    with pytest.raises(InputError, match=r"rope.*RoleMap"):
        retarget(stiff_walk, chain)


def test_a_map_by_hand_is_used(stiff_walk):
    odd = Skeleton(tuple(f"b{j}" for j in range(22)), HUMAN.parents, HUMAN.offsets, HUMAN.tips, name="odd")
    roles = RoleMap.from_names(odd, {name: f"b{j}" for j, name in enumerate(HUMAN.names)})
    moved = retarget(stiff_walk, odd, target_roles=roles, contacts=False)
    np.testing.assert_allclose(moved.joint_positions(), stiff_walk.joint_positions(), atol=1e-9)


def test_a_trunk_of_fewer_joints_bends_as_far():
    """A body with one spine joint: its chest turns as the whole spine does, and back again it is spread."""
    turns = np.zeros((4, 22, 3))
    for joint in ("spine1", "spine2", "spine3"):
        turns[:, HUMAN.index(joint), 0] = 0.2
    bent = Motion(HUMAN, 30.0, np.tile([0.0, 0.95, 0.0], (4, 1)), SO3.exp(turns))
    keep = [j for j, name in enumerate(HUMAN.names) if name not in ("spine1", "spine2")]
    renumber = {old: new for new, old in enumerate(keep)} | {HUMAN.index("spine2"): 0}
    p = HUMAN.rest_positions()
    parents = [-1] + [renumber[int(HUMAN.parents[j])] for j in keep[1:]]
    offsets = np.array([p[j] - (p[keep[q]] if q >= 0 else 0.0) for j, q in zip(keep, parents, strict=True)])
    names = tuple(HUMAN.names[j] for j in keep)
    simple = Skeleton(names, np.array(parents), offsets, HUMAN.tips[keep], name="simple")
    moved = retarget(bent, simple, contacts=False)
    chest = moved.joint_frames()[1][:, simple.index("spine3")]
    assert geodesic_distance(chest, SO3.exp([0.6, 0.0, 0.0])).max() < 1e-6
    back = retarget(moved, HUMAN, contacts=False)
    spread = back.rotations[:, [HUMAN.index(f"spine{k}") for k in (1, 2, 3)]].angle()
    np.testing.assert_allclose(spread, 0.2, atol=1e-6)


def test_points_that_the_target_lacks_leave_the_track(stiff_walk):
    held = Contacts(("left_heel", "nose"), np.ones((stiff_walk.num_frames, 2), dtype=bool))
    moved = retarget(replace(stiff_walk, contacts=held), contacts=False)
    assert moved.contacts is not None
    assert moved.contacts.names == ("left_heel",)


def test_same_input_gives_the_same_bytes(stiff_walk):
    first, second = retarget(stiff_walk), retarget(stiff_walk)
    assert first.rotations.wxyz.tobytes() == second.rotations.wxyz.tobytes()


@pytest.mark.mocap
@pytest.mark.parametrize("clip", ["02_01", "07_12", "16_21", "35_01", "39_09", "132_46"])
def test_a_captured_walk_on_the_human_keeps_feet_and_hands(mocap, clip):
    from marey.io import load

    walk = load(mocap / "cmu-bvh" / f"{clip}.bvh")
    moved = retarget(walk)
    assert slides(moved).max() < 2.0
    for role, errors in end_errors(walk, moved).items():
        assert errors.max() < 0.02, role
    assert moved.contacts is not None
    assert moved.contacts.active.sum() > 0.85 * detect_contacts(walk).active.sum()


@pytest.mark.mocap
def test_no_foot_sinks_into_the_floor_of_its_walk(mocap):
    from marey.io import load

    walk = load(mocap / "cmu-bvh" / "16_58.bvh")
    moved = retarget(walk)
    assert moved.contacts is not None
    at = contact_positions(moved)[:, :4, 1]
    floor = np.median(at[moved.contacts.active[:, :4]])
    assert at.min() > floor - 0.03


@pytest.mark.mocap
def test_bvh_and_amc_of_one_trial_give_the_same_legs(mocap):
    from marey.io import load

    a = retarget(load(mocap / "cmu-bvh" / "07_01.bvh"), contacts=False)
    b = retarget(load(mocap / "cmu-asfamc" / "07" / "07_01.amc"), contacts=False)
    legs = [HUMAN.index(f"{side}_{part}") for side in ("left", "right") for part in ("hip", "knee", "ankle")]
    assert np.abs(a.joint_positions()[:, legs] - b.joint_positions()[:, legs]).max() < 2e-3


@pytest.mark.mocap
def test_a_lost_thorax_bone_does_not_lower_the_shoulders(mocap):
    from marey.io import load

    a = retarget(load(mocap / "cmu-bvh" / "07_01.bvh"), contacts=False).joint_positions()
    b = retarget(load(mocap / "cmu-asfamc" / "07" / "07_01.amc"), contacts=False).joint_positions()
    assert np.abs(a[:, HUMAN.index("neck")] - b[:, HUMAN.index("neck")]).max() < 5e-3
    assert np.abs(a[:, HUMAN.index("left_shoulder"), 1] - b[:, HUMAN.index("left_shoulder"), 1]).max() < 0.05


@pytest.mark.mocap
def test_the_human_on_a_cmu_skeleton_and_back(mocap):
    from marey.io import load

    walk = load(mocap / "cmu-asfamc" / "16" / "16_11.amc")
    first = retarget(walk, contacts=False)
    second = retarget(retarget(first, walk.skeleton, contacts=False), contacts=False)
    assert np.abs(second.joint_positions() - first.joint_positions()).max() < 0.02
    ends = [HUMAN.index(role) for role in ENDS]
    assert np.abs(second.joint_positions()[:, ends] - first.joint_positions()[:, ends]).max() < 1e-3
