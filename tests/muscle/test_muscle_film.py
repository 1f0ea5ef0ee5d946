"""Shapes, skins and films: closed forms for volumes, affine maps for skins, independent readers for files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import InputError, MissingFileError
from marey.muscle import FILM_SUFFIXES, Film, TetMesh
from marey.muscle.elastic.models import Lattice
from marey.muscle.elastic.shapes import Shape, Solid, tetrahedralise_shape, voxelise
from marey.muscle.muscles.spline import embed_surface, surface_of_mesh, surface_of_plate
from marey.muscle.scene.film import BoneTrack, make_paint
from marey.muscle.scene.film_files import CONTRACTED, EXTENDED, PASSIVE, TOLERANCE, fit_morph_targets

BALL = Shape((Solid("rod", points=((0.0, 0.0, 0.0),), radii=(0.5,)),))
ROD = Shape((Solid("rod", points=((0.0, 0.1, 0.0), (0.0, 0.1, 0.6)), radii=(0.1, 0.06)),))


def dihedrals(nodes: np.ndarray, cells: np.ndarray) -> np.ndarray:
    p, found = nodes[cells], []
    for i, j, k, m in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (1, 2, 0, 3), (1, 3, 0, 2), (2, 3, 0, 1)):
        axis = p[:, j] - p[:, i]
        axis = axis / np.linalg.norm(axis, axis=1, keepdims=True)
        u, w = (p[:, q] - p[:, i] - axis * np.sum((p[:, q] - p[:, i]) * axis, axis=1, keepdims=True) for q in (k, m))
        cosine = np.sum(u * w, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(w, axis=1)
        found.append(np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0))))
    return np.array(found)


def test_a_ball_of_tetrahedra_has_its_volume_and_a_closed_surface():
    mesh = TetMesh(*tetrahedralise_shape(BALL, 0.1))
    assert mesh.volume == pytest.approx(np.pi / 6.0, rel=0.02)
    assert mesh.volumes.min() > 0.0
    edges = np.sort(np.concatenate([mesh.surface[:, [i, (i + 1) % 3]] for i in range(3)]), axis=1)
    assert set(np.unique(edges, axis=0, return_counts=True)[1].tolist()) == {2}
    assert np.abs(np.linalg.norm(mesh.nodes[np.unique(mesh.surface)], axis=1) - 0.5).max() < 0.01


@pytest.mark.parametrize("shape", [BALL, ROD])
def test_tetrahedra_cut_at_a_surface_are_no_slivers(shape):
    angles = dihedrals(*tetrahedralise_shape(shape, 0.08))
    assert angles.min() > 10.0 and angles.max() < 160.0


def test_a_box_on_the_grid_is_filled_exactly():
    mesh = TetMesh(*tetrahedralise_shape(Shape((Solid("box", size=(0.4, 0.3, 0.2)),)), 0.1))
    assert mesh.volume == pytest.approx(0.4 * 0.3 * 0.2, rel=1e-12)


def test_voxels_fill_a_box_and_a_flat_one():
    box = Shape((Solid("box", centre=(1.0, 0.5, 0.0), size=(0.6, 0.4, 0.2)),))
    mask, origin = voxelise(box, 0.1)
    assert mask.shape == (6, 4, 2) and mask.all()
    np.testing.assert_allclose(origin, [0.7, 0.3, -0.1])
    flat, origin = voxelise(box, 0.1, flat=True)
    assert flat.shape == (6, 4) and origin[2] == 0.0


def test_solids_join_melt_and_cut():
    a, b = Solid("box", size=(1.0, 1.0, 1.0)), Solid("ellipsoid", centre=(0.5, 0.0, 0.0), size=(1.0, 1.0, 1.0))
    p = np.array([[0.9, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    assert (Shape((a, b)).distance(p) < 0.0).tolist() == [True, True, False]
    hole = Solid("rod", points=((0.0, 0.0, 0.0),), radii=(0.2,), cut=True)
    assert (Shape((a, hole)).distance(p) < 0.0).tolist() == [False, False, False]
    melted = Solid("box", centre=(1.05, 0.0, 0.0), size=(1.0, 1.0, 1.0), blend_m=0.3)
    gap = np.array([[0.525, 0.0, 0.0]])
    assert (
        Shape((a, melted)).distance(gap)[0]
        < 0.0
        < Shape((a, Solid("box", (), (), (1.05, 0, 0), (1, 1, 1)))).distance(gap)[0]
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Solid("cone"),
        lambda: Solid("rod", points=((0.0, 0.0, 0.0),), radii=(-1.0,)),
        lambda: Solid("box", size=(1.0, 0.0, 1.0)),
        lambda: Shape(()),
        lambda: tetrahedralise_shape(BALL, 1e-4),
        lambda: voxelise(BALL, 1e-4),
    ],
)
def test_shapes_that_cannot_be_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("kind", ["tets", "cubes"])
def test_a_skin_goes_with_every_affine_motion_of_its_body(kind):
    mesh = (
        TetMesh(*tetrahedralise_shape(ROD, 0.1)) if kind == "tets" else Lattice.from_mask(voxelise(ROD, 0.05)[0], 0.05)
    )
    shift = np.zeros(3) if kind == "tets" else voxelise(ROD, 0.05)[1]
    fine = TetMesh(*tetrahedralise_shape(ROD, 0.05))
    own = surface_of_mesh(fine.surface)
    points = own.at(fine.nodes) - shift
    skin = embed_surface(points, own.faces, mesh.nodes, mesh.cells)
    np.testing.assert_allclose(skin.weights.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(skin.at(mesh.nodes), points, atol=1e-12)
    matrix = np.array([[1.1, 0.2, 0.0], [-0.1, 0.9, 0.3], [0.0, 0.1, 1.2]])
    np.testing.assert_allclose(skin.at(mesh.nodes @ matrix.T + 1.0), points @ matrix.T + 1.0, atol=1e-12)


def test_a_flat_body_is_drawn_as_a_closed_plate():
    lattice = Lattice.from_mask(np.ones((3, 2), dtype=bool), 0.1)
    skin = surface_of_plate(lattice.cells, lattice.nodes, 0.04)
    points, faces = skin.at(lattice.nodes), skin.faces
    volume = np.einsum("fi,fi->", np.cross(points[faces[:, 0]], points[faces[:, 1]]), points[faces[:, 2]]) / 6.0
    assert volume == pytest.approx(0.3 * 0.2 * 0.04)


def test_paint_is_passive_red_or_blue():
    points = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    paint = make_paint(
        points, np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.1]]), np.zeros(2, dtype=np.int64), np.array([0.3])
    )
    np.testing.assert_allclose(paint.colours(np.ones(2)), np.tile(PASSIVE, (2, 1)))
    np.testing.assert_allclose(paint.colours(np.full(2, 0.5))[0], CONTRACTED, atol=1e-9)
    np.testing.assert_allclose(paint.colours(np.full(2, 1.5))[0], EXTENDED, atol=1e-9)
    np.testing.assert_allclose(paint.colours(np.full(2, 0.5))[1], PASSIVE, atol=1e-9)  # far away


@pytest.fixture(scope="module")
def film() -> Film:
    """A rod that bends, travels and turns, with one bone."""
    mesh = TetMesh(*tetrahedralise_shape(ROD, 0.1))
    skin = surface_of_mesh(mesh.surface)
    times = np.arange(31) / 30.0
    bend, turn = 0.4 * np.sin(3.0 * times), 0.8 * times
    bent = mesh.nodes + np.stack([0 * times, bend, 0 * times], axis=1)[:, None] * mesh.nodes[:, 2:] ** 2
    c, s, zero, one = np.cos(turn), np.sin(turn), 0 * turn, 1 + 0 * turn
    rotations = np.stack([c, zero, s, zero, one, zero, -s, zero, c], axis=1).reshape(-1, 3, 3)
    positions = np.einsum("fab,fvb->fva", rotations, bent) + np.stack([times, zero, 2 * times], axis=1)[:, None]
    ends = np.stack([positions[:, :1, :], positions[:, -1:, :]], axis=2)
    bones = BoneTrack(("b",), ends, np.full((1, 2), 0.02), np.zeros((31, 0)))
    paint = make_paint(skin.at(mesh.nodes), np.array([[0.0, 0.1, 0.3]]), np.zeros(1, dtype=np.int64), np.array([0.2]))
    alphas = 1.0 - 0.35 * np.abs(np.sin(3.0 * times))[:, None]
    return Film(
        "rod",
        times,
        positions,
        alphas,
        skin,
        paint,
        bones,
        metrics={"advance_m": 2.2},
        shown=("advance_m",),
        ground_m=0.0,
    )


def read_accessor(gltf, blob: bytes, number: int) -> np.ndarray:
    accessor = gltf.accessors[number]
    view = gltf.bufferViews[accessor.bufferView]
    width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor.type]
    kind = {5126: np.float32, 5125: np.uint32}[accessor.componentType]
    values = np.frombuffer(blob, kind, accessor.count * width, view.byteOffset)
    return values.reshape(-1, width) if width > 1 else values


def test_an_animated_glb_plays_the_surface_within_its_tolerance(film, tmp_path):
    pygltflib = pytest.importorskip("pygltflib")
    gltf = pygltflib.GLTF2().load(str(film.save(tmp_path / "rod.glb")))
    blob = gltf.binary_blob()
    primitive = gltf.meshes[0].primitives[0]
    base = read_accessor(gltf, blob, primitive.attributes.POSITION).astype(float)
    shapes = np.array([read_accessor(gltf, blob, t["POSITION"]) for t in primitive.targets], dtype=float)
    tracks = {c.target.path: gltf.animations[0].samplers[c.sampler] for c in gltf.animations[0].channels}
    place, turn, weights = (read_accessor(gltf, blob, tracks[k].output) for k in ("translation", "rotation", "weights"))
    assert read_accessor(gltf, blob, tracks["translation"].input)[-1] == pytest.approx(1.0)
    weights = weights.reshape(len(place), -1)
    size = np.linalg.norm(np.ptp(film.positions[0], axis=0))
    for frame in (0, 10, 30):
        local = base + np.einsum("k,kna->na", weights[frame], shapes)
        x, y, z, w = turn[frame].astype(float)
        cross = np.cross([x, y, z], local)
        world = local + 2.0 * (w * cross + np.cross([x, y, z], cross)) + place[frame]
        assert np.abs(world - film.mesh(frame).vertices).max() < 1.1 * TOLERANCE * size
    assert len(shapes) < 12  # few shapes for thirty frames


def test_a_rigid_film_needs_hardly_a_shape():
    points = np.random.default_rng(1).normal(size=(40, 3))
    moving = points + np.arange(20)[:, None, None] * [0.0, 0.1, 0.2]
    shapes = fit_morph_targets(moving, np.ones((20, 40, 3)))
    assert shapes.error_m < 1e-9 and shapes.weights.shape[1] <= 1


def test_arrays_come_back_from_an_npz(film, tmp_path):
    with np.load(film.save(tmp_path / "rod.npz")) as kept:
        np.testing.assert_allclose(kept["positions"], film.positions, atol=1e-6)
        np.testing.assert_array_equal(kept["skin_faces"], film.skin.faces)
        assert dict(zip(kept["metric_names"].tolist(), kept["metrics"].tolist(), strict=True)) == film.metrics


@pytest.mark.parametrize("suffix", [".ply", ".obj"])
def test_a_sequence_is_a_folder_that_meshio_reads(film, tmp_path, suffix):
    meshio = pytest.importorskip("meshio")
    folder = film.save(tmp_path / f"rod{suffix}", fps=10.0)
    files = sorted(folder.iterdir())
    assert len(files) == 11
    mesh = film.mesh(30)
    read = meshio.read(files[-1])
    np.testing.assert_allclose(read.points[:, :3], mesh.vertices, atol=1e-5)
    assert sum(len(block.data) for block in read.cells) == len(mesh.faces)
    with pytest.raises(InputError, match="not empty"):
        film.save(tmp_path / f"rod{suffix}")


def test_strips_and_films_are_pictures_of_the_body(film, tmp_path):
    from PIL import Image

    strip = np.asarray(Image.open(film.save(tmp_path / "rod.png", width=400)))
    reddish = (strip[..., 0].astype(int) - strip[..., 2]) > 60
    assert strip.shape[1] == 400 and reddish.sum() > 200
    with Image.open(film.save(tmp_path / "rod.gif", fps=5.0, width=120)) as moving:
        assert moving.n_frames == 6 and moving.size[0] == 120


def test_files_repeat_to_the_byte(film, tmp_path):
    for suffix in (".glb", ".npz"):
        first = film.save(tmp_path / f"a{suffix}").read_bytes()
        assert film.save(tmp_path / f"b{suffix}").read_bytes() == first


def test_a_film_refuses_what_it_cannot_write(film, tmp_path):
    with pytest.raises(InputError, match="suffix"):
        film.save(tmp_path / "rod.abc")
    with pytest.raises(MissingFileError):
        film.save(tmp_path / "nowhere" / "rod.glb")
    with pytest.raises(InputError, match="frames a second"):
        film.save(tmp_path / "rod.glb", fps=-1.0)
    assert not list(Path(tmp_path).iterdir())
    assert ".glb" in FILM_SUFFIXES
