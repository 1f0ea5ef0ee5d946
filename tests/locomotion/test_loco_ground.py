"""The engine on slopes and stairs, on skeletons of others, with edited footholds, and at rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey import HUMAN
from marey.base import FloatArray, InputError
from marey.contacts import pigeon_toe
from marey.io import load
from marey.locomotion import Engine, Slope, Stairs, WalkGround
from marey.measure import measure_motion
from marey.motion import Motion
from marey.skeleton import Skeleton, foot_points, restored_roles

PARTS = ("heel", "ball", "toe_end")


def soles(motion: Motion) -> FloatArray:
    """Points of the soles ``(F, 2, 3, 3)`` [m], left first."""
    points = foot_points(motion.skeleton, restored_roles(motion.skeleton))
    order = [points.index(f"{side}_{part}") for side in ("left", "right") for part in PARTS]
    return points.positions(*motion.joint_frames())[:, order].reshape(-1, 2, 3, 3)


def heights_over(motion: Motion, ground: WalkGround) -> FloatArray:
    """Heights ``(F, 6)`` [m] of the points of both soles over the ground."""
    return np.array([[y - ground.plane(x, z)[0] for x, y, z in frame.reshape(6, 3)] for frame in soles(motion)])


def flat_frames(motion: Motion, side: str) -> FloatArray:
    """Frames in which a heel and a ball are slower than 2 cm/s: the foot stands flat."""
    at = soles(motion)[:, 0 if side == "left" else 1]
    slow = np.linalg.norm(np.diff(at[:, :2], axis=0), axis=-1).max(axis=1) * motion.rate_hz < 0.02
    return np.flatnonzero(slow)


@pytest.mark.parametrize("angle_deg", [8.0, -8.0])
def test_soles_lie_on_a_slope_and_the_pelvis_goes_with_it(angle_deg: float) -> None:
    ground = Slope(np.radians(angle_deg), start_m=0.5)
    motion = Engine(speed=1.2, ground=ground).run(5.0, 30.0)
    over = heights_over(motion, ground)
    assert over.min() > -0.012
    # Where a foot stands flat, heel and ball are on the plane
    for side in ("left", "right"):
        frames = flat_frames(motion, side)
        frames = frames[frames > 60]
        assert len(frames) > 10
        columns = slice(0, 2) if side == "left" else slice(3, 5)
        assert np.abs(over[frames, columns]).max() < 0.006
    way = motion.root_positions[-1] - motion.root_positions[60]
    assert way[1] / way[2] == pytest.approx(np.tan(np.radians(angle_deg)), abs=0.02)
    assert measure_motion(motion, kind="walk")["knee_flexion_least_deg"] > 0.0


@pytest.mark.parametrize(("angle_deg", "most_deg"), [(8.0, 13.0), (15.0, 23.0)])
def test_nobody_crouches_up_a_slope(angle_deg: float, most_deg: float) -> None:
    """Heels of trailing feet rise, as those of people do; the pelvis sank by 5 cm and knees bent by 20 degrees more."""
    level, up = (
        measure_motion(Engine(speed=1.2, ground=ground).run(6.0, 60.0), kind="walk")
        for ground in (None, Slope(np.radians(angle_deg), start_m=1.0))
    )
    for side in ("left", "right"):
        name = f"{side}_knee_flexion_median_deg"
        assert up[name] < level[name] + most_deg


@pytest.mark.parametrize(("angle_deg", "low_deg", "high_deg"), [(15.0, 3.0, 6.0), (-15.0, -3.5, -1.0)])
def test_a_trunk_leans_into_a_slope_before_the_foot_is_on_it(angle_deg: float, low_deg: float, high_deg: float) -> None:
    pitches, z = list[FloatArray](), np.zeros(0)
    for ground in (None, Slope(np.radians(angle_deg), start_m=2.0)):
        at = Engine(speed=1.2, ground=ground).run(5.0, 30.0).joint_positions()
        trunk, z = at[:, HUMAN.index("neck")] - at[:, 0], at[:, 0, 2]
        pitches.append(np.degrees(np.arctan2(trunk[:, 2], trunk[:, 1])))
    lean = pitches[1] - pitches[0]
    assert low_deg < np.mean(lean[z > 3.5]) < high_deg
    assert np.abs(lean[z < 1.3]).max() < 1e-6
    # It has begun at the bend
    assert np.interp(2.0, z, lean) * np.sign(angle_deg) > 0.2


@pytest.mark.parametrize("rise_m", [0.15, -0.15])
def test_feet_stand_on_treads_and_swing_round_their_edges(rise_m: float) -> None:
    ground = Stairs(rise_m, 0.30, 8, start_m=1.0)
    motion = Engine(speed=0.4, ground=ground).run(7.0, 30.0)
    over = heights_over(motion, ground)
    assert over.min() > -0.01
    assert motion.root_positions[-1, 1] - motion.root_positions[0, 1] == pytest.approx(
        4.5 * rise_m, abs=2.6 * abs(rise_m)
    )
    for side, column in (("left", 1), ("right", 4)):
        frames = flat_frames(motion, side)
        # The ball stands on its tread, as near as the meter says that it touches
        assert np.abs(over[frames, column]).max() < 0.008


@pytest.mark.parametrize("rise_m", [0.17, -0.17])
def test_a_brisk_walker_slows_down_for_stairs_and_takes_every_tread(rise_m: float) -> None:
    ground = Stairs(rise_m, 0.28, 6, start_m=1.5)
    engine = Engine(speed=1.3, ground=ground)
    motion = engine.run(6.5, 30.0)
    stood = [ground.plane(*step.position[[0, 2]])[0] / rise_m for step in engine.footprints]
    np.testing.assert_allclose(np.diff([0.0, *(n for n in stood if n > 0.5)]).clip(0.0, 1.0)[:6], 1.0, atol=1e-9)
    assert max(np.diff(stood)) < 1.01
    # The pelvis rises by one stair a step, not at once; afterwards the character goes on as fast as before
    assert np.abs(np.diff(motion.root_positions[:, 1])).max() * motion.rate_hz < 1.0
    assert not [fault for fault in measure_motion(motion, kind="walk").faults if fault.kind == "jump"]
    assert heights_over(motion, ground).min() > -0.005
    assert engine.speed == pytest.approx(1.3, abs=0.02)


@pytest.mark.parametrize("angle_deg", [15.0, -15.0])
def test_no_foot_dips_into_the_bends_of_a_steep_slope(angle_deg: float) -> None:
    ground = Slope(np.radians(angle_deg), start_m=1.0, length_m=2.5)
    motion = Engine(speed=1.2, ground=ground).run(5.0, 30.0)
    assert heights_over(motion, ground).min() > -0.005


def make_long_legs() -> Skeleton:
    """A body with thighs and shanks longer, feet shorter, hips wider than those of the model, by other factors."""
    offsets = HUMAN.offsets.copy()
    for part, factor in (("knee", 1.15), ("ankle", 1.05), ("foot", 0.85), ("hip", 1.2)):
        for side in ("left", "right"):
            offsets[HUMAN.index(f"{side}_{part}")] *= factor
    return Skeleton(HUMAN.names, HUMAN.parents, offsets, HUMAN.tips, HUMAN.limits, "long legs")


@pytest.mark.parametrize("body", [HUMAN.scaled(0.6), make_long_legs()], ids=["child", "long legs"])
def test_any_proportions_walk_on_the_floor_at_their_speed(body: Skeleton) -> None:
    engine = Engine(skeleton=body, speed=1.0)
    engine.run(1.0)
    motion = engine.run(5.0, 120.0)
    assert motion.skeleton.names == body.names
    np.testing.assert_allclose(motion.skeleton.offsets, body.offsets, atol=1e-12)
    found = measure_motion(motion, kind="walk")
    assert found.faults == ()
    assert found["root_speed_median_mps"] == pytest.approx(1.0, rel=0.05)
    assert found["scraped_m_per_10m"] < 2.1
    assert np.quantile(soles(motion)[..., 1].min(axis=(1, 2)), [0.0, 0.95]) == pytest.approx([0.0, 0.0], abs=0.004)


@pytest.mark.mocap
def test_a_captured_skeleton_walks_without_a_fault(mocap: Path) -> None:
    body = load(mocap / "cmu-bvh" / "69_05.bvh").skeleton
    engine = Engine(skeleton=body, speed=1.3)
    engine.run(1.0)
    found = measure_motion(engine.run(4.0, 120.0), kind="walk")
    assert found.faults == ()
    assert found["scraped_m_per_10m"] < 2.1


def test_the_model_on_its_own_skeleton_is_the_model() -> None:
    plain, own = (Engine(speed=1.2, skeleton=body).run(1.0) for body in (None, Engine().model.skeleton))
    np.testing.assert_allclose(own.joint_positions(), plain.joint_positions(), atol=2e-3)


def test_toes_turn_in_from_the_next_steps_on() -> None:
    yaws = dict[float, FloatArray]()
    for angle in (0.0, 0.25):
        engine = Engine(speed=1.2)
        engine.edit = pigeon_toe(angle)
        engine.run(2.0)
        motion = engine.run(3.0)
        along = np.diff(soles(motion)[:, :, :2], axis=2)[:, :, 0]
        headings = np.arctan2(along[..., 0], along[..., 2])
        yaws[angle] = np.array(
            [np.median(headings[flat_frames(motion, s), k]) for k, s in enumerate(("left", "right"))]
        )
    np.testing.assert_allclose(yaws[0.25] - yaws[0.0], [-0.25, 0.25], atol=0.03)


def test_who_stands_breathes_over_feet_that_stay() -> None:
    motion = Engine(idle=True).run(6.0)
    at, pelvis = soles(motion)[60:], motion.root_positions[60:]
    assert np.ptp(at, axis=0).max() < 1e-4
    assert 0.003 < np.ptp(pelvis, axis=0).max() < 0.03
    assert np.ptp(Engine().run(2.0).root_positions, axis=0).max() < 1e-6


def test_a_prediction_on_stairs_is_what_comes() -> None:
    engine = Engine(speed=0.5, ground=Stairs(0.12, 0.35, 4, start_m=0.5))
    engine.run(1.5)
    foreseen = engine.predict(0.25)
    shown = [engine.step(1.0 / 60.0) for _ in range(15)][-1]
    np.testing.assert_allclose(foreseen.joint_positions(), shown.joint_positions(), atol=2e-3)


def test_what_cannot_be_walked_is_refused() -> None:
    with pytest.raises(InputError, match="slope"):
        Slope(np.radians(40.0))
    with pytest.raises(InputError, match="stairs"):
        Stairs(0.5, 0.3, 3)
    with pytest.raises(InputError, match="level ground"):
        Engine(speed=1.2, ground=Slope(0.1)).jump(0.8)
    with pytest.raises(InputError, match="foot plants"):
        Engine(plants=False, ground=Slope(0.1))
