"""Rigid bones inside soft bodies: pendulums, momentum, limits, both ways."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from marey.base import InputError, UnknownNameError
from marey.muscle import SoftBody, TetMesh
from marey.muscle.body.bones import Bone, Bones
from marey.skeleton import Skeleton

G = 9.82


def rod(count: int = 12) -> TetMesh:
    return TetMesh.box((0.3, 0.02, 0.02), (count, 2, 2), origin=(0, -0.01, -0.01))


def test_a_wholly_rigid_body_swings_as_a_compound_pendulum():
    mesh = rod()
    body = SoftBody.from_mesh(mesh, bones=Bones([Bone("arm", (0, 0, 0), nodes=np.arange(len(mesh.nodes)))]))
    inertia = body.masses @ (mesh.nodes[:, :2] ** 2).sum(axis=1)
    torque = G * body.masses @ mesh.nodes[:, 0]
    exact = solve_ivp(lambda _, y: [y[1], -torque * np.cos(y[0]) / inertia], [0, 0.3], [0, 0], rtol=1e-10).y[0, -1]
    errors = []
    for steps in (100, 200):
        body.reset()
        for _ in range(steps):
            body.step(0.3 / steps)
        errors.append(abs(body.bones.angles["arm"] - exact))
    assert errors[0] < 0.03 * abs(exact)
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.1)  # first order
    lengths = np.linalg.norm(body.positions - body.positions[0], axis=1)
    assert np.allclose(lengths, np.linalg.norm(mesh.nodes - mesh.nodes[0], axis=1), atol=1e-12)


def test_a_bone_with_mass_and_no_nodes_swings_as_a_thick_rod():
    mesh = TetMesh.box((0.02, 0.02, 0.02), (1, 1, 1), origin=(-0.01, -0.01, -0.01))
    bone = Bone("arm", (0, 0, 0), end=(0.3, 0, 0), mass_kg=2.0, nodes=np.arange(8))
    body = SoftBody.from_mesh(mesh, bones=Bones([bone]), density_kg_m3=1e-6)
    inertia = 2.0 * (0.3**2 / 3 + 0.5 * 0.03**2)
    torque = 2.0 * G * 0.15
    exact = solve_ivp(lambda _, y: [y[1], -torque * np.cos(y[0]) / inertia], [0, 0.2], [0, 0], rtol=1e-10).y[0, -1]
    for _ in range(500):
        body.step(4e-4)
    assert body.bones.angles["arm"] == pytest.approx(exact, rel=5e-3)
    assert np.allclose(body.bones.ends[0], [0.3 * np.cos(exact), 0.3 * np.sin(exact), 0], atol=2e-3)


def double(**options: object) -> SoftBody:
    """Two rigid halves with heavy bones and a hinge between them."""
    mesh = TetMesh.box((0.4, 0.02, 0.02), (16, 2, 2), origin=(0, -0.01, -0.01))
    x = mesh.nodes[:, 0]
    bones = [
        Bone("upper", (0, 0, 0), nodes=np.flatnonzero(x < 0.16), end=(0.2, 0, 0), mass_kg=1.0),
        Bone(
            "lower",
            (0.2, 0, 0),
            parent="upper",
            nodes=np.flatnonzero(x > 0.24),
            end=(0.4, 0, 0),
            mass_kg=0.5,
            **options,
        ),
    ]
    return SoftBody.from_mesh(mesh, bones=Bones(bones), young_pa=5e3)


def test_a_double_pendulum_moves_as_lagrange_says():
    mesh = TetMesh.box((0.02, 0.02, 0.02), (1, 1, 1))
    bones = [
        Bone("upper", (0, 0, 0), end=(0.2, 0, 0), mass_kg=1.0, nodes=[0]),
        Bone("lower", (0.2, 0, 0), parent="upper", end=(0.4, 0, 0), mass_kg=0.5),
    ]
    body = SoftBody.from_mesh(mesh, bones=Bones(bones), density_kg_m3=1e-6, pinned=np.arange(1, 8), young_pa=1e-3)
    for _ in range(500):
        body.step(4e-4)
    a, b, l = 1.0, 0.5, 0.2  # noqa: E741
    ia, ib = (m * (l**2 / 12 + 0.5 * (0.1 * l) ** 2) for m in (a, b))

    def law(_: float, y: np.ndarray) -> np.ndarray:
        p, q, dp, dq = y  # both from the horizontal
        m11, m22, m12 = ia + a * l**2 / 4 + b * l**2, ib + b * l**2 / 4, b * l**2 / 2 * np.cos(p - q)
        s = b * l**2 / 2 * np.sin(p - q)
        right = [-s * dq**2 - G * l * np.cos(p) * (a / 2 + b), s * dp**2 - G * b * l / 2 * np.cos(q)]
        return np.concatenate([y[2:], np.linalg.solve([[m11, m12], [m12, m22]], right)])

    p, q = solve_ivp(law, [0, 0.2], np.zeros(4), rtol=1e-10, atol=1e-12).y[:2, -1]
    angles = body.bones.angles
    assert angles["upper"] == pytest.approx(p, rel=0.02)
    assert angles["upper"] + angles["lower"] == pytest.approx(q, rel=0.02)


def test_the_soft_part_pushes_its_bone_as_much_as_the_bone_pushes_it():
    mesh = rod()
    bone = Bone("end", (0.15, 0, 0), kind="free", nodes=np.flatnonzero(mesh.nodes[:, 0] > 0.2), mass_kg=0.2)
    body = SoftBody.from_mesh(mesh, bones=Bones([bone]), gravity=(0, 0, 0), tolerance=1e-9)
    free = body.carriers == -1
    body.velocities[free] = np.random.default_rng(0).standard_normal((int(free.sum()), 3))
    start = body.masses[free] @ body.velocities[free]
    for _ in range(60):
        body.step()
    twist = body.bones._momenta[0, 3:]  # what bone and carried nodes hold
    assert np.allclose(body.masses[free] @ body.velocities[free] + twist, start, atol=1e-6 * np.abs(start).max())
    assert np.linalg.norm(twist) > 0.1 * np.linalg.norm(start)


def test_limits_stop_a_hinge():
    body = double(limits=(-0.3, 0.2))
    angles = []
    for _ in range(240):
        body.step(1 / 120)
        angles.append(body.bones.angles["lower"])
    assert min(angles) > -0.45
    assert max(angles) < 0.35
    assert min(angles) < -0.1


def test_a_ball_joint_swings_in_every_plane_and_stops_at_its_cone():
    mesh = rod()
    nodes = np.arange(len(mesh.nodes))
    for gravity, axis in (((0, -G, 0), 1), ((0, 0, G), 2)):
        body = SoftBody.from_mesh(
            mesh, bones=Bones([Bone("arm", (0, 0, 0), kind="ball", nodes=nodes)]), gravity=gravity
        )
        for _ in range(20):
            body.step(0.005)
        assert np.sign(gravity[axis]) * body.positions[:, axis].mean() > 0.01
    cone = Bone("arm", (0, 0, 0), kind="ball", nodes=nodes, limits=(0.0, 0.4))
    bones = Bones([cone], joint_damping=0.02)
    body = SoftBody.from_mesh(mesh, bones=bones, gravity=(0, -G, 0))
    for _ in range(300):
        body.step()
    assert 0.3 < np.arccos(np.clip(body.bones.rotations[0, 0, 0], -1, 1)) < 0.45


def test_a_fixed_bone_holds_its_nodes_and_reset_brings_bones_back():
    body = double()
    for _ in range(40):
        body.step()
    assert abs(body.bones.angles["upper"]) > 0.3
    body.reset()
    assert body.bones.angles == {"upper": 0.0, "lower": 0.0}
    assert np.array_equal(body.positions, body.mesh.nodes)
    mesh = rod()
    held = np.flatnonzero(mesh.nodes[:, 0] < 0.05)
    body = SoftBody.from_mesh(mesh, bones=Bones([Bone("root", (0, 0, 0), kind="fixed", nodes=held)]))
    for _ in range(10):
        body.step()
    assert np.array_equal(body.positions[held], mesh.nodes[held])


def test_bones_come_from_a_skeleton():
    skeleton = Skeleton(
        ("shoulder", "elbow", "wrist"), np.array([-1, 0, 1]), np.array([[0, 0, 0], [0.15, 0, 0], [0.15, 0, 0]])
    )
    mesh = rod()
    x = mesh.nodes[:, 0]
    nodes = {"shoulder": np.flatnonzero(x < 0.12), "elbow": np.flatnonzero(x > 0.18)}
    bones = Bones.from_skeleton(skeleton, joints={"elbow": ("hinge", (0, 0, 1), (-2.0, 0.0))}, nodes=nodes)
    body = SoftBody.from_mesh(mesh, bones=bones)
    for _ in range(12):
        body.step()
    assert body.bones.names == skeleton.names
    assert np.array_equal(body.positions[nodes["shoulder"]], mesh.nodes[nodes["shoulder"]])
    assert body.bones.angles["elbow"] < -0.1
    assert body.bones.ends[1][1] == pytest.approx(0.15 * np.sin(body.bones.angles["elbow"]), abs=1e-9)
    with pytest.raises(UnknownNameError, match="elbow"):
        Bones.from_skeleton(skeleton, joints={"elbo": "ball"}, nodes={})


def test_bad_bones_are_told():
    mesh = rod()
    with pytest.raises(UnknownNameError, match="hinge"):
        Bone("a", (0, 0, 0), kind="hing")
    with pytest.raises(InputError, match="zero axis"):
        Bone("a", (0, 0, 0), axis=(0, 0, 0))
    with pytest.raises(InputError, match="lower comes first"):
        Bone("a", (0, 0, 0), limits=(1.0, 0.0))
    with pytest.raises(UnknownNameError, match="parent"):
        Bones([Bone("a", (0, 0, 0), parent="b")])
    with pytest.raises(InputError, match="two bones are called"):
        Bones([Bone("a", (0, 0, 0)), Bone("a", (0, 0, 0))])
    with pytest.raises(InputError, match="node 3 is carried by two bones"):
        SoftBody.from_mesh(mesh, bones=Bones([Bone("a", (0, 0, 0), nodes=[3]), Bone("b", (0, 0, 0), nodes=[3])]))
    with pytest.raises(InputError, match="nodes of bone 'a'"):
        SoftBody.from_mesh(mesh, bones=Bones([Bone("a", (0, 0, 0), nodes=[9999])]))
