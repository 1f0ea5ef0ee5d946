"""The modes of `marey simulate` in which the figure has a will of its own, or is pulled by strings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from marey.base import InputError
from marey.cli._simulate_run import ProgressListener, RunMonitor, SimulationRequest, SimulationRun, throw_due_balls
from marey.control import Drive, Gains, Puppet, TrackingResult, make_reference, solve_tracking, track_balance
from marey.kinematics import PoseTask
from marey.motion import Motion
from marey.simulate import Ball, Push, Simulator, forces_at

ROOT_WEIGHT = 10.0  # [1/rad²], [1/m²] of a puppet's pelvis, against 1 of each joint
BALANCE_S = 10.0  # [s]


def simulate_controlled(
    wish: SimulationRequest,
    simulator: Simulator,
    pushes: tuple[Push, ...],
    throws: list[tuple[float, Ball]],
    tell: ProgressListener,
) -> SimulationRun:
    """Run a mode that needs a controller."""
    if wish.mode == "puppet":
        return _simulate_puppet(wish, simulator, pushes, throws, tell)
    dt, watch = wish.step_s, RunMonitor(simulator)
    late = [(max(start_s, dt), ball) for start_s, ball in throws]

    def on_step(figure: Simulator) -> None:
        watch(figure)
        throw_due_balls(figure, late, figure.state.time_s, dt)
        tell(round(figure.state.time_s / dt), steps)

    clip = _cut_start(wish)
    if wish.mode == "balance":
        seconds = wish.seconds or BALANCE_S
        steps = round(seconds / dt)
        found = track_balance(clip, seconds=seconds, pushes=pushes, simulator=simulator, dt=dt, on_step=on_step)
    else:
        steps = round((wish.seconds or clip.duration_s) / dt)
        found = solve_tracking(clip, pushes=pushes, dt=dt, seconds=wish.seconds, simulator=simulator, on_step=on_step)
    return _add_controller_report(watch.run(wish, pushes, found.motion), found)


def _add_controller_report(run: SimulationRun, found: TrackingResult) -> SimulationRun:
    """A run with what its controller says of it."""
    fall: dict[str, Any] | None = None
    if found.fall is not None:
        fall = {"time_s": float(found.fall.time_s), "words": str(found.fall)}
    facts = run.facts | {
        "fall": fall,
        "mean_error_cm": 100.0 * float(found.error_m.mean()),
        "max_error_cm": 100.0 * float(found.error_m.max()),
        "planned": float(np.mean(found.planned)),
    }
    words = "stays upright" if fall is None else fall["words"]
    near = f"{facts['mean_error_cm']:.1f} cm from the clip" if facts["mode"] == "track" else "balances"
    sentence = f"{facts['mode']}: {facts['seconds']:g} s in {facts['num_dof']} degrees of freedom, {near}; {words}"
    return replace(run, facts=facts, sentence=sentence)


def _cut_start(wish: SimulationRequest) -> Motion:
    frame = round(wish.start_s * wish.motion.rate_hz)
    if not 0 <= frame < wish.motion.num_frames - 2:
        raise InputError(f"start at {wish.start_s:g} s of {wish.motion.duration_s:.3g} s", "Start within the clip")
    return wish.motion[frame:]


def _simulate_puppet(
    wish: SimulationRequest,
    simulator: Simulator,
    pushes: tuple[Push, ...],
    throws: list[tuple[float, Ball]],
    tell: ProgressListener,
) -> SimulationRun:
    """A puppet whose strings follow the clip, and how hard they pull."""
    dt = wish.step_s
    reference = make_reference(_cut_start(wish), simulator, dt)
    simulator.reset(reference.motion[0], velocity=reference.velocities[0])
    puppet, watch, last = Puppet(simulator, alpha=wish.alpha), RunMonitor(simulator), len(reference) - 1
    steps = last if wish.seconds is None else max(1, round(wish.seconds / dt))
    gains = Gains(1.0 / dt, 0.0, np.inf)  # strings that do not give: alpha alone says how much they count
    strings, errors = [0.0], [0.0]
    for n in range(steps):
        throw_due_balls(simulator, throws, n * dt, dt)
        pose = reference.motion[min(n + 1, last)]
        wanted = Drive(PoseTask(pose, root_weight=ROOT_WEIGHT, priority=0), gains)
        puppet.step(dt, forces_at(pushes, n * dt, dt), tasks=[wanted])
        watch(simulator)
        tell(n + 1, steps)
        assert puppet.report is not None
        strings.append(float(np.linalg.norm(puppet.report.force_n)))
        away = simulator.state.pose.joint_positions() - pose.joint_positions()
        errors.append(float(np.sqrt((away**2).sum(axis=1).mean())))
    run, weight = watch.run(wish, pushes), simulator.body.weight_n
    found = {"alpha": wish.alpha, "mean_error_cm": 100.0 * float(np.mean(errors[1:]))}
    facts = run.facts | found | {"strings_bw": float(np.mean(strings[1:])) / weight}
    sentence = (
        f"puppet: {facts['seconds']:g} s in {facts['num_dof']} degrees of freedom, "
        f"{facts['mean_error_cm']:.1f} cm from the clip; the strings pull with {facts['strings_bw']:.2f} body weights"
    )
    return replace(run, facts=facts, sentence=sentence)
