"""Do the programs that our users have see what we mean? `make interop` asks them.

Blender imports our BVH and GLB files and its joints must lie within 0.1 mm of ours at 20 frames; the Khronos validator
must find no error in our glTF; pybvh and ezc3d must read the same numbers as we do; and we must read what Blender
exports, with its own bone frames. Each client lives in a folder of its own under `.venvs/`, which this script makes.
Figures go to `benchmarks/interop/result.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from marey.io import load, load_markers, save
from marey.lie import SO3
from marey.motion import Contacts, Motion
from marey.skeleton import HUMAN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENVS = ROOT / ".venvs"
MOCAP = Path(os.environ.get("MAREY_MOCAP", ROOT.parent / "shared" / "mocap"))
REAL = Path(os.environ.get("MAREY_REAL", ROOT.parent / "shared" / "real"))
RIGS = ("mesh2motion/m2m-sample-rig.glb", "momentum-tests/test_24fps.glb", "khronos-gltf/BrainStem.glb")
BLENDER = "bpy==5.0.1"
PEERS = ("pybvh==0.9.0", "ezc3d>=1.5")
NUM_FRAMES = 20
BAR_MM = 0.1
FBX_BAR_MM = 0.01


@dataclass(frozen=True, slots=True)
class Check:
    """One question to one client and its answer."""

    client: str
    what: str
    figure: float
    unit: str
    bar: float

    @property
    def passed(self) -> bool:
        """Whether the figure is within its bar."""
        return self.figure <= self.bar


def clips() -> Iterator[tuple[str, Motion]]:
    """Motions to hand over: captured ones where they are, and a synthetic one with everything we can write."""
    for trial in ("08_01", "118_01", "16_11"):
        path = MOCAP / "cmu-bvh" / f"{trial}.bvh"
        if path.exists():
            yield trial, load(path)
    amc = MOCAP / "cmu-asfamc" / "08" / "08_04.amc"
    if amc.exists():
        yield "08_04_amc", load(amc)
    yield "synthetic", synthetic()


def synthetic() -> Motion:
    """The canonical human waving all its joints, with contacts, at 60 Hz."""
    rng = np.random.default_rng(7)
    times = np.arange(120) / 60.0
    waves = np.sin(2.0 * np.pi * times[:, None, None] * rng.uniform(0.3, 1.0, (22, 3)) + rng.uniform(0, 6, (22, 3)))
    path = np.stack([np.sin(times), 0.95 + 0.0 * times, times], axis=1)
    contacts = Contacts(("left_heel", "right_heel"), np.stack([times % 1.0 < 0.5, times % 1.0 >= 0.5], axis=1))
    return Motion(HUMAN, 60.0, path, SO3.exp(0.4 * waves), contacts, name="synthetic")


def blender_checks(name: str, motion: Motion, folder: Path) -> Iterator[Check]:
    """Largest distance between Blender's joints and ours, for our GLB and BVH and for the GLB that Blender writes."""
    frames = np.unique(np.linspace(0, motion.num_frames - 1, NUM_FRAMES).astype(int))
    for suffix, metres in ((".glb", 1.0), (".bvh", 0.01)):
        path = folder / f"{name}{suffix}"
        save(replace(motion, source=None), path)
        theirs = _ask_blender(path, motion, frames, picture=name == "08_01" and suffix == ".glb")
        gap = _gap(motion, {joint: metres * np.array(places) for joint, places in theirs.items()}, frames)
        yield Check("Blender", f"{path.name}, {len(frames)} frames, {len(theirs)} joints", gap, "mm", BAR_MM)
    again = load(folder / f"{name}.again.glb", rate_hz=motion.rate_hz)
    places = again.joint_positions()
    theirs = {joint: places[frames, j] for j, joint in enumerate(again.skeleton.names)}
    yield Check("Blender", f"{name}.glb as Blender exports it", _gap(motion, theirs, frames), "mm", BAR_MM)


def fbx_checks(name: str, motion: Motion, folder: Path) -> Iterator[Check]:
    """Largest distance between joints of our FBX in ufbx and in both importers of Blender, and ours."""
    frames = np.unique(np.linspace(0, motion.num_frames - 1, NUM_FRAMES).astype(int))
    for root in ("hips", "bone"):
        path = folder / f"{name}_{root}.fbx"
        save(replace(motion, source=None), path, root=root)
        times = [repr(float(frame) / motion.rate_hz) for frame in frames]
        side = ROOT / "tests" / "oracles" / "ufbx_side.py"
        said = json.loads(_run([sys.executable, str(side), str(path), "0", *times]))
        theirs = {joint: said["unit_m"] * np.array(places) for joint, places in said["positions"].items()}
        yield Check("ufbx", f"{path.name}, {len(frames)} frames", _gap(motion, theirs, frames), "mm", FBX_BAR_MM)
        # Blender's add-on places keys by whole frames a second
        for importer in ("builtin", "addon") if motion.rate_hz == round(motion.rate_hz) else ("builtin",):
            os.environ["FBX_IMPORTER"] = importer
            found = _ask_blender(path, motion, frames, picture=False)
            theirs = {joint: np.array(places) for joint, places in found.items()}
            what = f"{path.name}, {importer} importer, {len(frames)} frames"
            yield Check("Blender", what, _gap(motion, theirs, frames), "mm", FBX_BAR_MM)


def _gap(motion: Motion, theirs: dict[str, np.ndarray], frames: np.ndarray) -> float:
    """Largest distance [mm] of named positions from a motion's joints."""
    ours = motion.joint_positions()[frames]
    gaps = [np.linalg.norm(theirs[name] - ours[:, j], axis=-1).max() for j, name in enumerate(motion.skeleton.names)]
    return 1e3 * float(max(gaps))


def _ask_blender(path: Path, motion: Motion, frames: np.ndarray, *, picture: bool) -> dict[str, list[list[float]]]:
    python = _environment("bpy", "bpy", BLENDER)
    out, again = path.with_suffix(".json"), path.with_suffix(".again.glb")
    listed = ",".join(str(frame) for frame in frames)
    command = [str(python), str(HERE / "blender_side.py"), str(path), repr(motion.rate_hz), str(motion.num_frames)]
    command += [listed, str(out)]
    if path.suffix == ".glb":
        command.append(str(again))
    if picture:
        (ROOT / "artefacts").mkdir(exist_ok=True)
        command.append(str(ROOT / "artefacts" / "blender.png"))
    _run(command)
    return json.loads(out.read_text())["positions"]


def _environment(name: str, module: str, *packages: str) -> Path:
    """Python of an environment that can import ``module``; made where it is missing."""
    python = VENVS / name / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(VENVS / name)])
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return python


def validator_checks(files: list[Path]) -> Iterator[Check]:
    """Errors that the Khronos validator finds in our glTF files."""
    modules = VENVS / "npm" / "node_modules"
    if not (shutil.which("npm") and shutil.which("node")):
        raise SystemExit("the glTF validator needs node and npm. Install them, then run this again.")
    if not (modules / "gltf-validator").exists():
        (VENVS / "npm").mkdir(parents=True, exist_ok=True)
        _run(["npm", "install", "--no-fund", "--no-audit", "--prefix", str(VENVS / "npm"), "gltf-validator"])
    said = json.loads(_run(["node", str(HERE / "validate.js"), str(modules), *[str(file) for file in files]]))
    for file, issues in said["files"].items():
        yield Check(
            "gltf-validator", f"{file}: errors and warnings", issues["numErrors"] + issues["numWarnings"], "", 0
        )


def pybvh_checks(name: str, motion: Motion, folder: Path) -> Iterator[Check]:
    """Distance between pybvh's joints and ours, on the BVH we wrote and on the captured one where there is one."""
    names, places = _ask_peer(folder / f"{name}.bvh", folder)
    theirs = {joint: 0.01 * places[:, j] for j, joint in enumerate(names)}
    gap = _gap(motion, theirs, np.arange(motion.num_frames))
    yield Check("pybvh", f"{name}.bvh, all {motion.num_frames} frames", gap, "mm", BAR_MM)
    source = motion.source
    if source is not None and source.format == "bvh":
        names, places = _ask_peer(Path(source.path), folder)
        left_out = len(places) - motion.num_frames
        theirs = {joint: source.metres_per_unit * places[left_out:, j] for j, joint in enumerate(names)}
        gap = _gap(motion, theirs, np.arange(motion.num_frames))
        yield Check("pybvh", f"{name}.bvh as captured, all {motion.num_frames} frames", gap, "mm", BAR_MM)


def ezc3d_checks(folder: Path) -> Iterator[Check]:
    """Distance between ezc3d's points and ours, and whether both miss the same ones."""
    path = MOCAP / "opensim" / "walking5.c3d"
    if not path.exists():
        return
    points = _ask_peer(path, folder)[1] / 1000.0
    markers = load_markers(path)
    turned = np.stack([points[..., 0], points[..., 2], -points[..., 1]], axis=-1)
    unlike = int((markers.valid != np.isfinite(points).all(axis=-1)).sum())
    yield Check("ezc3d", f"{path.name}: points only one of us sees", unlike, "", 0)
    gap = 1e3 * float(np.abs(turned - markers.positions)[markers.valid].max())
    yield Check("ezc3d", f"{path.name}, {points.shape[0]} frames, {points.shape[1]} markers", gap, "mm", 1e-6)


def _ask_peer(path: Path, folder: Path) -> tuple[list[str], np.ndarray]:
    python = _environment("peers", "pybvh, ezc3d", *PEERS)
    out = folder / "peer.npz"
    _run([str(python), str(HERE / "peer_side.py"), str(path), str(out)])
    with np.load(out) as answer:
        return [str(name) for name in answer["names"]], answer["positions"]


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def all_checks(folder: Path) -> Iterator[Check]:
    """Every question, in turn."""
    written: list[Path] = []
    for name, motion in clips():
        yield from blender_checks(name, motion, folder)
        yield from pybvh_checks(name, motion, folder)
        yield from fbx_checks(name, motion, folder)
        save(motion, folder / f"{name}.gltf")
        written += [folder / f"{name}.glb", folder / f"{name}.gltf"]
    # Rigs of other tools: bones that change length, 161 joints, a rate that is not whole
    for path in sorted(REAL / place for place in RIGS):
        if path.exists():
            yield from fbx_checks(path.stem, load(path), folder)
    yield from validator_checks(written)
    yield from ezc3d_checks(folder)


def report(checks: Iterator[Check], say: Callable[[str], None] = print) -> list[Check]:
    """Print each answer as it comes and keep them all."""
    kept: list[Check] = []
    for check in checks:
        kept.append(check)
        verdict = "ok" if check.passed else "FAILED"
        say(
            f"{verdict:7} {check.client:15} {check.what:60} {check.figure:10.3g} {check.unit:3} (at most {check.bar:g})"
        )
    return kept


def versions() -> dict[str, str]:
    """Versions of all that took part."""
    found = {"marey": version("marey"), "numpy": version("numpy")}
    for name, packages in (("bpy", ("bpy",)), ("peers", ("pybvh", "ezc3d"))):
        for package in packages:
            code = f"import importlib.metadata as m; print(m.version('{package}'))"
            found[package] = _run([str(VENVS / name / "bin" / "python"), "-c", code])
    package = VENVS / "npm" / "node_modules" / "gltf-validator" / "package.json"
    return found | {"gltf-validator": json.loads(package.read_text())["version"]}


def main() -> None:
    """Ask all clients; exit 1 when one of them sees something else."""
    with tempfile.TemporaryDirectory() as folder:
        kept = report(all_checks(Path(folder)))
    rows = [asdict(check) | {"passed": check.passed} for check in kept]
    (HERE / "result.json").write_text(json.dumps({"clients": versions(), "checks": rows}, indent=1) + "\n")
    failed = [check for check in kept if not check.passed]
    print(f"{len(kept) - len(failed)} of {len(kept)} checks passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
