"""Cut, mirror, filter and resample a clip, lay it on another path, and write it in three formats."""

from dataclasses import replace

import numpy as np

import marey
from marey.lie import SO3
from marey.motion import concatenate, decode_relative_root, encode_relative_root, lowpass, mirror, resample
from marey.picture import film_strip, save_image

run = marey.samples.run()
piece = lowpass(run, cutoff_hz=10.0)[20:120]
there_and_mirrored = concatenate([piece, mirror(piece)], align=True)
slow = resample(there_and_mirrored, rate_hz=29.97)

# The root as steps and turns from frame to frame: turning each a little bends the path of the whole clip
relative = encode_relative_root(slow)
bent = replace(relative, turns=relative.turns + np.deg2rad(0.5))
positions, root_rotations = decode_relative_root(bent)
wxyz = slow.rotations.wxyz.copy()
wxyz[:, 0] = root_rotations.wxyz
curve = replace(slow, root_positions=positions, rotations=SO3(wxyz), contacts=None, source=None)

for path in ("04_run.bvh", "04_run.glb", "04_run.safetensors"):
    marey.save(curve, path)
    print(path, marey.load(path))
save_image(film_strip(curve), "04_run.png")
