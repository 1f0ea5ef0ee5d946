"""Worlds, steps, characters and notebooks in pictures."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from oracles.rigs import write_character
from PIL import Image as Pillow
from scipy.spatial import cKDTree

from marey import load
from marey.base import InputError, UnknownNameError
from marey.io import Character
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.picture import (
    CapsuleBatch,
    GroundPattern,
    PinholeCamera,
    RenderScene,
    TriangleMesh,
    film_strip,
    ground_level,
    motion_scene,
    render,
    save_film,
)
from marey.picture.bodies import find_character, merge_vertices
from marey.picture.worlds import OBJECT, WATER, build_scenery, find_steps, place_objects
from marey.skeleton import HUMAN, Skeleton, capsule_mesh, capsules, contact_points
from marey.world import Bar, Box, Event, GroundPose, River, Sketch, Stone, Table, Thing, Wall, World

SIZE = (320, 240)
RED = np.array([0.6, 0.05, 0.05])


def bounds(mesh: TriangleMesh | Character) -> np.ndarray:
    return np.stack([mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)])


def volume(mesh: TriangleMesh) -> float:
    """Enclosed volume [m³], whatever way round the triangles are."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] - mesh.vertices.mean(axis=0) for k in range(3))
    return float(np.abs(np.einsum("ij,ij->i", a, np.cross(b, c))).sum() / 6.0)


def test_things_stand_where_the_world_says():
    world = World(
        walls=(Wall((0.0, 0.0), (2.0, 0.0), 0.1, 2.2),),
        stones=(Stone((1.0, 1.0), 0.2, 0.15),),
        tables=(Table((3.0, 0.0), (0.8, 0.6), 0.75),),
        boxes=(Box((0.0, 4.0), (0.4, 0.6), 0.3),),
        bars=(Bar((-1.0, 2.2, 0.0), (1.0, 2.2, 0.0), 0.02),),
    )
    scenery = build_scenery(world)
    np.testing.assert_allclose(bounds(scenery.panes), [(0.0, 0.0, -0.05), (2.0, 2.2, 0.05)], atol=1e-12)
    stone, table, box, bar = scenery.parts
    np.testing.assert_allclose(bounds(stone), [(0.8, 0.0, 0.8), (1.2, 0.15, 1.2)], atol=1e-9)
    np.testing.assert_allclose(bounds(table), [(2.6, 0.0, -0.3), (3.4, 0.75, 0.3)], atol=1e-9)
    np.testing.assert_allclose(bounds(box), [(-0.2, 0.0, 3.7), (0.2, 0.3, 4.3)], atol=1e-9)
    np.testing.assert_allclose(bounds(bar), [(-1.02, 2.18, -0.02), (1.02, 2.22, 0.02)], atol=1e-9)
    assert volume(box) == pytest.approx(0.4 * 0.3 * 0.6, rel=1e-9)


@pytest.mark.parametrize("heading_deg", [0.0, 30.0, 90.0])
def test_a_turned_box_is_the_one_that_engines_walk_round(heading_deg):
    """Corners lie on the rim of the rectangle from which distances are measured, and its middle inside."""
    from marey.world import box_distance

    box = Box((0.4, -0.3), (0.4, 1.2), 0.5, heading_deg)
    (mesh,) = build_scenery(World(boxes=(box,))).parts
    x, _, z = mesh.vertices.T
    np.testing.assert_allclose(box_distance(box.position, box.size, heading_deg, x, z), 0.0, atol=1e-9)


def test_a_river_is_blue_where_it_flows_and_nowhere_else():
    scenery = build_scenery(World(rivers=(River((-1.0, 0.0), (1.0, 0.0), 0.6),)))
    camera = PinholeCamera([0.0, 6.0, 0.01], [0.0, 0.0, 0.0])
    ground = GroundPattern(checker=0.0, line_width_m=0.0, fade_m=(50.0, 60.0))
    image = render(RenderScene(camera, marks=scenery.marks, ground=ground), SIZE).astype(int)
    u, v, _ = camera.project([[x, 0.0, z] for x, z in ((0.0, 0.0), (0.9, 0.25), (0.0, 0.45), (1.3, 0.0))], SIZE).T
    blue = [bool(image[int(b), int(a), 2] > image[int(b), int(a), 0] + 30) for a, b in zip(u, v, strict=True)]
    assert blue == [True, True, False, False]
    assert WATER[2] > WATER[0]


def still(num_frames: int = 40) -> Motion:
    """The canonical human stands."""
    roots = np.tile(HUMAN.offsets[0], (num_frames, 1))
    return Motion(HUMAN, 30.0, roots, SO3.identity(num_frames, HUMAN.num_joints), name="stands")


def test_a_picked_object_is_at_its_place_then_in_the_hand_then_where_it_was_put():
    motion = still()
    roots = motion.root_positions + np.linspace(0.0, 3.9, 40)[:, None] * [0.0, 0.0, 1.0]
    motion = replace(motion, root_positions=roots)
    points = contact_points(HUMAN)
    palms = points.positions(*motion.joint_frames())[:, points.index("right_hand")]
    sketch = Sketch(
        GroundPose((0.0, 0.0)),
        GroundPose((0.0, 4.0)),
        events=(
            Event("pick", object="cup"),
            Event("place", object="cup", to=tuple(float(c) for c in palms[30] + [0, 0.02, 0])),
        ),
        world=World(objects=(Thing("cup", tuple(float(c) for c in palms[10] + [0.0, 0.03, 0.0])),)),
    )
    centres = [m.vertices.mean(axis=0) for m in place_objects(sketch, motion, np.array([0, 9, 20, 29, 35]))]
    np.testing.assert_allclose(centres[0], centres[1], atol=1e-9)
    np.testing.assert_allclose(centres[2], palms[20], atol=1e-9)
    np.testing.assert_allclose(centres[3], palms[29], atol=1e-9)
    np.testing.assert_allclose(centres[4], palms[30] + [0, 0.02, 0], atol=1e-9)


def test_an_object_that_no_hand_reaches_stays():
    world = World(objects=(Thing("cup", (3.0, 0.8, 0.0)),))
    sketch = Sketch(GroundPose((0.0, 0.0)), GroundPose((0.0, 1.0)), events=(Event("pick", object="cup"),), world=world)
    (mesh,) = place_objects(sketch, still(), np.array([39]))
    np.testing.assert_allclose(mesh.vertices.mean(axis=0), (3.0, 0.8, 0.0), atol=1e-9)
    np.testing.assert_allclose(mesh.colours[0], OBJECT)


def climb(rise_m: float = 0.2) -> Motion:
    """Three poses on three levels: each stands for half a second on both feet."""
    motion = still(60)
    level = np.repeat([0.0, rise_m, 2.0 * rise_m], 20)
    ahead = np.repeat([0.0, 0.4, 0.8], 20)
    roots = motion.root_positions + np.stack([0.0 * level, level, ahead], axis=1)
    names = ("left_heel", "left_toe", "right_heel", "right_toe")
    active = np.ones((60, 4), dtype=bool)
    active[[19, 39]] = False
    return replace(motion, root_positions=roots, contacts=Contacts(names, active))


def test_the_ground_is_that_of_the_lowest_steps_and_the_others_have_blocks():
    motion = climb()
    assert motion.contacts is not None
    level = ground_level(motion, motion.contacts)
    assert level == pytest.approx(0.0, abs=0.01)
    steps = find_steps(motion, motion.contacts, level)
    tops = np.unique(steps.vertices[:, 1].round(3))
    np.testing.assert_allclose(tops, [0.0, 0.2, 0.4], atol=0.011)
    # every sole at rest has a top or the ground under it
    at = contact_points(HUMAN).positions(*motion.joint_frames())[:, :4]
    for frame in (10, 30, 50):
        for heel_or_toe in at[frame]:
            near = np.abs(steps.vertices - heel_or_toe)
            on_block = ((near[:, [0, 2]] < 0.35).all(axis=1) & (near[:, 1] < 0.015)).any()
            assert on_block or abs(heel_or_toe[1] - level) < 0.015


def test_flat_ground_has_no_blocks(travelling):
    level = ground_level(travelling, travelling.contacts)
    assert len(find_steps(climb(0.0), climb(0.0).contacts, 0.0).faces) == 0
    assert np.isfinite(level)


@pytest.mark.mocap
@pytest.mark.parametrize(("clip", "blocks"), [("83_27", True), ("81_12", True), ("35_01", False), ("16_58", False)])
def test_stairs_and_ledges_of_captures_are_drawn_and_walks_have_none(mocap, clip, blocks):
    scene = motion_scene(load(mocap / "cmu-bvh" / f"{clip}.bvh"), [0, -1])
    assert (len(scene.mesh.faces) > 0) == blocks


@pytest.mark.mocap
@pytest.mark.parametrize("clip", ["35_01", "16_58", "07_05", "02_03"])
def test_soles_neither_float_nor_sink_on_the_picture(mocap, clip):
    """Lowest drawn point against the drawn ground, over walks and runs."""
    from marey.picture.bodies import contacts_or_detect, place_capsules

    motion = load(mocap / "cmu-bvh" / f"{clip}.bvh")
    contacts = contacts_or_detect(motion)
    frames = np.flatnonzero(contacts.active.any(axis=1))[::10]
    body, starts, ends = place_capsules(motion, frames)
    lowest = np.minimum(starts[..., 1] - body.start_radii, ends[..., 1] - body.end_radii).min(axis=1)
    gaps = lowest - ground_level(motion, contacts)
    assert np.percentile(gaps, 90) < 0.03 and np.percentile(gaps, 10) > -0.05


def test_boxes_and_bodies_hide_one_another():
    camera = PinholeCamera([0.0, 0.5, 5.0], [0.0, 0.5, 0.0])
    ball = CapsuleBatch([[0, 0.5, 0]], [[0, 0.5, 0]], np.array([0.2]), np.array([0.2]), RED[None])
    outline = np.array([[-0.4, -0.1], [0.4, -0.1], [0.4, 0.1], [-0.4, 0.1]])
    for depth, seen in ((-1.0, True), (1.0, False)):
        box = TriangleMesh.column(outline + np.array([0.0, depth]), (0.0, 1.0), [0.1, 0.1, 0.6])
        image = render(RenderScene(camera, ball, mesh=box, ground=None), SIZE).astype(int)
        red, _, blue = image[120, 160]
        assert bool(red > blue + 30) == seen


def test_the_ground_hides_triangles_below_it():
    camera = PinholeCamera([0.0, 2.0, 4.0], [0.0, 0.0, 0.0])
    outline = np.array([[-0.4, -0.4], [0.4, -0.4], [0.4, 0.4], [-0.4, 0.4]])
    for heights, seen in (((-1.0, -0.3), False), ((0.0, 0.5), True)):
        box = TriangleMesh.column(outline, heights, RED)
        image = render(RenderScene(camera, mesh=box), SIZE).astype(int)
        assert bool((image[..., 0] > image[..., 1] + 30).any()) == seen


def test_walls_are_seen_through():
    camera = PinholeCamera([0.0, 1.0, 5.0], [0.0, 1.0, 0.0])
    ball = CapsuleBatch([[0, 1.0, 0]], [[0, 1.0, 0]], np.array([0.3]), np.array([0.3]), RED[None])
    panes = build_scenery(World(walls=(Wall((-2.0, 1.0), (2.0, 1.0)),))).panes
    image = render(RenderScene(camera, ball, panes=panes, ground=None), SIZE).astype(int)
    bare = render(RenderScene(camera, ball, ground=None), SIZE).astype(int)
    assert image[120, 160, 0] > image[120, 160, 1] + 15 and np.abs(image - bare).max() > 20


def test_a_strip_shows_the_world_where_bodies_go_and_beside_bodies_that_stay(travelling, staying):
    box = World(boxes=(Box((0.0, 1.0), (0.5, 0.5), 0.5),))
    bare, furnished = (film_strip(travelling, width=320, height=110, world=w) for w in (World(), box))
    assert np.abs(furnished.astype(int) - bare).max() > 40
    near = World(boxes=(Box((0.0, 0.5), (0.3, 0.3), 0.3),))
    assert film_strip(staying, width=320, layout="grid", world=near).shape[1] == 320
    assert (film_strip(staying, width=320, world=near) == film_strip(staying, width=320, world=near)).all()


@pytest.fixture
def rigged(tmp_path: Path) -> Path:
    path = tmp_path / "someone.glb"
    write_character(path, armature=False, clips=1)
    return path


def test_the_mesh_of_a_clips_own_file_is_drawn_and_capsules_on_request(rigged):
    motion = load(rigged)
    auto, plain = (motion_scene(motion, 0, body=body) for body in ("auto", "capsules"))
    assert len(auto.mesh.faces) and not len(auto.solids)
    assert len(plain.solids) and not len(plain.mesh.faces)
    assert film_strip(motion, width=256, count=2).shape[1] == 256


def test_a_named_character_needs_its_own_skeleton(rigged, travelling):
    assert find_character(load(rigged), rigged, "mesh") is not None
    other = Skeleton(("only", "two"), np.array([-1, 0]), np.array([[0.0, 1.0, 0.0], [0.0, 0.3, 0.0]]))
    with pytest.raises(InputError, match="Retarget"):
        find_character(Motion(other, 30.0, np.zeros((1, 3)), SO3.identity(1, 2)), rigged)
    with pytest.raises(InputError, match="no skinned mesh"):
        find_character(travelling, None, "mesh")
    with pytest.raises(InputError, match="one of them"):
        find_character(load(rigged), rigged, "capsules")
    with pytest.raises(UnknownNameError, match="capsules"):
        find_character(travelling, None, "capsule")
    assert find_character(travelling) is None


def test_a_file_that_went_away_or_broke_is_drawn_as_capsules(rigged):
    motion = load(rigged)
    rigged.write_bytes(b"glTF broken")
    assert find_character(motion) is None
    rigged.unlink()
    assert find_character(motion) is None


def test_a_heavy_mesh_gets_lighter_and_keeps_its_shape():
    fine = capsule_mesh(capsules(HUMAN), 48)
    count = len(fine.vertices)
    joints, weights = np.tile(fine.joints[:, None], (1, 4)), np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    places = HUMAN.rest_positions()[fine.joints] + fine.vertices
    whole = Character(HUMAN, places, fine.faces, joints, weights, np.full((count, 3), 0.5))
    light = merge_vertices(whole, len(whole.triangles) // 6)
    assert 1000 < len(light.triangles) <= len(whole.triangles) // 6
    np.testing.assert_allclose(bounds(light), bounds(whole), atol=0.01)  # a quarter of a cell
    gaps, _ = cKDTree(places[::7]).query(light.vertices)
    assert gaps.max() < 0.045


def test_a_film_shows_character_and_world(rigged, tmp_path):
    world = World(boxes=(Box((0.0, 0.6)),))
    out = save_film(load(rigged), tmp_path / "a.gif", fps=4.0, size=(96, 72), world=world)
    assert out.stat().st_size > 500


def test_a_motion_shows_itself_in_a_notebook(travelling):
    page = travelling._repr_html_()
    assert "61 at 30 Hz" in page and "2.00 m/s" in page
    picture = b64decode(page.split("base64,")[1].split("'")[0])
    assert Pillow.open(BytesIO(picture)).size[0] == 840


def test_a_name_cannot_break_the_page_and_a_picture_that_fails_leaves_the_facts(travelling, monkeypatch):
    named = replace(travelling, name="<script>alert(1)</script>")
    assert "<script>" not in named._repr_html_()
    monkeypatch.setattr("marey.picture.pages.film_strip", lambda *a, **k: 1 / 0)
    assert "division by zero" in named._repr_html_() and "61 at 30 Hz" in named._repr_html_()
    monkeypatch.setattr("marey.picture.motion_html", lambda m: 1 / 0)
    assert named._repr_html_().startswith("<pre>Motion(")


@pytest.mark.real
def test_characters_of_other_tools_are_drawn_as_their_own_mesh(real):
    for name in ("khronos-gltf/CesiumMan.glb", "khronos-gltf/Fox.glb", "mesh2motion/human-female.glb"):
        scene = motion_scene(load(real / name), 0)
        assert len(scene.mesh.faces) > 500 and not len(scene.solids)
