"""Fit the anatomical limits that ship, and judge them on people outside the fit.

``python benchmarks/fit_anatomical.py FOLDER`` reads CMU BVH files, fits the people of ``anatomical_people.toml``
that are marked ``fit`` and writes ``people.safetensors`` into the package; ``--judge`` prints, for the people marked
``test``, the share of whole poses within 0.1 rad of feasible, captured and swapped, for every kind of limits.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from marey.base import FloatArray
from marey.io import load
from marey.kinematics import JointLimits, anatomical_limits, fit_limits, fit_people, measure_poses
from marey.kinematics.limits.anatomy.people import SHIPPED
from marey.lie import SO3, geodesic_distance
from marey.motion import Motion
from marey.skeleton import Skeleton, role_map

LIST = Path(__file__).with_name("anatomical_people.toml")
FRAME_STEP = 4  # of 120 Hz
FAR_RAD = (0.7, 0.9)  # [rad] root mean square over the joints that move: a quarter and a fifteenth of all pairs
TOLERANCES_RAD = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)


def load_people_clips(folder: Path, subjects: list[int], left_out: dict[str, str]) -> dict[str, Motion]:
    """Clips of some people, without the calibration pose that the converter put first."""
    files = [
        f for f in sorted(folder.glob("*.bvh")) if int(f.stem.split("_")[0]) in subjects and f.stem not in left_out
    ]
    return {file.stem: load(file)[1::FRAME_STEP] for file in files}


def judge(folder: Path, people: dict[str, Any], kinds: list[str]) -> None:
    """Print the share of whole poses within a tolerance of feasible: captured ones, and swapped ones."""
    tests = load_people_clips(folder, people["test"], people["left_out"])
    fitted = load_people_clips(folder, people["fit"], people["left_out"])
    gaits = {name: clip for name, clip in tests.items() if name in people["gaits"]}
    # Swapped poses were captured of nobody, so both of their halves may come from anyone
    every = [*fitted.values(), *tests.values()]
    pools = {
        f"{words}, {far} rad apart": swap_joints(every, np.random.default_rng(0), far, by_limb=by_limb)
        for words, by_limb in (("joints", False), ("limbs", True))
        for far in FAR_RAD
    }
    for kind in ("anatomical", *kinds):
        shared = None if kind == "anatomical" else fit_limits(fitted.values(), kind)
        captured = [find_worst(shared or anatomical_limits(clip.skeleton), clip.rotations) for clip in gaits.values()]
        together = np.concatenate(captured)
        level = float(np.quantile(together, 0.97))
        shares = ", ".join(f"{(together <= t).mean():.3f}" for t in TOLERANCES_RAD)
        print(
            f"{kind}: captured within {TOLERANCES_RAD} rad: {shares}; 0.97 of them within {level:.3f} rad", flush=True
        )
        for words, pool in pools.items():
            away = np.concatenate([find_worst(shared or anatomical_limits(s), poses) for s, poses in pool])
            shares = ", ".join(f"{(away <= t).mean():.3f}" for t in TOLERANCES_RAD)
            print(f"  swapped {words}: {shares}; at equal acceptance {(away <= level).mean():.3f}", flush=True)
        if shared is None:
            for (name, clip), one in zip(gaits.items(), captured, strict=True):
                if (one <= 0.1).mean() < 0.97:
                    violations = anatomical_limits(clip.skeleton).violations(clip.rotations)
                    joint = clip.skeleton.names[int(violations.max(axis=0).argmax())]
                    print(f"    {name}: {(one <= 0.1).mean():.2f} of {len(one)}, {joint} {violations.max():.2f} rad")


def find_worst(limits: JointLimits, rotations: SO3) -> FloatArray:
    """Violation of the joint that is furthest outside, of every pose."""
    return limits.violations(rotations).max(axis=1)


def swap_joints(
    clips: list[Motion], rng: np.random.Generator, far_rad: float, *, by_limb: bool = False, count: int = 2000
) -> list[tuple[Skeleton, SO3]]:
    """Poses made of two of different clips that are far apart: each joint, or each limb, from one or the other."""
    groups = np.arange(clips[0].skeleton.num_joints)
    if by_limb:
        groups = np.array([_find_limb(clips[0].skeleton, j) for j in groups])
    made: list[tuple[Skeleton, SO3]] = []
    while len(made) < count:
        first, second = rng.choice(len(clips), 2, replace=False)
        one, two = (clips[n].rotations.wxyz[rng.integers(len(clips[n]))] for n in (first, second))
        apart = geodesic_distance(SO3(one[1:]), SO3(two[1:]))
        if np.sqrt(np.mean(apart[apart > 0.0] ** 2)) < far_rad:
            continue
        takes = rng.random(groups.max() + 1) < 0.5
        made.append((clips[first].skeleton, SO3(np.where(takes[groups][:, None], one, two)[None])))
    # Poses of one skeleton together
    skeletons = {id(skeleton): skeleton for skeleton, _ in made}
    return [(s, SO3.concatenate([poses for own, poses in made if own is s])) for s in skeletons.values()]


def _find_limb(skeleton: Skeleton, joint: int) -> int:
    """Number of the limb of a joint: 0 for the trunk."""
    limbs = [role_map(skeleton)[role] for role in ("left_hip", "right_hip", "left_shoulder", "right_shoulder")]
    while joint >= 0:
        if joint in limbs:
            return 1 + limbs.index(joint)
        joint = int(skeleton.parents[joint])
    return 0


def main() -> None:
    """Fit, or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--kinds", nargs="*", default=[])
    options = parser.parse_args()
    people = tomllib.loads(LIST.read_text())
    if options.judge:
        judge(options.folder, people, options.kinds)
        return
    clips = load_people_clips(options.folder, people["fit"], people["left_out"])
    found = {name: measure_poses(clip) for name, clip in clips.items()}
    poses = np.concatenate(list(found.values()))
    owners = np.concatenate([np.full(len(rows), int(name.split("_")[0])) for name, rows in found.items()])
    SHIPPED.parent.mkdir(exist_ok=True)
    fit_people(poses, owners).save(SHIPPED, "python benchmarks/fit_anatomical.py FOLDER", clips)
    print(f"{SHIPPED.name}: {len(clips)} clips, {len(poses)} poses, {SHIPPED.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
