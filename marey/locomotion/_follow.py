"""Walking a sketch: its path within its corridor, at its speed, with jumps and stops on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from marey.base import BoolArray, InputError
from marey.blending import balance_motion
from marey.lie import SO3
from marey.locomotion._engine import CONTACT_NAMES, Engine
from marey.locomotion._follow_feet import pivot_landing_feet
from marey.locomotion._follow_plan import SWAY_M, SketchPlan, plan_sketch
from marey.locomotion._follow_scene import check_sketch
from marey.locomotion._model import LocomotionModel
from marey.locomotion._steer import COMFORTABLE_CURVES, FAST_CURVES
from marey.locomotion._steer_corner import max_distance_to_line
from marey.locomotion._steer_guide import LeapGoal, PathGuide
from marey.motion import Contacts, Motion
from marey.skeleton import Pose
from marey.world import Sketch

DEFAULT_SPEED_MPS: Final = 1.3  # of a sketch that does not say
RUN_SPEED_FRACTION: Final = 0.9  # of the fastest walk: faster is run
MAX_CORRIDOR_TRIES: Final = 3  # each keeps farther from the walls of the corridor
MAX_DURATION_S: Final = 600.0
BRISK_STOP_LIMITS: Final = (0.3, 1.1)  # [m], [-] of stops: planned farther off or longer they end in creeping


@dataclass(frozen=True, slots=True, eq=False)
class SketchWalk:
    """A sketch that was walked."""

    motion: Motion
    plan: SketchPlan
    off_path_m: float  # farthest that the root was from the path
    corridor_m: float

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        leaps = [goal for goal in self.plan.goals if isinstance(goal, LeapGoal)]
        return {
            "seconds": round(self.motion.duration_s, 3),
            "frames": self.motion.num_frames,
            "way_m": round(self.plan.way.length_m, 3),
            "off_path_m": round(self.off_path_m, 4),
            "corridor_m": self.corridor_m,
            "jumps": [{"at_m": round(one.along_m, 3), "length_m": one.length_m, "kind": one.kind} for one in leaps],
        }

    @property
    def sentence(self) -> str:
        """The same, for people."""
        facts = self.to_json()
        jumps = len(facts["jumps"])
        leaps = f", {jumps} jump{'s' if jumps > 1 else ''}" if jumps else ""
        return (
            f"walked {facts['way_m']:.1f} m in {facts['seconds']:.1f} s{leaps}; the root stays within "
            f"{100.0 * self.off_path_m:.0f} cm of the path, the corridor allows {50.0 * self.corridor_m:.0f}"
        )


def follow_sketch(
    sketch: Sketch,
    model: LocomotionModel | None = None,
    *,
    rate_hz: float = 60.0,
    speed_mps: float | None = None,
    run: float | None = None,
    **options: Any,
) -> Motion:
    """Walk a sketch from its start to its goal.

    Corners are rounded inside the corridor, curves are taken as fast as a body can, rivers and boxes are jumped over
    where the model knows such jumps and else passed where the corridor lets. The root stays in the corridor in
    every frame.

    Args:
        sketch: start, goal, path, events and world.
        model: of the gaits and jumps; the shipped one by default.
        rate_hz: frames per second.
        speed_mps: in place of the sketch's own.
        run: 0 walks, 1 runs; by default as the speed asks.
        **options: of :class:`Engine`, such as ``leg_length_m`` or ``style``.

    Raises:
        InputError: the sketch cannot be walked; the message says where, and what would help.
    """
    return walk_sketch(sketch, model, rate_hz=rate_hz, speed_mps=speed_mps, run=run, **options).motion


def walk_sketch(
    sketch: Sketch,
    model: LocomotionModel | None = None,
    *,
    rate_hz: float = 60.0,
    speed_mps: float | None = None,
    run: float | None = None,
    **options: Any,
) -> SketchWalk:
    """As :func:`follow`, with what was planned and how near the path the root stayed."""
    check_sketch(sketch)
    speed = (
        speed_mps if speed_mps is not None else sketch.speed_mps if sketch.speed_mps is not None else DEFAULT_SPEED_MPS
    )
    if not (np.isfinite(speed) and speed > 0.0 and np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"a speed of {speed} m/s at {rate_hz} Hz", "Both are positive numbers")
    sway, excess = SWAY_M, 0.0
    for _ in range(MAX_CORRIDOR_TRIES):
        engine = _engine_at_start(sketch, model, options)
        share = _run_fraction(engine, speed, str(options.get("scaling", "froude"))) if run is None else run
        plan = plan_sketch(engine, sketch, speed_mps=speed, sway_m=sway)
        motion = balance_motion(
            pivot_landing_feet(_record_walk(_face_path(engine, plan, options), plan, speed, share, rate_hz))
        )
        off = max_distance_to_line(motion.root_positions[:, [0, 2]], plan.line)
        excess = off - 0.5 * sketch.corridor_m
        if excess <= 0.0:
            return SketchWalk(motion, plan, off, sketch.corridor_m)
        sway += excess + 0.01
    raise InputError(
        f"the root leaves the corridor by {100.0 * excess:.0f} cm", f"Widen it from {sketch.corridor_m:.2f} m"
    )


def _engine_at_start(sketch: Sketch, model: LocomotionModel | None, options: dict[str, Any]) -> Engine:
    heading = 0.0 if sketch.start.heading_deg is None else float(np.radians(sketch.start.heading_deg))
    return Engine(model, position=sketch.start.position, heading_rad=heading, **options)


def _face_path(engine: Engine, plan: SketchPlan, options: dict[str, Any]) -> Engine:
    """Let somebody who may face any way begin along the path."""
    heading = float(plan.way.headings[0])
    if abs(heading - engine.heading_rad) < 1e-6:
        return engine
    return Engine(engine.model, position=plan.way.points[0], heading_rad=heading, **options)


def _run_fraction(engine: Engine, speed: float, scaling: str) -> float:
    factor = engine.model.scales(engine.leg_length_m, scaling)[0]
    return 1.0 if speed * factor > RUN_SPEED_FRACTION * float(engine.model.gaits.limits[0]) else 0.0


def _record_walk(engine: Engine, plan: SketchPlan, speed: float, run: float, rate_hz: float) -> Motion:
    curves = COMFORTABLE_CURVES if run < 0.5 else FAST_CURVES
    guide = PathGuide(plan.way, plan.goals, speed_mps=speed, run=run, curves=curves, stops=BRISK_STOP_LIMITS)
    engine.add_driver(guide)
    poses, contacts = [engine.pose], [engine.contacts]
    longest = min(MAX_DURATION_S, 60.0 + 10.0 * plan.way.length_m / speed)
    while not guide.is_done:
        poses.append(engine.step(len(poses) / rate_hz - engine.time_s))
        contacts.append(engine.contacts)
        if engine.time_s > longest:
            x, z = engine.position
            raise InputError(f"no end after {longest:.0f} s, at ({x:.2f}, {z:.2f})", "Simplify the sketch there")
    return _build_motion(poses, np.array(contacts), rate_hz)


def _build_motion(poses: list[Pose], contacts: BoolArray, rate_hz: float) -> Motion:
    return Motion(
        poses[-1].skeleton,
        rate_hz,
        np.stack([pose.root_position for pose in poses]),
        SO3(np.stack([pose.rotations.wxyz for pose in poses])),
        Contacts(CONTACT_NAMES, contacts),
        name="follow",
    )
