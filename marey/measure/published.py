"""Measures of papers, under their names and with their own contacts and thresholds.

Each of them has the floor at height zero and a frame rate of its own; joints are interpolated to it. They see what
their papers see, no more: a clip that floats ten centimetres above the floor skates nowhere, for the papers.

A clip is compared with the clip it was made from by distances frame by frame, and by how much more sudden it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import BoolArray, FloatArray, InputError
from marey.measure.tracks import SIDES, MeasuredBody
from marey.motion import Motion, resample
from marey.skeleton import role_map, tree_difference

KIMODO_HZ, GMD_HZ, EDGE_HZ, PHYSDIFF_HZ = 30.0, 20.0, 30.0, 20.0  # of the data that each paper reports on
LOW_M: Final = 0.05  # [m] toe height below which Kimodo and GMD speak of contact
KIMODO_SKATE_MPS: Final = 0.2
KIMODO_CONTACT: Final = (0.15, 0.10)  # [m/s], [m] Kimodo's own contacts, by speed and height
GMD_SKATE_MPS: Final = 0.5  # 2.5 cm in a frame at 20 Hz
GMD_WINDOW: Final = 5  # frames over which GMD averages speeds
PHYSDIFF_TOL_M: Final = 0.005  # [m] tolerance of PhysDiff for the shape of the body
EDGE_SCALE: Final = 1e4
LEAST_MPS2: Final = 1e-6  # [m/s2] rounding of positions stays below


def measure_published(tracks: MeasuredBody) -> dict[str, float]:
    """Figures of the published measures that need one clip only."""
    figures: dict[str, float] = {}
    if tracks.has("left_foot", "right_foot"):
        figures |= measure_kimodo_skate(tracks) | measure_gmd_skate(tracks) | measure_edge_pfc(tracks)
    return figures | measure_physdiff(tracks)


def interpolate_frames(values: FloatArray, rate_hz: float, wanted_hz: float) -> FloatArray:
    """Values ``(F, ...)`` at another frame rate, linearly between frames."""
    last = len(values) - 1
    count = int(np.floor(last * wanted_hz / rate_hz + 1e-7)) + 1
    at = np.minimum(np.arange(count) * rate_hz / wanted_hz, last)
    low = np.minimum(np.floor(at).astype(np.int64), max(last - 1, 0))
    part = (at - low).reshape(-1, *([1] * (values.ndim - 1)))
    return (1.0 - part) * values[low] + part * values[np.minimum(low + 1, last)]


def _feet(tracks: MeasuredBody, parts: tuple[str, ...], rate_hz: float) -> FloatArray:
    """Foot joints ``(F, 2, parts, 3)`` [m] at a frame rate."""
    joints = np.stack([[tracks.at(f"{side}_{part}") for part in parts] for side in SIDES])
    return interpolate_frames(np.moveaxis(joints, 2, 0), tracks.rate_hz, rate_hz)


def measure_kimodo_skate(tracks: MeasuredBody) -> dict[str, float]:
    r"""Foot skate of Kimodo ([Kimodo2026]_, ``metrics/foot_skate.py``), at 30 Hz.

    With toe joints :math:`p`, :math:`v_t = \|p_{t+1} - p_t\| f` and a toe low while its height is below 5 cm:
    *from height*, the mean of :math:`v_t` over low toes; *ratio*, the part of toes low in two successive frames with
    :math:`v_t > 0.2` m/s; *in contact*, mean and largest :math:`v_t` of ankles and toes while they are lower than
    10 cm and slower than 0.15 m/s, the rule with which Kimodo detects contacts. The largest speed in contact is
    therefore at most 0.15 m/s unless a foot starts within a frame; it is kept since it is published.
    """
    joints = _feet(tracks, ("ankle", "foot"), KIMODO_HZ)
    if len(joints) < 2:
        return {}
    speeds = np.linalg.norm(np.diff(joints, axis=0), axis=-1) * KIMODO_HZ
    toes, is_low = speeds[:, :, 1], joints[:, :, 1, 1] < LOW_M
    both = is_low[:-1] & is_low[1:]
    slow, near = KIMODO_CONTACT
    touches = (speeds < slow) & (joints[:-1, ..., 1] < near)
    return {
        "kimodo_skate_from_height_mps": _mean_where(toes, is_low[:-1]),
        "kimodo_skate_ratio": float((toes[both] > KIMODO_SKATE_MPS).mean()) if both.any() else 0.0,
        "kimodo_skate_in_contact_mean_mps": _mean_where(speeds, touches),
        "kimodo_skate_in_contact_max_mps": float(np.where(touches, speeds, 0.0).max()),
    }


def _mean_where(values: FloatArray, where: BoolArray) -> float:
    return float(values[where].mean()) if np.any(where) else 0.0


def measure_gmd_skate(tracks: MeasuredBody) -> dict[str, float]:
    """Skating ratio of GMD on HumanML3D ([Karunratanakul2023]_), at 20 Hz.

    The part of frames in which a foot (ball joint) is lower than 5 cm in this frame and the next and moves over the
    ground by more than 2.5 cm in the frame, and also on average over five frames (0.5 m/s, zeros beyond the ends).
    """
    toes = _feet(tracks, ("foot",), GMD_HZ)[:, :, 0]
    if len(toes) < 2:
        return {}
    speeds = np.linalg.norm(np.diff(toes[..., [0, 2]], axis=0), axis=-1) * GMD_HZ
    side = GMD_WINDOW // 2
    padded = np.pad(speeds, ((side, side), (0, 0)))
    mean = np.lib.stride_tricks.sliding_window_view(padded, GMD_WINDOW, axis=0).mean(axis=-1)
    is_low = (toes[:-1, :, 1] < LOW_M) & (toes[1:, :, 1] < LOW_M)
    skates = is_low & (speeds > GMD_SKATE_MPS) & (mean > GMD_SKATE_MPS)
    return {"gmd_skating_ratio": float(skates.any(axis=1).mean())}


def measure_physdiff(tracks: MeasuredBody) -> dict[str, float]:
    """Penetrate, float and skate of PhysDiff ([Yuan2023]_) [mm], at 20 Hz.

    Penetrate: mean depth of the lowest point of the body below the ground; float: mean height of the lowest point above
    it, both beyond a tolerance of 5 mm; skate: mean horizontal way in a frame of the feet that touch the ground in two
    successive frames. The paper takes vertices of the SMPL mesh; here the lowest of sole points and joints stands for
    the mesh, and sole points within 5 mm of the ground touch it.
    """
    soles = interpolate_frames(tracks.soles.reshape(tracks.num_frames, 6, 3), tracks.rate_hz, PHYSDIFF_HZ)
    joints = interpolate_frames(tracks.heights, tracks.rate_hz, PHYSDIFF_HZ)
    low = np.minimum(soles[..., 1].min(axis=1), joints.min(axis=1))
    way = np.linalg.norm(np.diff(soles[..., [0, 2]], axis=0), axis=-1)
    touches = (soles[:-1, :, 1] < PHYSDIFF_TOL_M) & (soles[1:, :, 1] < PHYSDIFF_TOL_M)
    return {
        "physdiff_penetrate_mm": 1e3 * float(np.where(low < -PHYSDIFF_TOL_M, -low, 0.0).mean()),
        "physdiff_float_mm": 1e3 * float(np.where(low > PHYSDIFF_TOL_M, low, 0.0).mean()),
        "physdiff_skate_mm": 1e3 * _mean_where(way, touches),
    }


def measure_edge_pfc(tracks: MeasuredBody) -> dict[str, float]:
    r"""Physical foot contact score of EDGE ([Tseng2023]_), at 30 Hz, times 10^4 as its code prints it.

    .. math:: \mathrm{PFC} = \frac{1}{N \max_t \|\bar a_t\|} \sum_t \|\bar a_t\|\,\|v^{left}_t\|\,\|v^{right}_t\|

    with the root's acceleration, whose downward part is set to zero, and per foot the smaller way over the ground of
    ankle and ball in a frame (per frame, not per second: so the code).
    """
    root = interpolate_frames(tracks.at("pelvis"), tracks.rate_hz, EDGE_HZ)
    feet = _feet(tracks, ("ankle", "foot"), EDGE_HZ)
    if len(root) < 3:
        return {}
    acceleration = np.diff(root, n=2, axis=0) * EDGE_HZ**2
    acceleration[:, 1] = np.maximum(acceleration[:, 1], 0.0)
    sizes = np.linalg.norm(acceleration, axis=1)
    ways = np.linalg.norm(np.diff(feet[1:, ..., [0, 2]], axis=0), axis=-1).min(axis=2)
    # A root that does not accelerate leaves rounding, which must not be divided by itself
    most = float(sizes.max())
    score = (sizes * ways[:, 0] * ways[:, 1]).mean() / most if most > LEAST_MPS2 else 0.0
    return {"edge_pfc": EDGE_SCALE * float(score)}


ALIGNED_S = 0.05  # [s] clips whose lengths differ by more are not the same motion frame by frame


def compute_npss(reference: FloatArray, values: FloatArray) -> float:
    r"""Normalised power spectrum similarity of two series ``(T, D)``; 0 when alike ([Gopalakrishnan2019]_).

    .. math:: \mathrm{NPSS} = \frac{\sum_d P_d\, \sum_f |C_{f,d} - \hat C_{f,d}|}{\sum_d P_d}

    with :math:`C` the cumulative sums over frequency of the powers divided by their sum :math:`P_d`. As in the code of
    LAFAN1 ([Harvey2020]_) the power is the square of the real part of the transform. A dimension without power is as
    far from one with power as can be told: its cumulative sum is zero.
    """
    powers = [np.square(np.real(np.fft.fft(series, axis=0))) for series in (reference, values)]
    totals = [power.sum(axis=0) for power in powers]
    shares = [
        np.divide(power, total, out=np.zeros_like(power), where=total > 0.0)
        for power, total in zip(powers, totals, strict=True)
    ]
    distance = np.abs(np.cumsum(shares[1], axis=0) - np.cumsum(shares[0], axis=0)).sum(axis=0)
    weight = float(totals[0].sum())
    return float((distance * totals[0]).sum() / weight) if weight > 0.0 else 0.0


def compute_l2(reference: FloatArray, values: FloatArray) -> float:
    r"""Mean over frames of the distance of all joints together: L2P for positions, L2Q for quaternions ([Harvey2020]_).

    .. math:: \mathrm{L2} = \frac1T \sum_t \Big\| \hat x_t - x_t \Big\|_2, \qquad x_t \in \mathbb R^{J \cdot c}

    LAFAN1 divides positions by the spread of its training set first; divide both arguments by yours to compare.
    """
    return float(np.sqrt(np.square(values - reference).sum(axis=tuple(range(1, values.ndim)))).mean())


def compare_frames(motion: Motion, source: Motion) -> dict[str, float]:
    """L2P [m], L2Q and NPSS of a clip against a reference of the same length in time.

    Positions are compared at joints of the same roles. Quaternions are those of joints in the world, of the sign that
    is nearer to the reference; they need the same skeleton, since axes of joints differ between rigs.

    Raises:
        InputError: the clips do not last equally long.
    """
    if abs(motion.duration_s - source.duration_s) > ALIGNED_S:
        raise InputError(
            f"a clip of {motion.duration_s:.2f} s against one of {source.duration_s:.2f} s",
            "Frames are compared between clips of the same length only",
        )
    reference = resample(source, motion.rate_hz)
    count = min(motion.num_frames, reference.num_frames)
    own, other = role_map(motion.skeleton), role_map(reference.skeleton)
    shared = [role for role in own if role in other]
    positions, frames = motion[:count].joint_frames()
    wanted, wanted_frames = reference[:count].joint_frames()
    figures = {"l2p_m": compute_l2(wanted[:, [other[r] for r in shared]], positions[:, [own[r] for r in shared]])}
    if tree_difference(motion.skeleton, reference.skeleton) is None:
        wxyz, wanted_wxyz = frames.wxyz, wanted_frames.continuous().wxyz
        wxyz = wxyz * np.where((wxyz * wanted_wxyz).sum(axis=-1, keepdims=True) < 0.0, -1.0, 1.0)
        figures["l2q"] = compute_l2(wanted_wxyz, wxyz)
        figures["npss"] = compute_npss(wanted_wxyz.reshape(count, -1), wxyz.reshape(count, -1))
    return figures
