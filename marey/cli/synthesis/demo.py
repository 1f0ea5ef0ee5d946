"""`marey demo`: a shipped sketch becomes a motion, and the motion a folder of results, with the figures measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli.common import progress_bar, remark

if TYPE_CHECKING:
    from marey.motion import Motion


NUM_STEPS = 7
DEMO_STATURE_M = 1.60  # the shipped clips were made for 1.75 m
SEARCH_S = 3.0  # [s] of search
SKETCH_BODIES = 14  # on the film strip of a sketch


def demo(
    out: Annotated[str, typer.Option("-o", "--out", help="Folder to write.")] = "demo",
    sample: Annotated[str, typer.Option(help="Shipped sketch, script or clip: pick, slalom, walk, leap, ...")] = "pick",
) -> None:
    """Run the main job on what is shipped and write a folder.

    Synthesise the motion of a sketch from clips that the walking engine makes (or walk as a script says, or load a
    clip); check, retarget, find contacts; write GLB, BVH, film strip, text report.
    """
    with progress_bar("demo") as progress:
        motion, lines = _load_sample(sample)
        progress(1, NUM_STEPS)
        report = run_demo(motion, Path(out), lambda done: progress(done, NUM_STEPS), lines)
    typer.echo(report, nl=False)


def _load_sample(name: str) -> tuple[Motion, list[str]]:
    """The motion of a shipped sketch, with lines for the report; of a shipped script; or else a shipped clip."""
    from marey import samples

    if name in samples.sketch_names():
        # What `marey synth` makes of a shipped sketch
        from dataclasses import replace

        from marey.base import InputError
        from marey.cli.synthesis.demo_ahead import compile_ahead
        from marey.pipeline import synthesize_sketch
        from marey.samples import demo_graph, sketch_file
        from marey.world import load_sketch

        sketch = load_sketch(sketch_file(name))
        with compile_ahead(remark):
            graph = demo_graph()
        result = synthesize_sketch(sketch, graph=graph, budget_s=SEARCH_S)
        if result.motion is None:
            raise InputError(f"no motion for '{name}', {result.status}", result.advice)
        states, edges = len(graph.arrays.kind), len(graph.arrays.target)
        lines = [f"graph      {states} states, {edges} edges, of {graph.size.poses} poses"]
        lines.append(f"sketch     {name}: {result.sentence}")
        return replace(result.motion, name=name), lines
    if name not in samples.script_names():
        return samples.load(name), []
    from marey.locomotion import load_script

    return load_script(samples.script_file(name)).render(), []


def run_demo(
    motion: Motion, folder: Path, progress: Callable[[int], None] = lambda done: None, made: list[str] | None = None
) -> str:
    """Do the steps of the demo on a motion; write ``folder`` and return the text of its report."""
    from marey.io import save
    from marey.picture import film_strip, save_image

    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"marey demo: {motion.name}", "", *(made or []), *_check_lines(motion)]
    progress(2)
    human, sentence = _retarget_to_human(motion)
    progress(3)
    human, contact_lines = _contact_lines(human)
    lines += [sentence, *contact_lines]
    progress(4)
    for done, suffix in ((5, "glb"), (6, "bvh")):
        file = folder / f"{motion.name}.{suffix}"
        save(human, file)
        lines.append(_round_trip_line(human, file))
        progress(done)
    image = film_strip(human, count=SKETCH_BODIES, layout="travel") if made else film_strip(human)
    save_image(image, folder / "strip.png")
    progress(NUM_STEPS)
    lines.append(f"wrote      {folder / 'strip.png'}: a film strip")
    report = "\n".join([*lines, ""])
    (folder / "report.txt").write_text(report, encoding="utf-8")
    return report


def _check_lines(motion: Motion) -> list[str]:
    from marey.cli.clips.info import describe_motion
    from marey.motion import check_time_base

    facts = describe_motion(motion)
    found = dict.fromkeys([*facts["warnings"], check_time_base(motion).warning])
    lines = [
        f"loaded     {facts['num_joints']} joints, {facts['num_frames']} frames at {facts['rate_hz']:g} Hz, "
        f"{facts['duration_s']:.2f} s",
        f"measured   height {facts['height_m']:.2f} m, mean speed {facts['mean_speed_mps']:.2f} m/s",
    ]
    checks = [f"checked    {warning}" for warning in found if warning is not None]
    return lines + (checks or ["checked    the frame rate fits the motion; no warning"])


def _retarget_to_human(motion: Motion) -> tuple[Motion, str]:
    """Give the motion to a canonical human that is not the one it was made for."""
    from marey.kinematics import retarget
    from marey.skeleton import human

    moved = retarget(motion, human(DEMO_STATURE_M))
    joints = f"{motion.skeleton.num_joints} to {moved.skeleton.num_joints} joints"
    return moved, f"retargeted {joints}, to a person of {DEMO_STATURE_M:.2f} m"


def _contact_lines(motion: Motion) -> tuple[Motion, list[str]]:
    from marey.motion import cadence, contact_phases, ensure_contacts, gait_cycles, slide_mm

    planted = motion if motion.contacts is not None else ensure_contacts(motion)
    kinds = Counter(phase.kind for phase in contact_phases(planted))
    counted = ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common())
    lines = [f"contacts   phases: {counted}", f"slide      {slide_mm(planted).max(initial=0.0):.2f} mm a frame at most"]
    cycles = gait_cycles(planted)
    if cycles:
        lines.append(f"gait       {len(cycles)} cycles, {cadence(planted):.0f} steps a minute")
    return planted, lines


def _round_trip_line(motion: Motion, file: Path) -> str:
    """Read a file back and say how far its joints are from those that were written."""
    import numpy as np

    from marey.io import load

    back = load(file)
    shared = [name for name in motion.skeleton.names if name in back.skeleton.names]
    here = motion.joint_positions()[:, [motion.skeleton.index(name) for name in shared]]
    there = back.joint_positions()[:, [back.skeleton.index(name) for name in shared]]
    if here.shape != there.shape:
        return f"wrote      {file}: {back.num_frames} frames come back, {motion.num_frames} were written"
    apart_mm = 1e3 * float(np.linalg.norm(here - there, axis=-1).max())
    return f"wrote      {file}: read back, {len(shared)} joints within {apart_mm:.4f} mm"
