"""Cameras from files: intrinsics and extrinsics as OpenCV writes them, or a place and what it looks at."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np

from marey.base import FloatArray, FormatError, InputError, MissingFileError, frozen
from marey.lie import SO3
from marey.tracking.observation import Camera

KEYS: Final = (
    *("name", "size", "width", "height", "K", "fx", "fy", "cx", "cy", "focal_px", "distortion", "dist"),
    *("R", "rvec", "t", "position", "target", "up", "unit"),
)
UNITS: Final = {"m": 1.0, "cm": 0.01, "mm": 0.001}
AXES: Final = {"x": 0, "y": 1, "z": 2}
UNDISTORT_STEPS: Final = 20
DEFAULT_FOCAL: Final = 1.0  # [-] of the longer side of the picture: 53 degrees, between a phone and a webcam
DEFAULT_POSITION: Final = (0.0, 1.2, 4.0)  # [m] level, looking along -Z: somebody who faces it faces +Z


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value of JSON or TOML is an object, with names as keys."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether a value of JSON or TOML is a list."""
    return isinstance(value, list)


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedCamera:
    r"""An ideal pinhole, and how the real picture differs from its: principal point, pixels, distortion.

    With :math:`x = (u - c_x)/f_x` and :math:`y = (v - c_y)/f_y`, undone for radial and tangential distortion
    :math:`(k_1, k_2, p_1, p_2, k_3)`, the ideal picture has :math:`u' = w/2 + f x`, :math:`v' = h/2 + f y`.
    """

    camera: Camera
    focals_px: FloatArray  # (2,)
    centre_px: FloatArray  # (2,)
    distortion: FloatArray  # (5,)

    @classmethod
    def from_camera(cls, camera: Camera) -> CalibratedCamera:
        """A picture that is the ideal one."""
        return cls(camera, np.full(2, camera.focal_px), 0.5 * np.array(camera.size), np.zeros(5))

    def rectify(self, pixels: FloatArray) -> FloatArray:
        """Pixels ``(..., 2)`` of the ideal picture."""
        seen = (pixels - self.centre_px) / self.focals_px
        k1, k2, p1, p2, k3 = self.distortion
        ideal = seen.copy()
        # Fixed-point iteration of OpenCV's undistortPoints
        for _ in range(UNDISTORT_STEPS if self.distortion.any() else 0):
            x, y = ideal[..., 0], ideal[..., 1]
            r2 = np.minimum(x * x + y * y, 4.0)
            radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
            side = np.stack(
                [2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x), p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y], -1
            )
            ideal = (seen - side) / np.where(np.abs(radial) > 0.1, radial, 1.0)[..., None]
        return 0.5 * np.array(self.camera.size) + self.camera.focal_px * ideal


def load_cameras(path: str | Path) -> list[CalibratedCamera]:
    """Read one camera or several from JSON or TOML.

    Each has ``size = [width, height]`` and either ``K`` (or ``fx, fy, cx, cy``) with ``R`` (or ``rvec``) and ``t`` of
    OpenCV, :math:`x_{camera} = R x_{world} + t`, perhaps ``distortion`` of five numbers, or ``position``, ``target``
    and ``focal_px``. ``up`` names the world's upward axis (``"y"``, ``"z"``, ``"-y"``), ``unit`` is m, cm or mm.

    Raises:
        MissingFileError: there is no such file.
        FormatError: it is neither JSON nor TOML.
        InputError: a camera lacks a field or has an unknown one.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(str(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise FormatError(f"no cameras: {error}", str(path), line, "Write JSON or TOML, see docs/tracking.md") from None
    found: Any = content.get("cameras", content.get("camera", content)) if is_object(content) else content
    cameras: list[Any] = found if is_list(found) else [found]
    if is_object(found) and found and all(is_object(one) for one in found.values()):
        cameras = list(found.values())
    return [build_camera(one, str(path)) for one in cameras]


def build_camera(facts: Any, file: str) -> CalibratedCamera:
    """Build a camera from the fields that :func:`load_cameras` lists.

    Raises:
        InputError: a field is missing, unknown, or no number.
    """
    fix = f"A camera has {', '.join(KEYS)}; see docs/tracking.md"
    if not is_object(facts):
        raise InputError(f"'{file}' holds no camera", fix)
    unknown = sorted(key for key in facts if key not in KEYS)
    if unknown:
        raise InputError(f"a camera of '{file}' has the unknown field '{unknown[0]}'", fix)
    try:
        width, height = (int(n) for n in facts.get("size") or (facts["width"], facts["height"]))
        K = np.array(facts["K"], dtype=np.float64).reshape(3, 3) if "K" in facts else np.eye(3)
        focals, centre = np.array([K[0, 0], K[1, 1]]), K[:2, 2].copy()
        if "K" not in facts:
            focals = np.array([float(facts.get("fx", facts.get("focal_px", 0.0)))] * 2)
            focals[1] = float(facts.get("fy", focals[0]))
            centre = np.array([float(facts.get("cx", 0.5 * width)), float(facts.get("cy", 0.5 * height))])
        if not (np.isfinite(focals).all() and (focals > 0.0).all() and np.isfinite(centre).all()):
            raise InputError(f"a camera of '{file}' has no focal length", fix)
        given = np.array(facts.get("distortion", facts.get("dist", [])), dtype=np.float64).ravel()
        if len(given) > 5 or not np.isfinite(given).all():
            raise InputError(f"a camera of '{file}' has {len(given)} numbers of distortion", "Give k1, k2, p1, p2, k3")
        distortion = np.concatenate([given, np.zeros(5 - len(given))])
        # Place and axes in the file's world, then in +Y up
        unit = UNITS[str(facts.get("unit", "m"))]
        if "position" in facts and "target" in facts:
            position, target = (frozen(facts[key], 3, name=key) for key in ("position", "target"))
            forward, up = target - position, None
        else:
            if "rvec" in facts:
                turn = SO3.exp(np.array(facts["rvec"], dtype=np.float64).ravel()).matrix()
            else:
                turn = np.array(facts["R"], dtype=np.float64).reshape(3, 3)
            R = frozen(turn, 3, 3, name="R")
            if np.abs(R @ R.T - np.eye(3)).max() > 1e-3 or np.linalg.det(R) < 0.0:
                raise InputError(f"R of a camera of '{file}' is no rotation", "Give x_camera = R x_world + t")
            position = -R.T @ frozen(np.array(facts["t"], dtype=np.float64).ravel(), 3, name="t")
            forward, up = R[2], -R[1]
        W = _turn_upright(str(facts.get("up", "y")))
        position = W @ position * unit
        focal = float(np.sqrt(focals[0] * focals[1]))
        camera = Camera(position, position + W @ forward, focal, (width, height))
        if up is not None:
            camera = Camera(position, position + W @ forward, focal, (width, height), W @ up)
        return CalibratedCamera(camera, focals, centre, distortion)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        what = f"a camera of '{file}' cannot be read: {type(error).__name__} {error}"
        raise InputError(what, fix) from None


def _turn_upright(axis: str) -> FloatArray:
    """Rotation ``(3, 3)`` that brings a signed axis of the file's world to +Y."""
    sign, name = (-1.0, axis[1:]) if axis.startswith("-") else (1.0, axis)
    up = np.zeros(3)
    up[AXES[name]] = sign
    if name == "y":
        return np.eye(3) if sign > 0.0 else np.diag([1.0, -1.0, -1.0])
    # About the axis at right angles to both: a quarter turn
    return SO3.exp(0.5 * np.pi * np.cross(up, (0.0, 1.0, 0.0))).matrix()


def default_camera(size: tuple[int, int]) -> CalibratedCamera:
    """A level camera of usual focal length, where nothing is known of the real one."""
    position = np.array(DEFAULT_POSITION)
    camera = Camera(position, position - (0.0, 0.0, 1.0), DEFAULT_FOCAL * max(size), size)
    return CalibratedCamera.from_camera(camera)
