"""Blend two walks: feet stay planted, gravity holds, and a report tells what physics says about the result."""

import marey
from marey.blending import blend, blend_phase, cut_phases, phase_string, predict_validity
from marey.picture import render_motion, save_image

# Clips can be blended where they have the same sequence of contacts: take as many phases of both as there are.
clips = [marey.samples.walk(speed, seconds=2.0) for speed in (0.9, 1.7)]
phases = [cut_phases(clip) for clip in clips]
count = min(map(len, phases)) - 1
slow, fast = (clip[: cut[count].start] for clip, cut in zip(clips, phases, strict=True))
print("contacts:", phase_string(cut_phases(slow)))
print("predicted:", predict_validity(phases[0][1], phases[1][1]))

# One phase alone: its feet stand between those of the sources.
one = blend_phase([cut[1] for cut in phases], [0.5, 0.5])
print(f"one phase ({one.kind}): {one.duration_s:.2f} s, feet at", *(plant.position.round(2) for plant in one.plants))

# Durations blend by the square root of their squares, which keeps free fall; the centre of mass replaces the root.
half = blend([slow, fast], [0.5, 0.5])
naive = blend([slow, fast], [0.5, 0.5], time="linear", root="root")
for name, result in (("physical", half), ("naive", naive)):
    print(f"{name}: {result.motion.duration_s:.2f} s, valid {result.report.is_valid}", *result.report.problems)

save_image(render_motion([slow, half.motion, fast], [0, 30, 60]), "08_blend.png")
