"""Hierarchical models of gaits: components, speed laws, and the clustering of unlabelled units by their scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from marey.base import BoolArray, FloatArray, InputError, IntArray, UnknownNameError, frozen
from marey.models.pca import check_choice, choose_count
from marey.models.pose_model import check_name

MAX_ROUNDS = 100  # k-means over a few hundred units settles in about ten
OUTLIER = 2.2  # [-] times the median distance to the median of a group


def k_means(points: ArrayLike, start: ArrayLike) -> IntArray:
    """Group ``(n,)`` of each point ``(n, d)``, from centres ``(g, d)`` to start with; deterministic."""
    x = frozen(points, None, None, name="points")
    centres = np.array(frozen(start, None, x.shape[1], name="start"))
    groups = np.full(len(x), -1)
    for _ in range(MAX_ROUNDS):
        nearest = np.argmin(((x[:, None] - centres) ** 2).sum(axis=-1), axis=1)
        if np.array_equal(nearest, groups):
            break
        groups = nearest
        for g in range(len(centres)):
            if np.any(groups == g):
                centres[g] = x[groups == g].mean(axis=0)
    return groups.astype(np.int64)


def sort_gaits(scores: ArrayLike, speeds: ArrayLike) -> tuple[str, ...]:
    """Call each unit a walk or a run: two groups of scores ``(n, d)``, the faster of which runs.

    The groups start at the two units that are farthest apart. [Glardon2005]_ §II.2.3.2.1.
    """
    x = frozen(scores, None, None, name="scores")
    s = frozen(speeds, len(x), name="speeds")
    if len(x) < 2:
        raise InputError(f"{len(x)} unit to sort into two gaits", "Give two at least")
    apart = ((x[:, None] - x) ** 2).sum(axis=-1)
    one, two = divmod(int(np.argmax(apart)), len(x))
    groups = k_means(x, x[[one, two]])
    means = [float(s[groups == g].mean()) if np.any(groups == g) else -np.inf for g in (0, 1)]
    run = int(np.argmax(means))
    return tuple("run" if group == run else "walk" for group in groups.tolist())


def sort_subjects(scores: ArrayLike, examples: Mapping[str, int]) -> tuple[str, ...]:
    """Name the subject of each unit from its scores ``(n, d)`` and one unit of each subject (name to row)."""
    x = frozen(scores, None, None, name="scores")
    if not examples or any(not 0 <= row < len(x) for row in examples.values()):
        raise InputError(f"examples {dict(examples)} among {len(x)} units", "Give one row of each subject")
    names = tuple(examples)
    groups = k_means(x, x[list(examples.values())])
    return tuple(names[int(group)] for group in groups)


def find_outliers(scores: ArrayLike) -> BoolArray:
    """Tell which units ``(n,)`` of one group lie far from its median: more than 2.2 times the median distance."""
    x: FloatArray = frozen(scores, None, None, name="scores")
    distances = np.linalg.norm(x - np.median(x, axis=0), axis=1)
    return distances > OUTLIER * np.median(distances)


ROUTES = ("svd", "gram")
SCALINGS = ("covariance", "correlation")
DROPPED = 1e-12  # [-] of the largest variance; [Glardon2005]_ App. B never divides by what lies below


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    r"""A mean row and orthonormal directions: :math:`\theta \approx \theta_0 + \alpha E^T`, [Glardon2005]_ §II.1.2."""

    mean: FloatArray  # (p,)
    directions: FloatArray  # (p, k) orthonormal in the scaled columns
    scales: FloatArray  # (p,) each column was multiplied by this
    variances: FloatArray  # (k,) of the scores, divided by the number of rows
    shares: FloatArray  # (k,) of the whole variance

    def scores(self, rows: ArrayLike) -> FloatArray:
        """Scores ``(..., k)`` of rows ``(..., p)``."""
        return (np.asarray(rows, dtype=np.float64) - self.mean) * self.scales @ self.directions

    def rows(self, scores: ArrayLike) -> FloatArray:
        """Rows ``(..., p)`` of scores ``(..., k)``."""
        return self.mean + np.asarray(scores, dtype=np.float64) @ self.lifting

    @property
    def lifting(self) -> FloatArray:
        """Change of a row ``(k, p)`` per unit of each score."""
        return self.directions.T / self.scales

    @property
    def count(self) -> int:
        """How many components were kept."""
        return self.directions.shape[1]


def principal_components(
    table: ArrayLike,
    *,
    n_components: int | None = None,
    explained: float = 0.95,
    route: str = "svd",
    scaling: str = "covariance",
    weights: ArrayLike | None = None,
) -> Components:
    """Principal components of rows ``(n, p)``, where ``n`` is usually far smaller than ``p``.

    Args:
        table: one row a motion unit. A single row gives its own mean and no component.
        n_components: how many to keep; as many as ``explained`` needs by default.
        explained: share of the variance to keep.
        route: ``"svd"`` of the table, or eigenvectors of its ``"gram"`` matrix lifted back: algorithms 1 and 2 of
            [Glardon2005]_ App. B.
        scaling: ``"covariance"`` takes columns as they are, ``"correlation"`` divides each by its deviation.
        weights: ``(p,)`` positive weight of each column; lower those that are noisy.
    """
    check_choice(n_components, explained)
    check_name("route", route, ROUTES)
    check_name("scaling", scaling, SCALINGS)
    rows = frozen(table, None, None, name="table")
    if len(rows) == 0:
        raise InputError("principal components of no rows", "Give at least one")
    mean = rows.mean(axis=0)
    scales = np.ones(rows.shape[1]) if weights is None else frozen(weights, rows.shape[1], name="weights")
    if np.any(scales <= 0.0):
        raise InputError("a weight is zero or negative", "Give positive weights; a small one for a noisy column")
    if scaling == "correlation":
        spread = rows.std(axis=0)
        scales = scales / np.where(spread > 0.0, spread, 1.0)
    centred = (rows - mean) * scales
    if route == "svd":
        # Algorithm 1 of App. B
        _, s, vt = np.linalg.svd(centred, full_matrices=False)
        variances, directions = s**2 / len(rows), vt.T
    else:
        # Algorithm 2: eigenvectors of the small matrix, lifted back
        values, vectors = np.linalg.eigh(centred @ centred.T)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        is_alive = values > DROPPED * values.max(initial=0.0)
        directions = centred.T @ vectors[:, is_alive] / np.sqrt(values[is_alive])
        variances = values[is_alive] / len(rows)
    kept = variances > DROPPED * max(float(variances.max(initial=0.0)), np.finfo(float).tiny / DROPPED)
    variances, directions = variances[kept], directions[:, kept]
    shares = variances / variances.sum() if variances.size else variances
    count = choose_count(shares, n_components, explained)
    # Signs: the entry of largest size is positive
    directions = directions[:, :count]
    largest = np.argmax(np.abs(directions), axis=0)
    directions = directions * np.where(directions[largest, np.arange(count)] < 0.0, -1.0, 1.0)
    return Components(mean, directions, scales, variances[:count], shares[:count])


def joint_shares(direction: ArrayLike, num_joints: int) -> FloatArray:
    """Share of each joint ``(J,)`` in a direction over frames, joints and axes ``(F * J * 3,)``.

    A joint that makes more than half of a first component is a glitch or a wrap rather than a style.
    """
    parts = frozen(direction, name="direction")
    if parts.size % (3 * num_joints):
        raise InputError(f"a direction of {parts.size} numbers for {num_joints} joints", "Give frames x joints x 3")
    squares = (parts.reshape(-1, num_joints, 3) ** 2).sum(axis=(0, 2))
    return squares / max(float(squares.sum()), 1e-300)


POWER = 0.4  # [-] exponent below the slowest captured speed; [Glardon2005]_ §II.2.3.1
FEW = 8  # units; fewer are fitted by medians, which one outlier cannot bend


@dataclass(frozen=True, slots=True, eq=False)
class SpeedLaw:
    r"""Scores of one gait of one person by speed.

    .. math:: A(s) = \alpha_0 + b' s^m \ (0 \le s < s_w), \qquad A(s) = a s + b \ (s \ge s_w),
              \qquad b' = (a s_w + b - \alpha_0)\,s_w^{-m}

    [Glardon2005]_ §II.2.3.1, where the printed b' refers to itself. The slope is infinite at rest: evaluate, never
    differentiate there.
    """

    standing: FloatArray  # (k,) scores at rest
    slope: FloatArray  # (k,) per unit of speed
    offset: FloatArray  # (k,)
    slowest: float  # speed of the slowest unit
    power: float = POWER

    def __call__(self, speed: ArrayLike) -> FloatArray:
        """Scores ``(..., k)`` at speeds ``(...)``; below zero counts as zero."""
        s = np.maximum(frozen(speed, name="speed"), 0.0)[..., None]
        line = self.slope * s + self.offset
        if self.slowest <= 0.0:
            return line
        # Below the slowest unit a root curve joins the line to the body at rest
        joint = self.slope * self.slowest + self.offset
        curve = self.standing + (joint - self.standing) * (s / self.slowest) ** self.power
        return np.where(s < self.slowest, curve, line)


def fit_speed_law(scores: ArrayLike, speeds: ArrayLike, standing: ArrayLike | None = None) -> SpeedLaw:
    """Fit a line above the slowest unit and a root curve below it.

    Args:
        scores: ``(n, k)`` of the moving units.
        speeds: ``(n,)``, positive; if all are equal the line is level.
        standing: ``(k,)`` scores of the body at rest; the line goes on to rest if not given.
    """
    y = frozen(scores, None, None, name="scores")
    s = frozen(speeds, len(y), name="speeds")
    if len(y) == 0 or np.any(s <= 0.0):
        raise InputError("a speed law of no unit, or of units at rest", "Give moving units; rest is `standing`")
    i, j = np.triu_indices(len(s), k=1)
    i, j = i[s[i] != s[j]], j[s[i] != s[j]]
    if len(y) >= FEW:
        # Least squares
        centred = s - s.mean()
        spread = float(centred @ centred)
        slope = np.asarray(centred @ y / spread if spread > 0.0 else np.zeros(y.shape[1]), dtype=np.float64)
        offset = y.mean(axis=0) - slope * s.mean()
    elif len(i):
        # Median of the slopes between all pairs, and of what they leave (Theil and Sen)
        slope = np.asarray(np.median((y[i] - y[j]) / (s[i] - s[j])[:, None], axis=0), dtype=np.float64)
        offset = np.asarray(np.median(y - slope * s[:, None], axis=0), dtype=np.float64)
    else:
        slope, offset = np.zeros_like(y[0]), np.asarray(np.median(y, axis=0), dtype=np.float64)
    slowest = float(s.min())
    rest = slope * slowest + offset if standing is None else frozen(standing, y.shape[1], name="standing")
    return SpeedLaw(rest, slope, offset, slowest, POWER)


GAITS = ("walk", "run")
STANDING = "stand"


@dataclass(frozen=True, slots=True, eq=False)
class MotionUnits:
    """Motion units: rows of equal length with person, gait and speed."""

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
    """Components of one person."""

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
        own, rest = units.rows_of(subject), units.rows_of(subject, STANDING)
        space = principal_components(scores[own], n_components=self.n_person, explained=self.explained)
        betas = space.scores(scores)
        leaves: dict[str, Leaf] = {}
        for gait in GAITS:
            moving = units.rows_of(subject, gait)
            if moving:
                leaf = principal_components(betas[moving + rest], n_components=self.n_gait, explained=self.explained)
                gammas = leaf.scores(betas)
                standing = gammas[rest].mean(axis=0) if rest else None
                leaves[gait] = Leaf(leaf, fit_speed_law(gammas[moving], units.speeds[moving], standing))
        return Person(space, leaves)


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
        # People are mixed in main scores, gaits in the scores of each person
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
        """Return the non-zero weights, normalised to one.

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

    def expand_leaf(self, name: str, gait: str) -> tuple[FloatArray, FloatArray]:
        r"""Base ``(p,)`` and lift ``(c, p)`` of a leaf with all levels multiplied out, for use at run time.

        .. math:: \theta = \sum_{k\tau} w_k w_\tau \big(B_{k\tau} + A^{\tau k}(s)\,D_{k\tau}\big)
        """
        person = self.people[name]
        leaf = person.leaves[gait]
        base = self.main.rows(person.space.rows(leaf.space.mean))
        return base, leaf.space.lifting @ person.space.lifting @ self.main.lifting


def gait_shares(leaves: Mapping[str, Leaf], running: float) -> dict[str, float]:
    """Weight of each gait; a person with a single gait has weight one for it."""
    run = min(max(_check_number(running, "running"), 0.0), 1.0)
    if len(leaves) == 1:
        return dict.fromkeys(leaves, 1.0)
    return {gait: share for gait, share in (("walk", 1.0 - run), ("run", run)) if share > 0.0}


def _check_number(value: ArrayLike, name: str) -> float:
    return float(frozen(value, name=name))
