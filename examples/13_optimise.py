"""Optimise a jump from its footprints alone, then edit a walk step by step; both stay physically valid."""

import numpy as np

import marey
from marey.motion import contact_positions
from marey.picture import render_motion, save_image
from marey.skeleton import contact_points
from marey.spacetime import PointPin, ValidEditor, load_problem, make_valid, optimize, save_problem

# A problem is plain data: phases with contacts, and keys. It has a TOML form, which `marey optimize` reads.
for name in marey.samples.problem_names():
    problem = load_problem(marey.samples.problem_file(name))
    print(f"{name}: {len(problem.phases)} phases, {sum(phase.duration_s for phase in problem.phases):.1f} s")
problem = marey.samples.jump_problem(length_m=1.0, rise_m=0.3)
save_problem(problem, "13_problem.toml")
print(optimize(problem).sentence)

# An editor searches for a moment after every change, and shows each motion on the way.
walk = make_valid(marey.samples.walk(seconds=3.0)).motion
editor = ValidEditor(walk, start_s=1.0, stop_s=2.5)
hand = contact_positions(walk)[105, contact_points(walk.skeleton).names.index("right_hand")]
for height_m in (0.1, 0.3):
    editor.pin(PointPin("right_hand", 1.75, hand + np.array([0.0, height_m, 0.1])))
    shown = []
    found = editor.improve(quota_s=20.0, on_iterate=shown.append)
    report = editor.report(found)
    print(f"raised by {height_m} m: {len(shown)} motions shown, {100 * report.valid_fraction:.0f} % of the clip valid")

save_image(render_motion([walk, found.motion], [90, 105, 120]), "13_optimise.png")
