"""Regions of spline points: who is nearest inside the body, how wide regions act, what they cost."""

from __future__ import annotations

from time import thread_time

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.muscle import ActivationSpline, Muscles, SoftBody, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.muscles.setup import compute_node_distances, find_regions, make_edge_graph
from marey.muscle.muscles.spline import Embedding


def fork() -> Lattice:
    """A trunk with two prongs side by side, a cell apart."""
    mask = np.zeros((7, 14, 2), dtype=bool)
    mask[:, :3] = True
    mask[:3], mask[4:] = True, True
    return Lattice.from_mask(mask, 0.05)


def regions(mesh, spline: ActivationSpline, samples: int = 6):
    """Regions of one spline, and where it lies."""
    bound = Embedding.from_points(spline.sample(samples), mesh.nodes, mesh.cells)
    return find_regions([spline], [bound], mesh.nodes, make_edge_graph(mesh.nodes, mesh.cells)), bound


def test_voronoi_regions_share_all_nodes_among_the_points():
    mesh = TetMesh.box((0.4, 0.1, 0.1), (8, 2, 2))
    line = ActivationSpline([(0.02, 0.05, 0.05), (0.38, 0.05, 0.05)])
    found, _ = regions(mesh, line)
    assert sorted(np.unique(found.nodes)) == list(range(len(mesh.nodes)))
    centres = np.array([mesh.nodes[found.of(i)].mean(axis=0)[0] for i in range(6)])
    assert (np.diff(centres) > 0.0).all()


def test_geodesic_distance_goes_around_the_gap():
    mesh = fork()
    p = np.array([[0.075, 0.6, 0.05]])
    bound = Embedding.from_points(p, mesh.nodes, mesh.cells)
    graph = make_edge_graph(mesh.nodes, mesh.cells)
    across = int(np.argmin(np.linalg.norm(mesh.nodes - (0.2, 0.6, 0.05), axis=1)))
    inside = compute_node_distances(p, bound, mesh.nodes, graph, metric="geodesic", limit=np.inf)[0, across]
    straight = compute_node_distances(p, bound, mesh.nodes, graph, metric="euclidean", limit=np.inf)[0, across]
    assert straight == pytest.approx(0.125, abs=0.01)
    assert inside > 2 * 0.4  # down one prong and up the other


def test_parts_that_hang_on_nothing_stay_out():
    mask = np.ones((7, 3, 3), dtype=bool)
    mask[3] = False
    mesh = Lattice.from_mask(mask, 0.1)
    line = ActivationSpline([(0.05, 0.15, 0.15), (0.25, 0.15, 0.15)])
    found, _ = regions(mesh, line, 3)
    assert mesh.nodes[found.nodes][:, 0].max() <= 0.3 + 1e-12


def test_radius_and_greatest_radius_limit_regions():
    mesh = TetMesh.box((0.4, 0.1, 0.1), (16, 4, 4))
    ends = [(0.1, 0.05, 0.05), (0.3, 0.05, 0.05)]
    ball, bound = regions(mesh, ActivationSpline(ends, region=("radius", 0.06)), 3)
    near = np.linalg.norm(mesh.nodes[ball.of(1)] - bound(mesh.nodes)[1], axis=1)
    assert near.max() <= 0.06
    overlapping, _ = regions(mesh, ActivationSpline(ends, region=("radius", 0.15)), 3)
    assert len(np.unique(overlapping.nodes)) < len(overlapping.nodes)
    nearest, _ = regions(mesh, ActivationSpline(ends, max_radius=0.06), 3)
    assert mesh.nodes[nearest.nodes][:, 0].min() >= 0.04


def test_cells_and_paint_choose_nodes():
    mesh = TetMesh.box((0.4, 0.1, 0.1), (8, 2, 2))
    ends = [(0.06, 0.04, 0.04), (0.33, 0.04, 0.04)]
    cell, bound = regions(mesh, ActivationSpline(ends, region="cell"), 3)
    assert [sorted(cell.of(i)) for i in range(3)] == [sorted(n) for n in bound.nodes]
    paint = np.where(mesh.nodes[:, 1] > 0.06, 0.5, 0.0)
    painted, _ = regions(mesh, ActivationSpline(ends, region=paint), 3)
    assert (mesh.nodes[painted.nodes][:, 1] > 0.06).all()
    assert set(painted.paint) == {0.5}


def test_without_overlap_each_node_belongs_to_one_spline():
    mesh = TetMesh.box((0.4, 0.1, 0.1), (8, 4, 4))
    lines = [ActivationSpline([(0.02, y, 0.05), (0.38, y, 0.05)]) for y in (0.02, 0.08)]
    apart, both = Muscles(mesh, lines, overlap=False), Muscles(mesh, lines)
    nodes = apart.arrays.nodes
    assert len(np.unique(nodes)) == len(nodes) == len(mesh.nodes)
    assert len(both.arrays.nodes) == 2 * len(mesh.nodes)


@pytest.mark.parametrize(
    ("region", "word"),
    [("voronoy", "voronoi"), (("radius", -1.0), "radius"), (np.zeros(81), "zero"), (np.ones(3), "shape")],
)
def test_bad_regions_are_named(region, word: str):
    mesh = TetMesh.box((0.4, 0.1, 0.1), (8, 2, 2))
    assert len(mesh.nodes) == 81
    with pytest.raises((InputError, UnknownNameError), match=word):
        regions(mesh, ActivationSpline([(0.05, 0.05, 0.05), (0.3, 0.05, 0.05)], region=region))


def contracted(radius: float) -> tuple[float, float]:
    """Shortening of a spline in a long cylinder, and the variance of the strain along its axis."""
    length, width, layers = 6.0, 0.4, 30
    mesh = TetMesh.cylinder(width, length, rings=3, layers=layers)
    stiffness = 6.0 * 4e4 * np.pi * width**2 / (length / 15)
    line = ActivationSpline([(0, 0, 0), (0, length, 0)], stiffness=stiffness, region=("radius", radius), samples=16)
    m = Muscles(mesh, [line])
    body = SoftBody.from_mesh(mesh, muscles=m, gravity=(0.0, 0.0, 0.0), damping=(2.0, 0.02))
    for _ in range(25):
        body.step(0.1, activations=[0.5])
    axis = np.flatnonzero(np.hypot(mesh.nodes[:, 0], mesh.nodes[:, 2]) < 1e-9)
    axis = axis[np.argsort(mesh.nodes[axis, 1])]
    strain = np.diff(body.positions[axis, 1]) / np.diff(mesh.nodes[axis, 1]) - 1.0
    ends = m.points(body.positions)[[0, -1]]
    return 1.0 - float(np.linalg.norm(ends[1] - ends[0])) / length, float(strain.var())


def test_engell_52_wider_regions_shorten_alike_and_strain_evenly():
    found = [contracted(radius) for radius in (0.2, 0.4, 0.6)]
    short, rough = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    assert short.min() > 0.1
    assert np.ptp(short) <= 0.05 * short.max()
    assert (np.diff(rough) < 0.0).all()


def stirred(metric: str) -> float:
    """How far the resting prong of a fork moves, over the greatest way of the active one."""
    mesh = fork()
    line = ActivationSpline([(0.075, 0.3, 0.05), (0.075, 0.65, 0.05)], region=("radius", 0.2), metric=metric)
    trunk = np.flatnonzero(mesh.nodes[:, 1] <= 0.15 + 1e-9)
    settings = {"gravity": (0.0, 0.0, 0.0), "pinned": trunk, "damping": (0.5, 0.01)}
    body = SoftBody.from_mesh(mesh, muscles=Muscles(mesh, [line]), **settings)
    for _ in range(40):
        body.step(1 / 60, activations=[1.0])
    way = np.linalg.norm(body.positions - mesh.nodes, axis=1)
    return float(way[mesh.nodes[:, 0] > 0.19].max() / way.max())


def test_engell_53_one_prong_leaves_the_other_alone_by_geodesic_regions_only():
    assert stirred("geodesic") < 0.01
    assert stirred("euclidean") > 0.05


def spline_cylinder(count: int) -> tuple[TetMesh, Muscles]:
    """A cylinder of 4 032 tetrahedra with that many splines."""
    mesh = TetMesh.cylinder(0.1, 0.6, rings=4, layers=14)
    assert 3900 < len(mesh.cells) < 4200
    angle = 2.4 * np.arange(count)
    radius = 0.09 * np.sqrt((np.arange(count) + 0.5) / count)
    lines = [
        ActivationSpline([(r * np.cos(a), 0.03, r * np.sin(a)), (r * np.cos(a), 0.57, r * np.sin(a))], samples=8)
        for r, a in zip(radius, angle, strict=True)
    ]
    return mesh, Muscles(mesh, lines, overlap=False)


def activation_seconds(count: int) -> float:
    """Least processor time of the activation part of a frame."""
    from marey.muscle.muscles.transfer import evaluate_segments, scatter_forces

    mesh, m = spline_cylinder(count)
    n = len(m.arrays.points)
    forces, blocks, out = np.zeros((n, 3)), np.zeros((m.num_segments, 3, 3)), np.zeros_like(mesh.nodes)
    x, v, alpha = mesh.nodes.copy(), np.zeros_like(mesh.nodes), np.full(m.num_segments, 0.7)
    times: list[float] = []
    for _ in range(200):
        start = thread_time()
        evaluate_segments(m.arrays, x, v, alpha, 1 / 60, forces, blocks)
        scatter_forces(m.arrays, forces, out)
        times.append(thread_time() - start)
    return min(times)


@pytest.mark.timing
def test_engell_54_activation_costs_less_than_four_tenths_of_a_millisecond():
    one, forty = activation_seconds(1), activation_seconds(40)
    assert forty <= 0.4e-3
    assert forty - one < 0.2e-3


@pytest.mark.timing
def test_engell_54_forty_splines_take_at_most_a_fiftieth_of_a_step():
    mesh, muscles = spline_cylinder(40)
    body = SoftBody.from_mesh(mesh, muscles=muscles, pinned=np.flatnonzero(mesh.nodes[:, 1] > 0.6 - 1e-9))
    steps: list[float] = []
    for _ in range(30):
        start = thread_time()
        body.step(activations=np.full(40, 0.7))
        steps.append(thread_time() - start)
    assert activation_seconds(40) <= 0.02 * min(steps)
