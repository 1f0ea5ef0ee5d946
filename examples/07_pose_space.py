"""A walk in a few numbers: choose clips, fit a pose space, look at it, rebuild the walk from it."""

import numpy as np

import marey
from marey.models import choose_clips, clip_features, plot_selection, selection_curve
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
save_image(compare_strips([walk, again]), "07_pose_space.png")
