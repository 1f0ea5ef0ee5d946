"""Activation splines: curves, samples, forces, how they settle, and their law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.spline_tuning import compute_critical_gains, solve_settling_time

from marey.base import InputError, MareyWarning, UnknownNameError
from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh

MESH = TetMesh.box((0.4, 0.12, 0.12), (8, 3, 3))
PAIR = [
    ActivationSpline([(0.02, 0.05, 0.05), (0.2, 0.09, 0.06), (0.38, 0.05, 0.05)], name="a"),
    ActivationSpline([(0.05, 0.03, 0.08), (0.35, 0.03, 0.03)], name="b", samples=4),
]
HILL = [ActivationSpline(s.points, name=s.name, law="hill") for s in PAIR]
BODIES = {
    (law, transfer): Muscles(MESH, splines, transfer=transfer)
    for law, splines in (("spring", PAIR), ("hill", HILL))
    for transfer in ("conservative", "virtual_work")
}


@pytest.mark.parametrize("kind", BODIES)
@given(seed=st.integers(0, 10_000))
def test_engell_45_forces_on_a_spline_add_up_to_nothing(kind: tuple[str, str], seed: int):
    rng, m = np.random.default_rng(seed), BODIES[kind]
    x = MESH.nodes + rng.normal(scale=0.01, size=MESH.nodes.shape)
    v = rng.normal(size=x.shape)
    f = m.spline_forces(x, v, rng.uniform(0.0, 2.0, size=m.num_segments))
    p, size = m.acting_points(x), np.linalg.norm(f, axis=1)
    assert np.linalg.norm(f.sum(axis=0)) < 1e-12 * size.sum()
    assert np.linalg.norm(np.cross(p, f).sum(axis=0)) < 1e-12 * (size * np.linalg.norm(p, axis=1)).sum()


def test_a_segment_pulls_with_its_spring_and_its_damper():
    m = Muscles(MESH, [ActivationSpline([(0.1, 0.06, 0.06), (0.3, 0.06, 0.06)], samples=2, stiffness=100.0)],
                transfer="virtual_work")  # fmt: skip
    k, c, rest = 100.0, float(m.arrays.damping[0]), 0.2
    stretched = MESH.nodes * (1.1, 1.0, 1.0)
    f = m.spline_forces(stretched, MESH.nodes * (0.5, 0.0, 0.0), [0.7])
    alpha = 1.0 - 0.7 * 0.4
    assert f[0, 0] == pytest.approx(k * (1.1 * rest - alpha * rest) + c * 0.5 * rest)
    assert f[1, 0] == pytest.approx(-f[0, 0])


def test_a_collapsed_segment_keeps_its_direction():
    m = Muscles(MESH, [PAIR[1]], transfer="virtual_work")
    m.spline_forces(MESH.nodes)
    f = m.spline_forces(np.zeros_like(MESH.nodes) + 0.1)
    assert np.isfinite(f).all()
    assert np.linalg.norm(f[0]) > 0.0  # it still pushes apart


@pytest.mark.parametrize("remaining", [0.1, 0.05, 0.01, 0.005, 0.001])
def test_settling_times_are_those_of_the_specification(remaining: float):
    printed = {0.1: 3.890, 0.05: 4.744, 0.01: 6.638, 0.005: 7.430, 0.001: 9.233}
    assert solve_settling_time(remaining) == pytest.approx(printed[remaining], abs=5e-4)


def deviation_after(masses: tuple[float, float], gains: tuple[float, float], seconds: float):
    """Deviation over time of two masses on a spring at 1.4 times its length, from rest: exact by small steps."""
    (k, c), mu = gains, masses[0] * masses[1] / (masses[0] + masses[1])
    steps = 40_000
    h, u, w = seconds / steps, 1.0, 0.0
    track = np.empty(steps)
    for i in range(steps):
        w += h * (-k * u - c * w) / mu
        u += h * w
        track[i] = u
    return track


@pytest.mark.parametrize("masses", [(1.0, 1.0), (0.02, 0.5), (8.0, 3.0)])
def test_engell_50_a_segment_settles_within_a_frame(masses: tuple[float, float]):
    track = deviation_after(masses, compute_critical_gains(*masses, 1 / 60), 1 / 60)
    assert abs(track[-1]) <= 0.011
    assert -track.min() < 0.01
    assert track[-1] == pytest.approx(0.01, abs=5e-4)


def test_engell_50_gains_of_unit_mass_as_printed_do_not_settle():
    tau = (1 / 60) / solve_settling_time(0.01)
    printed = (1.0 / tau**2, 2.0 / tau)  # Eq. 80
    light = deviation_after((0.02, 0.02), printed, 1 / 60)
    heavy = deviation_after((20.0, 20.0), printed, 1 / 60)
    assert light[-1] > 0.011  # too damped
    assert heavy.min() < -0.011  # too weak: it swings past


def test_engell_50_without_a_host_a_segment_contracts_to_its_alpha():
    """Two tetrahedra of 1 kg, moved as rigid bodies by the conservative transfer."""
    corners = np.array([(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)], dtype=float)
    nodes = np.vstack([corners, corners + np.array([1.0, 0.0, 0.0])])
    cells = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    k, _ = compute_critical_gains(1.0, 1.0)
    ends = [nodes[:4].mean(axis=0), nodes[4:].mean(axis=0)]
    line = ActivationSpline(np.array(ends), samples=2, stiffness=k)
    m = Muscles((nodes, cells), [line], masses=np.full(8, 0.25))
    np.testing.assert_allclose(m.arrays.damping, compute_critical_gains(1.0, 1.0)[1])
    x, v, h = nodes.copy(), np.zeros_like(nodes), 1 / 60 / 400
    lengths: list[float] = []
    for _ in range(800):
        v += h * m.forces(x, v, [1.0]) / 0.25
        x += h * v
        lengths.append(float(np.linalg.norm(np.diff(m.points(x), axis=0))))
    assert lengths[-1] == pytest.approx(0.6, abs=0.006)
    assert lengths[399] - 0.6 <= 0.011 * 0.4  # after one frame
    assert min(lengths) > 0.6 - 0.01 * 0.4


def host(ratio: float) -> tuple[SoftBody, np.ndarray, float]:
    """A short cylinder pinned at one end, with a spline along it; its far nodes and its length."""
    length = 0.2
    mesh = TetMesh.cylinder(0.03, length, rings=2, layers=8)
    y = mesh.nodes[:, 1]
    m = Muscles(mesh, [ActivationSpline([(0, 0, 0), (0, length, 0)], ratio=ratio)])
    pinned = np.flatnonzero(y < 1e-9)
    body = SoftBody.from_mesh(mesh, muscles=m, gravity=(0.0, 0.0, 0.0), pinned=pinned)
    return body, np.flatnonzero(y > length - 1e-9), length


def shortening(body: SoftBody, tip: np.ndarray, length: float, activation: float, frames: int):
    """How much shorter the body is after each frame [m]."""
    track: list[float] = []
    for _ in range(frames):
        body.step(1 / 60, activations=[activation])
        track.append(length - float(body.positions[tip, 1].mean()))
    return np.array(track)


def test_engell_51_a_host_contracts_within_three_frames_and_does_not_ring():
    body, tip, length = host(2.0)
    pull = shortening(body, tip, length, 1.0, 60)
    final = pull[-1]
    assert final / length == pytest.approx(0.4 * 2 / 3, rel=0.2)  # two springs in balance: 2 of 3 parts are active
    assert pull[2] >= 0.9 * final
    assert pull.max() < 1.15 * final
    release = shortening(body, tip, length, 0.0, 30)
    assert np.abs(release[9:]).max() < 0.1 * final


def test_engell_51_an_explicit_step_that_is_too_long_warns():
    body, _, _ = host(20.0)
    m = body.muscles
    assert isinstance(m, Muscles)
    with pytest.warns(MareyWarning, match="0.828 tau"):
        assert not m.check_explicit(1 / 60)
    assert m.check_explicit(0.99 * m.largest_step)


def test_damping_taken_explicitly_is_stable_below_that_step_and_not_above():
    k, c = compute_critical_gains(1.0, 1.0, 1.0)
    tau = 1.0 / solve_settling_time(0.01)
    for h, stays in ((0.82 * tau, True), (0.84 * tau, False)):
        u, w = 1.0, 0.0
        for _ in range(400):
            w += h * (-k * u - c * w) / 0.5
            u += h * w
        assert (abs(u) < 1.0) == stays


def test_default_stiffness_is_twice_that_of_the_host():
    length, side, young = 0.4, 0.12, 5e4
    line = ActivationSpline([(0.0, 0.06, 0.06), (length, 0.06, 0.06)])
    m = Muscles(MESH, [line], young_pa=young)
    series = 1.0 / np.sum(1.0 / m.arrays.stiffness)
    assert series == pytest.approx(2.0 * young * side**2 / length, rel=0.02)


def test_force_scale_scales_all_forces():
    rng = np.random.default_rng(1)
    x, v = MESH.nodes * 1.1, rng.normal(size=MESH.nodes.shape)
    for splines in (PAIR, HILL):
        once, twice = Muscles(MESH, splines), Muscles(MESH, splines, force_scale=2.0)
        springs = once.forces(x, None, [0.5, 0.2])
        np.testing.assert_allclose(twice.forces(x, None, [0.5, 0.2]), 2.0 * springs, rtol=1e-9)
    with pytest.raises(InputError, match="force_scale"):
        Muscles(MESH, PAIR, force_scale=0.0)
    assert np.isfinite(once.forces(x, v)).all()


def test_force_between_points_is_between_theirs():
    m = BODIES["spring", "conservative"]
    f = m.spline_forces(MESH.nodes * 1.1, None, [0.5, 0.2])
    own = f[-4:]
    np.testing.assert_allclose(m.force_along("b", [0.0, 0.5, 1.0], f), [own[0], 0.5 * (own[1] + own[2]), own[3]])
    with pytest.raises(UnknownNameError, match="'d'"):
        m.force_along("d", [0.5], f)


def test_hill_muscle_contracts_a_host_and_never_pushes():
    mesh = TetMesh.box((0.2, 0.06, 0.06), (6, 2, 2))
    line = ActivationSpline([(0, 0.03, 0.03), (0.2, 0.03, 0.03)], law="hill")
    body = SoftBody.from_mesh(mesh, muscles=Muscles(mesh, [line]), gravity=(0.0, 0.0, 0.0))
    for _ in range(60):
        body.step(1 / 60, activations=[1.0])
    assert np.ptp(body.positions[:, 0]) < 0.9 * 0.2
    squeezed = mesh.nodes * (0.5, 1.0, 1.0)
    f = Muscles(mesh, [line]).spline_forces(squeezed, None, [0.0])
    assert f[0, 0] >= 0.0  # towards the middle or nothing


CURVED = [(0, 0, 0), (0.1, 0.2, 0), (0.3, 0.2, 0), (0.4, 0, 0), (0.9, 0, 0)]


def test_curves_start_and_end_at_their_points_and_catmull_rom_meets_all():
    for curve in ("b-spline", "catmull-rom", "polyline"):
        p = ActivationSpline(CURVED, curve=curve).sample(9)
        np.testing.assert_allclose(p[[0, -1]], [CURVED[0], CURVED[-1]], atol=1e-12)
    through = ActivationSpline(CURVED, curve="catmull-rom")(np.linspace(0, 1, 5))
    np.testing.assert_allclose(through, CURVED, atol=1e-12)


def test_arc_length_sampling_makes_equal_segments():
    p = ActivationSpline(CURVED, sampling="arc-length").sample(12)
    lengths = np.linalg.norm(np.diff(p, axis=0), axis=1)
    assert np.ptp(lengths) < 0.02 * lengths.mean()


def test_curvature_sampling_is_closer_where_the_curve_bends():
    p = ActivationSpline(CURVED, sampling="curvature").sample(15)
    lengths = np.linalg.norm(np.diff(p, axis=0), axis=1)
    assert lengths[-1] > 1.3 * lengths[:6].mean()


def test_samples_are_about_a_cell_apart():
    m = BODIES["spring", "conservative"]
    assert 0.6 * 0.05 < m.arrays.rest[m.owners == 0].mean() < 1.6 * 0.05
    along = m.positions_along[m.owners == 1]
    np.testing.assert_allclose(along, m.arrays.rest[m.owners == 1][0] * (np.arange(3) + 0.5), rtol=1e-6)


def test_activations_by_number_name_and_segment():
    m = BODIES["spring", "conservative"]
    assert m.alphas().tolist() == [1.0] * m.num_segments
    np.testing.assert_allclose(m.alphas([1.0, 0.5]), np.where(m.owners == 0, 0.6, 0.8))
    np.testing.assert_allclose(m.alphas({"b": 0.5}), np.where(m.owners == 0, 1.0, 0.8))
    free = np.linspace(0.0, 3.0, m.num_segments)
    np.testing.assert_allclose(m.alphas(free), free)


@pytest.mark.parametrize("bad", [np.full((144, 3), np.nan), np.zeros((3, 3)), "here"], ids=["nan", "shape", "type"])
@pytest.mark.parametrize(
    "method",
    ["points", "acting_points", "spline_forces", "forces"],
)
def test_engell_70_bad_positions_are_named(method: str, bad: object):
    assert len(MESH.nodes) == 144
    with pytest.raises(InputError, match="x"):
        getattr(BODIES["spring", "virtual_work"], method)(bad)


def test_engell_70_bad_velocities_and_forces_are_named():
    m = BODIES["spring", "conservative"]
    with pytest.raises(InputError, match=r"^v "):
        m.forces(MESH.nodes, np.full((144, 3), np.inf))
    with pytest.raises(InputError, match="point_forces"):
        m.spread(np.zeros((2, 3)))
    with pytest.raises(InputError, match="masses"):
        Muscles(MESH, PAIR, masses=np.ones(3))
    with pytest.raises(InputError, match="node 5 has no mass"):
        Muscles(MESH, PAIR, masses=np.where(np.arange(144) == 5, 0.0, 1.0))


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([0.5, 1.5], "spline 1 is 1.5"),
        ([0.5, -0.1], "spline 1"),
        ([0.1] * 3, "3 activations"),
        ([0.1, float("nan")], "nan"),
    ],
)
def test_bad_activations_are_named(values: list[float], word: str):
    with pytest.raises(InputError, match=word):
        BODIES["spring", "conservative"].alphas(values)


def test_unknown_spline_is_named():
    with pytest.raises(UnknownNameError, match="'c'"):
        BODIES["spring", "conservative"].alphas({"c": 1.0})


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: ActivationSpline([(0, 0, 0)]), "at least two"),
        (lambda: ActivationSpline([(0, 0, 0), (0, 0, 0)]), "one place"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, float("inf"))]), "inf"),
        (lambda: ActivationSpline([(0, 0), (1, 0)]), "shape"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, 0)], stiffness=-1.0), "stiffness"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, 0)], alpha_min=1.0), "alpha_min"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, 0)], samples=1), "samples"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, 0)], law="hil"), "hill"),
        (lambda: ActivationSpline([(0, 0, 0), (1, 0, 0)], sampling="even"), "uniform"),
        (lambda: Muscles(MESH, []), "no activation"),
        (lambda: Muscles(MESH, [PAIR[0], PAIR[0]]), "two splines"),
        (lambda: Muscles((MESH.nodes, np.array([[0, 1, 2, 9999]])), PAIR), "cell 0 names"),
        (lambda: Muscles((MESH.nodes, np.zeros((2, 4))), PAIR), "float64"),
        (lambda: Muscles((MESH.nodes, np.zeros((2, 5), dtype=int)), PAIR), "shape"),
        (lambda: solve_settling_time(0.0), "remaining"),
        (lambda: compute_critical_gains(0.0, 1.0), "masses"),
    ],
)
def test_bad_splines_are_named(make, word: str):
    with pytest.raises((InputError, UnknownNameError), match=word):
        make()
