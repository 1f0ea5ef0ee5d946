"""Principal components in three levels: everybody, a person, a gait of that person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import FloatArray, InputError, UnknownNameError, frozen
from marey.models._components import Components, principal_components
from marey.models._speed_law import SpeedLaw, fit_speed_law

GAITS = ("walk", "run")
STANDING = "stand"


@dataclass(frozen=True, slots=True, eq=False)
class MotionUnits:
    """Motion units: one row of numbers each, all of one length, with who did what how fast."""

    table: FloatArray  # (n, p)
    subjects: tuple[str, ...]  # (n,)
    gaits: tuple[str, ...]  # (n,) "walk", "run" or "stand"
    speeds: FloatArray  # (n,) zero for standing

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", frozen(self.table, None, None, name="table"))
        object.__setattr__(self, "subjects", tuple(self.subjects))
        object.__setattr__(self, "gaits", tuple(self.gaits))
        object.__setattr__(self, "speeds", frozen(self.speeds, len(self.table), name="speeds"))
        if not len(self.table) == len(self.subjects) == len(self.gaits) or not len(self.table):
            counts = f"{len(self.table)} rows, {len(self.subjects)} subjects, {len(self.gaits)} gaits"
            raise InputError(counts, "Give one of each for every unit, one unit at least")
        for gait in self.gaits:
            if gait not in (*GAITS, STANDING):
                raise UnknownNameError("gait", gait, "a table of units", (*GAITS, STANDING))

    def rows_of(self, subject: str, *gaits: str) -> list[int]:
        """Rows of one subject, of all gaits or of those named."""
        rows = [i for i, name in enumerate(self.subjects) if name == subject]
        return [i for i in rows if not gaits or self.gaits[i] in gaits]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One gait of one person."""

    space: Components  # of the person's scores
    law: SpeedLaw


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """What one person does with the scores of everybody."""

    space: Components
    leaves: Mapping[str, Leaf]  # by gait; a gait that was not captured is missing


@dataclass(frozen=True, slots=True)
class HierarchicalPCA:
    """Settings of a hierarchical model of gaits; [Glardon2005]_ §II.2.3.2 keeps 9, 2 and 1 components."""

    explained: float = 0.95  # share of the variance on every level
    n_main: int | None = None
    n_person: int | None = None
    n_gait: int | None = None

    def fit(self, units: MotionUnits) -> HierarchicalModel:
        """Fit all levels, subject first, then gait: the source found that this extrapolates better.

        Raises:
            InputError: no unit moves.
        """
        if all(gait == STANDING for gait in units.gaits):
            raise InputError("no unit moves", "Give walks or runs")
        main = principal_components(units.table, n_components=self.n_main, explained=self.explained)
        scores = main.scores(units.table)
        moving = [s for s in dict.fromkeys(units.subjects) if units.rows_of(s, *GAITS)]
        return HierarchicalModel(main, {s: self.fit_person(units, scores, s) for s in moving})

    def fit_person(self, units: MotionUnits, scores: FloatArray, subject: str) -> Person:
        """Fit the levels below the main one for one subject, on main scores ``(n, m)``."""
        own = units.rows_of(subject)
        space = principal_components(scores[own], n_components=self.n_person, explained=self.explained)
        captured = [gait for gait in GAITS if units.rows_of(subject, gait)]
        return Person(space, {g: self._fit_leaf(units, space.scores(scores), subject, g) for g in captured})

    def _fit_leaf(self, units: MotionUnits, betas: FloatArray, subject: str, gait: str) -> Leaf:
        moving, rest = units.rows_of(subject, gait), units.rows_of(subject, STANDING)
        space = principal_components(betas[moving + rest], n_components=self.n_gait, explained=self.explained)
        gammas = space.scores(betas)
        standing = gammas[rest].mean(axis=0) if rest else None
        return Leaf(space, fit_speed_law(gammas[moving], units.speeds[moving], standing))


@dataclass(frozen=True, slots=True, eq=False)
class HierarchicalModel:
    """Rows by speed, share of running and mixture of people."""

    main: Components
    people: Mapping[str, Person]

    def row(self, speed: float, *, running: float = 0.0, people: Mapping[str, float] | None = None) -> FloatArray:
        r"""Row ``(p,)`` of a gait, from the leaves up.

        .. math:: \theta = \theta_0 + \Big[\sum_k w_k \big(\alpha_0^k + \beta^k F^{kT}\big)\Big] E^T, \qquad
                  \beta^k = \sum_\tau w_\tau \big(\beta_0^{\tau k} + A^{\tau k}(s)\,G^{\tau k T}\big)

        [Glardon2005]_ §II.2.3.2.

        Args:
            speed: in the unit of the fit; below zero counts as zero.
            running: share of running, cut to 0 to 1. Who has one gait alone shows that gait.
            people: weight of each person, not negative, brought to a sum of one; all alike by default.
        """
        alpha = np.zeros(self.main.count)
        for name, weight in self.weights(people).items():
            person = self.people[name]
            beta = np.zeros(person.space.count)
            for gait, part in gait_shares(person.leaves, running).items():
                leaf = person.leaves[gait]
                beta += part * leaf.space.rows(leaf.law(_check_number(speed, "speed")))
            alpha += weight * person.space.rows(beta)
        return self.main.rows(alpha)

    def weights(self, people: Mapping[str, float] | None) -> dict[str, float]:
        """Return the weights of those who count, summing to one.

        Raises:
            UnknownNameError: a name is not in the model.
            InputError: a weight is negative or not finite, or all are zero.
        """
        given = dict.fromkeys(self.people, 1.0) if people is None else dict(people)
        for name, weight in given.items():
            if name not in self.people:
                raise UnknownNameError("person", name, "this model", tuple(self.people))
            if not (np.isfinite(weight) and weight >= 0.0):
                raise InputError(f"the weight of '{name}' is {weight}", "Give a number that is not negative")
        total = sum(given.values())
        if total <= 0.0:
            raise InputError("all weights are zero", "Give one person a positive weight")
        return {name: weight / total for name, weight in given.items() if weight > 0.0}

    def collapse(self) -> CollapsedModel:
        """Return the same model with all levels multiplied out, for use at run time."""
        bases: dict[tuple[str, str], FloatArray] = {}
        lifts: dict[tuple[str, str], FloatArray] = {}
        for name, person in self.people.items():
            for gait, leaf in person.leaves.items():
                bases[name, gait] = self.main.rows(person.space.rows(leaf.space.mean))
                lifts[name, gait] = leaf.space.lifting @ person.space.lifting @ self.main.lifting
        return CollapsedModel(self, bases, lifts)


@dataclass(frozen=True, slots=True, eq=False)
class CollapsedModel:
    r"""A hierarchical model multiplied out.

    .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s)\,D_{k\tau}\big)
    """

    model: HierarchicalModel
    bases: Mapping[tuple[str, str], FloatArray]  # (p,) by person and gait
    lifts: Mapping[tuple[str, str], FloatArray]  # (c, p)

    def row(self, speed: float, *, running: float = 0.0, people: Mapping[str, float] | None = None) -> FloatArray:
        """As :meth:`HierarchicalModel.row`, in microseconds; those of no weight cost nothing."""
        total = np.zeros_like(self.model.main.mean)
        s = _check_number(speed, "speed")
        for name, weight in self.model.weights(people).items():
            leaves = self.model.people[name].leaves
            for gait, part in gait_shares(leaves, running).items():
                total += weight * part * (self.bases[name, gait] + leaves[gait].law(s) @ self.lifts[name, gait])
        return total


def gait_shares(leaves: Mapping[str, Leaf], running: float) -> dict[str, float]:
    """Share of each gait that counts; who has one gait alone shows that gait."""
    run = min(max(_check_number(running, "running"), 0.0), 1.0)
    if len(leaves) == 1:
        return dict.fromkeys(leaves, 1.0)
    return {gait: share for gait, share in (("walk", 1.0 - run), ("run", run)) if share > 0.0}


def _check_number(value: ArrayLike, name: str) -> float:
    return float(frozen(value, name=name))
