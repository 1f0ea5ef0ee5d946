"""Sculpt a joint's limits: its learnt set as a surface that a modelling program can edit, and back to limits."""

from marey.kinematics import fit_limits, iso_surface, plot_limits, resculpt_joint, shrink_wrap
from marey.kinematics.limits.sculpt import load_obj
from marey.locomotion import load_script

walk = load_script("stroll").render()  # with turns: its hip moves about three axes
limits = fit_limits(walk, "sdf")
hip = limits.of("left_hip")

# The exact surface, and one of a sphere drawn in: smooth, without dents, good to edit by hand.
samples = hip.chart.coordinates(walk.rotations[:, walk.skeleton.index("left_hip")])
exact, smooth = iso_surface(hip.field), shrink_wrap(hip.field, samples)
print(f"exact {len(exact.faces)} faces, smooth {len(smooth.faces)} faces")

# Any program that writes OBJ files could edit it; here the set grows by a fifth about its middle.
middle = smooth.vertices.mean(axis=0)
smooth.moved(lambda points: middle + 1.2 * (points - middle)).save_obj("18_hip.obj")
wider = limits.replace_joint("left_hip", resculpt_joint(hip, load_obj("18_hip.obj")))
for name, some in (("learnt", limits), ("sculpted", wider)):
    print(f"{name}: {some.of('left_hip').field.feasible_share():.1%} of the grid is feasible")

plot_limits(wider, ["left_hip"], motion=walk, path="19_sculpt_limits.png")
