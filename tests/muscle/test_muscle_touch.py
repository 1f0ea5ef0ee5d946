"""Bodies against each other, themselves, bones and boxes: nothing passes through, momentum is kept."""

from __future__ import annotations

import numpy as np
import pytest

from marey.base import FormatError, InputError
from marey.muscle import SoftBody, TetMesh
from marey.muscle.body.bones import Bone, Bones
from marey.muscle.body.contact import ContactBox, ContactPlane
from marey.muscle.body.surface_contact import BodyContact
from marey.muscle.optimal_control.soft_system import SoftSystem
from marey.muscle.scene.run import build_scene
from marey.muscle.scene.tables import parse_scene

G = 9.82
CUBE = TetMesh.box((0.1, 0.1, 0.1), (2, 2, 2))
WEAK_MM = 1.0  # deepest that anything may lie in anything


def join(*meshes: TetMesh) -> TetMesh:
    firsts = np.cumsum([0, *(len(mesh.nodes) for mesh in meshes)])
    cells = [mesh.cells + first for mesh, first in zip(meshes, firsts[:-1], strict=True)]
    return TetMesh(np.concatenate([mesh.nodes for mesh in meshes]), np.concatenate(cells).astype(np.int32))


def deepest_mm(body: SoftBody, groups: np.ndarray) -> float:
    """How deep a node lies inside a cell of another group: least height over the faces of that group, outside code."""
    x, faces, deepest = body.positions, body.mesh.surface, 0.0
    for cell in body.cells:
        a, *others = x[cell]
        inside = np.linalg.inv(np.stack([b - a for b in others], axis=1))
        strangers = np.flatnonzero(groups != groups[cell[0]])
        weights = (x[strangers] - a) @ inside.T
        for node in strangers[(weights > 0.0).all(axis=1) & (weights.sum(axis=1) < 1.0)]:
            own = x[faces[groups[faces[:, 0]] == groups[cell[0]]]]
            normals = np.cross(own[:, 1] - own[:, 0], own[:, 2] - own[:, 0])
            normals /= np.linalg.norm(normals, axis=1, keepdims=True)
            deepest = max(deepest, float(np.abs(np.einsum("fi,fi->f", x[node] - own[:, 0], normals)).min()))
    return 1000.0 * deepest


def test_a_block_rests_on_another_one():
    mesh = join(CUBE, TetMesh.box((0.1, 0.1, 0.1), (2, 2, 2), origin=(0.03, 0.11, 0.02)))
    body = SoftBody.from_mesh(mesh, young_pa=5e4, ground=ContactPlane(), contact=BodyContact(), damping=(0.1, 0.002))
    deepest = 0.0
    for k in range(80):
        body.step(1 / 60)
        deepest = max(deepest, deepest_mm(body, body.parts)) if k % 20 == 0 else deepest
    assert deepest < WEAK_MM
    assert np.abs(body.velocities).max() < 0.01
    upper = body.positions[body.parts == body.parts[-1]]
    assert 0.19 < upper[:, 1].max() < 0.201 and upper[:, 1].min() > 0.09


def test_blocks_that_collide_keep_their_momentum_and_gain_no_energy():
    mesh = join(CUBE, TetMesh.box((0.08, 0.08, 0.08), (2, 2, 2), origin=(0.13, 0.02, 0.015)))
    body = SoftBody.from_mesh(mesh, young_pa=5e4, gravity=(0, 0, 0), contact=BodyContact(friction=0.5))
    body.velocities[body.parts == body.parts[-1]] = (-1.5, 0.2, 0.0)
    linear, angular = body.momentum()
    energy, deepest = body.energy(), 0.0
    for k in range(24):
        body.step(1 / 120)
        deepest = max(deepest, deepest_mm(body, body.parts)) if k % 4 == 0 else deepest
    after = body.momentum()
    np.testing.assert_allclose(after[0], linear, atol=1e-9 * np.abs(linear).max())
    np.testing.assert_allclose(after[1], angular, atol=1e-9 * np.abs(linear).max())
    assert body.energy() < energy
    assert deepest < WEAK_MM
    assert body.velocities[body.parts == body.parts[0]][:, 0].mean() < -0.3  # it was struck


def test_without_contact_blocks_pass_through_each_other():
    mesh = join(CUBE, TetMesh.box((0.08, 0.08, 0.08), (2, 2, 2), origin=(0.13, 0.02, 0.015)))
    body = SoftBody.from_mesh(mesh, young_pa=5e4, gravity=(0, 0, 0))
    body.velocities[body.parts == body.parts[-1]] = (-1.5, 0.0, 0.0)
    for _ in range(6):
        body.step(1 / 120)
    assert deepest_mm(body, body.parts) > WEAK_MM


def test_a_body_touches_itself():
    # A clamp: two jaws on one back, thrown at each other
    jaw = TetMesh.box((0.2, 0.06, 0.06), (5, 2, 2))
    back = TetMesh.box((0.06, 0.1, 0.06), (2, 2, 2), origin=(-0.06, 0.02, 0.0))
    mesh = join(jaw, TetMesh.box((0.2, 0.06, 0.06), (5, 2, 2), origin=(0.0, 0.08, 0.0)), back)
    groups = np.repeat([0, 1, 2], [len(jaw.nodes), len(jaw.nodes), len(back.nodes)])
    held = np.flatnonzero(mesh.nodes[:, 0] < 1e-9)
    for contact, passes in ((BodyContact(), False), (None, True)):
        body = SoftBody.from_mesh(mesh, young_pa=3e4, gravity=(0, 0, 0), pinned=held, contact=contact)
        body.parts[:] = 0  # one body: only the rest shape tells the jaws apart
        body.velocities[:, 1] = np.where(groups == 0, 4.0, np.where(groups == 1, -4.0, 0.0)) * mesh.nodes[:, 0]
        deepest = 0.0
        for k in range(16):
            body.step(1 / 120)
            deepest = max(deepest, deepest_mm(body, groups)) if k % 5 == 0 else deepest
        assert (deepest > WEAK_MM) == passes


def test_flesh_lies_on_a_bone_and_turns_it():
    # A bar of bone on a hinge at its left end; flesh falls on the right one
    bar = TetMesh.box((0.3, 0.04, 0.1), (4, 1, 2))
    mesh = join(bar, TetMesh.box((0.08, 0.08, 0.08), (2, 2, 2), origin=(0.21, 0.05, 0.01)))
    bone = Bone("bar", (0.0, 0.02, 0.05), None, "hinge", (0.0, 0.0, 1.0), (-1.0, 1.0), 0.2, end=(0.3, 0.02, 0.05),
                nodes=np.arange(len(bar.nodes)))  # fmt: skip
    weights = []
    for contact in (BodyContact(), None):
        body = SoftBody.from_mesh(mesh, young_pa=5e4, bones=Bones([bone], joint_damping=2.0), contact=contact)
        deepest = 0.0
        for k in range(20):
            body.step(1 / 60)
            deepest = max(deepest, deepest_mm(body, body.parts)) if k % 5 == 4 else deepest
        weights.append(body.positions[len(bar.nodes) - 1, 1])
        assert (deepest < WEAK_MM) == (contact is not None)
    assert weights[0] < weights[1] - 0.01  # the flesh weighs on the bar


@pytest.mark.parametrize("friction", [0.3, 0.8])
def test_a_block_slides_on_a_tilted_box_as_on_a_slope(friction: float):
    box = ContactBox((0.0, 0.0, 0.0), (0.6, 0.2, 1.0), tilt_deg=25.0, turn_deg=40.0)
    body = SoftBody.from_mesh(
        CUBE, young_pa=2e5, ground=ContactPlane((0.0, -2.0, 0.0), friction=friction, boxes=(box,))
    )
    normal, top = box.axes[1], 0.1 * box.axes[1]
    body.positions = (CUBE.nodes - [0.05, 0.0, 0.05]) @ box.axes + top
    begin, lowest = body.positions.mean(axis=0), 0.0
    for _ in range(30):
        body.step(1 / 60)
        lowest = min(lowest, float(((body.positions - top) @ normal).min()))
    slid, angle = body.positions.mean(axis=0) - begin, np.deg2rad(25.0)
    wanted = 0.125 * max(0.0, G * (np.sin(angle) - friction * np.cos(angle)))
    assert np.linalg.norm(slid) == pytest.approx(wanted, abs=0.004)
    assert -1000.0 * lowest < WEAK_MM


def test_a_block_that_falls_on_the_edge_of_a_step_enters_neither_step_nor_floor():
    step = ContactBox((0.0, 0.05, 0.0), (0.4, 0.1, 0.4))
    body = SoftBody.from_mesh(CUBE, young_pa=1e5, damping=(0.1, 0.002), ground=ContactPlane(boxes=(step,)))
    body.positions = CUBE.nodes + np.array([0.17, 0.13, -0.05])  # three quarters over the edge
    deepest = 0.0
    for _ in range(60):
        body.step(1 / 60)
        inside = np.min(0.5 * np.array(step.size) - np.abs(body.positions - step.centre), axis=1)
        deepest = max(deepest, float(inside.max()), float(-body.positions[:, 1].min()))
    assert 1000.0 * deepest < WEAK_MM
    assert body.positions[:, 0].mean() > 0.2 and body.positions[:, 1].min() < 0.02  # it fell off


SCENE = """
[mesh]
spacing_m = 0.04
[[solid]]
kind = "box"
centre = [0.0, 0.3, 0.0]
size = [0.1, 0.1, 0.1]
[seed]
count = 1
[ground]
[contact]
friction = 0.2
[[box]]
centre = [0.0, 0.1, 0.0]
size = [0.4, 0.1, 0.4]
tilt_deg = 20.0
"""


def test_a_scene_file_has_boxes_and_contact():
    body = build_scene(parse_scene(SCENE)).body
    assert body.ground is not None and body.ground.boxes.shape == (1, 5, 3)
    assert body.surface_contact is not None and body.surface_contact.rule.friction == 0.2
    with pytest.raises(InputError, match="touches itself"):
        SoftSystem(body, dt=1 / 60)
    with pytest.raises(FormatError, match="boxes without a ground"):
        parse_scene(SCENE.replace("[ground]\n", ""))


def test_bad_contacts_are_named():
    with pytest.raises(InputError, match="friction"):
        BodyContact(friction=-1.0)
    with pytest.raises(InputError, match="stiffness"):
        BodyContact(stiffness=0.0)
    with pytest.raises(InputError, match="box"):
        ContactBox((0, 0, 0), (0, 1, 1))
    with pytest.raises(InputError, match="explicit"):
        SoftBody.from_mesh(CUBE, contact=BodyContact(), integrator="explicit")
