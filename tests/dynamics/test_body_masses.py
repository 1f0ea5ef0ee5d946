"""Bodies: masses of the table, centres, inertias of rigid bodies, any skeleton."""

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.dynamics import GRAVITY, Body
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, centre_of_mass, mass_table
from marey.motion.mass import MASS_TABLES
from marey.skeleton import HUMAN, Pose, Skeleton, human, restore_bones, role_map, t_pose

LIMBS = {"hip": 0.1416, "knee": 0.0433, "ankle": 0.0137, "shoulder": 0.0271, "elbow": 0.0162, "wrist": 0.0061}


def posed(pose: Pose) -> Motion:
    return Motion(pose.skeleton, 60.0, pose.root_position[None], SO3(pose.rotations.wxyz[None]))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("part", LIMBS)
def test_limbs_have_the_printed_shares_of_de_leva(side, part):
    body = Body.from_skeleton(HUMAN, mass_kg=100.0)
    assert body.masses[HUMAN.index(f"{side}_{part}")] == pytest.approx(100.0 * LIMBS[part], rel=1e-12)


def test_head_and_trunk_have_the_printed_shares_of_de_leva():
    body = Body.from_skeleton(HUMAN, mass_kg=100.0)
    spine = [HUMAN.index(name) for name in ("pelvis", "spine1", "spine2", "spine3")]
    assert body.masses[HUMAN.index("head")] == pytest.approx(6.94, rel=1e-12)
    assert body.masses[spine].sum() == pytest.approx(43.46, rel=1e-12)
    assert np.count_nonzero(body.masses[spine]) == 3


def test_the_parts_of_the_trunk_weigh_what_the_trunk_weighs():
    for table in MASS_TABLES.values():
        trunk = next(segment for segment in table.segments if segment.name == "trunk")
        assert sum(part.share for part in table.trunk_parts) == pytest.approx(trunk.share, abs=1e-12)


def test_the_thigh_has_the_printed_centre_and_radii_of_gyration():
    body = Body.from_skeleton(HUMAN, mass_kg=70.0)
    hip, knee = HUMAN.index("left_hip"), HUMAN.index("left_knee")
    thigh = HUMAN.offsets[knee]
    np.testing.assert_allclose(body.centres[hip], 0.4095 * thigh, atol=2e-3)
    moments = np.linalg.eigvalsh(body.inertias[hip]) / (body.masses[hip] * float(thigh @ thigh))
    np.testing.assert_allclose(np.sqrt(moments), [0.149, 0.329, 0.329], atol=1e-9)


def test_the_trunk_turns_harder_about_the_front_axis_than_about_its_own():
    body = Body.from_skeleton(HUMAN)
    chest = np.diag(body.inertias[HUMAN.index("spine3")])
    assert chest[2] > chest[1] > chest[0]


@pytest.mark.parametrize("table", MASS_TABLES)
def test_the_centre_of_the_t_pose_is_that_of_the_table(table):
    """The weighted sum of the printed centres, found here from joint positions alone."""
    body = Body.from_skeleton(HUMAN, table=table)
    pose = t_pose(HUMAN)
    p = dict(zip(HUMAN.names, pose.joint_positions(), strict=True))
    tips = pose.joint_positions() + HUMAN.tips
    p |= {"crown": tips[HUMAN.index("head")]}
    for side, sign in (("left", 1.0), ("right", -1.0)):
        p[f"{side}_fingertip"] = p[f"{side}_wrist"] + [sign * 0.1879 / 1.741 * 1.75, 0.0, 0.0]
    centre = np.zeros(3)
    for segment in mass_table(table).segments:
        near, far = (np.mean([p[name] for name in names], axis=0) for names in (segment.near, segment.far))
        centre += segment.share * (near + segment.along * (far - near))
    np.testing.assert_allclose(body.centre_of_mass(posed(pose))[0], centre, atol=2e-4)


def test_the_centre_agrees_with_that_of_the_motion_floor_when_upright():
    upright = posed(Pose.rest(HUMAN))
    ours, theirs = Body.from_skeleton(HUMAN).centre_of_mass(upright), centre_of_mass(upright)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_the_centre_of_a_standing_man_is_at_the_published_height():
    """De Leva's men: 0.5 to 0.6 of stature, arms down. In the T-pose a little higher."""
    height = Body.from_skeleton(HUMAN).centre_of_mass(posed(Pose.rest(HUMAN)))[0, 1] / 1.75
    assert 0.55 < height < 0.60


@pytest.mark.parametrize("mass", [40.0, 73.0, 120.0])
def test_the_mass_is_the_one_asked_for_and_inertias_grow_with_it(mass):
    body, unit = Body.from_skeleton(HUMAN, mass_kg=mass), Body.from_skeleton(HUMAN, mass_kg=1.0)
    assert body.mass_kg == pytest.approx(mass, rel=1e-12)
    assert body.weight_n == pytest.approx(mass * GRAVITY, rel=1e-12)
    np.testing.assert_allclose(body.inertias, mass * unit.inertias, rtol=1e-9, atol=1e-15)


def test_a_height_scales_the_skeleton_and_its_inertias():
    small, tall = (Body.from_skeleton(HUMAN, mass_kg=70.0, height_m=h) for h in (1.5, 1.8))
    assert np.ptp(tall.skeleton.rest_positions()[:, 1]) == pytest.approx(
        1.2 * np.ptp(small.skeleton.rest_positions()[:, 1])
    )
    np.testing.assert_allclose(tall.inertias, 1.44 * small.inertias, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(tall.centres, 1.2 * small.centres, rtol=1e-9, atol=1e-12)


def test_the_default_mass_is_that_of_de_levas_men():
    assert Body.from_skeleton(HUMAN, height_m=1.741).mass_kg == pytest.approx(73.0)


def test_left_and_right_mirror_each_other():
    body = Body.from_skeleton(HUMAN)
    flip = np.diag([-1.0, 1.0, 1.0])
    for j, name in enumerate(HUMAN.names):
        if name.startswith("left_"):
            k = HUMAN.index(name.replace("left_", "right_"))
            assert body.masses[j] == pytest.approx(body.masses[k])
            np.testing.assert_allclose(body.centres[j], flip @ body.centres[k], atol=1e-12)
            np.testing.assert_allclose(body.inertias[j], flip @ body.inertias[k] @ flip, atol=1e-12)


def assert_rigid(body: Body) -> None:
    moments = np.linalg.eigvalsh(body.inertias[body.masses > 0.0])
    assert (moments[:, 0] > 0.0).all()
    assert (moments[:, 0] + moments[:, 1] >= moments[:, 2] * (1.0 - 1e-9)).all()
    assert np.isfinite(body.centres).all()


@pytest.mark.parametrize("table", MASS_TABLES)
def test_inertias_obey_the_triangle_inequality(table):
    assert_rigid(Body.from_skeleton(HUMAN, table=table))


def test_a_chain_that_is_no_human_gets_capsules_and_says_so():
    chain = Skeleton(("a", "b", "c"), np.array([-1, 0, 1]), np.array([[0, 0, 0], [0, 0.5, 0], [0, 0.3, 0]]) * 1.0)
    body = Body.from_skeleton(chain, mass_kg=8.0)
    assert body.mass_kg == pytest.approx(8.0)
    assert "volume" in body.report[-1]
    assert_rigid(body)
    assert body.masses[0] > body.masses[1] > 0.0


def test_a_single_joint_is_a_ball():
    body = Body.from_skeleton(Skeleton(("a",), np.array([-1]), np.zeros((1, 3))), mass_kg=2.0)
    assert body.masses == pytest.approx([2.0])
    assert_rigid(body)


def test_skeletons_without_a_height_still_get_a_mass():
    flat = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.0]]))
    point = Skeleton(("a",), np.array([-1]), np.zeros((1, 3)))
    for skeleton in (flat, point):
        for body in (Body.from_skeleton(skeleton), Body.from_skeleton(skeleton, height_m=1.2)):
            assert body.mass_kg > 0.0
            assert_rigid(body)


def test_missing_hands_and_head_leave_their_mass_to_the_rest():
    keep = [j for j, name in enumerate(HUMAN.names) if "wrist" not in name and name not in ("head", "neck")]
    place = {j: k for k, j in enumerate(keep)}
    parents = np.array([place.get(int(HUMAN.parents[j]), -1) for j in keep])
    cut = Skeleton(tuple(HUMAN.names[j] for j in keep), parents, HUMAN.offsets[keep], HUMAN.tips[keep])
    body = Body.from_skeleton(cut, mass_kg=70.0)
    assert body.mass_kg == pytest.approx(70.0)
    assert any("hand" in line for line in body.report)
    assert_rigid(body)


# Captured skeletons


@pytest.mark.mocap
@pytest.mark.parametrize("name", ["07/07_01", "16/16_11", "43/43_01", "09/09_06-run", "02/02_01"])
def test_lost_bones_come_back_as_the_original_file_has_them(mocap, name):
    bvh = load(mocap / "cmu-bvh" / f"{name[3:8]}.bvh").skeleton
    asf = load(mocap / "cmu-asfamc" / f"{name}.amc").skeleton
    restored = restore_bones(bvh)
    assert restored.names == bvh.names
    for joint, twin in (("Neck", "lowerneck"), ("LeftShoulder", "lclavicle"), ("LeftFingerBase", "lhand")):
        gap = restored.offsets[restored.index(joint)] - asf.offsets[asf.index(twin)]
        assert np.linalg.norm(gap) < 0.010
    assert not np.any(bvh.offsets[bvh.index("Neck")])


@pytest.mark.mocap
def test_other_skeletons_are_not_touched(mocap):
    asf = load(mocap / "cmu-asfamc" / "07" / "07_01.amc").skeleton
    assert restore_bones(asf) is asf
    assert restore_bones(HUMAN) is HUMAN


@pytest.mark.mocap
def test_a_captured_body_weighs_every_segment_and_is_rigid(mocap):
    walk = load(mocap / "cmu-bvh" / "07_01.bvh")
    body = Body.from_motion(walk, mass_kg=65.0)
    assert body.mass_kg == pytest.approx(65.0)
    assert body.masses[walk.skeleton.index("LeftFingerBase")] == pytest.approx(65.0 * 0.0061)
    assert body.masses[walk.skeleton.index("LeftToeBase")] == 0.0
    assert any("put back" in line for line in body.report)
    assert_rigid(body)


def test_bones_that_change_length_get_their_mean():
    still = posed(Pose.rest(HUMAN))
    moving = np.stack([HUMAN.offsets * 0.9, HUMAN.offsets * 1.1])
    clip = replace(
        still,
        root_positions=np.zeros((2, 3)),
        rotations=SO3.identity(2, 22),
        translations=moving,
    )
    np.testing.assert_allclose(Body.from_motion(clip).skeleton.offsets, HUMAN.offsets, atol=1e-12)


# Bad input


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan, np.inf])
def test_a_mass_that_is_none_is_refused(mass):
    with pytest.raises(InputError, match="mass_kg"):
        Body.from_skeleton(HUMAN, mass_kg=mass)


def test_a_height_that_is_none_is_refused():
    with pytest.raises(InputError, match="height_m"):
        Body.from_skeleton(HUMAN, height_m=-1.0)


def test_an_unknown_table_is_refused_with_a_hint():
    with pytest.raises(UnknownNameError, match="deleva1996"):
        Body.from_skeleton(HUMAN, table="deleva1966")


def test_an_inertia_of_no_rigid_body_is_refused_by_name():
    body = Body.from_skeleton(HUMAN)
    inertias = body.inertias.copy()
    inertias[4] = np.diag([1.0, 1.0, 3.0])
    with pytest.raises(InputError, match="left_knee"):
        replace(body, inertias=inertias)


def test_negative_masses_are_refused():
    with pytest.raises(InputError, match="weighs"):
        replace(Body.from_skeleton(HUMAN), masses=-np.ones(22))


def test_a_body_of_another_size_keeps_the_roles():
    assert role_map(Body.from_skeleton(human(1.2)).skeleton).profile == "human"


@pytest.mark.parametrize("mass", [-1.0, 0.0, np.nan, np.inf, "70", [70.0]])
def test_a_mass_that_is_no_positive_number_is_refused(mass):
    with pytest.raises(InputError, match="mass_kg"):
        Body.from_skeleton(HUMAN, mass_kg=mass)


def test_a_body_without_mass_or_with_inertia_but_no_mass_is_refused():
    body = Body.from_skeleton(HUMAN)
    with pytest.raises(InputError, match="no mass"):
        replace(body, masses=np.zeros(22), inertias=np.zeros((22, 3, 3)))
    with pytest.raises(InputError, match="inertia but no mass"):
        replace(body, masses=np.zeros(22))
