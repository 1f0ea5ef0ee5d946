"""A clip against the clip it was made from: distances frame by frame, and how much more sudden it is."""

from __future__ import annotations

import numpy as np

from marey.base import FloatArray, InputError
from marey.motion import Motion, resample
from marey.skeleton import role_map, tree_difference

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
