"""`marey simulate`: physical simulation of the figure of a clip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from marey.cli.common import load_clip, print_json, progress_bar, remark, warn, write_motion, write_strip
from marey.cli.options import (
    PLOT_SUFFIXES,
    Clip,
    Count,
    Json,
    MotionOut,
    ReadOptions,
    Strip,
    flat_options,
    one_of,
    writable,
)

MODES = ("drop", "free", "puppet", "track", "balance")
CONTROLLED_MODES = ("track", "balance")  # fewer modes leave too little to balance with
RELAXATIONS = ("none", "sticky", "kinetic", "workfree", "dissipative", "gap")
HIERARCHIES = ("weights", "strict")
INTEGRATORS = ("constant", "identity", "naive", "variational")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """Figure, world and time of a simulation, as the command line gives them."""

    mode: Annotated[
        str,
        typer.Option(help="drop, free (no ground, no weight), puppet, track or balance.", callback=one_of(*MODES)),
    ] = "drop"
    model: Annotated[str | None, typer.Option(metavar="FILE", help="Pose model made by `marey fit`.")] = None
    modes: Annotated[
        int | None,
        typer.Option(min=1, max=200, help="Modes learnt from the clip itself; 15, or 24 to track and balance."),
    ] = None
    full: Annotated[bool, typer.Option("--full", help="Let every joint turn freely: no pose model.")] = False
    push: Annotated[
        list[str] | None,
        typer.Option(metavar="PUSH", help="JOINT:FX,FY,FZ@START+DURATION[/EVERY] [N, s]; one number: level, anywhere."),
    ] = None
    ball: Annotated[
        list[str] | None, typer.Option(metavar="BALL", help="X,Y,Z:VX,VY,VZ@START: a ball is thrown [m, m/s, s].")
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option(min=0.001, max=3600.0, help="How long; 2 s, or the length of a clip that is followed."),
    ] = None
    step_s: Annotated[float, typer.Option(min=1e-5, max=0.1, help="Length of a step.")] = 0.01
    start_s: Annotated[float, typer.Option(min=0.0, help="Time of the clip to start from.")] = 0.0
    moving: Annotated[bool, typer.Option("--moving", help="Start as fast as the clip moves, not at rest.")] = False
    height_m: Annotated[float, typer.Option(min=0.0, max=100.0, help="Drop: how far above the ground.")] = 0.05
    integrator: Annotated[str, typer.Option(help=f"{', '.join(INTEGRATORS)}.", callback=one_of(*INTEGRATORS))] = (
        "constant"
    )
    damping: Annotated[str, typer.Option(help="none, energetic, kinematic, uniform; :RATE behind it.")] = "energetic:1"
    friction: Annotated[str, typer.Option(help="A coefficient, stick, frictionless or staggered[:MU].")] = "0.8"
    slope: Annotated[
        float, typer.Option("--slope-deg", "--slope", min=-80.0, max=80.0, help="The ground rises ahead by so much.")
    ] = 0.0
    limits: Annotated[
        str | None,
        typer.Option(help="File of joint limits, anatomical (default to track and balance), clip (learnt), or none."),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Track, balance: a weight or rate of TrackWeights; repeatable."),
    ] = None
    relaxation: Annotated[
        str, typer.Option(help=f"Track, balance: {', '.join(RELAXATIONS)}.", callback=one_of(*RELAXATIONS))
    ] = "gap"
    strength: Annotated[
        float | None, typer.Option(min=0.0, help="Track, balance: weight of the energy of the actuation; 1e-4.")
    ] = None
    laziness: Annotated[
        float | None, typer.Option(min=0.0, help="Track, balance: weight of the squared work of the actuation; 0.")
    ] = None
    hierarchy: Annotated[
        str, typer.Option(help=f"Track, balance: {' or '.join(HIERARCHIES)}.", callback=one_of(*HIERARCHIES))
    ] = "weights"
    momentum: Annotated[
        bool, typer.Option("--momentum/--no-momentum", help="Track, balance: follow the angular momentum.")
    ] = True
    alpha: Annotated[float, typer.Option(min=0.0, max=1.0, help="Puppet: 0 falls freely, 1 is held.")] = 0.9
    mass_kg: Annotated[float | None, typer.Option(min=1.0, max=1000.0, help="Mass of the body.")] = None
    seed: Annotated[int, typer.Option(min=0, help="Of directions that are drawn.")] = 0
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="JOINT[:X,Y,Z]", help="Hold a joint at a place [m], or where it starts; repeatable."),
    ] = None
    mjcf: Annotated[
        str | None,
        typer.Option(
            metavar="XML", help="Also write body, ground and motion (key frames) for MuJoCo.", callback=writable(".xml")
        ),
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
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="Follow one cycle of the walk, in place, so long.")
    ] = None,
    repeat: Annotated[
        float | None,
        typer.Option(
            "--back-and-forth", metavar="SECONDS", min=0.1, help="Follow the clip forwards and backwards, so long."
        ),
    ] = None,
    csv: Annotated[
        str | None,
        typer.Option(metavar="CSV", help="Energy, momenta and centre of mass by step.", callback=writable(".csv")),
    ] = None,
    loads: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Ground forces, contacts and joint torques by frame: .csv, or OpenSim's .mot and .sto.",
            callback=writable(".csv", ".mot", ".sto"),
        ),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="PNG", help="The same, drawn.", callback=writable(*PLOT_SUFFIXES))
    ] = None,
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
    if json:
        print_json({"file": clip, "out": out, **done.facts})
    else:
        typer.echo(f"{clip}  {done.sentence}")
