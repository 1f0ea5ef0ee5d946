"""What the on-line engine knows of walking, running and jumping: plain arrays, ready for compiled code."""

from __future__ import annotations

from typing import Final, NamedTuple

from marey.base import BoolArray, FloatArray

EVENTS: Final = ("RHS", "RTS", "RHO", "RTO", "LHS", "LTS", "LHO", "LTO")
"""Right and left: heel (ankle) strike, toe strike, heel off, toe off; in the columns of every event table."""

EFFECTORS: Final = ("right_ankle", "right_foot", "left_ankle", "left_foot")
"""The four points that foot plants hold, by the joints of the canonical human."""


class GaitArrays(NamedTuple):
    r"""All styles and both gaits, multiplied out ([Glardon2005]_ §II.2.3.2).

    .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s_n)\,D_{k\tau}\big)

    ``K`` styles, 2 gaits (0 walks, 1 runs), ``C`` components, ``N`` frames, ``D = 3 + 3 J`` columns, ``G`` speeds.
    The law: ``A = standing + (slope * slowest + offset - standing) * (s / slowest) ** power`` below ``slowest``,
    ``A = slope * s + offset`` above. Tables are linear between speeds and hold their ends.
    """

    base: FloatArray  # (K, 2, N, D)
    lift: FloatArray  # (K, 2, C, N, D)
    standing: FloatArray  # (K, 2, C)
    slope: FloatArray  # (K, 2, C) [s]
    offset: FloatArray  # (K, 2, C)
    slowest: FloatArray  # (K, 2) [1/s] normalised speed
    power: float
    has_gait: BoolArray  # (K, 2) who has one gait alone shows that gait
    speeds: FloatArray  # (G,) [1/s] normalised speeds of the tables below, the first is zero
    frequency: FloatArray  # (K, 2, G) [Hz] cycles per second, at the model's own leg length
    events: FloatArray  # (K, 2, G, 8) unwrapped phases, in the order of EVENTS
    means: FloatArray  # (J, 4) wxyz, q_j = mean_j * exp(v_j)
    limits: FloatArray  # (2,) [1/s] fastest normalised walk and run
