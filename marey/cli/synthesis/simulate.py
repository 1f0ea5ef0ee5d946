"""`marey simulate`: physical simulation of the figure of a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from marey.cli.common import load_clip, print_result, progress_bar, remark, warn, write_motion, write_strip
from marey.cli.options import (
    PLOT_SUFFIXES,
    Clip,
    Count,
    Json,
    MotionOut,
    ReadOptions,
    Strip,
    flat_options,
    option,
)

MODES = ("drop", "free", "puppet", "track", "balance")
CONTROLLED_MODES = ("track", "balance")  # fewer modes leave too little to balance with
RELAXATIONS = ("none", "sticky", "kinetic", "workfree", "dissipative", "gap")
HIERARCHIES = ("weights", "strict")
INTEGRATORS = ("constant", "identity", "naive", "variational")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Figure, world and time of a simulation, as the command line gives them."""

    mode: Annotated[str, option("drop, free (no ground, no weight), puppet, track or balance.", choices=MODES)] = "drop"
    model: Annotated[str | None, option("Pose model made by `marey fit`.", metavar="FILE")] = None
    modes: Annotated[
        int | None, option("Modes learnt from the clip itself; 15, or 24 to track and balance.", min=1, max=200)
    ] = None
    full: Annotated[bool, option("Let every joint turn freely: no pose model.", "--full")] = False
    push: Annotated[
        list[str] | None,
        option("JOINT:FX,FY,FZ@START+DURATION[/EVERY] [N, s]; one number: level, anywhere.", metavar="PUSH"),
    ] = None
    ball: Annotated[list[str] | None, option("X,Y,Z:VX,VY,VZ@START: a ball is thrown [m, m/s, s].", metavar="BALL")] = (
        None
    )
    seconds: Annotated[
        float | None, option("How long; 2 s, or the length of a clip that is followed.", min=0.001, max=3600.0)
    ] = None
    step_s: Annotated[float, option("Length of a step.", min=1e-5, max=0.1)] = 0.01
    start_s: Annotated[float, option("Time of the clip to start from.", min=0.0)] = 0.0
    moving: Annotated[bool, option("Start as fast as the clip moves, not at rest.", "--moving")] = False
    height_m: Annotated[float, option("Drop: how far above the ground.", min=0.0, max=100.0)] = 0.05
    integrator: Annotated[str, option(f"{', '.join(INTEGRATORS)}.", choices=INTEGRATORS)] = "constant"
    damping: Annotated[str, option("none, energetic, kinematic, uniform; :RATE behind it.")] = "energetic:1"
    friction: Annotated[str, option("A coefficient, stick, frictionless or staggered[:MU].")] = "0.8"
    slope: Annotated[
        float, option("The ground rises ahead by so much.", "--slope-deg", "--slope", min=-80.0, max=80.0)
    ] = 0.0
    limits: Annotated[
        str | None, option("File of joint limits, anatomical (default to track and balance), clip (learnt), or none.")
    ] = None
    weight: Annotated[
        list[str] | None, option("Track, balance: a weight or rate of TrackWeights; repeatable.", metavar="NAME=VALUE")
    ] = None
    relaxation: Annotated[str, option(f"Track, balance: {', '.join(RELAXATIONS)}.", choices=RELAXATIONS)] = "gap"
    strength: Annotated[
        float | None, option("Track, balance: weight of the energy of the actuation; 1e-4.", min=0.0)
    ] = None
    laziness: Annotated[
        float | None, option("Track, balance: weight of the squared work of the actuation; 0.", min=0.0)
    ] = None
    hierarchy: Annotated[str, option(f"Track, balance: {' or '.join(HIERARCHIES)}.", choices=HIERARCHIES)] = "weights"
    momentum: Annotated[bool, option("Track, balance: follow the angular momentum.", "--momentum/--no-momentum")] = True
    alpha: Annotated[float, option("Puppet: 0 falls freely, 1 is held.", min=0.0, max=1.0)] = 0.9
    mass_kg: Annotated[float | None, option("Mass of the body.", min=1.0, max=1000.0)] = None
    seed: Annotated[int, option("Of directions that are drawn.", min=0)] = 0
    pin: Annotated[
        list[str] | None,
        option("Hold a joint at a place [m], or where it starts; repeatable.", metavar="JOINT[:X,Y,Z]"),
    ] = None
    mjcf: Annotated[
        str | None,
        option("Also write body, ground and motion (key frames) for MuJoCo.", metavar="XML", suffixes=(".xml",)),
    ] = None

    @property
    def num_modes(self) -> int | None:
        """Modes of the clip that the figure moves in; ``None`` for all joints."""
        return None if self.full else self.modes or (24 if self.mode in CONTROLLED_MODES else 15)


@flat_options
def simulate(
    clip: Clip,
    out: MotionOut = None,
    *,
    options: SimulationOptions,
    in_place: Annotated[
        float | None, option("Follow one cycle of the walk, in place, so long.", metavar="SECONDS", min=0.1)
    ] = None,
    repeat: Annotated[
        float | None,
        option("Follow the clip forwards and backwards, so long.", "--back-and-forth", metavar="SECONDS", min=0.1),
    ] = None,
    csv: Annotated[
        str | None, option("Energy, momenta and centre of mass by step.", metavar="CSV", suffixes=(".csv",))
    ] = None,
    loads: Annotated[
        str | None,
        option(
            "Ground forces, contacts and joint torques by frame: .csv, or OpenSim's .mot and .sto.",
            metavar="FILE",
            suffixes=(".csv", ".mot", ".sto"),
        ),
    ] = None,
    plot: Annotated[str | None, option("The same, drawn.", metavar="PNG", suffixes=PLOT_SUFFIXES)] = None,
    strip: Strip = None,
    count: Count = 10,
    json: Json = False,
    read: ReadOptions,
) -> None:
    """Let the figure of a clip fall, be pushed, be pulled like a puppet, balance, or do the clip by its own forces.

    It moves in a few modes of the clip, or in all its joints, and never through the ground. Same command, same bytes.
    """
    if (options.model is not None) + (options.modes is not None) + options.full > 1:
        raise typer.BadParameter("give one of --model, --modes and --full.")
    if in_place is not None and repeat is not None:
        raise typer.BadParameter("give one of --in-place and --back-and-forth.")
    from marey.cli.synthesis.simulation_run import run_simulation

    motion = load_clip(clip, read)
    if in_place is not None or repeat is not None:
        from marey.control import back_and_forth, walk_in_place

        # What is followed need not be the clip itself
        motion = walk_in_place(motion, in_place) if in_place is not None else back_and_forth(motion, repeat or 0.0)
    with progress_bar("simulate") as tell:
        done = run_simulation(motion, options, tell)
    for warning in done.warnings:
        warn(warning)
    write_motion(done.motion, out)
    for target, save in ((csv, done.log.save_csv), (plot, done.log.plot), (loads, done.loads.save)):
        if target is not None:
            save(target)
            remark(f"wrote {target}")
    if options.mjcf is not None:
        remark(f"wrote {options.mjcf}")
    write_strip(done.motion, strip, count)
    print_result({"file": clip, "out": out, **done.facts}, f"{clip}  {done.sentence}", is_json=json)
