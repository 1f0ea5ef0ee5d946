"""What a tree must satisfy before any loop runs over it."""

from __future__ import annotations

from typing import Final

import numpy as np

from marey.base import FloatArray, InputError, IntArray, frozen, frozen_ints
from marey.lie import SO3

AXIS_TOL: Final = 1e-6  # [-] an axis this near to unit length is taken as one
INERTIA_TOL: Final = 1e-9  # [-] rounding of an inertia matrix, as a share of its trace


def check_parents(names: tuple[str, ...], parents: IntArray) -> IntArray:
    """Parents ``(D,)``, each before its children."""
    parents = frozen_ints(parents, len(names), name="parents")
    for i, parent in enumerate(parents):
        if not -1 <= parent < i:
            what = f"the parent of '{names[i]}' (joint {i}) is {parent}"
            raise InputError(what, "Parents come before their children; the world is -1")
    return parents


def check_axes(names: tuple[str, ...], axes: FloatArray) -> FloatArray:
    """Axes ``(D, 3)``, made exactly unit."""
    axes = frozen(axes, len(names), 3, name="axes")
    lengths = np.linalg.norm(axes, axis=1)
    for name, length in zip(names, lengths, strict=True):
        if abs(length - 1.0) > AXIS_TOL:
            raise InputError(f"the axis of '{name}' has length {length:.6g}", "Give a unit vector")
    return frozen(axes / lengths[:, None], name="axes")


def check_inertias(names: tuple[str, ...], masses: FloatArray, inertias: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Masses ``(D,)`` and inertias ``(D, 3, 3)`` that a solid can have: positive, symmetric, obeying the triangle."""
    masses = frozen(masses, len(names), name="masses")
    inertias = frozen(inertias, len(names), 3, 3, name="inertias")
    for name, mass, inertia in zip(names, masses, inertias, strict=True):
        _check_inertia(name, float(mass), inertia)
    if masses.sum() <= 0.0:
        raise InputError("there is no mass", "Give at least one link a positive mass")
    return masses, inertias


def _check_inertia(name: str, mass: float, inertia: FloatArray) -> None:
    if mass < 0.0:
        raise InputError(f"link '{name}' weighs {mass:g} kg", "A mass is zero or more")
    if mass == 0.0 and np.any(inertia):
        raise InputError(f"link '{name}' has an inertia but no mass", "Give it a mass, or no inertia")
    slack = INERTIA_TOL * max(float(np.trace(inertia)), 1e-300)
    if np.abs(inertia - inertia.T).max() > slack:
        raise InputError(f"the inertia of link '{name}' is not symmetric", "Give (I + I.T) / 2")
    low, middle, high = np.linalg.eigvalsh(inertia)
    if low < -slack or low + middle < high - slack:
        moments = f"{low:.3g}, {middle:.3g}, {high:.3g}"
        raise InputError(
            f"no solid has the moments {moments} of link '{name}'", "Each is at most the sum of the others"
        )


def normalise_orientations(orientations: FloatArray, count: int) -> FloatArray:
    """Orientations ``(D, 4)`` of unit length; none given are identities."""
    if len(orientations) == 0:
        return SO3.identity(count).wxyz
    return SO3(frozen(orientations, count, 4, name="orientations")).wxyz
