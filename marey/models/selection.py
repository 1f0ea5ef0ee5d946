"""What a model is made of, and how good it is: clips for a behaviour, number of components, pictures of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from marey.base import FloatArray, InputError, IntArray, Result
from marey.contacts import contact_phases
from marey.lie import SO3
from marey.models.pca import PCA, choose_count
from marey.models.pga import PGA
from marey.models.pose_model import PoseModel
from marey.models.samples import Clips, as_clips
from marey.motion import Contacts, Motion, headings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


FEWEST = 3  # a space of one clip is too stiff: [Safonova2006]_ §3.3
POOL = 2  # [-] times as many near clips as asked for are looked at for variety


@dataclass(frozen=True, slots=True, eq=False)
class ClipFeatures:
    """Contact and direction features of a clip or of a request."""

    phases: tuple[str, ...]  # kinds of contact phases in time: ("double", "flight", "double")
    forward_m: float  # [m] from the first frame to the last, along the first facing
    left_m: float  # [m]
    turn_rad: float  # [rad] change of heading
    rise_m: float  # [m] how far the root rises above where it starts

    def vector(self) -> FloatArray:
        """Return the numbers that are compared ``(4,)``."""
        return np.array([self.forward_m, self.left_m, self.turn_rad, self.rise_m])


@dataclass(frozen=True, slots=True, eq=False)
class ClipChoice:
    """Clips chosen for a behaviour, the nearest first."""

    indices: tuple[int, ...]  # into the candidates
    is_relaxed: bool  # whether a double support had to be added to or dropped from the wanted contacts
    warning: str  # empty if all is well


def clip_features(motion: Motion) -> ClipFeatures:
    """Measure a clip: its contact phases, displacement in its first facing, turn and rise."""
    yaw = headings(motion)
    x, z = (motion.root_positions[-1] - motion.root_positions[0])[[0, 2]]
    s, c = np.sin(yaw[0]), np.cos(yaw[0])
    rise = float(motion.root_positions[:, 1].max() - motion.root_positions[0, 1])
    phases = tuple(phase.kind for phase in contact_phases(motion))
    return ClipFeatures(phases, float(s * x + c * z), float(c * x - s * z), float(yaw[-1] - yaw[0]), rise)


def choose_clips(candidates: Sequence[ClipFeatures], wanted: ClipFeatures, *, count: int = 10) -> ClipChoice:
    """Choose clips whose contacts contain those wanted, near in displacement and turn, yet different from one another.

    [Safonova2006]_ §3.3 uses contacts and the overall direction; distances are in deviations of the candidates.

    Raises:
        InputError: no candidate has this sequence of contacts, even with one double support more or less.
    """
    if count < 1:
        raise InputError(f"{count} clips to choose", "Ask for one at least")
    matching = [i for i, clip in enumerate(candidates) if _contains_phases(clip.phases, wanted.phases)]
    is_relaxed = not matching
    if is_relaxed:
        # The same contacts with one double support less, or one more
        phases = wanted.phases
        fewer = [phases[:i] + phases[i + 1 :] for i, kind in enumerate(phases) if kind == "double" and len(phases) > 1]
        more = [(*phases[:i], "double", *phases[i:]) for i in range(len(phases) + 1)]
        near = fewer + more
        matching = [i for i, clip in enumerate(candidates) if any(_contains_phases(clip.phases, p) for p in near)]
    if not matching:
        raise InputError(f"no clip has the contacts {'|'.join(wanted.phases)}", "Add clips of this behaviour")
    # The nearest, then of the near ones always that which is farthest from all chosen
    table = np.array([candidates[i].vector() for i in matching])
    scale = np.maximum(table.std(axis=0), 1e-3)
    away = np.linalg.norm((table - wanted.vector()) / scale, axis=1)
    pool: list[int] = np.argsort(away, kind="stable")[: POOL * count].tolist()
    chosen = [pool.pop(0)]
    while pool and len(chosen) < count:
        gaps = [min(float(np.linalg.norm((table[i] - table[j]) / scale)) for j in chosen) for i in pool]
        chosen.append(pool.pop(int(np.argmax(gaps))))
    chosen = tuple(matching[i] for i in sorted(chosen, key=lambda i: away[i]))
    warning = "" if len(chosen) >= FEWEST else f"a behaviour of {len(chosen)} clips may give unnatural motions"
    return ClipChoice(chosen, is_relaxed, warning)


def _contains_phases(phases: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    size = len(wanted)
    return any(phases[i : i + size] == wanted for i in range(len(phases) - size + 1))


Drawing = TypeVar("Drawing")

BAR, LINE, FAR = "#9fb6cd", "#2d5d8c", "#d08232"  # shares, their sum, the worst joint
DPI = 150


def plot_explained(model: PoseModel) -> Figure:
    """Share of the variance of each component, and their sum [%]."""
    figure, (axis,) = _axes(1)
    numbers = np.arange(1, model.num_components + 1)
    axis.bar(numbers, 100.0 * model.explained, color=BAR, label="each")
    axis.plot(numbers, 100.0 * np.cumsum(model.explained), color=LINE, marker="o", markersize=3, label="together")
    axis.set_ylim(0.0, 105.0)
    _describe(axis, "components", "explained variance [%]")
    return figure


def plot_selection(curve: SelectionCurve) -> Figure:
    """Explained variance [%] and joint error [cm] against the number of components."""
    figure, (upper, lower) = _axes(2)
    upper.plot(curve.counts, 100.0 * curve.explained, color=LINE, marker="o", markersize=3, label="together")
    _describe(upper, "", "explained variance [%]")
    for values, name, colour in (
        (curve.mean_cm, "mean", LINE),
        (curve.p95_cm, "95 %", BAR),
        (curve.max_cm, "max", FAR),
    ):
        lower.plot(curve.counts, values, color=colour, marker="o", markersize=3, label=name)
    lower.set_yscale("log")
    _describe(lower, "components", "joint error [cm]")
    return figure


def plot_mode_counts(found: ModeCounts) -> Figure:
    """Histogram of the number of components that the clips of a database need: fig. 8.7 of [Tournier2011]_."""
    figure, axes = _axes(len(found.shares))
    bins = np.arange(0.5, max(int(found.counts.max(initial=1)), 1) + 1.0)
    for axis, share, counts in zip(axes, found.shares, found.counts.T, strict=True):
        axis.hist(counts, bins=bins, color=BAR, label=f"{100.0 * share:g} % of the variance")
        axis.axvline(float(np.median(counts)), color=LINE, label=f"median {np.median(counts):g}")
        _describe(axis, "components", "clips")
    return figure


def mode_motion(model: PoseModel, component: int, *, reach: float = 2.0, count: int = 5) -> Motion:
    """A clip that goes along one component, from ``-reach`` to ``+reach`` deviations through the mean.

    Args:
        model: any pose model.
        component: which, from zero.
        reach: in standard deviations of the coordinate.
        count: how many frames, one second apart.
    """
    if not 0 <= component < model.num_components:
        raise InputError(f"component {component} of a model of {model.num_components}", "Count from zero")
    if count < 1:
        raise InputError(f"{count} poses of a component", "Ask for one at least")
    # One coordinate moves, the others stay at the mean
    x = np.zeros((count, model.num_components))
    x[:, component] = np.linspace(-reach, reach, count) * model.deviations[component]
    moved = model.decode(x, rate_hz=1.0)
    share = 100.0 * float(model.explained[component])
    name = f"component {component + 1}: {share:.1f} %, -{reach:g} to +{reach:g} deviations"
    nothing = Contacts((), np.zeros((moved.num_frames, 0), dtype=np.bool_))  # a component touches no ground
    return replace(moved, contacts=nothing, name=name)


def mode_strips(
    model: PoseModel, draw: Callable[[Motion], Drawing], *, components: int = 4, reach: float = 2.0, count: int = 5
) -> list[Drawing]:
    """Draw the first components, one film strip each.

    Args:
        model: any pose model.
        draw: what makes a picture of a clip: ``lambda m: marey.film_strip(m, layout="grid", instants="time")``.
        components: how many, or all there are.
        reach: in standard deviations.
        count: poses on a strip.
    """
    shown = range(min(components, model.num_components))
    return [draw(mode_motion(model, i, reach=reach, count=count)) for i in shown]


def _axes(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7.0, 0.6 + 2.6 * count), dpi=DPI, layout="constrained")
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def _describe(axis: Any, xlabel: str, ylabel: str) -> None:
    axis.set_xlabel(xlabel, fontsize=9)
    axis.set_ylabel(ylabel, fontsize=9)
    axis.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False)
