"""The hierarchical components of units, and which columns of a unit count how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from marey.base import FloatArray
from marey.locomotion._units import MotionUnit, unit_rows
from marey.locomotion._units_lent import UnitTable
from marey.models import Components, HierarchicalModel, HierarchicalPCA, MotionUnits, principal_components
from marey.skeleton import HUMAN

EXPLAINED: Final = (0.98, 0.999)  # of the main level (the thesis: 0.95); of the levels below, which cost little
NOISY_JOINTS: Final = ("neck", "head", "left_wrist", "right_wrist", "left_foot", "right_foot")
NOISY_JOINT_WEIGHT: Final = 0.25  # of joints whose captured angles are mostly noise
LEG_PARTS: Final = ("pelvis", "hip", "knee", "ankle", "foot")


def flatten_units(units: Sequence[MotionUnit], means: FloatArray) -> UnitTable:
    """Rows of units, flattened."""
    rows = np.stack([unit_rows(unit.root, unit.wxyz, means).ravel() for unit in units])
    subjects, gaits = tuple(unit.subject for unit in units), tuple(unit.gait for unit in units)
    return UnitTable(rows, subjects, gaits, np.array([unit.speed_n for unit in units]))


def fit_tree(units: UnitTable, *, explained: float = EXPLAINED[0]) -> HierarchicalModel:
    """Fit main, personal and gait components; columns of noisy joints weigh less in all of them."""
    weights = column_weights()
    scales = np.tile(weights, units.table.shape[1] // len(weights))
    scaled = MotionUnits(units.table * scales, units.subjects, units.gaits, units.speeds)
    count = principal_components(scaled.table, explained=explained).count
    fitted = HierarchicalPCA(explained=EXPLAINED[1], n_main=count).fit(scaled)
    main = fitted.main
    unscaled = Components(main.mean / scales, main.directions, scales, main.variances, main.shares)
    return HierarchicalModel(unscaled, fitted.people)


def column_weights() -> FloatArray:
    """Weight ``(D,)`` of the columns of a unit in the components: noisy joints count less."""
    weights = np.ones(3 + 3 * HUMAN.num_joints)
    for name in NOISY_JOINTS:
        j = HUMAN.index(name)
        weights[3 + 3 * j : 6 + 3 * j] = NOISY_JOINT_WEIGHT
    return weights


def posture_columns() -> FloatArray:
    """One for the columns ``(D,)`` of a person's posture, zero for root and legs."""
    columns = np.zeros(3 + 3 * HUMAN.num_joints)
    for j, name in enumerate(HUMAN.names):
        if not name.endswith(LEG_PARTS):
            columns[3 + 3 * j : 6 + 3 * j] = 1.0
    return columns
