"""Named marker sets: on which joint of the canonical human each marker sits, and about where.

Places are those of the T-pose as fractions of the stature, x left, y up, z forward, seen from surface anatomy; they are
only a first guess that the fit corrects. Joints are those that carry the bone under the marker: a marker on the outer
knee belongs to the thigh, hence to the hip joint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SitePosition = tuple[str, tuple[float, float, float]]

_MIDDLE: Final[Mapping[str, SitePosition]] = {
    "S2": ("pelvis", (0.0, 0.550, -0.062)),
    "C7": ("spine3", (0.0, 0.842, -0.045)),
    "T10": ("spine2", (0.0, 0.720, -0.062)),
    "CLAV": ("spine3", (0.0, 0.800, 0.035)),
    "STRN": ("spine3", (0.0, 0.715, 0.060)),
}
_LEFT: Final[Mapping[str, SitePosition]] = {  # of the left side; the right one is its mirror image
    "ASIS": ("pelvis", (0.070, 0.565, 0.055)),
    "PSIS": ("pelvis", (0.027, 0.565, -0.055)),
    "Shoulder": ("collar", (0.108, 0.850, -0.008)),
    "Clavicle": ("spine3", (0.014, 0.810, 0.035)),
    "Biceps": ("shoulder", (0.200, 0.818, 0.018)),
    "Elbow": ("shoulder", (0.300, 0.818, -0.032)),
    "Forearm": ("elbow", (0.370, 0.818, -0.015)),
    "Wrist": ("elbow", (0.442, 0.818, -0.025)),
    "TH1": ("hip", (0.090, 0.430, 0.030)),
    "TH2": ("hip", (0.095, 0.410, -0.010)),
    "TH3": ("hip", (0.088, 0.350, 0.010)),
    "TH4": ("hip", (0.088, 0.350, -0.020)),
    "Knee": ("hip", (0.082, 0.288, 0.004)),
    "SH1": ("knee", (0.080, 0.240, 0.015)),
    "SH2": ("knee", (0.085, 0.210, -0.020)),
    "SH3": ("knee", (0.080, 0.190, 0.010)),
    "SH4": ("knee", (0.080, 0.170, -0.020)),
    "Ankle": ("knee", (0.075, 0.040, -0.012)),
    "Heel": ("ankle", (0.052, 0.022, -0.045)),
    "MT5": ("ankle", (0.085, 0.015, 0.055)),
    "Toe": ("ankle", (0.050, 0.022, 0.095)),
    "LFC": ("hip", (0.082, 0.288, 0.004)),
    "MFC": ("hip", (0.022, 0.288, 0.004)),
    "TB1": ("knee", (0.080, 0.230, 0.020)),
    "TB2": ("knee", (0.080, 0.180, 0.020)),
    "TB3": ("knee", (0.075, 0.130, 0.015)),
    "LMAL": ("knee", (0.075, 0.040, -0.012)),
    "MMAL": ("knee", (0.030, 0.043, -0.008)),
    "CAL": ("ankle", (0.052, 0.022, -0.045)),
    "MT1": ("ankle", (0.035, 0.025, 0.065)),
    "MT2": ("ankle", (0.052, 0.030, 0.070)),
    "HJC": ("hip", (0.052, 0.530, 0.0)),
    "KJC": ("knee", (0.052, 0.285, 0.004)),
    "AJC": ("ankle", (0.052, 0.039, -0.010)),
}
_SHORT: Final = {"ASI": "ASIS", "PSI": "PSIS"}


@dataclass(frozen=True, slots=True)
class MarkerSite:
    """Where a marker sits: a joint's name and a point in its frame [m]."""

    joint: str
    point: tuple[float, float, float]


def known_sites() -> dict[str, SitePosition]:
    """All marker names that are known, both sides, in the spellings "R.ASIS", "RASI" and "RASIS"."""
    found: dict[str, SitePosition] = {**_MIDDLE}
    for side, letter, sign in (("left_", "L", 1.0), ("right_", "R", -1.0)):
        for name, (joint, (x, y, z)) in _LEFT.items():
            carrier = joint if joint in ("pelvis", "spine3") else side + joint
            place = (carrier, (sign * x, y, z))
            found[f"{letter}.{name}"] = found[letter + name] = place
            for short, long in _SHORT.items():
                if long == name:
                    found[letter + short] = place
    return found
