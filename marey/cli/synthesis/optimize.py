"""`marey optimize`: a problem file becomes a motion; or a clip becomes one that a body could make."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marey.cli.common import Json, check_targets, load_clip, print_json, remark, write_motion

if TYPE_CHECKING:
    from marey.numerics import SQPIteration
    from marey.spacetime import RepairResult, SpacetimeResult


IterationListener = Callable[["SQPIteration"], bool]


def optimize(
    problem: Annotated[
        str | None, typer.Argument(metavar="PROBLEM", help="Problem file (TOML), or the name of a shipped one.")
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", help="Motion file to write: .bvh, .glb, .gltf, ...")] = None,
    space: Annotated[str | None, typer.Option(help="full or reduced; the problem says by default.")] = None,
    derivatives: Annotated[str, typer.Option(help="linear-time, pinocchio or finite-difference.")] = "linear-time",
    solver: Annotated[str, typer.Option(help="sl1qp or fang2003.")] = "sl1qp",
    warm_start: Annotated[str | None, typer.Option(metavar="CLIP", help="Motion to start from.")] = None,
    time_limit_s: Annotated[float | None, typer.Option(min=1e-3, help="Time limit; the best result is kept.")] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="CLIP", help="Clip to repair.")] = None,
    make_valid: Annotated[bool, typer.Option("--make-valid", help="Repair the clip given by --from.")] = False,
    start_s: Annotated[float | None, typer.Option(help="Repair from here on [s].")] = None,
    stop_s: Annotated[float | None, typer.Option(help="Repair up to here [s].")] = None,
    strip: Annotated[str | None, typer.Option(metavar="PNG", help="Film strip of guess and result.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the shipped problems.")] = False,
    json: Json = False,
) -> None:
    """Find a motion that a body could make.

    A problem file gives phases, contacts and keys. With --from CLIP --make-valid a clip is moved as little as needed.
    Ctrl-C stops the search and keeps the best motion found so far.
    """
    if names:
        from marey import samples

        if json:
            print_json(list(samples.problem_names()))
        else:
            typer.echo("\n".join(samples.problem_names()))
        return
    is_stretch = start_s is not None or stop_s is not None
    if (problem is None) == (source is None):
        raise typer.BadParameter("give either a PROBLEM or --from CLIP --make-valid.")
    if source is not None and not make_valid:
        raise typer.BadParameter("--from needs --make-valid.")
    if problem is not None and (make_valid or is_stretch):
        raise typer.BadParameter("--make-valid, --start-s and --stop-s go with --from CLIP.")
    if source is not None and (space is not None or warm_start is not None):
        raise typer.BadParameter("--space and --warm-start go with a PROBLEM.")
    check_targets(out, strip)
    with _make_listener() as watch:
        if source is not None:
            result, label = _repair_clip(source, start_s, stop_s, time_limit_s, watch), source
        else:
            options = {"space": space, "derivatives": derivatives, "solver": solver, "time_limit_s": time_limit_s}
            result, label = _solve_problem(str(problem), warm_start, watch, options), str(problem)
    write_motion(result.motion, out)
    if strip is not None:
        from marey.picture import compare_strips, save_image

        save_image(compare_strips([result.guess, result.motion]), strip)
        remark(f"wrote {strip}")
    if json:
        print_json({"problem": label, "out": out, **result.to_json()})
    else:
        typer.echo(result.sentence)
    if not result.is_solved:
        raise typer.Exit(1)


def _solve_problem(
    problem: str, warm_start: str | None, watch: IterationListener, options: dict[str, Any]
) -> SpacetimeResult:
    from marey import samples
    from marey.spacetime import load_problem, optimize

    is_file = Path(problem).suffix == ".toml" or (problem not in samples.problem_names() and Path(problem).is_file())
    path = problem if is_file else samples.problem_file(problem)
    start = None if warm_start is None else load_clip(warm_start)
    return optimize(load_problem(path), warm_start=start, on_iteration=watch, on_failure="return", **options)


def _repair_clip(
    clip: str, start_s: float | None, stop_s: float | None, time_limit_s: float | None, watch: IterationListener
) -> RepairResult:
    from marey.spacetime import make_valid

    motion = load_clip(clip)
    return make_valid(
        motion, start_s=start_s, stop_s=stop_s, time_limit_s=time_limit_s, on_iteration=watch, on_failure="return"
    )


@contextmanager
def _make_listener() -> Generator[IterationListener]:
    """A listener that shows each iteration on a terminal and says stop after Ctrl-C."""
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
