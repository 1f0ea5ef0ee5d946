"""Whole bodies against closed forms: beams, bars, falls, momentum, volume."""

from __future__ import annotations

from time import thread_time

import numpy as np
import pytest

from marey.base import ConvergenceError, InputError, UnknownNameError
from marey.muscle import ActivationSpline, BodySettings, Muscles, SoftBody, TetMesh
from marey.muscle.elastic.models import Lattice

YOUNG, G = 4e4, 9.82
STILL = (0.0, 0.0, 0.0)


def end_load(mesh: TetMesh, x: float, force: np.ndarray) -> np.ndarray:
    """A traction on the face at x, as forces of nodes."""
    shares = np.zeros(len(mesh.nodes))
    for face in mesh.surface[(np.abs(mesh.nodes[mesh.surface, 0] - x) < 1e-9).all(axis=1)]:
        a, b, c = mesh.nodes[face]
        shares[face] += np.linalg.norm(np.cross(b - a, c - a)) / 6
    return shares[:, None] / shares.sum() * force


def tip_deflection(material: str, poisson: float, cells: int) -> float:
    """Deflection of a cantilever over that of Timoshenko's beam."""
    length, deep, wide = 0.4, 0.1, 0.1 / 3
    shear, bending = YOUNG / (2 * (1 + poisson)), wide * deep**3 / 12
    kappa = 10 * (1 + poisson) / (12 + 11 * poisson)
    by_force = length**3 / (3 * YOUNG * bending) + length / (kappa * shear * deep * wide)
    mesh = TetMesh.box((length, deep, wide), (4 * cells, cells, cells // 3))
    root = np.flatnonzero(mesh.nodes[:, 0] == 0)
    options = {"material": material, "poisson": poisson, "young_pa": YOUNG, "gravity": STILL, "tolerance": 1e-6}
    body = SoftBody.from_mesh(mesh, pinned=root, **options)
    load = end_load(mesh, length, np.array([0.0, -0.01 * length / by_force, 0.0]))
    for _ in range(2):
        body.step(100.0, load)  # a long implicit step is a static solve
    tip = np.abs(mesh.nodes[:, 0] - length) < 1e-9
    return float(np.mean((mesh.nodes - body.positions)[tip, 1])) / (0.01 * length)


def test_engell_39_cantilever_bends_as_timoshenko_says_and_better_on_finer_meshes():
    errors = [abs(tip_deflection("corotational", 0.3, n) - 1) for n in (3, 6, 12)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.05


def test_engell_39_the_volume_preserving_default_bends_where_plain_cells_lock():
    default = [tip_deflection("neo-hookean", 0.49, n) for n in (3, 6, 12)]
    assert default[0] < default[1] < default[2] < 1.0
    assert default[2] > 0.92  # the clamped end holds back the sides, which the beam formula does not know
    assert tip_deflection("corotational", 0.49, 6) < 0.6 * default[1]


@pytest.mark.parametrize(("material", "poisson"), [("corotational", 0.3), ("neo-hookean", 0.3), ("neo-hookean", 0.49)])
def test_engell_40_bar_under_end_traction_stretches_by_hooke(material, poisson):
    length, side, force = 0.4, 0.1, 0.4
    mesh = TetMesh.box((length, side, side), (8, 3, 3))
    body = SoftBody.from_mesh(mesh, material=material, poisson=poisson, young_pa=YOUNG, gravity=STILL)
    pull = np.array([force, 0.0, 0.0])
    load = end_load(mesh, length, pull) - end_load(mesh, 0.0, pull)
    moved = np.linalg.lstsq(body.tangent().toarray(), load.ravel(), rcond=1e-10)[0].reshape(-1, 3)  # free to turn
    ends = [moved[np.abs(mesh.nodes[:, 0] - x) < 1e-9, 0].mean() for x in (0.0, length)]
    assert ends[1] - ends[0] == pytest.approx(force * length / (YOUNG * side**2), rel=0.01)


@pytest.mark.parametrize("material", ["corotational", "neo-hookean"])
def test_engell_40_a_pinned_bar_without_poisson_effect_stretches_by_hooke_in_steps(material):
    length, side, force = 0.4, 0.1, 0.4
    mesh = TetMesh.box((length, side, side), (8, 3, 3))
    pins = np.flatnonzero(mesh.nodes[:, 0] == 0)
    body = SoftBody.from_mesh(mesh, material=material, poisson=0.0, young_pa=YOUNG, pinned=pins, gravity=STILL)
    for _ in range(3):
        body.step(100.0, end_load(mesh, length, np.array([force, 0.0, 0.0])))
    end = np.abs(mesh.nodes[:, 0] - length) < 1e-9
    assert np.mean((body.positions - mesh.nodes)[end, 0]) == pytest.approx(force * length / (YOUNG * side**2), rel=0.01)


def test_engell_41_free_fall_is_that_of_a_stone_to_the_order_of_the_integrator():
    mesh = TetMesh.box((0.1, 0.1, 0.1), (2, 2, 2))
    errors = []
    for steps in (30, 60):
        body = SoftBody.from_mesh(mesh)
        start = body.masses @ body.positions / body.masses.sum()
        for _ in range(steps):
            body.step(0.5 / steps)
        fall = (body.masses @ body.positions / body.masses.sum() - start)[1]
        exact_of_euler = -0.5 * G * 0.5**2 * (1 + 1 / steps)
        assert fall == pytest.approx(exact_of_euler, rel=1e-9)
        errors.append(abs(fall + 0.5 * G * 0.5**2))
    assert errors[1] == pytest.approx(errors[0] / 2, rel=1e-6)


@pytest.mark.parametrize("material", ["corotational", "neo-hookean", "mass-spring"])
def test_engell_41_energy_of_an_unloaded_undamped_body_does_not_grow(material):
    solid = Lattice.from_mask(np.ones((4, 2, 2), bool), 0.05) if material == "mass-spring" else None
    body = SoftBody.from_mesh(solid or TetMesh.box((0.2, 0.1, 0.1), (4, 2, 2)), material=material, gravity=STILL)
    start, nodes = body.velocities, body.positions - body.masses @ body.positions / body.masses.sum()
    start[:] = 0.3 * np.random.default_rng(5).standard_normal(start.shape)
    start -= body.masses @ start / body.masses.sum()
    inertia = np.einsum("n,nij->ij", body.masses, np.eye(3) * np.sum(nodes**2, 1)[:, None, None] - nodes[:, :, None] * nodes[:, None])  # fmt: skip  # noqa: E501
    start -= np.cross(np.linalg.solve(inertia, np.cross(nodes, body.masses[:, None] * start).sum(axis=0)), nodes)
    last = body.energy()
    for _ in range(80):
        body.step()
        assert body.energy() <= last * (1 + 1e-9) + 1e-12
        last = body.energy()


@pytest.mark.parametrize("material", ["corotational", "neo-hookean"])
@pytest.mark.parametrize("spin", [4.0, 20.0])
def test_a_spinning_body_neither_gains_energy_for_long_nor_loses_its_momentum(material, spin):
    body = SoftBody.from_mesh(TetMesh.box((0.2, 0.1, 0.1), (4, 2, 2)), material=material, gravity=STILL)
    body.velocities[:] = np.cross([0.0, 0.0, spin], body.positions - (0.1, 0.05, 0.05))
    energy, angular = body.energy(), body.momentum()[1]
    for _ in range(100):
        body.step()
    assert body.energy() < 1.25 * energy
    assert np.allclose(body.momentum()[1], angular, rtol=1e-9, atol=1e-12)


def contracted(poisson: float | None) -> tuple[SoftBody, float]:
    mesh = TetMesh.cylinder(0.04, 0.16, rings=3, layers=10)
    axis = np.array([[0.0, 0.005, 0.0], [0.0, 0.08, 0.0], [0.0, 0.155, 0.0]])
    body = SoftBody.from_mesh(mesh, poisson=poisson, gravity=STILL, muscles=Muscles(mesh, [ActivationSpline(axis)]))
    for frame in range(40):
        body.step(activations=[min(1.0, frame / 10)])
    return body, TetMesh(body.positions, mesh.cells).volume / mesh.volume - 1


def test_engell_42_a_strongly_contracted_cylinder_keeps_its_volume():
    body, change = contracted(None)
    assert np.ptp(body.positions[:, 1]) < 0.85 * 0.16
    assert abs(change) < 0.01
    assert 0.01 < abs(contracted(0.45)[1]) < 0.05


@pytest.mark.parametrize(("rings", "layers"), [(2, 6), pytest.param(4, 14, marks=pytest.mark.slow)])
def test_engell_43_a_thousand_frames_of_contraction_invert_no_cell(rings, layers):
    mesh = TetMesh.cylinder(0.04, 0.16, rings=rings, layers=layers)
    axis = np.array([[0.0, 0.01, 0.0], [0.0, 0.08, 0.0], [0.0, 0.15, 0.0]])
    top = np.flatnonzero(mesh.nodes[:, 1] > 0.159)
    body = SoftBody.from_mesh(mesh, pinned=top, muscles=Muscles(mesh, [ActivationSpline(axis)]))
    for frame in range(1000):
        report = body.step(activations=[1.0 if frame % 100 < 50 else 0.0])
        assert report.inverted == 0
        assert report.substeps == 1
    assert np.abs(body.velocities).max() < 5.0


@pytest.mark.timing
@pytest.mark.parametrize(("layers", "cells", "limit_s"), [(14, 4011, 0.033), (24, 6902, 0.060)])
def test_engell_43_a_frame_of_the_thesis_arms_fits_their_time_on_one_core(layers, cells, limit_s):
    mesh = TetMesh.cylinder(0.04, 0.0115 * layers, rings=4, layers=layers)
    assert len(mesh.cells) >= cells
    axis = np.array([[0.0, 0.01, 0.0], [0.0, 0.08, 0.0], [0.0, 0.15, 0.0]])
    top = np.flatnonzero(mesh.nodes[:, 1] > 0.0115 * layers - 1e-9)
    body = SoftBody.from_mesh(mesh, pinned=top, muscles=Muscles(mesh, [ActivationSpline(axis)]))
    seconds: list[float] = []
    for frame in range(60):
        start = thread_time()
        body.step(activations=[0.5 - 0.5 * np.cos(0.1 * frame)])
        seconds.append(thread_time() - start)
    assert np.median(seconds[10:]) <= limit_s


def test_engell_58_bones_of_stiffer_cells_hardly_strain_where_the_flesh_does():
    mesh = TetMesh.cylinder(0.03, 0.2, rings=3, layers=14)
    middle = mesh.nodes[mesh.cells].mean(axis=1)
    bone = np.hypot(middle[:, 0], middle[:, 2]) < 0.01
    scale = np.where(bone, 250.0, 1.0)
    side = np.array([[0.02, 0.01, 0.0], [0.02, 0.1, 0.0], [0.02, 0.19, 0.0]])
    muscle = ActivationSpline(side, max_radius=0.015)
    body = SoftBody.from_mesh(mesh, stiffness_scale=scale, gravity=STILL, muscles=Muscles(mesh, [muscle]))
    for _ in range(30):
        body.step(activations=[1.0])
    corners = body.positions[mesh.cells]
    rest = mesh.nodes[mesh.cells]
    turn = np.linalg.inv((rest[:, 1:] - rest[:, :1]).transpose(0, 2, 1))
    gradients = (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1) @ turn
    strain = np.abs(np.linalg.svd(gradients, compute_uv=False) - 1).max(axis=1)
    assert strain[bone].max() < 0.02
    assert strain[~bone].max() > 0.1


def test_momentum_of_a_wild_floating_body_is_kept_to_rounding():
    mesh = TetMesh.box((0.2, 0.1, 0.1), (4, 2, 2))
    body = SoftBody.from_mesh(mesh, gravity=STILL)
    body.velocities[:] = np.random.default_rng(6).standard_normal(body.velocities.shape)
    linear, angular = body.momentum()
    scale = float(body.masses @ np.linalg.norm(body.velocities, axis=1))
    for _ in range(1000):
        body.step()
    after = body.momentum()
    assert np.abs(after[0] - linear).max() < 1e-12 * scale
    assert np.abs(after[1] - angular).max() < 1e-12 * scale


def test_each_loose_part_keeps_its_own_momentum():
    one = TetMesh.box((0.1, 0.1, 0.1), (2, 2, 2))
    nodes = np.concatenate([one.nodes, one.nodes + np.array((0.5, 0, 0))])
    body = SoftBody.from_mesh((nodes, np.concatenate([one.cells, one.cells + len(one.nodes)])), gravity=STILL)
    push = np.zeros_like(nodes)
    push[: len(one.nodes)] = (0.0, 0.4, 0.0)
    for _ in range(20):
        body.step(1 / 60, push)
    impulse = body.masses[:, None] * body.velocities
    assert impulse[: len(one.nodes), 1].sum() == pytest.approx(0.4 * len(one.nodes) * 20 / 60, rel=1e-12)
    assert np.abs(impulse[len(one.nodes) :].sum(axis=0)).max() < 1e-15
    assert np.abs(impulse[len(one.nodes) :]).max() < 1e-6


def test_drag_of_masses_slows_a_body_as_implicit_euler_says():
    body = SoftBody.from_mesh(TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1)), gravity=STILL, damping=(2.0, 0.0))
    body.velocities[:] = (1.0, 0.0, 0.0)
    for _ in range(30):
        body.step(0.02)
    assert np.allclose(body.momentum()[0] / body.masses.sum(), [1.04**-30, 0, 0], atol=1e-12)


def test_pinned_nodes_stay_and_reset_brings_all_back():
    mesh = TetMesh.box((0.2, 0.1, 0.1), (4, 2, 2))
    pins = np.flatnonzero(mesh.nodes[:, 0] == 0)
    body = SoftBody.from_mesh(mesh, pinned=pins)
    for _ in range(10):
        body.step()
    assert np.array_equal(body.positions[pins], mesh.nodes[pins])
    assert not np.allclose(body.positions, mesh.nodes)
    body.reset()
    assert np.array_equal(body.positions, mesh.nodes)
    assert not body.velocities.any()


def test_two_runs_are_the_same_to_the_last_bit():
    def run() -> np.ndarray:
        mesh = TetMesh.cylinder(0.04, 0.1, rings=2, layers=4)
        body = SoftBody.from_mesh(mesh, pinned=np.flatnonzero(mesh.nodes[:, 1] == 0))
        for _ in range(15):
            body.step()
        return body.positions

    assert np.array_equal(run(), run())


def test_a_crushing_blow_is_taken_in_smaller_steps():
    mesh = TetMesh.box((0.1, 0.1, 0.1), (3, 3, 3))
    top = mesh.nodes[:, 1] > 0.099
    body = SoftBody.from_mesh(mesh, pinned=np.flatnonzero(mesh.nodes[:, 1] == 0), gravity=STILL)
    blow = np.zeros_like(mesh.nodes)
    blow[top] = (0.0, -60.0, 0.0)
    assert body.step(1 / 60, blow).substeps > 1
    for _ in range(100):
        body.step()
    assert np.isfinite(body.positions).all()
    assert body.report.inverted == 0


def test_forces_beyond_numbers_are_an_error_and_leave_the_body_as_it_was():
    mesh = TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1))
    body = SoftBody.from_mesh(mesh, density_kg_m3=1e-300)
    with np.errstate(all="ignore"), pytest.raises(ConvergenceError, match="exploded"):
        body.step(1 / 60, np.full((8, 3), 1.7e308))
    assert np.array_equal(body.positions, mesh.nodes)
    assert not body.velocities.any()


def test_bad_settings_are_told():
    mesh = TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1))
    with pytest.raises(UnknownNameError, match="neo-hookean"):
        SoftBody.from_mesh(mesh, material="neo-hooke")
    with pytest.raises(UnknownNameError, match="implicit"):
        SoftBody.from_mesh(mesh, integrator="implicitly")
    with pytest.raises(InputError, match="Linear cells lock"):
        SoftBody.from_mesh(mesh, poisson=0.4999)
    with pytest.raises(InputError, match="pinned"):
        SoftBody.from_mesh(mesh, pinned=[8])
    with pytest.raises(InputError, match="stiffness_scale"):
        SoftBody.from_mesh(mesh, stiffness_scale=[1, 1, 0, 1, 1, 1])
    for option in ("density_kg_m3", "young_pa"):
        for value in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(InputError, match=option):
                SoftBody.from_mesh(mesh, **{option: value})
    body = SoftBody.from_mesh(mesh)
    for step in (0.0, -1.0, np.nan):
        with pytest.raises(InputError, match="dt"):
            body.step(step)
    with pytest.raises(InputError, match="external"):
        body.step(0.01, np.full((8, 3), np.nan))
    with pytest.raises(InputError, match="no muscles"):
        body.step(0.01, activations=[0.5])


def test_settings_of_a_step_are_those_given_and_are_checked():
    settings = BodySettings(tolerance=1e-5, max_halvings=0)
    mesh = TetMesh.cylinder(0.03, 0.2, rings=2, layers=4)
    assert SoftBody.from_mesh(mesh, settings=settings).settings is settings
    for bad in ({"rough_factor": 0.5}, {"max_contact_passes": 0}, {"max_energy_gain": 0.0}):
        with pytest.raises(InputError):
            BodySettings(**bad)
