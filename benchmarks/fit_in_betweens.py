"""Fit the model of in-betweens to captures, and judge it on people whom it has not seen.

    python benchmarks/fit_in_betweens.py FOLDER INDEX.csv [--folds 3] [--write]

INDEX.csv has lines ``file,subject,category,fps_true``; other clips of the folder are read too, at the rate that the
reader finds. With folds, people are dealt into that many groups; each group is judged by a model of the others: keys
0.5 s apart, L2P against that of slerp, by category. With ``--write`` a model of all people goes to
``marey/models/data/in_betweens.safetensors``.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import marey
from marey.base import BoolArray, FloatArray
from marey.kinematics import fill_in_betweens
from marey.lie import SO3
from marey.measure.published import compute_l2
from marey.models import InBetweenModel, KeyGaps
from marey.models.in_between_model import (
    CONTACT_SAMPLES,
    READ_ROLES,
    SAMPLES,
    SHIPPED_IN_BETWEENS,
    describe_gaps,
    turn_vertical,
)
from marey.motion import Contacts, KeyFrames, Motion, resample
from marey.skeleton import ROLES, role_map

RATE_HZ, GAP = 30.0, 15  # of the clips; frames between keys when judging
NETWORKS, HIDDEN, BASIS, EPOCHS, DRAWS = 5, 160, 80, 16, 3
NOISE, DECAY, BATCH, RATE = 0.2, 0.05, 512, 2e-3
PEOPLE_SHARE = 0.8  # of the people, for each network
MOST = 2.0  # [rad] corrections above are faults of the capture
STILL_MPS, LOW_M = 0.35, 0.06  # a foot is down: ankle or ball is this slow and low
# How far a joint's turn moves what hangs on it, in leg lengths; the root's shift moves all
LEVER = {
    "pelvis": 0.6, "hip": 1.0, "spine1": 0.3, "knee": 0.8, "spine2": 0.4, "ankle": 0.2, "spine3": 0.8, "foot": 0.08,
    "neck": 0.2, "collar": 0.5, "head": 0.15, "shoulder": 0.7, "elbow": 0.6, "wrist": 0.15, "root": 4.0,
}  # fmt: skip
LEVERS = np.repeat([LEVER[role.split("_")[-1]] for role in (*ROLES, "root")], 3)
U = np.arange(1, SAMPLES + 1) / (SAMPLES + 1)


class Clip:
    """A capture at 30 Hz, with all that windows are cut from."""

    def __init__(self, motion: Motion, subject: str, category: str) -> None:
        self.motion, self.subject, self.category = motion, subject, category
        self.roles = role_map(motion.skeleton)
        self.positions, frames = motion.joint_frames()
        self.wxyz = frames.continuous().wxyz
        self.local = motion.rotations.continuous().wxyz
        self.joints = [self.roles[role] for role in ROLES]
        leg = self.positions[0, [self.roles[f"left_{part}"] for part in ("hip", "knee", "ankle")]]
        self.leg_m = float(np.linalg.norm(np.diff(leg, axis=0), axis=1).sum())
        self.down = np.stack([self._find_down(side) for side in ("left", "right")], axis=1)

    def _find_down(self, side: str) -> BoolArray:
        places = self.positions[:, [self.roles[f"{side}_{part}"] for part in ("ankle", "foot")]]
        speed = np.linalg.norm(np.gradient(places, 1.0 / RATE_HZ, axis=0), axis=2)
        return ((speed < STILL_MPS) & (places[..., 1] - np.percentile(places[..., 1], 3, axis=0) < LOW_M)).any(axis=1)

    def cut(self, keys: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Features, corrections ``(N, S, R + 1, 3)`` and scales of gaps between keys ``(N, 4)`` [frames, NaN: none]."""
        is_known = np.isfinite(keys) & (keys >= 0) & (keys <= len(self.positions) - 1)
        at = np.where(is_known, keys, keys[:, [1, 1, 2, 2]])
        inner = keys[:, 1:2] + (keys[:, 2:3] - keys[:, 1:2]) * U
        places = sample(self.positions[:, self.joints], at)
        near = np.rint(inner[:, list(CONTACT_SAMPLES)]).astype(int)
        gaps = KeyGaps(places, is_known, at / RATE_HZ, self.leg_m, np.where(self.down[near], 1.0, -1.0))
        features, heading, scale = describe_gaps(gaps)
        # Straight interpolation of local rotations, in the world
        ends = SO3(normalise(sample(self.local, keys[:, 1:3])))
        straight = ends[:, :1].slerp(ends[:, 1:], U[None, :, None])
        roots = places[:, 1:2, 0] + U[:, None] * (places[:, 2:3, 0] - places[:, 1:2, 0])
        shape = (len(keys) * SAMPLES, self.motion.skeleton.num_joints)
        base = Motion(self.motion.skeleton, 1.0, roots.reshape(-1, 3), straight.reshape(*shape)).joint_frames()[1]
        truth = SO3(normalise(sample(self.wxyz, inner))).reshape(*shape)
        turns = (truth @ base.inverse()).log().reshape(*inner.shape, -1, 3)[:, :, self.joints]
        shifts = (sample(self.positions[:, 0], inner) - roots) / self.leg_m
        wanted = turn_vertical(np.concatenate([turns, shifts[:, :, None]], axis=2), -heading[:, None, None])
        return features, wanted, scale


def sample(values: FloatArray, at: FloatArray) -> FloatArray:
    """Values ``(F, ...)`` at frames of any shape, linearly."""
    i = np.clip(np.floor(at).astype(int), 0, len(values) - 2)
    part = (at - i).reshape(*at.shape, *(1,) * (values.ndim - 1))
    return (1.0 - part) * values[i] + part * values[i + 1]


def normalise(wxyz: FloatArray) -> FloatArray:
    """Unit quaternions."""
    return wxyz / np.linalg.norm(wxyz, axis=-1, keepdims=True)


def load_clips(folder: Path, index: Path) -> list[Clip]:
    """Every human clip of a folder that has all roles."""
    with index.open(encoding="utf-8") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    found: list[Clip] = []
    for path in sorted(folder.glob("*.bvh")):
        row: dict[str, str] = rows.get(path.name, {})
        rate = float(row["fps_true"]) if row.get("fps_true") else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            motion = marey.load(path, rate_hz=rate) if rate else marey.load(path)
        motion = resample(motion[1:], RATE_HZ)  # the first frame of these files is a T-pose
        if motion.num_frames > GAP + 2 and len(role_map(motion.skeleton)) == len(ROLES):
            found.append(Clip(motion, path.name.split("_")[0], row.get("category", "")))
    return found


def draw_windows(clips: list[Clip], rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray, np.ndarray]:
    """Windows with gaps of 0.2 to 0.9 s, most of about 0.5, and their mirror images; with the person of each."""
    parts: list[tuple[FloatArray, FloatArray, FloatArray, list[str]]] = []
    for clip in clips:
        for _ in range(DRAWS):
            first = np.arange(0.0, clip.motion.num_frames - 8, 2.0)
            first += rng.random(len(first))
            usual = GAP * np.exp(0.12 * rng.standard_normal(len(first)))
            gap = np.where(rng.random(len(first)) < 0.6, usual, rng.uniform(6.0, 27.0, len(first)))
            is_inside = first + gap < clip.motion.num_frames - 1
            first, gap = first[is_inside], gap[is_inside]
            if not len(first):
                continue
            # Neighbouring gaps are alike, and some are missing
            ratio = np.where(rng.random((len(gap), 2)) < 0.5, 1.0, np.exp(0.25 * rng.standard_normal((len(gap), 2))))
            ratio[rng.random(ratio.shape) < 0.12] = np.nan
            last = first + gap
            keys = np.stack([first - gap * ratio[:, 0], first, last, last + gap * ratio[:, 1]], axis=1)
            features, wanted, scale = clip.cut(keys)
            features[rng.random(len(features)) < 0.4, -2 * len(CONTACT_SAMPLES) :] = 0.0
            parts.append((features, wanted, scale, [clip.subject] * len(features)))
    features, wanted, scale, people = (np.concatenate(part) for part in zip(*parts, strict=True))
    seen, other = mirror(features, wanted)
    features, wanted = np.concatenate([features, seen]), np.concatenate([wanted, other])
    keep = np.abs(wanted).reshape(len(wanted), -1).max(axis=1) < MOST
    return features[keep], wanted[keep], np.tile(scale, 2)[keep], np.tile(people, 2)[keep]


def mirror(features: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Left for right."""
    other: dict[str, str] = {}
    for role in ROLES:
        side, _, part = role.partition("_")
        other[role] = f"{'right' if side == 'left' else 'left'}_{part}" if side in ("left", "right") else role
    count, points = len(features), len(READ_ROLES)
    of_contacts = 2 * len(CONTACT_SAMPLES)
    width = 3 * points + 4
    keys = features[:, : 4 * width].reshape(count, 4, width).copy()
    read = [READ_ROLES.index(other[role]) for role in READ_ROLES]
    keys[:, :, : 3 * points] = (
        keys[:, :, : 3 * points].reshape(count, 4, points, 3)[:, :, read] * [-1.0, 1.0, 1.0]
    ).reshape(count, 4, -1)
    keys[:, :, 3 * points] *= -1.0
    contacts = features[:, -of_contacts:].reshape(count, -1, 2)[:, :, ::-1].reshape(count, -1)
    seen = np.concatenate([keys.reshape(count, -1), features[:, 4 * width : -of_contacts], contacts], axis=1)
    turned = wanted[:, :, [*(ROLES.index(other[role]) for role in ROLES), len(ROLES)]] * [1.0, -1.0, -1.0]
    turned[:, :, -1] = wanted[:, :, -1] * [-1.0, 1.0, 1.0]
    return seen, turned


def fit_model(clips: list[Clip], seed: int = 0) -> InBetweenModel:
    """Fit networks to windows of clips, each to four people of five."""
    rng = np.random.default_rng(seed)
    features, wanted, scale, people = draw_windows(clips, rng)
    levers = np.tile(LEVERS, SAMPLES)
    values = wanted.reshape(len(wanted), -1) * levers / scale[:, None]
    # Principal corrections, larger movements first
    mean = values.mean(axis=0)
    some = rng.permutation(len(values))[:6000]
    basis = np.linalg.svd((values[some] - mean) * np.sqrt(scale[some])[:, None], full_matrices=False)[2][:BASIS]
    targets = (values - mean) @ basis.T
    spread = float(targets.std())
    centre, width = features.mean(axis=0), np.maximum(features.std(axis=0), 0.05)
    x, y = ((features - centre) / width).astype(np.float32), (targets / spread).astype(np.float32)
    weights = np.sqrt(scale / scale.mean()).astype(np.float32)
    known, layers = np.unique(people), list[list[Any]]()
    for _ in range(NETWORKS):
        chosen = rng.permutation(known)[: int(np.ceil(PEOPLE_SHARE * len(known)))]
        mine = np.isin(people, chosen)
        layers.append(fit_network(x[mine], y[mine], weights[mine], rng))
    names = ("hidden_0", "hidden_1", "output", "bias_0", "bias_1", "bias_2", "linear")
    tensors = {name: np.stack(parts) for name, parts in zip(names, zip(*layers, strict=True), strict=True)}
    tensors |= {"input_mean": centre, "input_spread": width, "mean": mean / levers, "basis": spread * basis / levers}
    facts = {"people": len(known), "windows": len(x), "gap_s": [0.2, 0.9]}
    return InBetweenModel({name: array.astype(np.float32) for name, array in tensors.items()}, facts)


def fit_network(x: Any, y: Any, weights: Any, rng: np.random.Generator) -> list[Any]:
    """Weights of one network: Adam with a cosine rate and decoupled decay, noise on the features."""
    sizes = (x.shape[1], HIDDEN, HIDDEN, y.shape[1])
    layers = [rng.standard_normal((a, b)).astype(np.float32) * np.sqrt(2.0 / a) for a, b in pairwise(sizes)]
    layers[-1] *= 0.1
    biases = [np.zeros(size, np.float32) for size in sizes[1:]]
    linear = (0.01 * rng.standard_normal((sizes[0], sizes[-1]))).astype(np.float32)
    params = [np.asarray(p, dtype=np.float32) for p in (*layers, *biases, linear)]
    first, second = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    steps, step = EPOCHS * (len(x) // BATCH), 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for batch in range(len(x) // BATCH):
            rows = order[batch * BATCH : (batch + 1) * BATCH]
            seen = x[rows] + np.float32(NOISE) * rng.standard_normal((BATCH, sizes[0]), dtype=np.float32)
            w0, w1, w2, b0, b1, b2, direct = params
            gate_0 = 1.0 / (1.0 + np.exp(-(z0 := seen @ w0 + b0)))
            h0 = z0 * gate_0
            gate_1 = 1.0 / (1.0 + np.exp(-(z1 := h0 @ w1 + b1)))
            h1 = z1 * gate_1
            error = (h1 @ w2 + b2 + seen @ direct - y[rows]) * weights[rows, None] ** 2
            # Backwards through the layers
            g2 = 2.0 * error / BATCH
            g1 = (g2 @ w2.T) * (gate_1 + h1 * (1.0 - gate_1))
            g0 = (g1 @ w1.T) * (gate_0 + h0 * (1.0 - gate_0))
            slopes = (seen.T @ g0, h0.T @ g1, h1.T @ g2, g0.sum(0), g1.sum(0), g2.sum(0), seen.T @ g2)
            step += 1
            rate = RATE * 0.5 * (1.0 + np.cos(np.pi * step / steps))
            for p, slope, m, v in zip(params, slopes, first, second, strict=True):
                m += 0.1 * (slope - m)
                v += 0.001 * (slope * slope - v)
                p -= rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
                if p.ndim == 2:
                    p -= rate * DECAY * p
    return params


def judge_clip(clip: Clip, model: InBetweenModel, with_contacts: bool) -> tuple[int, float, float]:
    """Number of gaps, L2P of slerp and of the model [m], over whole gaps of 0.5 s."""
    gaps = (clip.motion.num_frames - 1) // GAP
    motion = clip.motion[: gaps * GAP + 1]
    keys = KeyFrames(motion.skeleton, {i * GAP / RATE_HZ: motion[i * GAP] for i in range(gaps + 1)})
    feet = Contacts(("left_heel", "right_heel"), clip.down[: motion.num_frames]) if with_contacts else None
    made = fill_in_betweens(keys, RATE_HZ, prior=model, contacts=feet, hold_feet=False).motion
    truth = motion.joint_positions()[:, clip.joints]
    both = [keys.in_betweens(RATE_HZ), made]
    slerp, learnt = (compute_l2(truth, one.joint_positions()[:, clip.joints]) for one in both)
    return gaps, slerp, learnt


def main() -> None:
    """Judge by folds, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    clips = load_clips(options.folder, options.index)
    people = sorted({clip.subject for clip in clips})
    print(f"{len(clips)} clips of {len(people)} people")
    groups = np.array_split(np.random.default_rng(7).permutation(people), options.folds) if options.folds else []
    rows: list[tuple[str, str, int, float, float, float]] = []
    for left_out in groups:
        start = time.process_time()
        model = fit_model([clip for clip in clips if clip.subject not in left_out])
        for clip in clips:
            if clip.subject in left_out:
                gaps, slerp, learnt = judge_clip(clip, model, with_contacts=True)
                bare = judge_clip(clip, model, with_contacts=False)[2]
                rows.append((clip.motion.name, clip.category, gaps, slerp, learnt, bare))
        print(f"left out {', '.join(left_out)}: {time.process_time() - start:.0f} s of processor time", flush=True)
    if rows:
        print(f"{'category':44s} clips  L2P of slerp [m]  model / slerp  without contacts  clips within 0.6")
    for category in [*sorted({row[1] for row in rows}), None]:
        some = [row for row in rows if category is None or row[1] == category]
        if not some:
            continue
        weight = np.array([row[2] for row in some], dtype=np.float64)
        slerp, learnt, bare = (np.array([row[i] for row in some]) for i in (3, 4, 5))
        shares = [(weight * v).sum() / (weight * slerp).sum() for v in (learnt, bare)]
        name = "all" if category is None else category or "(not in the index)"
        within = int((learnt <= 0.6 * slerp).sum())
        mean = (weight * slerp).sum() / weight.sum()
        print(f"{name:44s} {len(some):5d}  {mean:16.3f}  {shares[0]:13.3f}  {shares[1]:16.3f}  {within:16d}")
    if options.write:
        fit_model(clips).save(SHIPPED_IN_BETWEENS)


if __name__ == "__main__":
    main()
