"""The shipped sketches by every engine: what was proved, how soon, and what the motion is worth.

``python benchmarks/study_sketches.py [NAME...] [--budget S] [--engines graph-1,graph-2,locomotion,spacetime]
[--graph FILE] [--strips FOLDER] [--random SEED] [--cpu]`` prints one row for each sketch and engine, on the shipped
graph by default, and the medians of the results. ``--random`` takes ten drawn at random instead: two with walls, picks,
jumps, rivers and stones each. ``--cpu`` counts processor time, for a machine that others use too. ``graph-1`` and
``graph-2`` are the graph with k = 1 and k = 2. An engine that refuses a sketch says why, below the table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from marey.base import MareyError
from marey.contacts import contact_phases
from marey.graph import MotionGraph, load_graph
from marey.picture import film_strip, save_image
from marey.pipeline import SynthesisResult, synthesize_sketch
from marey.samples import demo_graph, sketch_file, sketch_names
from marey.world import Event, GroundPose, River, Sketch, Stone, Thing, Wall, World, load_sketch
from marey.world import Path as GroundPath

EARLY_S = 5.0
ENGINES = ("graph-1", "graph-2", "locomotion", "spacetime")
HEAD = (
    f"{'sketch':20s} {'engine':11s} {'status':10s} {'first':>6s} {'5 s':>5s} {'eps':>5s} {'way':>5s} {'cost':>7s} "
    f"{'expand':>8s} {'took':>6s} {'motion':>6s} {'scrape':>6s} {'out':>5s} {'wet':>4s} {'under':>6s} {'hand':>6s} "
    f"{'goal':>5s} {'valid':>6s}"
)
UNITS = (
    f"{'':20s} {'':11s} {'':10s} {'s':>6s} {'':>5s} {'':>5s} {'':>5s} {'':>7s} {'':>8s} {'s':>6s} {'s':>6s} "
    f"{'mm/f':>6s} {'cm':>5s} {'mm':>4s} {'mm':>6s} {'mm':>6s} {'cm':>5s} {'%':>6s}"
)


@dataclass(frozen=True)
class Run:
    """One sketch by one engine."""

    sketch: str
    engine: str
    result: SynthesisResult | None
    took_s: float
    refusal: str = ""

    @property
    def first_s(self) -> float:
        """Time [s] to the first way; nan for engines that do not search."""
        search = None if self.result is None else self.result.search
        return search.history[0].seconds if search is not None and search.history else np.nan

    @property
    def early(self) -> float:
        """What was proved after 5 s; nan if nothing was."""
        search = None if self.result is None else self.result.search
        rows = () if search is None else search.history
        return min((row.proved for row in rows if row.seconds <= EARLY_S), default=np.nan)

    @property
    def epsilon(self) -> float:
        """What was proved; nan without a search."""
        search = None if self.result is None else self.result.search
        return search.epsilon if search is not None and search.is_solved else np.nan

    @property
    def holds(self) -> bool:
        """Whether the motion keeps all bars: no fault of the meter, 1 cm of corridor, dry, 5 mm of ground."""
        errors = None if self.result is None else self.result.errors
        if errors is None:
            return False
        near = max(errors.reaches_m, default=0.0) <= 0.001
        low = not (errors.things or errors.faults) and errors.penetration_mm <= 5.0
        return near and low and errors.off_corridor_m <= 0.01 and errors.wet_plants == 0

    def row(self) -> str:
        """A line of the table."""
        result = self.result
        if result is None or result.motion is None or result.errors is None:
            status = "REFUSED" if result is None else result.status
            return f"{self.sketch:20s} {self.engine:11s} {status:10s}"
        search, errors = result.search, result.errors
        cost, expansions = (np.nan, 0) if search is None else (search.cost, search.expansions)
        hand = 1000.0 * max(errors.reaches_m) if errors.reaches_m else np.nan
        valid = np.nan if result.validity is None else 100.0 * result.validity.valid_fraction
        return (
            f"{self.sketch:20s} {self.engine:11s} {result.status:10s} {self.first_s:6.2f} {self.early:5.2f} "
            f"{self.epsilon:5.2f} {result.way_m / errors.asked_m if errors.asked_m else np.nan:5.2f} "
            f"{cost:7.2f} {expansions:8d} {self.took_s:6.1f} {result.motion.duration_s:6.1f} "
            f"{100.0 * errors.scraped_m:6.1f} {100.0 * errors.off_corridor_m:5.1f} {errors.wet_mm:4.0f} "
            f"{errors.penetration_mm:6.2f} {hand:6.2f} "
            f"{100.0 * errors.goal_m:5.0f} {valid:6.1f}{'' if self.holds else '  <-'}"
        )


def random_sketches(seed: int) -> list[Sketch]:
    """Two sketches each with walls, things to pick up, jumps, rivers and stones, drawn at random."""
    rng, found = np.random.default_rng(seed), list[Sketch]()

    def near(value: float, spread: float) -> float:
        return float(value + rng.uniform(-spread, spread))

    for number in range(2):
        start, goal = GroundPose((0.0, 0.0), near(0.0, 20.0)), GroundPose((near(0.0, 1.0), near(8.0, 1.0)))
        walls = tuple(
            Wall((side * near(0.4, 0.2), z), (-side * 3.0, near(z, 0.3)))
            for side, z in ((1.0, near(2.6, 0.3)), (-1.0, near(5.4, 0.3)))
        )
        found.append(Sketch(start, goal, world=World(walls=walls), name=f"walls-{number}"))
        thing = Thing("ball", (near(0.0, 0.8), near(0.15, 0.05), near(3.5, 0.5)))
        found.append(
            Sketch(
                start,
                goal,
                events=(Event("pick", object="ball"),),
                world=World(objects=(thing,)),
                name=f"pick-{number}",
            )
        )
        jump = Event("jump", at=(near(0.0, 0.4), near(4.0, 0.5)), length_m=near(0.7, 0.2))
        found.append(Sketch(start, goal, events=(jump,), name=f"jump-{number}"))
        line = GroundPath(np.array([(0.0, 0.0), goal.position]))
        river = River((-3.0, near(4.0, 0.8)), (3.0, near(4.0, 0.8)), near(0.6, 0.25))
        found.append(Sketch(start, goal, line, corridor_m=1.2, world=World(rivers=(river,)), name=f"river-{number}"))
        middle = near(3.5, 0.3)
        wide = River((-3.0, middle), (3.0, middle), 2.4)
        stones = tuple(
            Stone((near((-1.0) ** n * 0.12, 0.04), near(middle - 0.9 + 0.6 * n, 0.03)), 0.3) for n in range(4)
        )
        ahead = GroundPose((0.0, 7.0))
        line = GroundPath(np.array([(0.0, 0.0), (0.0, 7.0)]))
        world = World(rivers=(wide,), stones=stones)
        found.append(
            Sketch(GroundPose((0.0, 0.0), 0.0), ahead, line, corridor_m=1.0, world=world, name=f"stones-{number}")
        )
    return found


def run_one(sketch: Sketch, engine: str, graph: MotionGraph, budget_s: float) -> Run:
    """Synthesise once; a refusal is an answer."""
    name, _, k = engine.partition("-")
    options = {"graph": graph, "k": int(k), "budget_s": budget_s} if name == "graph" else {}
    begin = time.perf_counter()
    try:
        result = synthesize_sketch(sketch, name, **options)
    except MareyError as error:
        return Run(sketch.name, engine, None, time.perf_counter() - begin, str(error))
    return Run(sketch.name, engine, result, time.perf_counter() - begin, result.advice)


def summary(runs: list[Run]) -> list[str]:
    """Medians of the search and how many motions keep the bars."""
    lines: list[str] = []
    for engine in dict.fromkeys(run.engine for run in runs):
        own = [run for run in runs if run.engine == engine]
        made = [run for run in own if run.result is not None and run.result.motion is not None]
        firsts, proved = [run.first_s for run in made], [run.epsilon for run in made]
        text = f"{engine}: {len(made)} of {len(own)} have a motion, {sum(run.holds for run in made)} keep all bars"
        if made and np.isfinite(firsts).any():
            text += f"; first way {np.nanmedian(firsts):.2f} s, eps {np.nanmedian(proved):.2f} (medians), "
            text += f"{sum(e <= 1.0 + 1e-9 for e in proved)} proved the best"
        elif made:
            text += f"; {median(run.took_s for run in made):.2f} s each (median)"
        lines.append(text)
    return lines


def same_walk(runs: list[Run]) -> list[str]:
    """A49: sketches that both the graph and the continuous engine walked, with their steps and times."""
    lines: list[str] = []
    made = {(run.sketch, run.engine): run for run in runs if run.result is not None and run.result.motion is not None}
    for (sketch, engine), run in made.items():
        other = made.get((sketch, "graph-1"))
        if engine != "spacetime" or other is None:
            continue
        own, theirs = _step_m(run), _step_m(other)
        lines.append(
            f"A49 {sketch}: steps {theirs:.2f} m by the graph, {own:.2f} m optimised ({abs(theirs / own - 1.0):.0%})"
            f"; first way {run.took_s / other.first_s:.0f}x sooner than the optimum of the other"
        )
    return lines


def _step_m(run: Run) -> float:
    """Median step [m] along the way, setting out and stopping apart."""
    assert run.result is not None and run.result.motion is not None
    stances = {id(plant): plant for phase in contact_phases(run.result.motion) for plant in phase.plants}
    places = np.array([plant.position[[0, 2]] for plant in stances.values()])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    return float(np.median(steps[2:-2] if len(steps) > 5 else steps))


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="sketches; all shipped ones by default")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of search")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--graph", help="graph file; the shipped clips' by default")
    parser.add_argument("--strips", help="folder for film strips")
    parser.add_argument("--random", type=int, metavar="SEED", help="ten sketches drawn at random")
    parser.add_argument("--cpu", action="store_true", help="count processor time instead of wall time")
    given = parser.parse_args()
    if given.cpu:
        time.perf_counter = time.process_time
    graph = demo_graph() if given.graph is None else load_graph(given.graph)
    warm = load_sketch(sketch_file("pick"))
    for engine in given.engines.split(","):
        run_one(warm, engine, graph, 0.2)
    runs: list[Run] = []
    print(HEAD, UNITS, sep="\n", flush=True)
    drawn = [] if given.random is None else random_sketches(given.random)
    shipped = [load_sketch(sketch_file(name)) for name in given.names or sketch_names()]
    for sketch in drawn or shipped:
        for engine in given.engines.split(","):
            runs.append(run_one(sketch, engine, graph, given.budget))
            print(runs[-1].row(), flush=True)
            motion = None if runs[-1].result is None else runs[-1].result.motion
            if given.strips is not None and motion is not None:
                Path(given.strips).mkdir(parents=True, exist_ok=True)
                save_image(film_strip(motion, count=14), Path(given.strips) / f"{sketch.name}-{engine}.png")
    print()
    print(*summary(runs), *same_walk(runs), sep="\n")
    for run in runs:
        if run.refusal:
            print(f"{run.sketch}, {run.engine}: {run.refusal}")


if __name__ == "__main__":
    main()
