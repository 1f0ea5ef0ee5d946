"""`marey demo`: a shipped sketch becomes a motion, and the motion a folder of results, with the figures measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marey.cli.common import print_json, progress_bar
from marey.cli.options import Json, option

if TYPE_CHECKING:
    from marey.motion import Motion
    from marey.world import Sketch


NUM_STEPS = 7
DEMO_STATURE_M = 1.60  # the shipped clips were made for 1.75 m
SEARCH_S = 3.0  # [s] of search
SKETCH_BODIES = 14  # on the film strip of a sketch


def demo(
    out: Annotated[str, option("Folder to write.", "-o", "--out")] = "demo",
    sample: Annotated[str, option("Shipped sketch, script or clip: pick, slalom, walk, leap, ...")] = "pick",
    json: Json = False,
) -> None:
    """Run the main job on what is shipped and write a folder.

    Synthesise the motion of a sketch from clips that the walking engine makes (or walk as a script says, or load a
    clip); check, retarget, find contacts; write GLB, BVH, film strip, text report.
    """
    with progress_bar("demo") as progress:
        motion, lines, sketch = _load_sample(sample)
        progress(1, NUM_STEPS)
        report = _write_results(motion, Path(out), lambda done: progress(done, NUM_STEPS), lines, sketch)
    if json:
        print_json({"sample": sample, "out": out, "report": report.splitlines()})
    else:
        typer.echo(report, nl=False)


def _load_sample(name: str) -> tuple[Motion, list[str], Sketch | None]:
    """The motion of a shipped sketch, with lines for the report and the sketch; of a script; or else a shipped clip."""
    from marey import samples

    if name in samples.sketch_names():
        # What `marey synth` makes of a shipped sketch
        from dataclasses import replace

        from marey.base import InputError
        from marey.pipeline import synthesize_sketch
        from marey.samples import demo_graph, sketch_file
        from marey.world import load_sketch

        sketch = load_sketch(sketch_file(name))
        graph = demo_graph()
        result = synthesize_sketch(sketch, graph=graph, budget_s=SEARCH_S)
        if result.motion is None:  # a slow machine: as long as `marey synth` would search
            result = synthesize_sketch(sketch, graph=graph)
        if result.motion is None:
            raise InputError(f"no motion for '{name}', {result.status}", result.advice)
        states, edges = len(graph.arrays.kind), len(graph.arrays.target)
        lines = [f"graph      {states} states, {edges} edges, of {graph.size.poses} poses"]
        lines.append(f"sketch     {name}: {result.sentence}")
        return replace(result.motion, name=name), lines, sketch
    if name not in samples.script_names():
        return samples.load(name), [], None
    from marey.locomotion import load_script

    return load_script(samples.script_file(name)).render(), [], None


def _write_results(
    motion: Motion, folder: Path, progress: Callable[[int], None], made: list[str], sketch: Sketch | None
) -> str:
    """Do the steps of the demo on a motion; write ``folder`` and return the text of its report."""
    import numpy as np

    from marey.cli.clips.info import describe_motion
    from marey.contacts import contact_phases, ensure_contacts
    from marey.io import load, save
    from marey.kinematics import retarget
    from marey.measure import measure_motion
    from marey.motion import cadence, check_time_base, gait_cycles
    from marey.picture import film_strip, save_image
    from marey.skeleton import human

    folder.mkdir(parents=True, exist_ok=True)
    # Measures and warnings of the motion itself
    facts = describe_motion(motion)
    size = f"{facts['num_joints']} joints, {facts['num_frames']} frames at {facts['rate_hz']:g} Hz"
    lines = [f"marey demo: {motion.name}", "", *made, f"loaded     {size}, {facts['duration_s']:.2f} s"]
    lines.append(f"measured   height {facts['height_m']:.2f} m, mean speed {facts['mean_speed_mps']:.2f} m/s")
    found = dict.fromkeys(filter(None, [*facts["warnings"], check_time_base(motion).warning]))
    lines += [f"checked    {text}" for text in found or ["the frame rate fits the motion; no warning"]]
    progress(2)
    # The motion on a canonical human that is not the one it was made for
    moved = retarget(motion, human(DEMO_STATURE_M))
    joints = f"{motion.skeleton.num_joints} to {moved.skeleton.num_joints} joints"
    lines.append(f"retargeted {joints}, to a person of {DEMO_STATURE_M:.2f} m")
    progress(3)
    planted = moved if moved.contacts is not None else ensure_contacts(moved)
    kinds = Counter(phase.kind for phase in contact_phases(planted))
    lines.append(f"contacts   phases: {', '.join(f'{count} x {kind}' for kind, count in kinds.most_common())}")
    # The meter does not look at the contacts that the engines planned
    meter = measure_motion(planted)
    lines.append(f"meter      feet scrape {100.0 * meter.scraped_m[-1]:.0f} cm in all")
    lines += [f"           {fault}" for fault in meter.faults] or ["           no fault"]
    cycles = gait_cycles(planted)
    lines += [f"gait       {len(cycles)} cycles, {cadence(planted):.0f} steps a minute"] if cycles else []
    progress(4)
    for done, suffix in ((5, "glb"), (6, "bvh")):
        file = folder / f"{motion.name}.{suffix}"
        save(planted, file)
        # Read back: how far the joints are from those that were written
        back = load(file)
        shared = [name for name in planted.skeleton.names if name in back.skeleton.names]
        here = planted.joint_positions()[:, [planted.skeleton.index(name) for name in shared]]
        there = back.joint_positions()[:, [back.skeleton.index(name) for name in shared]]
        if here.shape == there.shape:
            apart_mm = 1e3 * float(np.linalg.norm(here - there, axis=-1).max())
            lines.append(f"wrote      {file}: read back, {len(shared)} joints within {apart_mm:.4f} mm")
        else:
            lines.append(f"wrote      {file}: {back.num_frames} frames come back, {planted.num_frames} were written")
        progress(done)
    # A sketch is drawn with its world, which fits the body that the motion was made for
    if sketch is not None:
        image = film_strip(motion, count=SKETCH_BODIES, layout="travel", world=sketch)
    else:
        image = film_strip(planted)
    save_image(image, folder / "strip.png")
    progress(NUM_STEPS)
    lines.append(f"wrote      {folder / 'strip.png'}: a film strip")
    report = "\n".join([*lines, ""])
    from marey.base import write_atomically

    write_atomically(folder / "report.txt", report)
    return report
