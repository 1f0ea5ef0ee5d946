"""Golden record: hashes of what the product makes, to show that a change of the code changes no output.

::

    python benchmarks/golden.py record golden.json            # on the reference
    python benchmarks/golden.py compare golden.json           # after a change; exit code 1 if an entry differs
    python benchmarks/golden.py compare golden.json --quick   # a subset of every group
    python benchmarks/golden.py record golden.json --only codecs simulations

Each entry is one output and its SHA-256. Outputs are made by the command line (``marey.cli.main``) and, where the
command has no deterministic stop, by names that ``marey`` and ``marey.samples`` export, so modules and names inside
the rooms can change freely. Outputs are compared bit by bit: a record holds for one machine and one set of packages.
Linear algebra runs on one thread, because the order of a parallel sum depends on the number of threads.

Nothing that depends on the clock enters a hash:

- A graph search has no time limit; it ends at the first solution after ``SEARCH_EXPANSIONS`` expansions. Every other
  command ends by itself.
- Of a JSON report only numbers and truth values count, without the keys of ``CLOCK_KEYS``. Texts do not count: they
  hold file names, and their wording may change.
- An archive (.npz) stores time stamps, so its arrays are hashed, not its bytes. All other files are hashed whole: they
  hold the version of their format, but neither a date nor the version of the product.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded

import numpy as np  # noqa: E402

import marey  # noqa: E402

Record = dict[str, dict[str, str]]  # environment and entries
PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "daqp", "safetensors")
CLOCK_KEYS = frozenset({"took_s", "search_s", "seconds"})
CLIPS = ("walk", "run", "jump", "stroll", "standing-jump")  # three samples, then two shipped scripts
QUICK_CLIPS = frozenset({"walk", "jump"})
NO_BUDGET_S = 1e6  # [s] a time limit that no search reaches
SEARCH_EXPANSIONS = 50_000  # the searches of the shipped sketches go on for seconds, not for hours
QUICK_SKETCHES = frozenset({"straight", "stepping-stones", "round-a-table"})
QUICK_PROBLEMS = frozenset({"jump-0.4", "monkey-bars"})  # one of each space
QUICK_SCENES = frozenset({"fork", "table"})
SCENE_GOAL = "--goal 0,0.5,0=0.1,0.5,0@0.2"  # a point of the body at rest, where it goes, when
SOLVER_OPTIONS = ("--solver fang2003", "--derivatives finite-difference")
SIMULATIONS = {
    "drop": "--mode drop",
    "free": "--mode free --moving",
    "puppet": "--mode puppet",
    "track": "--mode track",
    "balance": "--mode balance",
    "drop-full": "--mode drop --full --limits clip",
    "drop-slope": "--mode drop --slope 10 --friction staggered:0.5",
    "drop-hit": "--mode drop --push pelvis:200,0,0@0.2+0.1 --ball 0,1.2,2:0,1,-6@0.1",
    "free-variational": "--mode free --moving --integrator variational --damping none",
    "free-naive": "--mode free --moving --integrator naive --damping kinematic:2",
}
CODECS = {
    "default": "--method default",
    "default-coarse": "--method default --distortion-percent 1",
    "tournier2011": "--method tournier2011",
}
ANALYSES = {
    "contacts": "contacts {clip} --json",
    "validity": "physics {clip} --frames --json",
    "mirror": "convert {clip} {out}.safetensors --mirror --rate-hz 50",
    "retarget": "convert {clip} {out}.safetensors --retarget human",
    "repair": "optimize --from {clip} --make-valid -o {out}.safetensors --json",
    "plant": "plant {clip} -o {out}.safetensors --json",
    "pga": "fit {clip} -o {out}.safetensors --components 6 --json",
    "pca": "fit {clip} -o {out}.safetensors --method pca --components 6 --json",
    "limits": "limits fit {clip} -o {out}.safetensors --resolution 8 --json",
    "activations": "muscle {clip} -o {out}.csv --json",
}
IK_METHODS = (  # with their variants
    "projected-lm", "projected-dogleg", "pg-armijo bb", "pg-armijo unit", "projected-cg", "dls", "pseudo-inverse",
    "svd-clamp", "jacobian-transpose fixed", "jacobian-transpose buss", "jacobian-transpose meredith-maddock", "ccd",
    "two-bone",
)  # fmt: skip
IK_GOALS = ("left_wrist", "right_wrist", "left_foot", "right_foot", "pelvis", "head")
IK_LIMB_GOALS = IK_GOALS[:4]  # of the method that moves limbs alone
IK_FRAMES = range(5, 61, 5)
IK_ITERATIONS = 30


@dataclass(frozen=True)
class Entry:
    """One output: its name, the function that makes and hashes it, and whether the quick subset has it."""

    name: str
    digest: Callable[[], str]
    is_quick: bool


def run_command(command: str) -> tuple[str, str]:
    """Run ``marey`` in this process, with clips written as ``@name``.

    Returns:
        How it ended (exit code, and the class of the error if one was raised), and its standard output.
    """
    from marey.cli import main as run_marey

    words = [write_clip(word[1:]) if word.startswith("@") else word for word in command.split()]
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = run_marey([*words, "--debug"])
    raised = re.findall(r"^(?:\w+\.)*([A-Z]\w+):", errors.getvalue().partition("Traceback")[2], re.MULTILINE)
    return " ".join([f"exit {code}", *raised[-1:]]), output.getvalue()


def hash_parts(*parts: object) -> str:
    """Return the SHA-256 of arrays (with type and shape), bytes and texts."""
    whole = sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            data = f"{part.dtype.str} {part.shape} ".encode() + np.ascontiguousarray(part).tobytes()
        else:
            data = part if isinstance(part, bytes) else str(part).encode()
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()


def hash_file(file: str) -> str:
    """Hash the bytes of a file; of an archive, the names and arrays."""
    if not file.endswith(".npz"):
        return hash_parts(Path(file).read_bytes())
    with np.load(file, allow_pickle=False) as archive:
        return hash_parts(*(part for name in sorted(archive.files) for part in (name, archive[name])))


def hash_command(command: str, *outputs: str) -> str:
    """Run a command; hash the numbers of its JSON report and the files that it wrote, and add how it ended."""
    ended, text = run_command(command)
    report = json.dumps(select_numbers(json.loads(text)), sort_keys=True) if "--json" in command and text else ""
    return f"{hash_parts(report, *(hash_file(file) for file in outputs if Path(file).exists()))} {ended}"


def select_numbers(value: Any) -> Any:
    """Return the numbers and truth values of a report, without those that depend on the clock."""
    if isinstance(value, dict):
        return {key: select_numbers(item) for key, item in value.items() if key not in CLOCK_KEYS}
    if isinstance(value, list):
        return [select_numbers(item) for item in value]
    return None if isinstance(value, str) else value


@cache
def write_clip(name: str) -> str:
    """Write one of ``CLIPS`` once; return its file."""
    file = f"clip-{name}.safetensors"  # no name that the product ships
    if name in ("walk", "run", "jump"):
        marey.save(getattr(marey.samples, name)(), file)
    elif (ended := run_command(f"walk {name} -o {file}")[0]) != "exit 0":
        raise RuntimeError(f"marey walk {name}: {ended}")
    return file


@cache
def write_graph() -> str:
    """Build the graph of the demo clips once, whatever a cache holds; return its file."""
    if (ended := run_command("graph build demo -o demo-graph.safetensors")[0]) != "exit 0":
        raise RuntimeError(f"marey graph build demo: {ended}")
    return "demo-graph.safetensors"


def list_sketches() -> Iterator[Entry]:
    """List the graph of the demo clips, the shipped sketches by two engines, and the shipped scripts."""
    yield Entry("demo-graph", lambda: hash_file(write_graph()), True)
    for name in marey.samples.sketch_names():
        yield Entry(f"graph/{name}", partial(hash_search, name), name in QUICK_SKETCHES)
        out = f"synth-{name}.safetensors"
        command = f"synth {name} --engine locomotion --json -o {out}"
        yield Entry(f"locomotion/{name}", partial(hash_command, command, out), name in QUICK_SKETCHES)
    for name in json.loads(run_command("walk --list --json")[1]):
        out = f"script-{name}.safetensors"
        yield Entry(f"script/{name}", partial(hash_command, f"walk {name} --json -o {out}", out), name == "thesis")


def hash_search(name: str) -> str:
    """Search the graph of the demo clips for a sketch; hash epsilon and cost of each solution, and the motion."""
    found: list[tuple[float, float]] = []

    def stop(solution: Any) -> bool:
        found.append((solution.epsilon, solution.cost))
        return solution.expansions >= SEARCH_EXPANSIONS

    sketch = marey.Sketch.load(marey.samples.sketch_file(name))
    motion = marey.synthesize(sketch, "graph", graph=write_graph(), budget_s=NO_BUDGET_S, on_solution=stop)
    marey.save(motion, f"search-{name}.safetensors")
    return hash_parts(np.array(found), hash_file(f"search-{name}.safetensors"))


def list_problems() -> Iterator[Entry]:
    """List the shipped space-time problems, solved until they converge; one of them by other means as well."""
    names = json.loads(run_command("optimize --list --json")[1])
    for name, options in [*((name, "") for name in names), *(("monkey-bars", options) for options in SOLVER_OPTIONS)]:
        out = f"optimize-{name}.safetensors"
        command = f"optimize {name} {options} --json -o {out}"
        yield Entry(f"{name} {options}".strip(), partial(hash_command, command, out), name in QUICK_PROBLEMS)


def list_simulations() -> Iterator[Entry]:
    """List simulations of a walk in the five modes, and options of the passive ones."""
    for name, options in SIMULATIONS.items():
        out = f"simulate-{name}.safetensors", f"simulate-{name}.csv"
        command = f"simulate @walk {options} --seconds 1 --json -o {out[0]} --csv {out[1]}"
        yield Entry(name, partial(hash_command, command, *out), "-" not in name)


def list_codecs() -> Iterator[Entry]:
    """List clips that are compressed (the bytes) and decompressed (the motion) by each codec."""
    for (codec, options), clip in product(CODECS.items(), CLIPS):
        packed, out = f"{codec}-{clip}.marey", f"{codec}-{clip}.safetensors"
        command = f"compress @{clip} {options} --json -o {packed}"
        yield Entry(f"{codec}/{clip}/bytes", partial(hash_command, command, packed), clip in QUICK_CLIPS)
        command = f"decompress {packed} --json -o {out}"
        yield Entry(f"{codec}/{clip}/motion", partial(hash_command, command, out), clip in QUICK_CLIPS)


def list_scenes() -> Iterator[Entry]:
    """List short runs of the shipped scenes of soft bodies, and activations that are solved for a goal."""
    names = json.loads(run_command("muscle --list --json")[1])
    for name, options in [*((name, "--seconds 1") for name in names), ("table", SCENE_GOAL)]:
        out = f"scene-{name}.npz"
        command = f"muscle {name} {options} --json -o {out}"
        yield Entry(f"{name} {options}", partial(hash_command, command, out), name in QUICK_SCENES)


def list_ik() -> Iterator[Entry]:
    """List the methods of inverse kinematics, without joint limits and with boxes."""
    for method, limits in product(IK_METHODS, ("free", "box")):
        yield Entry(f"{method}/{limits}", partial(hash_ik, method, limits), limits == "box")


def hash_ik(solver: str, kind: str) -> str:
    """Follow hands, feet, pelvis and head of a walk, each frame from the pose before; hash the poses."""
    walk, (method, _, variant) = marey.samples.walk(), solver.partition(" ")
    limits = None if kind == "free" else marey.kinematics.fit_limits(walk, kind, margin_rad=0.1)
    names = IK_LIMB_GOALS if method == "two-bone" else IK_GOALS
    joints = [walk.skeleton.names.index(name) for name in names]
    positions, pose, parts = walk.joint_positions(), walk[0], []
    options = {"method": method, "variant": variant or None, "limits": limits, "max_iterations": IK_ITERATIONS}
    for frame in IK_FRAMES:
        tasks = [marey.PointTask(joint, positions[frame, joint]) for joint in joints]
        result = marey.solve_ik(
            walk.skeleton, tasks, start=pose, root="free", follow=False, on_failure="return", **options
        )
        pose = result.pose
        parts += [pose.root_position, pose.rotations.wxyz, result.iterations]
    return hash_parts(*parts)


def list_exports() -> Iterator[Entry]:
    """List clips as GLB and BVH, written from the lossless clip and written again from that file."""
    for clip, suffix in product(CLIPS, (".glb", ".bvh")):
        once, twice = f"once-{clip}{suffix}", f"twice-{clip}{suffix}"
        command = f"convert @{clip} {once}"
        yield Entry(f"{clip}{suffix}", partial(hash_command, command, once), clip in QUICK_CLIPS)
        command = f"convert {once} {twice}"
        yield Entry(f"{clip}{suffix}/again", partial(hash_command, command, twice), clip in QUICK_CLIPS)


def list_analyses() -> Iterator[Entry]:
    """List what other verbs make of a clip: contacts, validity, edits, pose models, joint limits, muscles."""
    for (name, template), clip in product(ANALYSES.items(), ("walk", "jump")):
        out = f"{name}-{clip}"
        command = template.format(clip=f"@{clip}", out=out)
        outputs = [word for word in command.split() if word.startswith(f"{out}.")]
        yield Entry(f"{name}/{clip}", partial(hash_command, command, *outputs), clip == "walk")


LISTS = (list_sketches, list_problems, list_simulations, list_codecs, list_scenes, list_ik, list_exports, list_analyses)
GROUPS = {function.__name__.removeprefix("list_"): function for function in LISTS}


def make_record(groups: Sequence[str], *, quick: bool) -> Record:
    """Make and hash all entries of some groups in a temporary folder."""
    hashes: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for group in groups:
            for entry in GROUPS[group]():
                if quick and not entry.is_quick:
                    continue
                began = time.perf_counter()
                try:
                    digest = entry.digest()
                except Exception as error:  # an entry that fails is a difference; the others are still of interest
                    digest = f"failed: {type(error).__name__}: {error}"
                hashes[f"{group}/{entry.name}"] = digest
                print(f"{time.perf_counter() - began:8.2f} s  {digest[:12]}  {group}/{entry.name}", file=sys.stderr)
    # What the last bits of a result depend on, beside the product.
    environment = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    return {"environment": environment | {package: version(package) for package in PACKAGES}, "entries": hashes}


def compare_records(old: Record, new: Record, groups: Sequence[str], *, quick: bool) -> list[str]:
    """Return one line for each entry that differs; entries that only ``old`` has count unless a subset was made."""
    before, after = old["entries"], new["entries"]
    changed = [name for name in after if name in before and after[name] != before[name]]
    lines = [f"{after[name] if after[name].startswith('failed') else 'differs'}  {name}" for name in changed]
    lines += [f"new      {name}" for name in after if name not in before]
    gone = [name for name in before if name not in after and name.partition("/")[0] in groups]
    return lines if quick else lines + [f"missing  {name}" for name in gone]


def main() -> int:
    """Record, or compare with a record; return the exit code."""
    parser = argparse.ArgumentParser(description="Hashes of what the product makes.")
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="record to write, or to compare with")
    parser.add_argument("--only", nargs="+", choices=tuple(GROUPS), default=tuple(GROUPS), metavar="GROUP")
    parser.add_argument("--quick", action="store_true", help="only a subset of each group")
    asked = parser.parse_args()
    print(f"marey: {marey.__file__}", file=sys.stderr)
    if asked.action == "record":
        record = make_record(asked.only, quick=asked.quick)
        asked.file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        failed = [name for name, digest in record["entries"].items() if digest.startswith("failed")]
        print("\n".join([f"{len(record['entries'])} entries", *(f"failed   {name}" for name in failed)]))
        return int(bool(failed))
    old: Record = json.loads(asked.file.read_text(encoding="utf-8"))
    new = make_record(asked.only, quick=asked.quick)
    for name, text in new["environment"].items():
        if old["environment"].get(name) != text:
            print(f"note: {name} was {old['environment'].get(name)}, is {text}: bits may differ for that reason")
    lines = compare_records(old, new, asked.only, quick=asked.quick)
    same = sum(digest == old["entries"].get(name) for name, digest in new["entries"].items())
    print("\n".join([*lines, f"{same} of {len(new['entries'])} entries are the same"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
