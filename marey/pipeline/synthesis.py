"""One sketch becomes one motion."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from marey.base import InputError, Result, UnknownNameError, check_frame_count
from marey.contacts import contact_phases, hold_feet
from marey.motion import resample
from marey.pipeline.cleaning import SketchRepair, measure_reaches, repair_motion
from marey.pipeline.measures import SketchCheck, check_motion
from marey.pipeline.spacetime_engine import solve_sketch
from marey.world import Sketch

if TYPE_CHECKING:
    from marey.dynamics import ValidityReport
    from marey.graph import MotionGraph, SearchResult, SearchSolution
    from marey.locomotion import LocomotionModel
    from marey.motion import Motion


OnMotion = Callable[["Motion", "SearchSolution"], None]
ENGINES: Final = ("auto", "graph", "locomotion", "spacetime")
SOLVED: Final = "SOLVED"  # of an engine that proves nothing
RATE_HZ: Final = 60.0
MIN_FRAMES: Final = 3  # of a motion whose physics can be checked
BUDGET_S: Final = 10.0  # [s] of search
WORTH_SHOWING: Final = 0.97  # [-] of the cost of the motion shown last, below which a better one is rebuilt and shown
USUAL_MPS: Final = 1.2  # [m/s] of a walk whose speed nobody asked for
MAX_MADE_FRAMES: Final = 500_000  # over two hours at 60 Hz
LOCOMOTION_OPTIONS: Final = ("speed_mps", "run", "style", "leg_length_m")  # that "auto" leaves out for other engines
GRAPH_OPTIONS: Final = (
    "on_solution", "cancel", "heuristic", "pick_tolerance_m", "few", "until", "fallback", "calm", "method", "settings",
    "max_states", "objective",
)  # fmt: skip
MAX_WARP: Final = 1.2  # [-] by which a motion of a graph is played faster or slower for the speed of a sketch
LEAST_VALID: Final = 0.9  # [-] of the frames: fewer are told
LEVEL_TOLERANCE_M: Final = 0.02  # [m] a stone no higher than this is level ground
COLD_EXPANSIONS: Final = 1000  # a search that ran out of time with fewer had no time to search


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SynthesisResult(Result):
    """A motion for a sketch with its report, or the reason why there is none."""

    status: str  # "OPTIMAL", "BOUNDED", "SOLVED", or a code: why there is no motion
    engine: str  # "graph", "locomotion" or "spacetime"
    motion: Motion | None
    errors: SketchCheck | None  # measured on the motion
    validity: ValidityReport | None
    seconds: float  # [s] that it took
    advice: str = ""
    search: SearchResult | None = None
    touched: SketchRepair | None = None  # what the physics touch-up did, if it was asked for
    refusals: tuple[str, ...] = ()  # engines that were tried before, and why they have no motion

    @property
    def broken(self) -> tuple[str, ...]:
        """Constraints of the sketch that the motion does not keep."""
        return () if self.errors is None else self.errors.broken

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was not asked for, and what physics says where it is not fine; one sentence each."""
        found = () if self.errors is None else self.errors.remarks
        if self.validity is not None and self.validity.valid_fraction < LEAST_VALID:
            share, worst = (
                f"{100.0 * self.validity.valid_fraction:.0f} % of the frames are valid",
                self.validity.worst_span,
            )
            found = (*found, share if worst is None else f"{share}; {worst.words}")
        warps = np.abs([step.warp for step in self.search.steps if step.is_warped]) if self.search else np.zeros(0)
        if len(warps):
            turn, way = np.degrees(warps[:, 2].max()), 100.0 * np.hypot(*warps[:, :2].T).max()
            found = (
                f"captured steps found no way: {len(warps)} are warped, by {turn:.0f}° and {way:.0f} cm at most",
                *found,
            )
        return (*self.refusals, *found)

    @property
    def is_solved(self) -> bool:
        """Whether there is a motion."""
        return self.motion is not None

    @property
    def way_m(self) -> float:
        """Way of the root over the ground [m]; 0 without a motion."""
        return 0.0 if self.errors is None else self.errors.way_m

    def to_json(self) -> dict[str, Any]:
        """Facts for a report."""
        facts: dict[str, Any] = {
            "status": self.status, "engine": self.engine, "took_s": round(self.seconds, 3), "advice": self.advice,
        }  # fmt: skip
        if self.motion is not None and self.errors is not None:
            facts |= {"seconds": round(self.motion.duration_s, 3), "frames": self.motion.num_frames}
            facts |= {"rate_hz": self.motion.rate_hz, "way_m": round(self.way_m, 3)}
            facts |= {"off_path_m": round(self.errors.off_path_m, 4), "errors": self.errors.to_json()}
            facts |= {"broken": list(self.broken), "remarks": list(self.remarks)}
        if self.validity is not None:
            facts["validity"] = {
                "colour": self.validity.colour, "valid_fraction": round(self.validity.valid_fraction, 4),
                "red_fraction": round(self.validity.red_fraction, 4),
            }  # fmt: skip
        if self.touched is not None:
            facts["touch_up"] = self.touched.to_json()
        if self.search is not None:
            search = self.search
            if search.is_solved:
                # JSON has no infinity
                proved = round(search.epsilon, 4) if np.isfinite(search.epsilon) else None
                facts |= {"cost": round(search.cost, 6), "epsilon": proved}
            history = [
                {"epsilon": s.epsilon, "cost": round(s.cost, 6), "expansions": s.expansions,
                 "seconds": round(s.seconds, 4)}
                for s in search.history
            ]  # fmt: skip
            facts |= {"expansions": search.expansions, "search_s": round(search.seconds, 4), "history": history}
        return facts

    @property
    def sentence(self) -> str:
        """The same, for people."""
        if self.motion is None or self.errors is None:
            return f"no motion: {self.status}. {self.advice}"
        text = f"{self.motion.duration_s:.1f} s of motion over {self.way_m:.1f} m ({self.engine}, {self.status})"
        text += f", {self.errors.asked_m:.1f} m asked for" if self.errors.asked_m > 0.0 else ""
        if self.errors.reaches_m:
            text += f"; hands within {1000.0 * max(self.errors.reaches_m):.1f} mm of their things"
        if self.errors.off_path_m > 0.0:
            text += f"; the root stays within {100.0 * self.errors.off_path_m:.0f} cm of the path"
            text += f" ({self.errors.off_corridor_m * 100.0:.0f} cm outside the corridor)"
        text += f"; feet scrape {100.0 * self.errors.scraped_m:.0f} cm in all"
        if self.touched is not None:
            return f"{text}; {self.touched.sentence}"
        return text if self.validity is None else f"{text}; {self.validity.valid_fraction:.0%} of it valid"


def choose_engine(sketch: Sketch, graph: Any = None) -> str:
    """The engine that "auto" takes: locomotion where nothing needs captured clips and no graph is given."""
    of_clips = any(event.kind in ("pick", "place", "custom") for event in sketch.events)
    return "graph" if of_clips or graph is not None or sketch.world.stones else "locomotion"


def synthesize_sketch(
    sketch: Sketch,
    engine: str = "auto",
    *,
    graph: MotionGraph | str | os.PathLike[str] | None = None,
    model: LocomotionModel | None = None,
    rate_hz: float = RATE_HZ,
    k: int | None = None,
    epsilon: Sequence[float] | None = None,
    budget_s: float | None = None,
    refine: bool = True,
    check: bool = True,
    touch_up: bool = False,
    on_motion: OnMotion | None = None,
    **options: Any,
) -> SynthesisResult:
    """Make the motion that a sketch asks for.

    Args:
        sketch: start, goal, path, events, world.
        engine: "graph" searches a motion graph, "locomotion" walks, "spacetime" optimises a straight walk or one jump;
            "auto" is :func:`choose_engine`.
        graph: a motion graph or its file; that of the shipped clips by default.
        model: of the locomotion engine; the shipped one by default.
        rate_hz: frames per second of the motion.
        k: motions that the graph may blend, 1 or 2.
        epsilon: schedule of the search, falling; down to the best by default.
        budget_s: time for the search of the graph, by default 10 s, or for the optimisation, 120 s.
        refine: bring hands to what they pick up, to a millimetre.
        check: attach the validity report of physics.
        touch_up: move red stretches as little as needed so that a body could make them, where that keeps to the sketch.
        on_motion: called with the first motion of a search and every one that is clearly cheaper, while it goes on;
            they are neither checked nor touched up, and the first is not refined.
        options: of the engine: ``on_solution``, ``cancel``, ``heuristic``, ``pick_tolerance_m``, ``objective`` of the
            graph, which no other engine has: "auto" then is "graph"; ``speed_mps``, ``style``, ``leg_length_m`` of
            locomotion.

    Raises:
        UnknownNameError: there is no such engine.
        InputError: the engine cannot do what the sketch asks for, or an option makes no sense.
    """
    begin = time.perf_counter()
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, "marey.synthesize", ENGINES)
    if not (np.isfinite(rate_hz) and rate_hz > 0.0):
        raise InputError(f"rate_hz is {rate_hz}", "Give a positive number of frames per second")
    # A slip in rate or speed must not keep a computer busy for days
    speed = options.get("speed_mps") or sketch.speed_mps
    if speed is not None and not (np.isfinite(speed) and speed > 0.0):
        raise InputError(f"speed_mps is {speed}", "Give a positive number of metres per second")
    way_m = float(np.linalg.norm(np.subtract(sketch.goal.position, sketch.start.position)))
    pace = f"a speed of {speed:g} m/s at {rate_hz:g} Hz" if speed else f"a rate of {rate_hz:g} Hz"
    check_frame_count(way_m / (speed or USUAL_MPS) * rate_hz, pace, MAX_MADE_FRAMES)
    high = next((stone for stone in sketch.world.stones if abs(stone.height_m) > LEVEL_TOLERANCE_M), None)
    if high is not None:
        x, z = high.position
        raise InputError(
            f"the stone at ({x:.2f}, {z:.2f}) is {high.height_m:.2f} m over the ground, and engines know level ground",
            "Set its height_m to 0; `marey optimize` has runs over high stones",
        )
    given = {"k": k, "epsilon": epsilon, "budget_s": budget_s} | options
    run = _SketchRun(sketch, graph, model, rate_hz, refine, check, touch_up, on_motion, begin)
    if engine != "auto" or options.get("objective"):
        return run.make("graph" if engine == "auto" else engine, given)
    # Whoever can: the first motion that keeps all constraints and does not dawdle, else the one that breaks fewest.
    # Whoever asks for a walker or a style of their own gets it, however slowly it comes to its river
    first = choose_engine(sketch, graph)
    is_own_walker = model is not None or any(given.get(name) is not None for name in LOCOMOTION_OPTIONS)
    refusals: list[str] = []
    best: SynthesisResult | None = None
    least = (np.inf, np.inf)
    failed: SynthesisResult | None = None
    errors: list[InputError] = []
    for chosen in (first, *(name for name in ("locomotion", "graph", "spacetime") if name != first)):
        if best is not None and chosen == "spacetime":
            break  # it takes minutes, and rarely does what others cannot
        foreign = LOCOMOTION_OPTIONS if chosen != "locomotion" else GRAPH_OPTIONS
        own = {name: value for name, value in given.items() if name not in foreign}
        own = {name: value for name, value in own.items() if chosen != "spacetime" or name == "budget_s"}
        try:
            made = run.make(chosen, own)
        except InputError as error:
            errors.append(error)
            refusals.append(f"{chosen}: {error.what}")
            continue
        if made.motion is None:
            failed = failed or made
            refusals.append(f"{chosen}: {made.status}")
            continue
        made = replace(made, refusals=tuple(refusals))
        assert made.errors is not None
        slow_s = 0.0 if is_own_walker else made.errors.slow_s
        if (len(made.broken), slow_s) < least:
            best, least = made, (len(made.broken), slow_s)
        if not made.broken and slow_s == 0.0:
            break
        refusals.append(f"{chosen}: {made.broken[0] if made.broken else f'walks slowly for {slow_s:.1f} s'}")
    if best is not None:
        return best
    if failed is not None:
        return replace(failed, refusals=tuple(refusals), advice=f"{failed.advice} Tried: {'; '.join(refusals)}.")
    raise InputError(errors[0].what, f"{errors[0].fix.rstrip('.')}. Tried: {'; '.join(refusals)}") from errors[0]


@dataclass(frozen=True, slots=True, eq=False)
class _SketchRun:
    """One sketch, for any engine."""

    sketch: Sketch
    graph: MotionGraph | str | os.PathLike[str] | None
    model: LocomotionModel | None
    rate_hz: float
    refine: bool
    check: bool
    touch_up: bool
    on_motion: OnMotion | None
    begin: float

    def make(self, chosen: str, options: dict[str, Any]) -> SynthesisResult:
        """The motion of one engine, measured, or the reason why there is none."""
        sketch = self.sketch
        refuse_requests(sketch, chosen)
        if chosen == "locomotion":
            from marey.locomotion import walk_sketch

            own = {name: value for name, value in options.items() if name not in ("k", "epsilon", "budget_s")}
            walked = walk_sketch(sketch, self.model, rate_hz=self.rate_hz, **own).motion
            # The engine smooths its plants on line; the whole clip is known here, so that feet can be held exactly
            made = _EngineOutput(SOLVED, chosen, hold_feet(walked).motion)
        elif chosen == "spacetime":
            from marey.locomotion import trim_sliding_contacts

            unknown = [
                name for name, v in options.items() if v is not None and name not in ("budget_s", "k", "epsilon")
            ]
            if unknown:
                raise InputError(f"the space-time engine has no option '{unknown[0]}'", "It takes budget_s")
            motion, found = solve_sketch(sketch, rate_hz=self.rate_hz, limit_s=options.get("budget_s"))
            if not found.is_solved:
                made = _EngineOutput(found.status.name, "spacetime", None, advice=found.advice)
            else:
                made = _EngineOutput(SOLVED, "spacetime", replace(motion, contacts=trim_sliding_contacts(motion)))
        else:
            given = {name: value for name, value in options.items() if value is not None}
            made = self._search_graph(given)
        # No motion: the reason and what would help
        motion, reaches, report, touched = made.motion, made.reaches_m, None, None
        if motion is None:
            took = time.perf_counter() - self.begin
            return SynthesisResult(made.status, made.engine, None, None, None, took, made.advice, made.search)
        # Red stretches moved; hands are measured again where they are then
        if self.touch_up and motion.num_frames >= MIN_FRAMES:
            touched = repair_motion(motion, sketch)
            motion, reaches = touched.motion, tuple(measure_reaches(touched.motion, sketch))
        # Measured on the motion itself, whatever the engine says of it
        motion = replace(motion, name=sketch.name)
        errors = check_motion(motion, sketch, reaches_m=reaches)
        if self.check and motion.num_frames >= MIN_FRAMES:
            from marey.dynamics import check_validity

            report = check_validity(motion)
        took = time.perf_counter() - self.begin
        return SynthesisResult(made.status, made.engine, motion, errors, report, took, "", made.search, touched)

    def _search_graph(self, options: dict[str, Any]) -> _EngineOutput:
        from marey.graph import load_graph, rebuild_for_sketch

        sketch, rate_hz, graph = self.sketch, self.rate_hz, self.graph
        # The shipped graph, a file, or one in memory
        if graph is None:
            from marey.samples import demo_graph

            graph = demo_graph()
        elif isinstance(graph, str | os.PathLike):
            graph = load_graph(graph)
        own_listener, on_motion, shown = options.get("on_solution"), self.on_motion, np.inf

        def rebuild(found: SearchResult, *, refine: bool = self.refine) -> tuple[Motion, tuple[float, ...]]:
            motion, reaches = rebuild_for_sketch(graph, found, sketch, rate_hz=rate_hz, refine=refine)
            # Played a little faster or slower where the sketch has a speed and nothing falls freely
            if sketch.speed_mps is not None and not any(phase.kind == "flight" for phase in contact_phases(motion)):
                own = check_motion(motion, sketch, reaches_m=reaches).speed_mps
                factor = float(np.clip(sketch.speed_mps / max(own, 1e-6), 1.0 / MAX_WARP, MAX_WARP))
                motion = replace(resample(motion, rate_hz / factor), rate_hz=rate_hz)
            return motion, reaches

        def show(found: SearchSolution) -> bool | None:
            nonlocal shown
            if on_motion is not None and found.result is not None and found.cost < WORTH_SHOWING * shown:
                # The first at once: neither balanced nor with hands brought to what they pick up
                made = rebuild(found.result, refine=self.refine and np.isfinite(shown))[0]
                shown = found.cost
                on_motion(replace(made, name=sketch.name), found)
            return own_listener is not None and own_listener(found)

        given = {"budget_s": BUDGET_S} | options | ({} if on_motion is None else {"on_solution": show})
        search = graph.search(sketch, **given)
        # Once more if the time went by while kernels were being compiled, which happens once on a machine
        if search.stopped == "TIMEOUT" and not search.is_solved and search.expansions <= COLD_EXPANSIONS:
            search = graph.search(sketch, **given)
        if not search.is_solved:
            return _EngineOutput(search.status, "graph", None, advice=search.advice, search=search)
        return _EngineOutput(search.status, "graph", *rebuild(search), search=search)


def refuse_requests(sketch: Sketch, engine: str) -> None:
    """Refuse what an engine would leave out without a word.

    Raises:
        InputError: the sketch has bars, key poses, or custom events for another engine than the graph.
    """
    custom = next((event for event in sketch.events if event.kind == "custom"), None)
    if custom is not None and engine != "graph":
        what = f"a custom event '{custom.name}', and the {engine} engine has none"
        raise InputError(what, "Use --engine graph with a graph that was built with that kind registered")
    if sketch.world.bars:
        raise InputError(f"a bar, and the {engine} engine holds on to nothing", "Remove it, or use `marey optimize`")
    if sketch.key_poses:
        fix = "Remove them; `marey between` and `marey optimize` go through poses of clips"
        raise InputError(f"key poses, and the {engine} engine goes through none", fix)


@dataclass(frozen=True, slots=True, eq=False)
class _EngineOutput:
    """What an engine made."""

    status: str
    engine: str
    motion: Motion | None
    reaches_m: tuple[float, ...] = ()
    advice: str = ""
    search: SearchResult | None = None


def synthesize(sketch: Sketch, engine: str = "auto", **options: Any) -> Motion:
    """The motion that a sketch asks for.

    Args:
        sketch: from :meth:`marey.Sketch.load`, or made by hand.
        engine: "auto", "graph", "locomotion" or "spacetime".
        options: see :func:`marey.pipeline.synthesize_sketch`, which also returns a report.

    Raises:
        InputError: there is no such motion; the message has the reason and what would help.
        UnknownNameError: there is no such engine.
    """
    result = synthesize_sketch(sketch, engine, check=False, **options)
    if result.motion is None:
        raise InputError(f"no motion for '{sketch.name}': {result.status}", result.advice)
    return result.motion
