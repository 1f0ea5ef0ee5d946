"""Meshes: shapes made here, repair with numbers, files and surfaces."""

from __future__ import annotations

import meshio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marey.base import FormatError, InputError, MareyWarning, MissingFileError
from marey.muscle import SoftBody, SurfaceMesh, TetMesh, load_scene
from marey.muscle.elastic.shapes import Solid


def enclosed(nodes: np.ndarray, faces: np.ndarray) -> float:
    corners = nodes[faces]
    return float(np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2]))) / 6


@settings(max_examples=20)
@given(counts=st.tuples(*[st.integers(1, 4)] * 3))
def test_a_box_is_filled_by_six_cells_a_cube_of_equal_volume(counts):
    mesh = TetMesh.box((0.3, 0.2, 0.1), counts, origin=(1, 2, 3))
    assert len(mesh.cells) == 6 * np.prod(counts)
    assert np.allclose(mesh.volumes, 0.006 / len(mesh.cells))
    assert np.allclose([mesh.nodes.min(axis=0), mesh.nodes.max(axis=0)], [[1, 2, 3], [1.3, 2.2, 3.1]])


def test_a_cylinder_has_the_volume_of_its_polygon_and_good_cells():
    mesh = TetMesh.cylinder(0.04, 0.16, rings=4, layers=14)
    assert len(mesh.cells) == 18 * 16 * 14
    assert mesh.volume == pytest.approx(0.16 * 12 * 0.04**2 * np.sin(np.pi / 12), rel=1e-12)
    assert mesh.volumes.min() > 0.4 * mesh.volumes.max()


@pytest.mark.parametrize("mesh", [TetMesh.box((1, 1, 1), (3, 2, 2)), TetMesh.cylinder(0.1, 0.3, rings=3)])
def test_the_surface_is_closed_and_looks_outwards(mesh):
    faces = mesh.surface
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    assert len(np.unique(edges, axis=0)) == len(edges)  # each way once
    assert np.array_equal(np.unique(edges, axis=0), np.unique(edges[:, ::-1], axis=0))
    assert enclosed(mesh.nodes, faces) == pytest.approx(mesh.volume, rel=1e-12)


def broken() -> TetMesh:
    """Cell 3 inside out, a copied cell 48, slivers 49 and 50, node 27 unused, nodes 28 and 29 copies."""
    mesh = TetMesh.box((1, 1, 1), (2, 2, 2))
    nodes = np.vstack([mesh.nodes, [[9.0, 9.0, 9.0]], mesh.nodes[:1], mesh.nodes[5:6] + 1e-12])
    cells = mesh.cells.copy()
    cells[3] = cells[3][[1, 0, 2, 3]]
    cells[cells == 5] = 29
    return TetMesh(nodes, np.vstack([cells, cells[7][[1, 2, 0, 3]], [[0, 1, 2, 1]], [[0, 1, 2, 4]]]))


def test_engell_44_bad_meshes_are_repaired_and_the_report_numbers_what_was_wrong():
    mesh, report = broken().repair()
    assert report.flipped.tolist() == [3]
    assert report.duplicates.tolist() == [48]
    assert report.slivers.tolist() == [49, 50]
    assert report.merged.tolist() == [28, 29]
    assert report.unreferenced.tolist() == [27]
    assert report.parts == 1
    assert report.node_numbers[[27, 28, 29]].tolist() == [-1, 0, 5]
    assert "1 cells flipped (3)" in str(report)
    assert mesh.volume == pytest.approx(1.0)
    again, clean = mesh.repair()
    assert clean.is_clean
    assert np.array_equal(again.nodes, mesh.nodes)
    body = SoftBody.from_mesh(mesh)
    body.step()
    assert np.isfinite(body.positions).all()


def test_engell_44_a_body_of_a_bad_mesh_is_refused_with_its_cells():
    with pytest.raises(InputError, match="3 cells are inside out or flat: 3, 49, 50"):
        SoftBody.from_mesh(broken())
    box = TetMesh.box((1, 1, 1), (1, 1, 1))
    with pytest.raises(InputError, match="1 nodes belong to no cell: 8"):
        SoftBody.from_mesh((np.vstack([box.nodes, [[2.0, 2, 2]]]), box.cells))
    with pytest.raises(InputError, match=r"cells\[0\] .* out of 0..7"):
        TetMesh(box.nodes, np.array([[0, 1, 2, 8]]))
    with pytest.raises(InputError, match="whole numbers"):
        TetMesh(box.nodes, box.cells.astype(float))
    with pytest.raises(InputError, match="nodes holds nan"):
        TetMesh(np.where(box.nodes == 1, np.nan, box.nodes), box.cells)
    with pytest.raises(InputError, match="none of 1 cells has a volume"):
        TetMesh(box.nodes * (1, 1, 0), box.cells[:1]).repair()
    with pytest.raises(InputError, match="no cell"):
        SoftBody.from_mesh((np.zeros((0, 3)), np.zeros((0, 4), dtype=int)))


def test_parts_that_do_not_touch_are_counted():
    one = TetMesh.box((1, 1, 1), (1, 1, 1))
    nodes = np.concatenate([one.nodes, one.nodes + 3.0])
    assert TetMesh(nodes, np.concatenate([one.cells, one.cells + 8])).repair()[1].parts == 2


def test_a_mesh_file_is_read_back_and_repaired(tmp_path):
    mesh = TetMesh.cylinder(0.1, 0.2, rings=2, layers=2)
    cells = mesh.cells.copy()
    cells[5] = cells[5][[1, 0, 2, 3]]
    for name in ("body.vtk", "body.msh", "body.mesh"):
        meshio.write_points_cells(tmp_path / name, mesh.nodes, [("tetra", cells)])
        found = TetMesh.from_file(tmp_path / name)
        assert found.volume == pytest.approx(mesh.volume, rel=1e-6)
        assert found.volumes.min() > 0
    body = SoftBody.from_mesh(tmp_path / "body.vtk")
    assert len(body.masses) == len(mesh.nodes)


def test_files_that_hold_no_cells_are_told(tmp_path):
    with pytest.raises(MissingFileError, match="nowhere"):
        TetMesh.from_file(tmp_path / "nowhere.vtk")
    rubbish = tmp_path / "rubbish.msh"
    rubbish.write_bytes(b"\x00\x01rubbish")
    with pytest.raises(FormatError, match="not a mesh file"):
        TetMesh.from_file(rubbish)
    mesh = TetMesh.box((1, 1, 1), (1, 1, 1))
    meshio.write_points_cells(tmp_path / "skin.vtk", mesh.nodes, [("triangle", mesh.surface)])
    with pytest.raises(FormatError, match="no tetrahedra, only triangle"):
        TetMesh.from_file(tmp_path / "skin.vtk")


def test_a_closed_surface_is_filled_and_nothing_is_left_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    box = TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1))
    mesh = SurfaceMesh(box.nodes, box.surface).fill(0.1)
    assert mesh.volume == pytest.approx(0.001, rel=0.02)
    assert mesh.volumes.min() > 0
    assert not list(tmp_path.iterdir())


def longest_edge(mesh: TetMesh) -> float:
    p = mesh.nodes[mesh.cells]
    return max(float(np.linalg.norm(p[:, i] - p[:, j], axis=1).max()) for i in range(4) for j in range(i))


def test_cells_are_as_large_as_asked_and_at_most_three_thousand_by_default():
    ball = TetMesh.cylinder(0.1, 0.3, rings=3)
    surface = SurfaceMesh(ball.nodes, ball.surface)
    assert surface.volume == pytest.approx(ball.volume, rel=1e-9)
    for edge in (0.08, 0.05):
        mesh = surface.fill(edge)
        assert 0.5 * edge < longest_edge(mesh) <= edge
        assert mesh.volume == pytest.approx(ball.volume, rel=0.02)
    usual = surface.fill()
    assert 1000 < len(usual.cells) <= 3000
    assert usual.volume == pytest.approx(ball.volume, rel=0.02)
    # Turned inside out, and with a hole of one triangle: the same body
    with pytest.warns(MareyWarning, match="1 hole"):
        again = SurfaceMesh(ball.nodes, ball.surface[1:, ::-1]).fill(0.08)
    assert again.volume == pytest.approx(ball.volume, rel=0.05)


def test_holes_are_counted_and_measured():
    box = TetMesh.box((0.2, 0.3, 0.4), (1, 1, 1))
    assert not len(SurfaceMesh(box.nodes, box.surface).measure_holes())
    # Without the floor (0.2 by 0.4 m) and one triangle of the lid
    on_floor, on_lid = ((box.nodes[box.surface][..., 1] == y).all(axis=1) for y in (0.0, 0.3))
    kept = ~on_floor
    kept[np.flatnonzero(on_lid)[0]] = False
    holes = SurfaceMesh(box.nodes, box.surface[kept]).measure_holes()
    np.testing.assert_allclose(holes, [np.hypot(0.2, 0.4)] * 2, atol=1e-12)


def test_distances_of_a_surface_are_those_of_its_shape():
    box = TetMesh.box((0.2, 0.2, 0.2), (2, 2, 2), origin=(-0.1, -0.1, -0.1))
    points = np.random.default_rng(3).uniform(-0.2, 0.2, (200, 3))
    truth = Solid("box", centre=(0.0, 0.0, 0.0), size=(0.2, 0.2, 0.2)).distance(points)
    np.testing.assert_allclose(SurfaceMesh(box.nodes, box.surface).distance(points), truth, atol=1e-12)


def test_a_surface_file_becomes_a_body_that_moves(tmp_path):
    box = TetMesh.box((0.1, 0.3, 0.1), (1, 3, 1))
    lines = [f"v {x} {y} {z}" for x, y, z in box.nodes] + [f"f {a}/1 {b}//2 {c}" for a, b, c in box.surface + 1]
    (tmp_path / "body.obj").write_text("\n".join(lines))
    film = load_scene(tmp_path / "body.obj").run(seconds=0.1)
    assert film.surface(0).shape == (len(box.nodes), 3)
    np.testing.assert_allclose(film.surface(0), SurfaceMesh.load(tmp_path / "body.obj").vertices, atol=1e-9)
    assert film.report["inverted_max"] == 0.0 and film.metrics["cells"] <= 3000
    assert film.metrics["shortening_max"] > 0.002
    assert film.save(tmp_path / "body.glb").stat().st_size > 1000
    scene = "[mesh]\nfile = 'body.obj'\nmax_cells = 400\n[seed]\ncount = 2\n"
    (tmp_path / "scene.toml").write_text(scene)
    stage = load_scene(tmp_path / "scene.toml").stage()
    assert stage.muscles.names == ("limb1", "limb2") and len(stage.mesh.cells) <= 400


def test_surface_files_that_hold_no_body_are_told(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 zero\n")
    with pytest.raises(FormatError, match=r"a\.obj:1: 'v 0 0 zero' is no vertex"):
        SurfaceMesh.load(tmp_path / "a.obj")
    (tmp_path / "b.obj").write_text("v 0 0 0\n")
    with pytest.raises(FormatError, match="no faces"):
        SurfaceMesh.load(tmp_path / "b.obj")
    with pytest.raises(MissingFileError):
        SurfaceMesh.load(tmp_path / "c.obj")
    with pytest.raises(InputError, match="encloses nothing"):
        SurfaceMesh(np.eye(3) - [1.0, 0.0, 0.0], np.array([[0, 1, 2]])).fill()
    (tmp_path / "d.obj").write_text("v 0 0 0\nv 900 0 0\nv 0 900 0\nf 1 2 3\n")
    with pytest.raises(InputError, match="900 m"):
        load_scene(tmp_path / "d.obj")


def test_surfaces_without_faces_or_edges_are_told():
    box = TetMesh.box((0.1, 0.1, 0.1), (1, 1, 1))
    with pytest.raises(InputError, match="no face"):
        SurfaceMesh(box.nodes, np.zeros((0, 3), dtype=np.int32)).fill()
    with pytest.raises(InputError, match="edge_m"):
        SurfaceMesh(box.nodes, box.surface).fill(-1.0)


def test_shapes_without_size_are_refused():
    for size, counts in (((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (0, 1, 1))):
        with pytest.raises(InputError, match="box"):
            TetMesh.box(size, counts)
    with pytest.raises(InputError, match="cylinder"):
        TetMesh.cylinder(0.1, -0.2)
