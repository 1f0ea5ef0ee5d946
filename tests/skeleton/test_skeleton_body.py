"""The solid body and its triangles."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import InputError
from marey.skeleton import HUMAN, Capsules, Pose, Skeleton, capsule_mesh, capsules, human, t_pose


def surface(skeleton: Skeleton) -> np.ndarray:
    """World vertices of the body in its calibration pose."""
    mesh, pose = capsule_mesh(capsules(skeleton)), t_pose(skeleton)
    return pose.joint_positions()[mesh.joints] + pose.joint_rotations()[mesh.joints] @ mesh.vertices


def one(start, end, r, s) -> Capsules:
    return Capsules(np.array([0]), np.array([start]), np.array([end]), np.array([r]), np.array([s]))


def test_the_human_body_is_as_tall_as_its_stature_and_stands_on_the_ground():
    points = surface(HUMAN)
    assert points[:, 1].min() == pytest.approx(0.0, abs=0.01)
    assert points[:, 1].max() == pytest.approx(1.75, abs=0.02)


def test_the_human_body_has_a_humans_breadth_and_depth():
    points = surface(HUMAN)
    trunk = points[(np.abs(points[:, 1] - 1.25) < 0.1) & (np.abs(points[:, 0]) < 0.3)]
    assert 0.25 < np.ptp(trunk[:, 0]) < 0.45  # chest breadth [Winter2009] 0.174 of stature
    assert 0.15 < np.ptp(trunk[:, 2]) < 0.30


def test_the_body_is_mirror_symmetric():
    body, pose = capsules(HUMAN), Pose.rest(HUMAN)
    middles = pose.joint_positions()[body.joints] + 0.5 * (body.starts + body.ends)
    for middle in middles:
        assert np.linalg.norm(middles - middle * [-1.0, 1.0, 1.0], axis=1).min() < 1e-3


def test_every_limb_has_a_segment_and_none_sticks_out():
    body = capsules(HUMAN)
    carried = {HUMAN.names[j] for j in body.joints}
    for part in ("hip", "knee", "ankle", "foot", "shoulder", "elbow", "wrist"):
        assert {f"left_{part}", f"right_{part}"} <= carried
    assert {"pelvis", "spine3", "head", "neck"} <= carried
    assert np.minimum(body.start_radii, body.end_radii).min() > 0.01


def test_the_body_scales_with_the_person():
    small, large = capsules(human(1.0)), capsules(human(2.0))
    np.testing.assert_allclose(large.starts, 2.0 * small.starts, atol=1e-9)
    np.testing.assert_allclose(large.start_radii, 2.0 * small.start_radii, atol=1e-9)


def test_bones_that_play_no_part_are_not_drawn():
    names, parents = (*HUMAN.names, "sword"), [*HUMAN.parents, 0]
    armed = Skeleton(names, np.array(parents), np.vstack([HUMAN.offsets, [[0.0, 0.0, -0.5]]]))
    assert len(capsules(armed)) == len(capsules(Skeleton(HUMAN.names, HUMAN.parents, HUMAN.offsets)))


def test_what_is_no_person_gets_one_capsule_a_bone(skeleton_maker):
    chain = skeleton_maker(
        [("a", None, (0, 0, 0)), ("b", "a", (0, 0.4, 0)), ("c", "b", (0.3, 0, 0))], {"c": (0.2, 0.0, 0.0)}
    )
    body = capsules(chain)
    np.testing.assert_array_equal(body.joints, [0, 1, 2])
    np.testing.assert_allclose(body.ends, [(0, 0.4, 0), (0.3, 0, 0), (0.2, 0, 0)])


def test_a_lone_joint_has_an_empty_body(skeleton_maker):
    body = capsules(skeleton_maker([("x", None, (0, 0, 0))]))
    assert len(body) == 0
    assert capsule_mesh(body).faces.shape == (0, 3)


@pytest.mark.parametrize("radii", [(0.2, 0.2), (0.2, 0.1), (0.05, 0.15)])
def test_mesh_vertices_lie_on_the_capsule(radii):
    r, s = radii
    mesh = capsule_mesh(one((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), r, s), segments=16)
    to_first, to_second = np.linalg.norm(mesh.vertices, axis=1), np.linalg.norm(mesh.vertices - [0.0, 1.0, 0.0], axis=1)
    assert np.minimum(np.abs(to_first - r), np.abs(to_second - s)).max() < 1e-12


def test_the_mesh_is_closed_and_faces_outwards():
    mesh = capsule_mesh(one((0.1, 0.2, 0.3), (0.4, 1.0, -0.2), 0.2, 0.1))
    edges = np.sort(np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]]), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    assert np.einsum("ij,ij->", a, np.cross(b, c)) > 0.0  # six times the enclosed volume


def test_a_fine_mesh_has_the_volume_of_a_capsule():
    mesh = capsule_mesh(one((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), 0.2, 0.2), segments=96)
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0
    assert volume == pytest.approx(np.pi * 0.04 * 1.0 + 4.0 / 3.0 * np.pi * 0.008, rel=3e-3)


def test_a_capsule_without_length_is_a_ball():
    mesh = capsule_mesh(one((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), 0.1, 0.1))
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices - [1.0, 2.0, 3.0], axis=1), 0.1, atol=1e-12)


def test_mesh_vertices_know_their_joint_and_capsule():
    body = capsules(HUMAN)
    mesh = capsule_mesh(body, segments=6)
    np.testing.assert_array_equal(body.joints[mesh.segments], mesh.joints)
    assert mesh.faces.max() == len(mesh.vertices) - 1


def test_rings_of_two_are_refused():
    with pytest.raises(InputError, match="3 to 256"):
        capsule_mesh(capsules(HUMAN), segments=2)
