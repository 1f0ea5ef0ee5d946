"""`marey optimize`: solve a space-time problem, or make a clip physically valid."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import load_clip, print_json, print_names, print_result, remark, write_motion
from marey.cli.options import Json, MotionOut, ReadOptions, Strip, Up, option

if TYPE_CHECKING:
    from marey.numerics import SQPIteration
    from marey.spacetime import RepairResult, SpacetimeProblem, SpacetimeResult
    from marey.world import World


DERIVATIVES = ("linear-time", "pinocchio", "finite-difference")
IterationListener = Callable[["SQPIteration"], bool]


def optimize(
    problem: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="Problem file (TOML), or the name of a shipped one.")
    ] = None,
    out: MotionOut = None,
    space: Annotated[
        str | None, option("full or reduced; the problem says by default.", choices=("full", "reduced"))
    ] = None,
    derivatives: Annotated[str, option(f"{', '.join(DERIVATIVES)}.", choices=DERIVATIVES)] = "linear-time",
    solver: Annotated[str, option("sl1qp or fang2003.", choices=("sl1qp", "fang2003"))] = "sl1qp",
    warm_start: Annotated[str | None, option("Motion to start from.", metavar="CLIP")] = None,
    time_limit_s: Annotated[float | None, option("Time limit; the best result is kept.", min=1e-3)] = None,
    source: Annotated[str | None, option("Clip to repair.", "--from", metavar="CLIP")] = None,
    make_valid: Annotated[bool, option("Repair the clip given by --from.", "--make-valid")] = False,
    start_s: Annotated[float | None, option("Repair from here on [s].")] = None,
    stop_s: Annotated[float | None, option("Repair up to here [s].")] = None,
    still: Annotated[list[str] | None, option("Style: keep a joint still; repeatable.", metavar="JOINT")] = None,
    pose: Annotated[
        list[str] | None, option("Style: draw a coordinate to a value; repeatable.", metavar="COORDINATE=RAD")
    ] = None,
    store: Annotated[
        str | None, option("Begin at the nearest motion kept there, and keep a better one.", metavar="FOLDER")
    ] = None,
    save: Annotated[str | None, option("Also write the problem.", metavar="TOML", suffixes=(".toml",))] = None,
    strip: Strip = None,
    names: Annotated[bool, option("List the shipped problems.", "--list")] = False,
    up: Up = None,
    json: Json = False,
) -> None:
    """Find a motion that a body could make.

    A problem file gives phases, contacts and keys. With --from CLIP --make-valid a clip is moved as little as needed.
    Ctrl-C stops the search and keeps the best motion found so far.
    """
    if names:
        from marey import samples

        print_names(samples.problem_names(), is_json=json)
        return
    if (problem is None) == (source is None):
        raise typer.BadParameter("give either a PROBLEM or --from CLIP --make-valid.")
    if source is not None and not make_valid:
        raise typer.BadParameter("--from needs --make-valid.")
    if problem is not None and (make_valid or start_s is not None or stop_s is not None):
        raise typer.BadParameter("--make-valid, --start-s and --stop-s go with --from CLIP.")
    if source is not None and (space or warm_start or still or pose or store or save):
        raise typer.BadParameter("--space, --warm-start, --still, --pose, --store and --save go with a PROBLEM.")
    if (still or pose) and (store or warm_start or space):
        raise typer.BadParameter("--still and --pose change the objective: leave out --store, --warm-start, --space.")
    result: SpacetimeResult | RepairResult
    world: World | None = None
    with _make_listener() as watch:
        # A clip is repaired; a problem is answered from a store, with styles, or plainly
        if source is not None:
            from marey.spacetime import make_valid as repair

            options: dict[str, Any] = {"start_s": start_s, "stop_s": stop_s, "time_limit_s": time_limit_s}
            result = repair(load_clip(source, ReadOptions(up=up)), on_iteration=watch, on_failure="return", **options)
        else:
            from marey.spacetime import build_surroundings, load_problem, optimize, optimize_styled, save_problem

            wanted = load_problem(str(problem))
            world = build_surroundings(wanted)
            if save is not None:
                save_problem(wanted, save)
                remark(f"wrote {save}")
            if store is not None:
                _answer_from_store(wanted, store, time_limit_s, out, is_json=json)
                return
            if still or pose:
                # Costs beyond validity, on the coordinates of the problem's character
                calm = still or []
                from marey.spacetime import build_character, build_pose_style, build_stillness_style

                # Styles are costs of coordinates, which only the character names
                tree = build_character(wanted)
                targets: dict[str, float] = {}
                for text in pose or []:
                    name, _, value = text.rpartition("=")
                    try:
                        targets[name] = float(value)
                    except ValueError:
                        raise typer.BadParameter(
                            f"'{text}' is no pose; write COORDINATE=RADIANS, such as knee=0.5."
                        ) from None
                found = [build_stillness_style(tree, calm)] if calm else []
                styles = found + ([build_pose_style(tree, targets)] if targets else [])
                result = optimize_styled(
                    wanted, styles=styles, time_limit_s=time_limit_s, on_iteration=watch, on_failure="return"
                )
            else:
                start = None if warm_start is None else load_clip(warm_start, ReadOptions(up=up))
                options = {"space": space, "derivatives": derivatives, "solver": solver, "time_limit_s": time_limit_s}
                result = optimize(wanted, warm_start=start, on_iteration=watch, on_failure="return", **options)
    write_motion(result.motion, out)
    if strip is not None:
        from marey.picture import compare_strips, save_image

        save_image(compare_strips([result.guess, result.motion], world=world), strip)
        remark(f"wrote {strip}")
    print_result({"problem": problem or source, "out": out, **result.to_json()}, result.sentence, is_json=json)
    if not result.is_solved:
        raise typer.Exit(1)


def _answer_from_store(
    problem: SpacetimeProblem, folder: str, time_limit_s: float | None, out: str | None, *, is_json: bool
) -> None:
    """Answer a problem from a folder of solved ones, refined within the time limit."""
    from math import isfinite

    from marey.spacetime import MotionStore

    store = MotionStore(folder)
    # The time limit is the time for improving what the store has
    answer = store.request(problem) if time_limit_s is None else store.request(problem, quota_s=time_limit_s)
    write_motion(answer.motion, out)
    entry = answer.entry
    facts = {
        "problem": problem.name,
        "out": out,
        "store": folder,
        "distance": answer.distance if isfinite(answer.distance) else None,
        "is_improved": answer.is_improved,
        "violation": entry.violation,
        "objective": entry.objective,
        "version": entry.version,
    }
    if is_json:
        print_json(facts)
        return
    began = "from nothing" if facts["distance"] is None else f"from an entry {answer.distance:.2f} away"
    kept = "kept" if answer.is_improved else "the entry stays"
    typer.echo(f"{problem.name}: {began}; violation {entry.violation:.1e}, objective {entry.objective:.4g}; {kept}")


@contextmanager
def _make_listener() -> Generator[IterationListener]:
    """A listener that shows each iteration on a terminal and says stop after Ctrl-C."""
    # Ctrl-C does not end the process: it is remembered until the next iteration
    stopped: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    is_shown = sys.stderr.isatty()

    def watch(step: SQPIteration) -> bool:
        if is_shown:
            text = f"iteration {step.index}  violation {step.violation:.1e}  objective {step.objective:.4g}"
            sys.stderr.write(f"\r{text:<72}")
            sys.stderr.flush()
        return bool(stopped)

    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)
        if is_shown:
            sys.stderr.write("\r" + " " * 72 + "\r")
