"""A walk in a few numbers: fit a pose space, rebuild the walk from it, reach in it, fill in between key poses."""

import numpy as np

import marey
from marey.kinematics import PointTask, PoseTask, fill_in_betweens, solve_ik
from marey.models import choose_clips, clip_features, plot_selection, selection_curve
from marey.motion import KeyFrames
from marey.picture import compare_strips, save_image

walk = marey.samples.walk()
shelf = [marey.samples.walk(speed) for speed in (0.8, 1.1, 1.7)] + [marey.samples.run(), marey.samples.jump()]
choice = choose_clips([clip_features(clip) for clip in shelf], clip_features(walk[:60]), count=3)
print("clips with the contacts of the walk, near in direction:", ", ".join(shelf[i].name for i in choice.indices))

model = marey.PGA(explained=0.95).fit(walk)
print(model.num_components, "modes carry", f"{model.explained.sum():.1%}", "of the variance of the poses")
curve = selection_curve(walk, counts=range(1, 13))
print(curve.table())
plot_selection(curve).savefig("07_selection.png")

coordinates = model.encode(walk)
again = model.decode(coordinates, root_positions=walk.root_positions, root_rotations=walk.rotations[:, 0])
gap = np.linalg.norm(again.joint_positions() - walk.joint_positions(), axis=-1)
print(f"joint error {100 * gap.mean():.2f} cm on average, {100 * gap.max():.2f} cm at most")

model.save("07_walk.safetensors")
print("read back:", marey.load_model("07_walk.safetensors").num_components, "modes")

# A reach with both feet on the ground: no coordinate goes beyond three standard deviations
start, index = again[0], walk.skeleton.index
places = start.joint_positions()
feet = [PointTask(side, places[index(side)]) for side in ("left_ankle", "right_ankle")]
hand = PointTask("right_wrist", places[index("right_wrist")] + np.array([0.0, 0.4, 0.2]), priority=1)
reach = solve_ik(model, [*feet, hand, PoseTask(start, weight=1e-3)], start=start, on_failure="return")
print(reach, "sigma at most", f"{np.abs(reach.coordinates / model.deviations).max():.2f}")

# And there and back again: feet that are at the same place in two keys stay there
keys = KeyFrames(walk.skeleton).with_key(0.0, start).with_key(0.6, reach.pose).with_key(1.4, start)
between = fill_in_betweens(keys, walk.rate_hz, model=model)
print(between)
save_image(compare_strips([walk, again, between.motion]), "07_pose_space.png")
