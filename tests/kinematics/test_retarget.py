"""Motions on other bodies: directions, feet, hands, targets; synthetic clips."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.kinematics import RetargetTarget, retarget, solve_retarget, solve_two_bone
from marey.lie import SO3, geodesic_distance
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN, RoleMap, Skeleton, foot_points, human, restored_roles, role_map

FEET = ("left_heel", "left_toe", "right_heel", "right_toe")
LIMBS = tuple(
    (f"{side}_{a}", f"{side}_{b}")
    for side in ("left", "right")
    for a, b in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist"))
)


def scale_and_lift(motion: Motion) -> tuple[float, float]:
    """Read back what the note of a retargeted motion says."""
    note = motion.load_report.notes[-1]
    return float(note.split("scaled by ")[1].split()[0]), float(note.split("lifted by ")[1].split()[0]) / 1000.0


def slips(motion: Motion) -> np.ndarray:
    """Speed over the ground of heels and toes in contact [m/s]; of a toe, ball or end, whichever is slower."""
    assert motion.contacts is not None
    points = foot_points(motion.skeleton)
    at = points.positions(*motion.joint_frames())
    speeds = np.linalg.norm(np.diff(at[..., [0, 2]], axis=0), axis=-1) * motion.rate_hz
    found = []
    for name in FEET:
        side, part = name.split("_")
        columns = [points.index(f"{side}_{p}") for p in ({"heel": ("heel",), "toe": ("ball", "toe_end")}[part])]
        down = motion.contacts.track(name)
        found.append(speeds[:, columns].min(axis=1)[down[1:] & down[:-1]])
    return np.concatenate(found)


def directions(motion: Motion) -> np.ndarray:
    """Where the limbs point ``(F, 8, 3)``."""
    return directions_of(motion, role_map(motion.skeleton))


def directions_of(motion: Motion, roles: RoleMap) -> np.ndarray:
    p = motion.joint_positions()
    bones = np.stack([p[:, roles[b]] - p[:, roles[a]] for a, b in LIMBS], axis=1)
    return bones / np.linalg.norm(bones, axis=-1, keepdims=True)


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
    np.testing.assert_allclose(directions(back), directions(stiff_walk), atol=1e-9)
    assert geodesic_distance(back.rotations, stiff_walk.rotations).max() < np.radians(2.0)


def test_limbs_point_where_they_pointed_whatever_their_lengths(stiff_walk):
    offsets = HUMAN.offsets.copy()
    for side in ("left", "right"):
        offsets[HUMAN.index(f"{side}_elbow")] *= 1.3
        offsets[HUMAN.index(f"{side}_ankle")] *= 0.8
        offsets[HUMAN.index(f"{side}_collar")] *= 1.1
    moved = retarget(stiff_walk, renamed(HUMAN, offsets), contacts=False)
    np.testing.assert_allclose(directions(moved), directions(stiff_walk), atol=1e-9)


@pytest.mark.parametrize("options", [{"hands": "positions"}, {"pin": ("left_hand", "right_hand")}])
def test_hands_are_where_they_were_when_asked(stiff_walk, options):
    offsets = HUMAN.offsets.copy()
    for side in ("left", "right"):
        offsets[HUMAN.index(f"{side}_elbow")] *= 1.15
    moved = retarget(stiff_walk, renamed(HUMAN, offsets), contacts=False, **options)
    wrists = [HUMAN.index(f"{side}_wrist") for side in ("left", "right")]
    assert np.abs(moved.joint_positions()[:, wrists] - stiff_walk.joint_positions()[:, wrists]).max() < 1e-6


def test_a_hand_on_the_hip_stays_there_when_asked():
    """A wrist 12 cm beside the hip, on a body with longer arms: by directions it would be lower."""
    rest = Motion(HUMAN, 30.0, np.tile(HUMAN.offsets[0], (8, 1)), SO3.identity(8, 22))
    beside = np.array([0.12, 0.06, 0.0])
    akimbo = solve_two_bone(rest, "left_arm", rest.joint_positions()[:, HUMAN.index("left_hip")] + beside).motion
    offsets = HUMAN.offsets.copy()
    offsets[HUMAN.index("left_elbow")] *= 1.3
    offsets[HUMAN.index("left_wrist")] *= 1.3

    def gap(motion: Motion) -> float:
        p = motion.joint_positions()[4]
        return float(np.linalg.norm(p[HUMAN.index("left_wrist")] - p[HUMAN.index("left_hip")] - beside))

    target = renamed(HUMAN, offsets)
    assert gap(retarget(akimbo, target, contacts=False)) > 0.05
    assert gap(retarget(akimbo, target, contacts=False, hands="touch")) < 0.02


def test_options_that_do_not_exist_are_refused(stiff_walk):
    with pytest.raises(InputError, match=r"hands='by magic'.*'touch'"):
        retarget(stiff_walk, hands="by magic")
    with pytest.raises(UnknownNameError, match="left_nose"):
        retarget(stiff_walk, pin=("left_nose",))
    with pytest.raises(InputError, match="a str is no target"):
        retarget(stiff_walk, "human")  # pyright: ignore[reportArgumentType]


def test_whatever_has_a_skeleton_is_a_target(stiff_walk):
    @dataclass(frozen=True)
    class Character:
        skeleton: Skeleton

    tall = human(2.0)
    moved = retarget(stiff_walk, Character(tall))
    assert moved.skeleton is tall
    again = solve_retarget(stiff_walk, RetargetTarget.build(tall))
    np.testing.assert_array_equal(again.motion.rotations.wxyz, moved.rotations.wxyz)


def test_hips_that_hang_on_one_point_are_found_further_down(stiff_walk):
    """Rigs with a joint of no width between pelvis and thigh, called like the thigh."""
    names, parents, offsets = list(HUMAN.names), list(HUMAN.parents), list(HUMAN.offsets)
    for side in ("left", "right"):
        hip = names.index(f"{side}_hip")
        names[hip], names[names.index(f"{side}_knee")] = f"{side.title()}Hip", f"{side.title()}Knee"
    where = {name: j for j, name in enumerate(names)}
    order: list[str] = []
    for name in names:
        order += [f"__{name}", name] if name.endswith("Hip") else [name]
    new = {name: j for j, name in enumerate(order)}
    rows = []
    for name in order:
        old = where.get(name, where.get(name[2:]))
        above = -1 if old == 0 else new[names[parents[old]]]
        if name.startswith("__"):
            rows.append((above, np.zeros(3)))
        else:
            rows.append((new[f"__{name}"] if name.endswith("Hip") else above, offsets[old]))
    rig = Skeleton(tuple(order), np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), name="rig")
    roles = restored_roles(rig)
    assert [rig.names[roles[f"{side}_hip"]] for side in ("left", "right")] == ["LeftHip", "RightHip"]
    moved = retarget(stiff_walk, rig, contacts=False)
    np.testing.assert_allclose(directions_of(moved, roles), directions(stiff_walk), atol=1e-6)


def test_planted_feet_do_not_slide_float_or_sink(stiff_walk):
    faster = replace(stiff_walk, root_positions=stiff_walk.root_positions * [1.0, 1.0, 1.6])
    assert np.quantile(slips(faster), 0.95) > 0.3  # the stiff walk skates
    result = solve_retarget(faster, human(1.6))
    assert slips(result.motion).max() < 1e-6
    at = foot_points(result.motion.skeleton).positions(*result.motion.joint_frames())
    assert at[..., 1].min() > -1e-6
    assert result.report.slip_max_mps < 1e-6
    assert result.report.float_m < 1e-6
    assert result.report.penetration_m < 1e-6


def test_the_floor_of_a_clip_becomes_the_ground(stiff_walk):
    """Walks that were captured 0.4 m too high, and on a floor that tilts by one degree."""
    tilt = np.tan(np.radians(1.0))
    p = stiff_walk.root_positions + np.array([0.0, 0.4, 0.0])
    p[:, 1] += tilt * p[:, 2]
    level, tilted = solve_retarget(stiff_walk), solve_retarget(replace(stiff_walk, root_positions=p))
    assert tilted.report.floor_m - level.report.floor_m == pytest.approx(0.4, abs=0.03)
    for result in (level, tilted):
        at = foot_points(HUMAN).positions(*result.motion.joint_frames())[..., 1]
        assert np.quantile(at.min(axis=1), 0.9) < 2e-3
        assert at.min() > -1e-6


def test_knees_bend_one_way():
    """A captured knee that is bent backwards by four degrees is straightened, not folded."""
    turns = np.zeros((30, 22, 3))
    for side in ("left", "right"):
        turns[:, HUMAN.index(f"{side}_knee"), 0] = np.radians(np.linspace(-4.0, 8.0, 30))
    standing = Motion(HUMAN, 30.0, np.tile(HUMAN.offsets[0], (30, 1)), SO3.exp(turns))
    track = Contacts(FEET, np.ones((30, 4), dtype=bool))
    p = retarget(replace(standing, contacts=track)).joint_positions()
    for side in ("left", "right"):
        hip, knee, ankle = (p[:, HUMAN.index(f"{side}_{part}")] for part in ("hip", "knee", "ankle"))
        line = (ankle - hip) / np.linalg.norm(ankle - hip, axis=-1, keepdims=True)
        ahead = knee - hip - line * np.sum(line * (knee - hip), axis=-1, keepdims=True)
        assert ahead[:, 2].min() > -1e-6


def test_the_contact_track_is_carried_over(stiff_walk):
    """But for moments at its ends in which the foot, which skates by 28 cm, is far from where it stands."""
    moved = retarget(stiff_walk)
    assert moved.contacts is not None
    assert stiff_walk.contacts is not None
    assert moved.contacts.names == stiff_walk.contacts.names
    assert not (moved.contacts.active & ~stiff_walk.contacts.active).any()
    assert moved.contacts.active.sum() > 0.95 * stiff_walk.contacts.active.sum()
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
    with pytest.raises(InputError, match="retargeting needs a human skeleton, and 'rope' is not human"):
        retarget(stiff_walk, chain)
    legless = RoleMap.from_names(HUMAN, {"pelvis": "pelvis", "left_hip": "left_hip"})
    with pytest.raises(InputError, match=r"no known left_knee.*RoleMap"):
        retarget(stiff_walk, HUMAN, target_roles=legless)


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


def test_a_plant_that_could_not_be_held_is_named(stiff_walk):
    """A skating foot is let slide where it lands and leaves: the report and a warning say where."""
    faster = replace(stiff_walk, root_positions=stiff_walk.root_positions * [1.0, 1.0, 1.6])
    result = solve_retarget(faster, human(1.6))
    assert result.report.broken
    assert any("could not be held" in warning for warning in result.motion.load_report.warnings)
    points = foot_points(result.motion.skeleton)
    at = points.positions(*result.motion.joint_frames())
    for plant in result.report.broken:
        names = [f"{plant.foot}_{part}" for part in ("heel", "ball", "toe_end")]
        steps = np.linalg.norm(np.diff(at[plant.start : plant.stop, [points.index(n) for n in names]], axis=0), axis=-1)
        assert steps.sum(axis=0).max() > 0.004
    assert result.report.to_json()["broken"]
    still = solve_retarget(stiff_walk, human(1.6), contacts=False)
    assert not still.report.broken
