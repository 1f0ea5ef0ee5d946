"""Load a clip, read what was noticed about it, and make a film strip, a picture and a plot.

Any BVH, ASF/AMC, glTF, AMASS or DeepMimic file can be named on the command line; otherwise it is the synthetic walk.
"""

import sys

import marey
from marey.picture import film_strip, motion_scene, plot_speed, render, save_image

motion = marey.load(sys.argv[1]) if len(sys.argv) > 1 else marey.samples.walk()
print(motion)
for warning in motion.load_report.warnings:
    print("look:", warning)
print("joints in world, first frame [m]:", motion.joint_positions()[0].round(2).tolist()[:3], "...")
plot_speed(motion, "01_speed.png")

# A scene is plain data: camera, bodies, marks, ground and light can be changed before it is drawn.
scene = motion_scene(motion, [0, motion.num_frames // 2])
save_image(render(scene, (960, 540)), "01_scene.png")
save_image(film_strip(motion), "01_strip.png")
