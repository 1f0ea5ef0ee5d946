"""How many components: explained variance and joint error of reconstructed clips against their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from marey.base import FloatArray, InputError, IntArray, Result
from marey.lie import SO3
from marey.models.pca import PCA, choose_count
from marey.models.pga import PGA
from marey.models.pose_model import PoseModel
from marey.models.samples import Clips, as_clips
from marey.motion import Motion


def reconstruct(model: PoseModel, motion: Motion) -> Motion:
    """Return a clip whose joints below the root are what the model makes of them; root and body are the clip's own."""
    wxyz = np.array(model.rotations(model.encode(motion)).wxyz)
    wxyz[:, 0] = motion.rotations.wxyz[:, 0]
    return replace(motion, rotations=SO3(wxyz), source=motion.edited_source())


@dataclass(frozen=True, slots=True)
class JointError:
    """Distances between the joints of clips and of their reconstructions [cm]."""

    mean_cm: float
    p95_cm: float
    max_cm: float

    def __str__(self) -> str:
        return f"mean {self.mean_cm:.2f} cm, 95 % below {self.p95_cm:.2f} cm, max {self.max_cm:.2f} cm"


def joint_distances(model: PoseModel, motion: Motion) -> FloatArray:
    """How far each joint is off ``(F, J)`` [m] after a clip went through the model, root held."""
    apart = reconstruct(model, motion).joint_positions() - motion.joint_positions()
    return np.linalg.norm(apart, axis=-1)


def joint_error(model: PoseModel, motions: Motion | tuple[Motion, ...] | list[Motion]) -> JointError:
    """Mean, 95th percentile and maximum over all joints and frames of one clip or more."""
    clips = (motions,) if isinstance(motions, Motion) else motions
    if not clips:
        raise InputError("no clip is given", "Hand over at least one motion to measure the model on")
    apart = 100.0 * np.concatenate([joint_distances(model, motion).ravel() for motion in clips])
    return JointError(float(apart.mean()), float(np.percentile(apart, 95)), float(apart.max()))


MAX_COUNT = 30  # default number of components of a curve; 22 hold 99.9 % of the variance of a walk


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectionCurve(Result):
    """Explained variance and joint error by number of components."""

    counts: IntArray  # (n,) numbers of components, rising
    explained: FloatArray  # (n,) share of the variance of the fitted clips
    mean_cm: FloatArray  # (n,) mean distance of a joint from where it was [cm]
    p95_cm: FloatArray  # (n,) 95th percentile of it
    max_cm: FloatArray  # (n,) maximum of it

    def count_for(self, *, explained: float | None = None, mean_cm: float | None = None) -> int:
        """Return the smallest number on the curve that reaches a share of the variance or a mean joint error.

        Raises:
            InputError: neither or both were asked for, or none on the curve reaches it.
        """
        if (explained is None) == (mean_cm is None):
            raise InputError("a number of components for what?", "Give explained or mean_cm")
        share, most_cm = explained or 0.0, np.inf if mean_cm is None else mean_cm
        enough = (self.explained >= share - 1e-12) & (self.mean_cm <= most_cm)
        if not enough.any():
            raise InputError("no number of components on this curve suffices", "Make the curve longer: counts=...")
        return int(self.counts[int(np.argmax(enough))])

    def table(self) -> str:
        """Return the curve as lines of text."""
        rows = zip(self.counts, self.explained, self.mean_cm, self.p95_cm, self.max_cm, strict=True)
        head = "components  explained %  mean cm  p95 cm  max cm"
        return "\n".join([head, *(f"{n:10d}  {100 * s:11.2f}  {a:7.2f}  {p:6.2f}  {m:6.2f}" for n, s, a, p, m in rows)])


def selection_curve(
    motions: Clips,
    *,
    settings: PCA | PGA | None = None,
    held_out: Clips | None = None,
    counts: Sequence[int] | None = None,
) -> SelectionCurve:
    """Fit models of several sizes and measure each.

    Args:
        motions: clips to fit on.
        settings: how to fit; linearised PGA by default. Its number of components is not used.
        held_out: clips to measure the joint error on; those of the fit by default.
        counts: numbers of components; one to thirty, or all there are, by default.
    """
    clips = as_clips(motions)
    judges = clips if held_out is None else as_clips(held_out)
    # The largest model there is, linearised: its components are those of all smaller ones
    whole = replace(settings or PGA(), n_components=None, explained=1.0)
    if isinstance(whole, PCA):
        whole = replace(whole, at_least=0, at_most=None)
    largest = replace(whole, method="linearised").fit(clips) if isinstance(whole, PGA) else whole.fit(clips)
    most = largest.num_components
    sizes = list(range(min(most, 1), min(most, MAX_COUNT) + 1))
    if counts is not None:
        sizes = sorted({min(int(count), most) for count in counts})
        if not sizes or sizes[0] < 0:
            raise InputError(f"counts are {list(counts)}", "Give numbers of components, one at least")
    # The largest model is cut; an exact one has to be fitted anew for each size
    if isinstance(whole, PGA) and whole.method != "linearised":
        models = [replace(whole, n_components=size).fit(clips) for size in sizes]
    else:
        models = [largest.truncate(size) for size in sizes]
    errors = [joint_error(model, judges) for model in models]
    return SelectionCurve(
        np.array(sizes, dtype=np.int64),
        np.array([float(model.explained.sum()) for model in models]),
        np.array([error.mean_cm for error in errors]),
        np.array([error.p95_cm for error in errors]),
        np.array([error.max_cm for error in errors]),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModeCounts(Result):
    """How many components each clip of a database needs for shares of its own variance ([Tournier2011]_ §8.2.1)."""

    names: tuple[str, ...]  # (n,) of the clips
    shares: tuple[float, ...]  # (s,) of the variance
    counts: IntArray  # (n, s)

    def table(self) -> str:
        """Return how many clips need at most 5, 10, ... components, as lines of text."""
        tops = np.arange(5, 5 * (int(self.counts.max(initial=0)) // 5) + 6, 5)
        below = 100.0 * (self.counts[None] <= tops[:, None, None]).mean(axis=1)
        rows = [
            f"{top:10d}" + "".join(f"{part:10.1f} %" for part in parts) for top, parts in zip(tops, below, strict=True)
        ]
        head = f"{'components':>10s}" + "".join(f"{100.0 * share:8.4g} % in" for share in self.shares)
        return "\n".join([head, *rows])


def count_modes(motions: Clips, *, shares: Sequence[float] = (0.95, 0.99), settings: PGA | None = None) -> ModeCounts:
    """Fit a model to each clip alone and count its components: the histogram of fig. 8.7 of [Tournier2011]_.

    Args:
        motions: the clips of a database; their skeletons may differ.
        shares: of the variance of each clip.
        settings: how to fit; linearised PGA by default.
    """
    clips = (motions,) if isinstance(motions, Motion) else tuple(motions)
    whole = replace(settings or PGA(), n_components=None, explained=1.0)
    counts = [[choose_count(whole.fit(clip).explained, None, share) for share in shares] for clip in clips]
    table = np.array(counts, dtype=np.int64).reshape(len(clips), len(shares))
    return ModeCounts(tuple(clip.name for clip in clips), tuple(shares), table)
