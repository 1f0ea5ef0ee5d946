"""Centre of mass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marey.contacts import contact_phases, detect_contacts
from marey.io import load
from marey.lie import SO3
from marey.motion import Motion, centre_of_mass, mass_weights
from marey.motion.mass import MASS_TABLES
from marey.samples import jump
from marey.skeleton import HUMAN, ROLES, Pose, RoleMap, Skeleton


def still(skeleton: Skeleton = HUMAN) -> Motion:
    pose = Pose.rest(skeleton)
    return Motion(skeleton, 60.0, pose.root_position[None], SO3(pose.rotations.wxyz[None]))


def test_masses_of_the_segments_add_up_to_the_body():
    for table in MASS_TABLES.values():
        assert sum(segment.share for segment in table.segments) == pytest.approx(1.0, abs=1e-12)


@given(st.sets(st.sampled_from([*ROLES, "crown", "left_fingertip", "right_fingertip"])))
def test_weights_add_up_to_one_whatever_is_missing(points):
    weights = mass_weights(frozenset(points))
    assert set(weights) <= points
    assert not weights or sum(weights.values()) == pytest.approx(1.0)


def test_a_standing_man_has_his_centre_at_the_height_that_tables_give():
    x, y, z = centre_of_mass(still())[0]
    assert x == pytest.approx(0.0, abs=1e-9) and abs(z) < 0.03
    assert 0.55 < y / 1.75 < 0.60  # arms raised to a T; 0.56 of stature with arms down ([Winter2009]_ §4.1)


def test_the_centre_moves_with_the_body(wild):
    shift = np.array([1.0, 2.0, 3.0])
    moved = replace(wild, root_positions=wild.root_positions + shift)
    np.testing.assert_allclose(centre_of_mass(moved), centre_of_mass(wild) + shift, atol=1e-12)


def test_raising_an_arm_moves_the_centre_by_its_share_of_the_mass():
    clip = still()
    wxyz = clip.rotations.wxyz.copy()
    shoulder, elbow = HUMAN.index("left_shoulder"), HUMAN.index("left_elbow")
    wxyz[0, shoulder] = SO3.exp([0, 0, np.pi / 2]).wxyz  # from the side to straight up
    raised = centre_of_mass(replace(clip, rotations=SO3(wxyz)))[0] - centre_of_mass(clip)[0]
    upper, fore = np.linalg.norm(HUMAN.offsets[[elbow, HUMAN.index("left_wrist")]], axis=1)
    hand = np.linalg.norm(HUMAN.tips[HUMAN.index("left_wrist")])
    moment = 0.0271 * 0.5772 * upper + 0.0162 * (upper + 0.4574 * fore) + 0.0061 * (upper + fore + 0.3624 * hand)
    assert raised[1] == pytest.approx(moment, abs=1e-9)


def test_a_sample_jump_falls_freely():
    clip = jump()
    flight = max((p for p in contact_phases(clip) if p.kind == "flight"), key=lambda p: p.stop - p.start)
    heights = centre_of_mass(clip)[flight.start + 1 : flight.stop - 1, 1]
    fit = np.polyfit(np.arange(len(heights)) / clip.rate_hz, heights, 2)
    assert 2.0 * fit[0] == pytest.approx(-9.81, abs=0.3)


def test_missing_arms_and_head_degrade_gracefully(wild):
    legs = RoleMap(
        {role: HUMAN.index(role) for role in ROLES if role.split("_")[-1] in ("hip", "knee", "ankle")}, "given"
    )
    centre = centre_of_mass(wild, legs)
    assert np.isfinite(centre).all()
    assert (centre[:, 1] < centre_of_mass(wild)[:, 1]).all()


def test_a_tree_without_roles_has_the_mean_of_its_joints():
    stick = Skeleton(("a", "b"), np.array([-1, 0]), np.array([[0.0, 0, 0], [0, 1.0, 0]]))
    np.testing.assert_allclose(centre_of_mass(still(stick), RoleMap({}, "given"))[0], [0.0, 0.5, 0.0])


@pytest.mark.mocap
@pytest.mark.parametrize("subject", ["118", "83"])
def test_captured_jumps_fall_at_gravity(mocap, subject):
    found: list[float] = []
    for path in sorted((mocap / "cmu-bvh").glob(f"{subject}_*.bvh"))[:10]:
        clip = load(path)
        for phase in contact_phases(detect_contacts(clip)):
            if phase.kind == "flight" and phase.stop - phase.start > 0.25 * clip.rate_hz:
                edge = (phase.stop - phase.start) // 8
                heights = centre_of_mass(clip)[phase.start + edge : phase.stop - edge, 1]
                found.append(2.0 * float(np.polyfit(np.arange(len(heights)) / clip.rate_hz, heights, 2)[0]))
    assert len(found) >= 5
    assert np.median(found) == pytest.approx(-9.81, abs=0.55)
