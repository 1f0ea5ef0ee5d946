"""Film strips and pictures of motions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from marey.base import InputError, UnknownNameError
from marey.lie import SO3
from marey.motion import Motion
from marey.picture import (
    CapsuleBatch,
    Palette,
    PinholeCamera,
    body_solids,
    compare_strips,
    film_strip,
    ground_level,
    main_heading,
    motion_scene,
    render_motion,
)
from marey.picture.bodies import PALETTES, foot_prints, joint_sides, root_path
from marey.picture.motions import ground_focus, is_travelling, path_bend, strip_frames
from marey.skeleton import HUMAN, Skeleton, capsules

PURE = np.array([0.0, 0.5, 0.0])


def paper(image):
    """Pixels as light as ground and background."""
    return image.min(axis=2) > 200


def test_bodies_are_drawn_at_their_joints(travelling):
    size, frames = (480, 270), [0, 30, 60]
    scene = motion_scene(travelling, frames, size=size)
    image = render_motion(travelling, frames, size=size)
    joints = travelling.joint_positions()[frames][:, [HUMAN.index(n) for n in ("pelvis", "head", "left_knee")]]
    u, v, _ = scene.camera.project(joints.reshape(-1, 3), size).T
    assert not paper(image)[v.astype(int), u.astype(int)].any()


def test_left_and_right_limbs_have_their_own_colours():
    sides = joint_sides(HUMAN)
    assert sides[HUMAN.index("left_knee")] == 1 and sides[HUMAN.index("right_wrist")] == 2
    assert sides[HUMAN.index("head")] == 0 == sides[HUMAN.index("left_collar")]


def test_capsules_move_with_their_joints(travelling):
    (body,) = body_solids(travelling, np.array([20]), PALETTES[0])
    shape, positions = capsules(HUMAN), travelling.joint_positions()[20]
    np.testing.assert_allclose(
        np.linalg.norm(body.starts - positions[shape.joints], axis=1), np.linalg.norm(shape.starts, axis=1), atol=1e-12
    )
    np.testing.assert_allclose(
        np.linalg.norm(body.ends - body.starts, axis=1), np.linalg.norm(shape.ends - shape.starts, axis=1), atol=1e-12
    )


def test_feet_in_contact_take_the_contact_colour(travelling):
    palette = Palette(contact=PURE)
    down, up = 5, 20  # the left foot stands in the first half of every second
    standing, swinging = body_solids(travelling, np.array([down, up]), palette, contacts=travelling.contacts)
    left_foot = np.flatnonzero(capsules(HUMAN).joints == HUMAN.index("left_foot"))
    np.testing.assert_array_equal(standing.colours[left_foot], np.broadcast_to(PURE, (len(left_foot), 3)))
    assert np.abs(swinging.colours[left_foot] - PURE).max() > 0.1


def test_every_stance_leaves_one_print_under_the_foot(travelling):
    prints = foot_prints(travelling, travelling.contacts, PALETTES[0])
    # left stands three times (the last frame begins a third stance), right twice
    assert len(prints) == 5
    lefts = np.flatnonzero((prints.colours == PALETTES[0].left).all(axis=1))
    assert len(lefts) == 3
    positions = travelling.joint_positions()[:15, HUMAN.index("left_foot")][:, [0, 2]]
    assert np.linalg.norm(prints.ends[lefts[0]] - positions.mean(axis=0)) < 0.15


def test_the_path_runs_under_the_root(travelling):
    path = root_path(travelling, PURE)
    np.testing.assert_allclose(path.starts[0], travelling.root_positions[0, [0, 2]])
    np.testing.assert_allclose(np.diff(path.starts, axis=0)[:, 0], 0.0, atol=1e-12)


@pytest.mark.parametrize("heading", [0.0, 1.0, -2.0])
def test_heading_is_that_of_the_path_and_in_place_that_of_the_body(swing, heading):
    for clip in (swing(heading_rad=heading), swing(heading_rad=heading, speed_mps=0.0)):
        error = main_heading(clip) - heading
        assert abs(np.arctan2(np.sin(error), np.cos(error))) < 0.05


def test_the_ground_is_under_the_soles(travelling):
    body = body_solids(travelling, np.array([0]), PALETTES[0])[0]
    lowest = min((body.starts[:, 1] - body.start_radii).min(), (body.ends[:, 1] - body.end_radii).min())
    assert ground_level(travelling, travelling.contacts) == pytest.approx(lowest, abs=0.12)


def test_the_ground_is_centred_under_the_long_line_of_the_bodies():
    ends = np.array([[0.0, 1.0, 0.0], [3.0, 1.0, 4.0]])  # a row that runs slantwise
    row = CapsuleBatch(ends, ends, np.full(2, 0.1), np.full(2, 0.1), np.zeros((2, 3)))
    focus = ground_focus(np.concatenate([row.starts, row.ends]))
    np.testing.assert_allclose(focus[np.argsort(focus[:, 0])], [[0.0, 0.0], [3.0, 4.0]], atol=1e-9)


def test_a_strip_has_the_asked_width_and_a_fitting_height(travelling):
    image = film_strip(travelling, width=640, count=5)
    assert image.shape[1] == 640 and image.dtype == np.uint8
    used = np.flatnonzero((~paper(image)).any(axis=0))
    assert used[0] < 60 and used[-1] > 580  # the bodies fill the width
    assert film_strip(travelling, width=640, height=200, count=5).shape == (200, 640, 3)


def test_a_strip_leaves_travelling_bodies_where_they_were_and_spreads_the_others(travelling, staying):
    frames = strip_frames(travelling, 6, by_movement=False)
    assert is_travelling(travelling, frames) and not is_travelling(staying, frames)
    image = film_strip(staying, count=6, width=900)
    columns = (image[: image.shape[0] // 2].min(axis=2) < 150).any(axis=0)  # heads and arms, not the ground
    runs = np.count_nonzero(np.diff(columns.astype(int)) == 1)
    assert runs >= 5  # bodies are separated by free columns


def test_instants_by_movement_skip_the_wait(staying):
    still, lively = staying[:1], staying
    wait = Motion(
        HUMAN,
        30.0,
        np.concatenate([np.repeat(still.root_positions, 100, axis=0), lively.root_positions]),
        type(lively.rotations).concatenate([*[still.rotations] * 100, lively.rotations]),
    )
    even, busy = (strip_frames(wait, 8, by_movement=flag) for flag in (False, True))
    assert even[0] == busy[0] == 0 and even[-1] == busy[-1] == 160
    np.testing.assert_allclose(np.diff(even), 160 / 7, atol=1)
    assert (busy > 100).sum() > (even > 100).sum()


def test_same_motion_gives_same_bytes(travelling):
    assert film_strip(travelling, width=320).tobytes() == film_strip(travelling, width=320).tobytes()


def test_a_single_frame_makes_a_strip_of_one(travelling):
    assert film_strip(travelling[:1], width=200).shape[1] == 200


def test_the_caption_changes_only_the_bottom(travelling):
    plain, named = (film_strip(travelling, width=640, count=4, caption=flag) for flag in (False, True))
    rows = np.flatnonzero((plain != named).any(axis=(1, 2)))
    assert len(rows) and rows[0] > 0.8 * len(plain)


def test_two_motions_stand_side_by_side_in_two_colours(travelling):
    scene = motion_scene([travelling, travelling], 10, spacing_m=1.5)
    half = len(scene.solids) // 2
    moved = scene.solids.starts[half:] - scene.solids.starts[:half]
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 1.5)
    np.testing.assert_allclose(moved[:, [1, 2]], 0.0, atol=0.02)  # across the way, which is +Z
    assert np.abs(scene.solids.colours[half:] - scene.solids.colours[:half]).max() > 0.05


def test_compared_strips_are_stacked_in_different_colours(travelling):
    image = compare_strips([travelling, travelling], width=320, count=3, height=100)
    assert image.shape == (200, 320, 3)
    assert np.abs(image[:100].astype(int) - image[100:]).max() > 30
    np.testing.assert_array_equal(image[:100], film_strip(travelling, width=320, count=3, height=100))


def test_the_camera_rises_for_a_bent_path(travelling):
    turn = 2 * np.pi * travelling.times() / travelling.duration_s
    circle = np.stack([np.sin(turn), np.full_like(turn, 0.96), np.cos(turn)], axis=1)
    assert path_bend(travelling) < 0.01
    assert path_bend(replace(travelling, root_positions=circle)) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("scale", [0.01, 1.0, 60.0])
@pytest.mark.parametrize("joints", [1, 2, 22])
def test_any_skeleton_of_any_size_can_be_drawn(scale, joints):
    names, parents = HUMAN.names[:joints], HUMAN.parents[:joints]
    body = Skeleton(names, parents, HUMAN.offsets[:joints] * scale, HUMAN.tips[:joints] * scale)
    clip = Motion(body, 30.0, np.tile(body.offsets[0], (4, 1)), SO3.identity(4, joints))
    assert film_strip(clip, width=128, count=2).shape[1] == 128
    assert render_motion(clip, [0, 3], size=(64, 48)).shape == (48, 64, 3)


def test_earlier_bodies_are_paler(travelling):
    scene = motion_scene(travelling, [0, 45], prints=False)
    half = len(scene.solids) // 2
    assert scene.solids.colours[:half].mean() > scene.solids.colours[half:].mean() + 0.1
    assert len(scene.marks) == 0


def test_a_given_camera_is_used(travelling):
    camera = PinholeCamera([5, 1, 0], [0, 1, 0])
    assert motion_scene(travelling, 0, camera=camera).camera is camera


def test_wrong_words_and_numbers_are_refused(travelling):
    with pytest.raises(UnknownNameError, match="travel"):
        film_strip(travelling, layout="travell")
    with pytest.raises(UnknownNameError, match="movement"):
        film_strip(travelling, instants="move")
    with pytest.raises(UnknownNameError, match="side"):
        render_motion(travelling, 0, view="sid")
    with pytest.raises(InputError, match="at least 1"):
        film_strip(travelling, count=0)
    with pytest.raises(InputError, match="Frames go from"):
        render_motion(travelling, -200)
    with pytest.raises(InputError, match="no frame"):
        render_motion(travelling, [])
    with pytest.raises(InputError, match="no motion"):
        render_motion([], 0)


def test_named_views_look_from_there(travelling):
    """From the front shoulders are apart, from the side they are one behind the other: the bodies are narrower."""
    paint = {view: film_strip(travelling, count=1, width=400, height=300, view=view, caption=False) for view in
             ("side", "front", "top")}  # fmt: skip
    assert all(image.shape == (300, 400, 3) for image in paint.values())
    assert not np.array_equal(paint["side"], paint["front"])
    with pytest.raises(UnknownNameError, match="view"):
        film_strip(travelling, view="back")
