"""Starts and stops of the engine beside captured ones of the same speed and time.

`python benchmarks/start_stop_table.py FOLDER [--json FILE]` finds the starts and stops of every BVH clip (jumps and
crouches are left out by the height of the pelvis), lets the engine do the same, and prints how far the trunk leans
(starts) and how far ahead of the pelvis a foot is at the hardest braking (stops), of both. Both motions are measured by
the same geometry; no contact track is read.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from marey.io import load
from marey.locomotion import Engine
from marey.locomotion.units.episodes import Episode, find_episodes
from marey.motion import Motion, concatenate
from marey.motion.time_series import lowpass_values
from marey.skeleton import restored_roles

RUN_MPS = 2.2  # [m/s] faster, the engine runs
SMOOTHING_HZ = 3.0  # [Hz] of the pelvis: steps show, noise does not
ROUND_S = 0.3  # [s] before and after an episode
MOST_HEIGHT_M = 0.12  # [m] a pelvis that rises or sinks by more jumps, crouches or climbs
BAR = 0.3  # [-] of the captured figure


def measure_episode(motion: Motion, episode: Episode) -> dict[str, float]:
    """Lean of the trunk against the stand [deg], and foot ahead of the pelvis at the hardest braking [m]."""
    roles, rate, at = restored_roles(motion.skeleton), motion.rate_hz, motion.joint_positions()
    room = round(ROUND_S * rate)
    part = slice(max(episode.start - room, 0), min(episode.stop + room, motion.num_frames))
    pelvis = at[:, roles["pelvis"]]
    way = (pelvis[episode.stop - 1] - pelvis[episode.start])[[0, 2]]
    way = way / max(float(np.linalg.norm(way)), 1e-9)
    trunk = at[:, roles["neck"]] - pelvis
    height = float(np.ptp(pelvis[part, 1]))
    pitch = lowpass_values(np.degrees(np.arctan2(trunk[:, [0, 2]] @ way, trunk[:, 1])), rate, SMOOTHING_HZ)
    speed = np.gradient(lowpass_values(pelvis[:, [0, 2]] @ way, rate, SMOOTHING_HZ)) * rate
    gain = np.gradient(speed)[part] * rate
    if episode.kind == "start":
        stand = float(np.median(pitch[max(episode.start - round(0.5 * rate), 0) : episode.start + 1]))
        return {"lean_deg": float(pitch[part].max()) - stand, "gain_mps2": float(gain.max()), "height_m": height}
    hardest = part.start + int(np.argmin(gain))
    near = slice(max(hardest - round(0.15 * rate), 0), hardest + round(0.15 * rate))
    feet = np.stack([(at[near, roles[f"{side}_ankle"]] - pelvis[near])[:, [0, 2]] @ way for side in ("left", "right")])
    stand = float(np.median(pitch[max(episode.stop - 1, 0) : episode.stop + round(0.5 * rate)]))
    return {
        "foot_m": float(feet.max()),
        "lean_deg": float(pitch[part].min()) - stand,
        "gain_mps2": float(gain.min()),
        "height_m": height,
    }


def measure_leg_m(motion: Motion) -> float:
    """Length of thigh and shank [m]."""
    roles, at = restored_roles(motion.skeleton), motion.joint_positions()[0]
    bones = [("left_hip", "left_knee"), ("left_knee", "left_ankle")]
    return float(sum(np.linalg.norm(at[roles[b]] - at[roles[a]]) for a, b in bones))


def play_episode(episode: Episode, rate_hz: float, leg_m: float, phase: float) -> dict[str, float] | None:
    """Figures of the engine, scaled to the leg of the person, over the same speeds in the same time."""
    fast, seconds = max(episode.entry_mps, episode.exit_mps), (episode.stop - episode.start) / rate_hz
    own = measure_leg_m(Engine().run(0.1, 30.0))
    speed, seconds = fast * np.sqrt(own / leg_m), seconds * np.sqrt(own / leg_m)
    run = float(speed > RUN_MPS)
    if episode.kind == "start":
        engine = Engine()
        parts = [engine.run(1.0, 120.0)]
        engine.set(speed=speed, run=run, over_s=seconds / 0.8)
    else:
        engine = Engine(speed=speed, run=run, phase=phase)
        parts = [engine.run(1.5, 120.0)]
        engine.set(speed=0.0, run=0.0, over_s=seconds / 0.8)
    parts.append(engine.run(seconds / 0.8 + 2.0, 120.0))
    motion = concatenate([parts[0], parts[1][1:]])
    found = [one for one in find_episodes(motion) if one.kind == episode.kind]
    if not found:
        return None
    figures = measure_episode(motion, found[0])
    return {key: value * (leg_m / own if key == "foot_m" else 1.0) for key, value in figures.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write all figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in sorted(options.folder.rglob("*.bvh")):
        clip = load(path)
        for episode in find_episodes(clip):
            if episode.kind not in ("start", "stop") or abs(episode.turn_rad) > np.radians(30.0):
                continue
            captured = measure_episode(clip, episode)
            if captured["height_m"] > MOST_HEIGHT_M:
                continue
            phases = (0.0,) if episode.kind == "start" else (0.0, 0.25, 0.5, 0.75)
            played = [play_episode(episode, clip.rate_hz, measure_leg_m(clip), phase) for phase in phases]
            played = [one for one in played if one is not None]
            if not played:
                continue
            key = "lean_deg" if episode.kind == "start" else "foot_m"
            engine = float(np.mean([one[key] for one in played]))
            gain = float(np.mean([one["gain_mps2"] for one in played]))
            speed = max(episode.entry_mps, episode.exit_mps)
            row = {"clip": clip.name, "kind": episode.kind, "speed": speed, "captured": captured[key]}
            row |= {"engine": engine, "gains": [captured["gain_mps2"], gain], "share": engine / captured[key]}
            rows.append(row)
            print(
                f"{clip.name:>8} {episode.kind:5s} {speed:4.2f} m/s  {key} {captured[key]:6.2f}  engine {engine:6.2f}"
                f"  share {row['share']:5.2f}  hardest {captured['gain_mps2']:5.2f}, {gain:5.2f} m/s²",
                flush=True,
            )
    for kind in ("start", "stop"):
        for low, high in ((0.0, 1.0), (1.0, 2.2), (2.2, 9.0)):
            some = [row for row in rows if row["kind"] == kind and low <= row["speed"] < high]
            if some:
                means = [float(np.median([row[key] for row in some])) for key in ("captured", "engine")]
                kept = sum(abs(row["share"] - 1.0) <= BAR for row in some)
                ends = np.quantile([row["captured"] for row in some], [0.1, 0.9])
                print(
                    f"{kind} to or from {low:g} to {high:g} m/s: {len(some)}, captured median {means[0]:.2f} "
                    f"({ends[0]:.2f} to {ends[1]:.2f}), engine {means[1]:.2f}; single ones within 30 %: {kept}"
                )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
