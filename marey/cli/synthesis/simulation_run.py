"""The simulation of `marey simulate`, in every mode."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import radians
from pathlib import Path
from typing import Any, cast

import numpy as np

from marey.base import InputError, MareyWarning, UnknownNameError, write_atomically
from marey.cli.synthesis.simulate import SimulationOptions
from marey.control import (
    Controller,
    Drive,
    Gains,
    Puppet,
    TrackWeights,
    make_reference,
    solve_tracking,
    track_balance,
)
from marey.control.tracking import TrackOptions, make_figure, tracking_limits
from marey.dynamics import GRAVITY, Body
from marey.kinematics import PoseTask, fit_limits, load_limits
from marey.models import PGA, load_model
from marey.motion import Motion
from marey.simulate import (
    FRICTIONS,
    Ball,
    Ground,
    Monitor,
    Pin,
    PointForce,
    Push,
    Recorder,
    SimulationLoads,
    SimulationLog,
    Simulator,
    contact_spheres,
    forces_at,
    to_mjcf,
)
from marey.simulate.forces import pack_forces
from marey.skeleton import Pose

ROOT_WEIGHT = 10.0  # [1/rad²], [1/m²] of a puppet's pelvis, against 1 of each joint
BALANCE_S = 10.0  # [s]
ProgressListener = Callable[[int, int], None]
LIMIT_MARGIN_RAD = 0.2  # [rad] beyond what the clip shows of a joint
DROP_S = 2.0  # [s] in which a body that is dropped lies still
BALL_FIX = "Write X,Y,Z:VX,VY,VZ@START in metres, metres per second and seconds, for example 0,1.3,3:0,1,-8@0.5"


@dataclass(frozen=True, slots=True, eq=False)
class SimulationSetup:
    """A simulation that is ready to run."""

    motion: Motion
    options: SimulationOptions
    simulator: Simulator
    pushes: tuple[Push, ...]
    throws: list[tuple[float, Ball]]  # times [s] and balls
    tell: ProgressListener


@dataclass(frozen=True, slots=True, eq=False)
class SimulationRun:
    """Result of a simulation."""

    motion: Motion
    log: SimulationLog
    loads: SimulationLoads
    facts: dict[str, Any]
    sentence: str
    warnings: tuple[str, ...]


def run_simulation(motion: Motion, options: SimulationOptions, tell: ProgressListener) -> SimulationRun:
    """Set up body, space, ground and limits, then let the figure of a clip do what is asked for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MareyWarning)
        body = Body.from_motion(motion, mass_kg=options.mass_kg)
        # Pushes on no joint are refused now, not when their time comes
        rng = np.random.default_rng(options.seed)
        pushes = tuple(Push.from_text(text, rng) for text in options.push or ())
        pack_forces(body.skeleton, (PointForce(push.joint, push.force_n) for push in pushes))
        throws = [_parse_ball(text) for text in options.ball or ()]
        # A plane through the origin; a coefficient alone is Coulomb's. Free space has neither weight nor ground
        fix = f"Give a coefficient, or one of {', '.join(FRICTIONS)} with :MU behind it"
        law, _, mu = options.friction.partition(":")
        law, mu = (law, mu) if law in FRICTIONS else ("coulomb", options.friction)
        grip = _parse_number(mu or "0.8", "friction", fix)
        ground = Ground.from_slope(radians(options.slope), friction=law, mu=grip)
        gravity = (0.0, -GRAVITY, 0.0)
        if options.mode == "free":
            gravity, ground = (0.0, 0.0, 0.0), None
        # A dropped figure gets the limits of its clip by default, one that is controlled those of people
        defaults = {"drop": "clip", "track": "anatomical", "balance": "anatomical"}
        limits, bounds = options.limits or defaults.get(options.mode, "none"), None
        if limits == "anatomical":
            bounds = tracking_limits(body.skeleton, motion, options.step_s)
        elif limits == "clip":
            bounds = fit_limits([motion], "box", margin_rad=LIMIT_MARGIN_RAD)
        elif limits != "none":
            bounds = load_limits(limits)
        # The pose model that is named, one learnt from the clip, or None for the full space
        modes, model = options.num_modes, None
        if options.model is not None:
            model = load_model(options.model)
        elif modes is not None:
            if motion.num_frames <= modes:
                fix = "Ask for fewer, give a --model, or move all joints with --full"
                raise InputError(f"{modes} modes from a clip of {motion.num_frames} frames", fix)
            if options.mode in ("track", "balance"):
                model = make_figure(motion, modes, dt=options.step_s).model
            else:
                model = PGA(n_components=modes, weights="lever").fit([motion])
        # Damping is a name, with a rate behind it
        name, _, rate = options.damping.partition(":")
        simulator = Simulator(
            body,
            model,
            integrator=cast(Any, options.integrator),
            damping=cast(Any, name),
            damping_rate=_parse_number(rate or "1", "damping", "Write NAME or NAME:RATE, for example energetic:5"),
            gravity=gravity,
            ground=ground,
            limits=bounds,
            constraints=[_parse_pin(text, motion, options) for text in options.pin or ()],
        )
        setup = SimulationSetup(motion, options, simulator, pushes, throws, tell)
        play = _simulate_drop if options.mode in ("drop", "free") else _simulate_controlled
        run = (_simulate_puppet if options.mode == "puppet" else play)(setup)
        if options.mjcf is not None:
            pose, frames = simulator.body.motion(motion)[0], run.loads.motion
            text = to_mjcf(
                simulator.body, ground=ground, gravity=gravity, step_s=options.step_s, pose=pose, motion=frames
            )
            write_atomically(Path(options.mjcf), text.encode())
    said = (str(one.message) for one in caught if issubclass(one.category, MareyWarning))
    return replace(run, warnings=(*body.report, *dict.fromkeys(said), *run.warnings))


def _simulate_drop(setup: SimulationSetup) -> SimulationRun:
    """A figure without control: dropped on the ground, or free in space."""
    options, simulator, pushes, tell = setup.options, setup.simulator, setup.pushes, setup.tell
    motion = simulator.body.motion(setup.motion)
    frame = round(options.start_s * motion.rate_hz)
    if not 0 <= frame < motion.num_frames:
        raise InputError(f"start at {options.start_s:g} s of {motion.duration_s:.3g} s", "Start within the clip")
    # The pose of the clip above the origin, about which the ground turns, its lowest point so high above the ground
    shape = simulator.reset(motion[frame]).pose
    over = shape.root_position * (0.0, 1.0, 0.0)
    simulator.reset(Pose(shape.skeleton, over, shape.rotations))
    spheres, _ = contact_spheres(simulator.body.skeleton)
    here, ground = simulator.mechanics(), Ground.from_slope(radians(options.slope))
    gaps = [ground.gaps(here.point(int(j), o)) - r for j, o, r in zip(*spheres, strict=True)]
    lowest_m = float(min(gaps)) / float(ground.normal[1])
    up = np.array([0.0, options.height_m - lowest_m, 0.0])
    if options.moving:
        # Velocity (d,) of a clip at a frame, from it to the next, in the simulator's coordinates
        first = min(frame, motion.num_frames - 2)
        if first < 0:
            raise InputError("a clip of one frame does not move", "Leave out --moving")
        pair, dt = motion[first : first + 2], 1.0 / motion.rate_hz
        # Body angular velocity of each joint, velocity of the centre of mass, rates of the coordinates
        turns = (pair.rotations[0].inverse() @ pair.rotations[1]).log() / dt
        travel = np.diff(simulator.body.centre_of_mass(pair), axis=0)[0] / dt
        if simulator.model is None:
            rates = turns[simulator.mechanism.joints].ravel()
        else:
            rates = np.diff(simulator.model.encode(pair), axis=0)[0] / dt
        velocity = np.concatenate([turns[0], travel, rates])
    else:
        velocity = None
    simulator.reset(Pose(shape.skeleton, over + up, shape.rotations), velocity=velocity)
    steps = max(1, round((options.seconds or DROP_S) / options.step_s))
    watch = RunMonitor(simulator)
    for n in range(steps):
        # Balls whose time has come, then a step under the pushes of its interval
        time_s = n * options.step_s
        throw_due_balls(simulator, setup.throws, time_s, options.step_s)
        simulator.step(options.step_s, forces_at(pushes, time_s, options.step_s))
        watch(simulator)
        tell(n + 1, steps)
    return watch.run(setup)


def _parse_ball(text: str) -> tuple[float, Ball]:
    """Time [s] and ball of ``X,Y,Z:VX,VY,VZ@START``."""
    where, _, rest = text.partition(":")
    velocity, _, time = rest.partition("@")
    try:
        place, speed = ([float(part) for part in texts.split(",")] for texts in (where, velocity))
        start_s = float(time)
    except ValueError:
        raise InputError(f"ball '{text}'", BALL_FIX) from None
    if len(place) != 3 or len(speed) != 3 or not np.isfinite([*place, *speed, start_s]).all() or start_s < 0.0:
        raise InputError(f"ball '{text}'", BALL_FIX)
    return start_s, Ball(np.array(place), np.array(speed))


def _parse_pin(text: str, motion: Motion, options: SimulationOptions) -> Pin:
    """Pin of ``JOINT:X,Y,Z``, or of ``JOINT`` where it is in the frame that the figure starts from."""
    name, _, place = text.partition(":")
    joint = motion.skeleton.index(name)
    frame = min(round(options.start_s * motion.rate_hz), motion.num_frames - 1)
    where = motion[frame].joint_positions()[joint]
    if options.mode in ("drop", "free"):
        # These figures start above the origin
        where = where - motion.root_positions[frame] * (1.0, 0.0, 1.0)
    if place:
        try:
            x, y, z = (float(part) for part in place.split(","))
        except ValueError:
            raise InputError(f"pin '{text}'", "Write JOINT, or JOINT:X,Y,Z in metres") from None
        where = np.array([x, y, z])
    return Pin(motion.skeleton.names[joint], where)


def _parse_number(text: str, name: str, fix: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} '{text}'", fix) from None


def throw_due_balls(simulator: Simulator, throws: list[tuple[float, Ball]], time_s: float, dt: float) -> None:
    """Let balls fly whose time comes in this step."""
    for start_s, ball in throws:
        if time_s - 0.5 * dt <= start_s < time_s + 0.5 * dt:
            simulator.throw(ball)


class RunMonitor:
    """Records frames, energies and contacts of a run; called after each step."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator, self.recorder, self.monitor = simulator, Recorder(simulator), Monitor(simulator)
        self.relaxed: set[str] = set()
        self.deepest_m = 0.0

    def __call__(self, simulator: Simulator) -> None:
        """Note the step that was just made."""
        self.recorder.record()
        self.monitor.record()
        for done in simulator.steps_made:
            if done.outcome is not None:
                self.relaxed |= set(done.outcome.relaxed)
                self.deepest_m = max(self.deepest_m, -float(done.outcome.contacts.gaps.min(initial=0.0)))

    def run(self, setup: SimulationSetup, motion: Motion | None = None) -> SimulationRun:
        """Everything, as a result; with its own recording of the motion unless another is given."""
        options, pushes = setup.options, setup.pushes
        simulator, log, forces = self.simulator, self.monitor.log(), self.recorder.forces
        weight = simulator.body.weight_n
        # What the ground carries in the last half second, in body weights
        carried = forces[-max(1, round(0.5 / options.step_s)) :, 1].mean() / weight
        # Drifts of the momenta since the last push, or since the first step
        ends = [np.inf if push.every_s is not None else push.start_s + push.duration_s for push in pushes]
        after = log.times > max(ends, default=0.0) - 1e-9
        drifts: dict[str, float] = {}
        if after.any():
            names = ("times", "kinetic_j", "potential_j", "linear", "angular", "com", "substeps")
            free = SimulationLog(*(getattr(log, name)[after] for name in names))
            drifts = {"linear_drift": free.linear_drift, "angular_drift": free.angular_drift}
        facts: dict[str, Any] = {
            "mode": options.mode,
            "num_frames": len(forces) + 1,
            "seconds": len(forces) * options.step_s,
            "step_s": options.step_s,
            "space": "full" if simulator.model is None else "modes",
            "num_dof": simulator.num_dof,
            "mass_kg": simulator.body.mass_kg,
            "integrator": options.integrator,
            "damping": options.damping,
            "pushes": [str(push) for push in pushes],
            "kinetic_j": [float(log.kinetic_j[0]), float(log.kinetic_j.max()), float(log.kinetic_j[-1])],
            **drifts,
            "com_m": [log.com[0].tolist(), log.com[-1].tolist()],
            "most_substeps": int(log.substeps.max()),
            "deepest_mm": 1e3 * self.deepest_m,
            "peak_force_bw": float(np.linalg.norm(forces, axis=1).max()) / weight,
            "carried_bw": float(carried),
            "relaxed": sorted(self.relaxed),
        }
        motion = self.recorder.motion() if motion is None else motion
        named = replace(motion, name=f"{setup.motion.name}-{options.mode}")
        sentence = f"{options.mode}: {facts['seconds']:g} s in {facts['num_dof']} degrees of freedom; "
        if options.mode != "free":
            sentence += (
                f"at most {facts['peak_force_bw']:.1f} body weights, {facts['carried_bw']:.2f} at the end; "
                f"{facts['kinetic_j'][2]:.2g} J left; {facts['deepest_mm']:.1f} mm into the ground"
            )
        elif drifts:
            sentence += (
                f"angular momentum drifts by {drifts['angular_drift']:.2g}, linear by {drifts['linear_drift']:.2g}"
            )
        else:
            sentence += "pushed to the end"
        loads = self.recorder.loads(motion)
        facts |= {"residual_bw": loads.residual_bw}
        return SimulationRun(named, log, loads, facts, sentence, ())


def _simulate_controlled(setup: SimulationSetup) -> SimulationRun:
    """Follow the clip, or balance, by forces of the joints alone."""
    options, simulator, pushes, tell = setup.options, setup.simulator, setup.pushes, setup.tell
    dt, watch = options.step_s, RunMonitor(simulator)
    # The controller makes the first step itself: earlier balls are thrown after it
    late = [(max(start_s, dt), ball) for start_s, ball in setup.throws]

    def on_step(figure: Simulator) -> None:
        watch(figure)
        throw_due_balls(figure, late, figure.state.time_s, dt)
        tell(round(figure.state.time_s / dt), steps)

    clip = _cut_start(setup)
    # Weights of tracking, with those that --weight NAME=VALUE and --no-momentum change
    given: dict[str, float] = {} if options.momentum else {"momentum": 0.0}
    for text in options.weight or ():
        name, _, value = text.partition("=")
        if name not in TrackWeights.__slots__:
            raise UnknownNameError("weight", name, "tracking", TrackWeights.__slots__)
        given[name] = _parse_number(value, f"weight '{name}'", "Write NAME=VALUE, for example pose=200")
    weights = TrackWeights(**given)
    controller = Controller(
        simulator,
        relaxation=options.relaxation,
        strength=options.strength,
        laziness=options.laziness,
        hierarchy=cast(Any, options.hierarchy),
    )
    chosen: TrackOptions = {
        "pushes": pushes, "dt": dt, "simulator": simulator, "controller": controller, "weights": weights,
        "on_step": on_step,
    }  # fmt: skip
    if options.mode == "balance":
        seconds = options.seconds or BALANCE_S
        steps = round(seconds / dt)
        found = track_balance(clip, **{**chosen, "seconds": seconds})
    else:
        steps = round((options.seconds or clip.duration_s) / dt)
        found = solve_tracking(clip, **{**chosen, "seconds": options.seconds})
    run = watch.run(setup, found.motion)
    fall: dict[str, Any] | None = None
    if found.fall is not None:
        fall = {"time_s": float(found.fall.time_s), "words": str(found.fall)}
    facts = run.facts | {
        "fall": fall,
        "mean_error_cm": 100.0 * found.mean_error_m,
        "max_error_cm": 100.0 * float(found.error_m.max()),
        "planned": float(np.mean(found.planned)),
    }
    words = "stays upright" if fall is None else fall["words"]
    near = f"{facts['mean_error_cm']:.1f} cm from the clip" if facts["mode"] == "track" else "balances"
    sentence = f"{facts['mode']}: {facts['seconds']:g} s in {facts['num_dof']} degrees of freedom, {near}; {words}"
    return replace(run, facts=facts, sentence=sentence)


def _cut_start(setup: SimulationSetup) -> Motion:
    motion, start_s = setup.motion, setup.options.start_s
    frame = round(start_s * motion.rate_hz)
    if not 0 <= frame < motion.num_frames - 2:
        raise InputError(f"start at {start_s:g} s of {motion.duration_s:.3g} s", "Start within the clip")
    return motion[frame:]


def _simulate_puppet(setup: SimulationSetup) -> SimulationRun:
    """A puppet whose external forces follow the clip, and the magnitude of these forces."""
    options, simulator, pushes, tell = setup.options, setup.simulator, setup.pushes, setup.tell
    dt = options.step_s
    reference = make_reference(_cut_start(setup), simulator, dt)
    simulator.reset(reference.motion[0], velocity=reference.velocities[0])
    puppet, watch, last = Puppet(simulator, alpha=options.alpha), RunMonitor(simulator), len(reference) - 1
    steps = last if options.seconds is None else max(1, round(options.seconds / dt))
    gains = Gains(1.0 / dt, 0.0, np.inf)  # stiff springs: alpha alone sets their weight
    strings, errors = [0.0], [0.0]
    for n in range(steps):
        throw_due_balls(simulator, setup.throws, n * dt, dt)
        pose = reference.motion[min(n + 1, last)]
        wanted = Drive(PoseTask(pose, root_weight=ROOT_WEIGHT, priority=0), gains)
        puppet.step(dt, forces_at(pushes, n * dt, dt), tasks=[wanted])
        watch(simulator)
        tell(n + 1, steps)
        assert puppet.report is not None
        strings.append(float(np.linalg.norm(puppet.report.force_n)))
        away = simulator.state.pose.joint_positions() - pose.joint_positions()
        errors.append(float(np.sqrt((away**2).sum(axis=1).mean())))
    run, weight = watch.run(setup), simulator.body.weight_n
    found = {"alpha": options.alpha, "mean_error_cm": 100.0 * float(np.mean(errors[1:]))}
    facts = run.facts | found | {"strings_bw": float(np.mean(strings[1:])) / weight}
    sentence = (
        f"puppet: {facts['seconds']:g} s in {facts['num_dof']} degrees of freedom, "
        f"{facts['mean_error_cm']:.1f} cm from the clip; the strings pull with {facts['strings_bw']:.2f} body weights"
    )
    return replace(run, facts=facts, sentence=sentence)
