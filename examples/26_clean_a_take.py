"""Clean a broken take: a gap, a spike, a knee bent backwards and a floor at ten centimetres, each found and mended."""

from dataclasses import replace

import numpy as np

import marey
from marey.lie import SO3
from marey.picture import compare_strips, save_image
from marey.pipeline import clean_motion

walk = marey.load("walk")  # or the path of your own take

# What captures bring along
wxyz, positions = walk.rotations.wxyz.copy(), walk.root_positions.copy()
wxyz[40:48], positions[40:48] = wxyz[40], positions[40]
elbow, knee = walk.skeleton.index("right_elbow"), walk.skeleton.index("left_knee")
wxyz[80, elbow] = (SO3(wxyz[80, elbow]) @ SO3.exp([0.0, 0.5, 0.3])).wxyz
wxyz[120:126, knee] = SO3.exp([-0.5, 0.0, 0.0]).wxyz
positions[:, 1] += 0.1
take = replace(walk, rotations=SO3(wxyz), root_positions=positions, contacts=None)

result = clean_motion(take)
for step in result.steps:
    print(step.sentence)
    for finding in step.findings:
        print("   ", finding)

# The meter knows nothing of the steps
for name, motion in (("before", take), ("after", result.motion)):
    print(name, [str(fault) for fault in marey.measure_motion(motion).faults])
same = clean_motion(take, steps=("gaps", "spikes", "limits", "floor")).motion
away = np.linalg.norm(same.joint_positions() - walk.joint_positions(), axis=-1)
print(f"joints are at most {1e3 * away.max():.0f} mm from the walk without defects")

save_image(compare_strips([take, result.motion], count=6), "26_clean.png")
