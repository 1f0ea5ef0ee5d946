"""With a full disk every writer keeps the old file, names it, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

WRITE_ALL = """
import resource, sys
from pathlib import Path
import numpy as np
import marey
from marey.base import WriteError, save_figure, write_atomically, write_table
from marey.io import write_clip
from marey.kinematics import fit_limits
from marey.locomotion import load_script, save_script
from marey.measure import measure_motion
from marey.picture import plot_speed, save_image
from marey.spacetime import load_problem, save_problem
from marey.world import save_sketch

folder, walk = Path(sys.argv[1]), marey.samples.load("walk")
model, limits = marey.PGA(n_components=3).fit(walk), fit_limits(walk, "box")
sketch = marey.Sketch.load(marey.samples.sketch_file("three-rivers"))
script, problem = load_script("stroll"), load_problem("monkey-bars")
figure, measured = plot_speed(walk), measure_motion(walk)
writers = {
    "clip.bvh": lambda path: marey.save(walk, path),
    "clip.glb": lambda path: marey.save(walk, path),
    "clip.npz": lambda path: marey.save(walk, path),
    "clip.csv": lambda path: marey.save(walk, path),
    "clip.usda": lambda path: marey.save(walk, path),
    "clip.safetensors": lambda path: write_clip(walk, path),
    "model.safetensors": model.save,
    "limits.safetensors": limits.save,
    "sketch.toml": lambda path: save_sketch(sketch, path),
    "script.toml": lambda path: save_script(script, path),
    "problem.toml": lambda path: save_problem(problem, path),
    "figure.png": lambda path: save_figure(figure, path),
    "image.png": lambda path: save_image(np.random.default_rng(1).integers(0, 255, (99, 99, 3), dtype=np.uint8), path),
    "table.csv": lambda path: write_table([{"a": "x" * 5000}], path),
    "measured.png": lambda path: measured.plot(path),
    "large.bin": lambda path: write_atomically(path, bytes(3 << 20)),
}
for name in writers:
    (folder / name).write_bytes(b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
for name, write in writers.items():
    try:
        write(folder / name)
    except WriteError as error:
        assert name in str(error), error
    else:
        raise AssertionError(f"{name} was written")
    assert (folder / name).read_bytes() == b"old", name
assert sorted(path.name for path in folder.iterdir()) == sorted(writers)
"""


def test_every_writer_keeps_the_old_file_when_the_disk_is_full(tmp_path):
    done = subprocess.run([sys.executable, "-c", WRITE_ALL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
