"""Sculpt a joint's limits: its learnt set as a surface that a modelling program can edit, and back to limits."""

import numpy as np

from marey.kinematics import brush_joint, fit_limits, iso_surface, load_obj, plot_limits, resculpt_joint, shrink_wrap
from marey.lie import SO3
from marey.locomotion import load_script

walk = load_script("stroll").render()  # with turns: its hip moves about three axes
limits = fit_limits(walk, "sdf")
hip = limits.of("left_hip")

# The exact surface, and one of a sphere drawn in: smooth, without dents, good to edit by hand.
samples = hip.chart.coordinates(walk.rotations[:, walk.skeleton.index("left_hip")])
exact, smooth = iso_surface(hip.field), shrink_wrap(hip.field, samples)
print(f"exact {len(exact.faces)} faces, smooth {len(smooth.faces)} faces")

# Any program that writes OBJ files could edit it; here the surface is scaled by 1.2 about its middle.
middle = smooth.vertices.mean(axis=0)
smooth.moved(lambda points: middle + 1.2 * (points - middle)).save_obj("19_hip.obj")
wider = limits.replace_joint("left_hip", resculpt_joint(hip, load_obj("19_hip.obj")))
# A brush needs no program: the knee, a hinge, may bend 30 degrees further.
bent = SO3.exp([np.deg2rad(70.0), 0.0, 0.0])
knee = brush_joint(limits.of("left_knee"), bent, radius_rad=np.deg2rad(60.0), push_rad=np.deg2rad(30.0))
wider = wider.replace_joint("left_knee", knee)
for name, some in (("learnt", limits), ("sculpted", wider)):
    print(f"{name}: {some.of('left_hip').field.feasible_share():.1%} of the grid is feasible")

plot_limits(wider, ["left_hip"], motion=walk, path="19_sculpt_limits.png")
