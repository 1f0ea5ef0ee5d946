"""A step and a control step against the number of modes and the full space, beside MuJoCo's step on an equal body.

[Tournier2011]_ §15.3 had about 100 control steps a second on four cores. Times are of the processor, on one core: what
else runs on the machine does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import numpy as np
from harness import Row

DT_S = 0.01
MODES = (5, 10, 15, 20, 30, 40)
STEPS, REPEATS, BLOCK = 60, 7, 10
STEP_MS, CONTROL_MS = 1.0, 3.0  # budgets for 15 modes with limits, and for 20 modes under control
Job = Callable[[], object]


def rows() -> list[Row]:
    """One table: ours, then MuJoCo's on the same body in the same pose, step by step in turn."""
    from marey import samples
    from marey.dynamics import Body
    from marey.kinematics import fit_limits
    from marey.models import PGA

    walk = samples.walk()
    body = Body.from_motion(walk)
    limits = fit_limits([walk], "box", margin_rad=0.2)
    largest = PGA(n_components=max(MODES), weights="lever").fit([_lively(walk)])
    found: list[Row] = []
    for count in (*MODES, None):
        model = None if count is None else largest.truncate(count)
        name = "full space, 63 dof" if count is None else f"{count} modes"
        theirs = _mujoco(body)
        steps = _standing(body, model, limits)
        found.append(_race(f"step, {name}, feet, limits", steps, theirs, STEP_MS if count == 15 else None))
        control = _controlled(body, model)
        found.append(_race(f"control step, {name}", control, theirs, CONTROL_MS if count == 20 else None))
    return found


def _lively(walk: Any) -> Any:
    """The walk with every joint moving a little by itself, so that it has forty modes."""
    from dataclasses import replace

    from marey.lie import SO3

    rng = np.random.default_rng(2)
    shape = walk.rotations.shape
    return replace(walk, rotations=walk.rotations @ SO3.exp(0.1 * rng.normal(size=(*shape, 3))))


def _placed(simulator: Any, pose: Any) -> None:
    from marey.simulate import contact_spheres
    from marey.skeleton import Pose

    shape = simulator.reset(pose).pose
    spheres, _ = contact_spheres(simulator.body.skeleton)
    here = simulator.mechanics()
    lowest = min(here.point(int(j), o)[1] - r for j, o, r in zip(*spheres, strict=True))
    simulator.reset(Pose(shape.skeleton, shape.root_position - np.array([0.0, lowest, 0.0]), shape.rotations))


def _standing(body: Any, model: Any, limits: Any) -> Job:
    """A figure on both feet that is put back now and then, before it has fallen."""
    from marey.simulate import Ground, Simulator
    from marey.skeleton import t_pose

    simulator = Simulator(body, model, damping="energetic", damping_rate=5.0, ground=Ground(), limits=limits)

    return _timed(lambda: _placed(simulator, t_pose(body.skeleton)), lambda: simulator.step(DT_S))


def _controlled(body: Any, model: Any) -> Job:
    """The same figure, which keeps its balance by forces from inside."""
    from marey.control import Controller, MomentumTask, SupportTask
    from marey.kinematics import PoseTask
    from marey.simulate import Ground, Simulator
    from marey.skeleton import t_pose

    simulator = Simulator(body, model, damping="energetic", ground=Ground())
    _placed(simulator, t_pose(body.skeleton))
    tasks = [SupportTask(), MomentumTask(), PoseTask(simulator.state.pose, weight=0.3)]
    controller = Controller(simulator, tasks)

    def again() -> None:
        _placed(simulator, t_pose(body.skeleton))
        controller.reset()

    return _timed(again, lambda: controller.step(DT_S))


def _mujoco(body: Any) -> Job:
    """MuJoCo's step of the equal body on an equal ground, all joints free."""
    import mujoco

    from marey.simulate import Ground, Simulator, to_mjcf
    from marey.skeleton import t_pose

    simulator = Simulator(body)
    _placed(simulator, t_pose(body.skeleton))
    state = simulator.state
    model = mujoco.MjModel.from_xml_string(to_mjcf(body, ground=Ground(), step_s=DT_S, pose=state.pose))
    data = mujoco.MjData(model)

    def again() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:3], data.qpos[3:7] = state.root_position, state.rotations.wxyz[0]
        for j in simulator.mechanism.joints:
            at = model.joint(body.skeleton.names[j]).qposadr[0]
            data.qpos[at : at + 4] = state.rotations.wxyz[j]

    return _timed(again, lambda: mujoco.mj_step(model, data))


def _timed(again: Job, step: Job) -> Job:
    """A job that gives the processor's time [ms] of one step, over blocks of steps from the same start."""
    again(), step()

    def measure() -> float:
        total = 0.0
        for _ in range(STEPS // BLOCK):
            again()
            start = time.process_time()
            for _ in range(BLOCK):
                step()
            total += time.process_time() - start
        return 1e3 * total / STEPS

    return measure


def _race(name: str, ours: Job, theirs: Job, budget_ms: float | None) -> Row:
    pairs = [(float(ours()), float(theirs())) for _ in range(REPEATS)]  # pyright: ignore[reportArgumentType]
    mine, peer = (median(column) for column in zip(*pairs, strict=True))
    if budget_ms is not None:
        low, _, high = quantiles([budget_ms / o for o, _ in pairs], n=4)
        return Row(name, "budget", mine, budget_ms, budget_ms / mine, low, high, 1.0, f"mj_step {peer:.3f} ms")
    low, _, high = quantiles([p / o for o, p in pairs], n=4)
    return Row(name, "mj_step", mine, peer, peer / mine, low, high, None)
