"""Cut, mirror, filter and resample a clip, and write it in three formats."""

import marey
from marey.motion import concatenate, lowpass, mirror, resample
from marey.picture import film_strip, save_image

run = marey.samples.run()
piece = lowpass(run, cutoff_hz=10.0)[20:120]
there_and_mirrored = concatenate([piece, mirror(piece)], align=True)
slow = resample(there_and_mirrored, rate_hz=29.97)
for path in ("04_run.bvh", "04_run.glb", "04_run.safetensors"):
    marey.save(slow, path)
    print(path, marey.load(path))
save_image(film_strip(slow), "04_run.png")
