"""Muscles of captured walks beside textbooks, force plates and measured EMG.

``python benchmarks/study_muscles.py FOLDER [--index index.csv] [--real FOLDER] [--picture PNG]`` estimates the muscles
of every walk of a folder of BVH files (those of the index's first category at 120 Hz, if one is given) and prints

- the part of the torques that muscles give, and the moment that is left at the root;
- the peak of the ankle moment over the gait cycle and where it is;
- the share of the activity of twelve muscles inside the windows in which textbooks show EMG;
- with ``--real``: torques with estimated against torques with measured ground forces, and the overlap of
  expected with the measured EMG of OpenSim's example walk.

How feet share the ground reaction was chosen on ``TUNING``; placements and lengths of muscles on walks of subjects 07,
16 and 35; the filter of the torques, and that legs do not resist, on ``TUNING`` and on walks 07_01, 16_58 and 35_01.
The windows are those of Perry (*Gait Analysis*) and Winter (*Biomechanics and Motor Control*), rounded.
"""

from __future__ import annotations

import argparse
import csv
from itertools import pairwise
from pathlib import Path

import numpy as np

import marey
from marey.base import FloatArray, MareyError
from marey.contacts import detect_contacts, feet_down
from marey.dynamics import Body, smooth_values
from marey.io import find_subject, load_ground_reaction, load_markers
from marey.io.laboratory.opensim import load_table
from marey.kinematics import fit_markers
from marey.motion import Motion, find_runs
from marey.muscle import MuscleTrack, estimate_activations

TUNING = ("Arnold2013Walking/subject01", "Arnold2013Walking/subject02", "Uhlrich2022OpenCap/subject2")
# [%] of the cycle from strike to strike of the same foot
WINDOWS = {
    "tibialis_anterior": ((56, 100), (0, 13)),
    "soleus": ((7, 52),),
    "gastrocnemius": ((9, 50),),
    "vasti": ((88, 100), (0, 18)),
    "rectus_femoris": ((90, 100), (0, 15), (55, 65)),
    "medial_hamstrings": ((78, 100), (0, 10)),
    "biceps_femoris": ((78, 100), (0, 10)),
    "gluteus_maximus": ((90, 100), (0, 24)),
    "gluteus_medius": ((94, 100), (0, 48)),
    "iliopsoas": ((50, 78),),
    "adductors": ((55, 80), (90, 100), (0, 6)),
    "erector_spinae": ((94, 100), (0, 20), (45, 65)),
}
PERCENT = np.arange(100.0)
CYCLE_S = (0.75, 1.7)  # [s] of walking
EMG_NAMES = {"vastus_lateralis": "vasti", "vastus_medius": "vasti"}
TONE = 0.02  # [-] least activation beside EMG; 0, 0.02 and 0.03 were tried on the one recording there is
ENVELOPE_HZ = 6.0
MOCO = "OpenSim__Examples__Moco__example3DWalking__"


def find_cycles(motion: Motion) -> list[tuple[str, int, int]]:
    """Side, first frame and end of each cycle between strikes of one foot."""
    down = feet_down(detect_contacts(motion))
    cycles: list[tuple[str, int, int]] = []
    for k, side in enumerate(("left", "right")):
        flags = down[:, k].copy()
        for kind in (False, True):
            for a, b in find_runs(flags == kind):
                if a > 0 and b < len(flags) and b - a < 0.12 * motion.rate_hz:
                    flags[a:b] = not kind
        strikes = [a for a, _ in find_runs(flags) if a > 0]
        low, high = CYCLE_S
        cycles += [(side, a, b) for a, b in pairwise(strikes) if low < (b - a) / motion.rate_hz < high]
    return cycles


def over_cycle(values: FloatArray, start: int, stop: int) -> FloatArray:
    """Values at each percent of a cycle."""
    return np.interp(PERCENT / 100.0, np.linspace(0.0, 1.0, stop - start + 1), values[start : stop + 1])


def measure_overlap(ours: FloatArray, theirs: FloatArray) -> float:
    """Area under both of two curves over the area under either, each scaled to its own mean: 1 if they are the same."""
    a, b = ours / max(ours.mean(), 1e-12), theirs / max(theirs.mean(), 1e-12)
    return float(2.0 * np.minimum(a, b).sum() / (a + b).sum())


def study_walks(folder: Path, index: Path | None, picture: Path | None) -> None:
    """Print a line for each walk, the ankle, and the windows."""
    names = sorted(path.name for path in folder.glob("*.bvh"))
    if index is not None:
        with index.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        names = [row["file"] for row in rows if row["category"].startswith("1 walk") and row["fps_true"] == "120"]
    given: list[float] = []
    curves: dict[str, list[FloatArray]] = {name: [] for name in (*WINDOWS, "ankle", "knee", "hip")}
    for name in names:
        try:
            track = estimate_activations(marey.load(folder / name))
        except MareyError as error:
            print(f"{name}: {error}", flush=True)
            continue
        given.append(track.torque_fraction)
        for side, start, stop in find_cycles(track.motion):
            collect_cycle(track, side, (start, stop), curves)
        busy = ", ".join(f"{muscle} {value:.2f}" for muscle, value in track.busiest(3))
        residual = f"residual {track.residual_fraction:.3f} weights m"
        print(f"{name}  {track.torque_fraction:.3f} given  {residual}  {busy}", flush=True)
    values = np.array(given)
    print(f"{len(values)} walks: torques given at least {values.min():.3f}, median {np.median(values):.3f}")
    ankle = np.array(curves["ankle"])
    peaks, mean = ankle.max(axis=1), ankle.mean(axis=0)
    inside = ((peaks >= 1.3) & (peaks <= 1.9)).mean()
    when = ankle.argmax(axis=1)
    humps = np.array([count_humps(curve) for curve in ankle])
    print(
        f"ankle over {len(ankle)} cycles: mean curve peaks with {mean.max():.2f} N m/kg at {mean.argmax()} %, "
        f"{count_humps(mean)} hump; cycles: median {np.median(peaks):.2f} at {np.median(when):.0f} %, "
        f"{inside:.0%} within 1.3-1.9, {((when >= 44) & (when <= 52)).mean():.0%} at 44-52 %, "
        f"{(humps == 1).mean():.0%} with one hump"
    )
    good = 0
    for name in WINDOWS:
        mean = np.mean(curves[name], axis=0)
        share, chance = mean[is_inside(name)].sum() / mean.sum(), is_inside(name).mean()
        good += int(share >= 0.7)
        peak = f"peak {mean.max():.2f} at {mean.argmax()} %"
        print(f"{name:20s} {share:.2f} inside its window (chance {chance:.2f}), {peak}")
    print(f"{good} of {len(WINDOWS)} muscles at least 0.70")
    if picture is not None:
        draw_curves(curves, picture)


def is_inside(name: str) -> np.ndarray:
    """Percents inside the window of a muscle."""
    return np.any([(low <= PERCENT) & (high > PERCENT) for low, high in WINDOWS[name]], axis=0)


def collect_cycle(track: MuscleTrack, side: str, span: tuple[int, int], curves: dict[str, list[FloatArray]]) -> None:
    """Add the EMG and moments [N m/kg] of one cycle."""
    emg = track.emg
    for name in WINDOWS:
        curves[name].append(over_cycle(emg[:, track.names.index(f"{side}_{name}")], *span))
    for joint in ("ankle", "knee", "hip"):
        moment = track.torques[:, track.axes.index((f"{side}_{joint}", 0))] / track.mass_kg
        curves[joint].append(over_cycle(moment, *span))


def count_humps(curve: FloatArray) -> int:
    """Peaks of a curve that stand out by a tenth of the largest."""
    from scipy.signal import find_peaks

    return len(find_peaks(np.concatenate([[0.0], curve, [0.0]]), prominence=0.1 * float(curve.max()))[0])


def draw_curves(curves: dict[str, list[FloatArray]], picture: Path) -> None:
    """Cycles grey, their mean red, windows blue."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(18, 10))
    for place, (name, rows) in enumerate(curves.items(), 1):
        axis, mean = figure.add_subplot(3, 5, place), np.mean(rows, axis=0)
        axis.plot(PERCENT, np.transpose(rows), color="0.8", linewidth=0.4)
        axis.plot(PERCENT, mean, color="tab:red")
        if name in WINDOWS:
            axis.fill_between(PERCENT, 0.0, 1.2 * mean.max(), where=is_inside(name).tolist(), alpha=0.2)
        axis.set_title(name)
    figure.tight_layout()
    figure.savefig(picture, dpi=60)


def study_plates(real: Path) -> None:
    """Print errors of sagittal torques with estimated against measured ground forces, and overlaps with EMG."""
    moco = real / "opensim-moco-emg-grf"
    pairs = {"opensim-moco": (moco / f"{MOCO}markers_walk.trc", moco / f"{MOCO}grf_walk.mot")}
    for folder in sorted((real / "addbiomechanics").glob("*/*/walk*")):
        if "TS" not in folder.name:
            name = "/".join(folder.parts[-3:-1])
            pairs.setdefault(name, (folder / "markers.trc", folder / "grf.mot"))
    for name, (markers, plates) in pairs.items():
        subject = find_subject(markers)
        fit = fit_markers(load_markers(markers), height_m=subject.height_m if subject else None)
        motion, reaction = fit.over_ground(), load_ground_reaction(plates)
        if fit.belt is not None:
            reaction = reaction.over_ground(fit.belt.velocity_mps, fit.start_s)
        shifted = marey.io.GroundReaction(
            reaction.names, reaction.times - fit.start_s, reaction.forces, reaction.places, reaction.moments
        )
        normal = shifted.at(np.arange(motion.num_frames) / motion.rate_hz).forces[..., 1]
        full = normal.sum(axis=1)[(normal > 100.0).sum(axis=1) == 1]
        mass = subject.mass_kg if subject and subject.mass_kg else float(np.median(full)) / 9.81
        body = Body.from_motion(motion, mass_kg=mass)
        ours, truth = estimate_activations(motion, body=body), estimate_activations(motion, body=body, reaction=shifted)
        # Frames in which plates carry all of the body
        used = np.abs(normal.sum(axis=1) - ours.loads.forces[..., 1].sum(axis=1)) < 0.35 * body.weight_n
        used[:8], used[-8:] = False, False
        errors: list[str] = []
        for joint in ("ankle", "knee", "hip"):
            columns = [ours.axes.index((f"{side}_{joint}", 0)) for side in ("left", "right")]
            error = (ours.torques - truth.torques)[used][:, columns] / mass
            errors.append(f"{joint} {float(np.sqrt((error**2).mean())):.3f}")
        mark = " (tuning)" if name in TUNING else ""
        print(f"{name}{mark}: {', '.join(errors)} N m/kg off, given {ours.torque_fraction:.3f}", flush=True)
        if name == "opensim-moco":
            # Muscles at rest are not silent: OpenSim's usual least activation
            tone = {
                "estimated": estimate_activations(motion, body=body, co_contraction=TONE),
                "measured": estimate_activations(motion, body=body, reaction=shifted, co_contraction=TONE),
            }
            compare_emg(moco / f"{MOCO}electromyography.sto", fit.start_s, tone)


def compare_emg(path: Path, start_s: float, tracks: dict[str, MuscleTrack]) -> None:
    """Print the overlap of each muscle's expected with its measured EMG over the cycles of the right leg."""
    table = load_table(path)
    columns = {name: table.values[:, k] for k, name in enumerate(table.names)}
    times = columns.pop("time") - start_s
    for kind, track in tracks.items():
        cycles = [(a, b) for side, a, b in find_cycles(track.motion) if side == "right"]
        # Smoothed as the envelopes of EMG are
        envelopes = np.maximum(smooth_values(track.emg, track.motion.rate_hz, ENVELOPE_HZ), 0.0)
        overlaps: list[float] = []
        for column, emg in columns.items():
            muscle = f"right_{EMG_NAMES.get(column, column)}"
            measured = np.interp(track.times, times, emg)
            curves = [
                [over_cycle(values, a, b) for a, b in cycles]
                for values in (envelopes[:, track.names.index(muscle)], measured)
            ]
            overlaps.append(measure_overlap(np.mean(curves[0], axis=0), np.mean(curves[1], axis=0)))
            print(f"  EMG {column:18s} overlap {overlaps[-1]:.2f} ({kind} forces, {len(cycles)} cycles)")
        print(f"  EMG mean overlap {np.mean(overlaps):.2f} with {kind} forces")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    if args.real is not None:
        study_plates(args.real)
    study_walks(args.folder, args.index, args.picture)


if __name__ == "__main__":
    main()
