"""What glTF has no field for, kept in ``extras``: rate, contacts, tips, limits, notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from marey.base import FloatArray, InputError
from marey.lie import SO3
from marey.motion import Contacts, Motion, find_runs
from marey.skeleton import EulerLimits


def describe_motion(motion: Motion) -> dict[str, Any]:
    """Return the part of a motion that glTF cannot hold, as plain JSON."""
    skeleton = motion.skeleton
    described: dict[str, Any] = {
        "version": 1,
        "rate_hz": motion.rate_hz,
        "num_frames": motion.num_frames,
        "name": motion.name,
        "skeleton": skeleton.name,
        "tips": {skeleton.names[j]: [float(x) for x in skeleton.tips[j]] for j in np.flatnonzero(skeleton.tips.any(1))},
        "limits": [_limit(limit) for limit in skeleton.limits],
    }
    if motion.contacts is not None:
        track = motion.contacts
        described["contacts"] = {name: [list(run) for run in find_runs(track.track(name))] for name in track.names}
    return described


def restore_contacts(described: Mapping[str, Any], frames: int) -> Contacts | None:
    """Undo the contact part of :func:`describe_motion`."""
    tracks = described.get("contacts")
    if tracks is None:
        return None
    names = tuple(str(name) for name in tracks)
    active = np.zeros((frames, len(names)), dtype=np.bool_)
    for k, name in enumerate(names):
        for start, stop in tracks[name]:
            if not 0 <= start <= stop <= frames:
                raise InputError(f"contact '{name}' lasts from frame {start} to {stop} of {frames}")
            active[start:stop, k] = True
    return Contacts(names, active)


def restore_limits(described: Mapping[str, Any]) -> tuple[EulerLimits, ...]:
    """Undo the limits part of :func:`describe_motion`."""
    limits = cast(list[dict[str, Any]], described.get("limits", []))
    return tuple(
        EulerLimits(
            str(item["joint"]),
            str(item["order"]),
            _bounds(item["low_rad"], -np.inf),
            _bounds(item["high_rad"], np.inf),
            SO3(item["axis_wxyz"]),
        )
        for item in limits
    )


def _limit(limit: EulerLimits) -> dict[str, Any]:
    def finite(values: FloatArray) -> list[float | None]:
        return [float(x) if np.isfinite(x) else None for x in values]

    axis = [float(x) for x in limit.axis.wxyz]
    low, high = finite(limit.low_rad), finite(limit.high_rad)
    return {"joint": limit.joint, "order": limit.order, "low_rad": low, "high_rad": high, "axis_wxyz": axis}


def _bounds(values: list[float | None], unbounded: float) -> FloatArray:
    return np.array([unbounded if value is None else value for value in values], dtype=np.float64)
