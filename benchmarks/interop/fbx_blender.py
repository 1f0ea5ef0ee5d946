"""Do we see the joints of an FBX file where Blender sees them? World positions at 20 frames, in millimetres.

``python benchmarks/interop/fbx_blender.py FOLDER_OR_FILE... [--blender PYTHON]`` prints one row for each file and each
of Blender's two importers: `addon` is its own parser, which shares no line with ours, and decides; `native` is built on
ufbx as we are, and is shown because users have it (in 5.0.1 it leaves out a curve whose two neighbours have no keys:
momentum's simple_anim.fbx). A body of unusual size (a scene in centimetres that says metres) is compared
at the size of a person, 1.7 m, since Blender holds positions as float32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from marey.base import FloatArray, MareyError
from marey.io.fbx.reader import read_fbx
from marey.motion import Motion

HERE = Path(__file__).parent
NUM_FRAMES = 20
BAR_MM = 0.1
PERSON_M = 1.7
SIZES_M = (0.01, 5.0)  # bodies outside of this are compared at the size of a person


Places = dict[str, list[float]]  # position [m] by name, Blender's axes


def ask_blender(blender: str, motion: Motion, path: Path, importer: str, times: FloatArray) -> list[Places]:
    """Positions of every bone and object that Blender has, at times of the file [s]."""
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder) / "request.json", Path(folder) / "answer.json"
        question = {"path": str(path.resolve()), "importer": importer, "take": motion.name, "times": list(times)}
        request.write_text(json.dumps(question))
        command = [blender, str(HERE / "blender_fbx.py"), str(request), str(answer)]
        done = subprocess.run(command, capture_output=True, check=False)
        if not answer.exists():
            print(done.stderr.decode()[-400:], file=sys.stderr)
            return []
        return json.loads(answer.read_text())["positions"]


def compare(motion: Motion, theirs: list[Places], frames: FloatArray) -> tuple[int, float, str]:
    """Joints that both know, the largest distance between them [mm], and the joint where it is."""
    ours = motion.joint_positions()[frames.astype(int)]
    shared = [j for j, name in enumerate(motion.skeleton.names) if name in theirs[0]]
    xyz = np.array([[places[motion.skeleton.names[j]] for j in shared] for places in theirs])
    # Blender's world has +Z up
    apart = np.linalg.norm(ours[:, shared] - np.stack([xyz[..., 0], xyz[..., 2], -xyz[..., 1]], axis=-1), axis=-1)
    size = float(np.ptp(motion.skeleton.rest_positions(), axis=0).max())
    scale = 1.0 if SIZES_M[0] < size < SIZES_M[1] else PERSON_M / size
    worst = np.unravel_index(np.argmax(apart), apart.shape)
    return len(shared), 1e3 * scale * float(apart.max()), motion.skeleton.names[shared[int(worst[1])]]


def main() -> int:
    """Print the table; the exit code is 1 where the addon is further than the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--blender", default=sys.executable, help="a Python that has bpy")
    parser.add_argument("--importers", default="addon,native")
    options = parser.parse_args()
    files = sorted({f for path in options.paths for f in ([path] if path.is_file() else path.rglob("*.[fF][bB][xX]"))})
    is_over = False
    print(f"{'file':44} {'joints':>6} {'frames':>6} {'Hz':>6}  importer  shared  apart [mm]  at")
    for path in files:
        try:
            motion = read_fbx(path)
        except MareyError as error:
            print(f"{path.name:44} refused: {str(error).partition(': ')[2]}")
            continue
        start = next(
            (float(n.split()[4]) for n in motion.load_report.notes if n.startswith("the animation starts")), 0.0
        )
        frames = np.unique(np.linspace(0, motion.num_frames - 1, NUM_FRAMES).astype(int))
        facts = f"{path.name:44} {motion.skeleton.num_joints:6} {motion.num_frames:6} {motion.rate_hz:6g}"
        for importer in options.importers.split(","):
            theirs = ask_blender(options.blender, motion, path, importer, start + frames / motion.rate_hz)
            if not theirs:
                print(f"{facts}  {importer:8}  Blender cannot read it")
                continue
            shared, apart, joint = compare(motion, theirs, frames)
            is_over |= importer == "addon" and apart > BAR_MM
            print(f"{facts}  {importer:8}  {shared:6}  {apart:10.4f}  {joint}", flush=True)
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
