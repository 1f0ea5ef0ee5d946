"""The Physics tab: validity, ground forces, repair of an interval, optimised jumps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import viser
from viser import uplot

from marey.base import InputError
from marey.dynamics import ValidityReport, check_validity
from marey.numerics import SQPIteration
from marey.studio.document.jobs import OptimisationJob, OptimisationListener, SearchOutcome
from marey.studio.document.page import PageDocument
from marey.studio.view.widgets import VALID

if TYPE_CHECKING:
    from marey.studio.server.session import Session


PLOT_POINTS = 400
LISTED = 4  # intervals described in text
SHORT_S = 0.05  # shorter ones are seen in the bar only
REPAIR_MARGIN_S = 0.4  # [s] around a stretch, in which a repair can join the clip
TIME_LIMIT_S = 60.0  # of a repair or a jump; the best so far is kept
EMPTY = tuple(np.zeros(2) for _ in range(4))  # a plot of nothing: time and three curves
LENGTH_M, RISE_M, TURN_DEG = (0.3, 1.8), (0.1, 0.5), (-360.0, 360.0)


class PhysicsPanel:
    """Commands and widgets of the Physics tab; the session's worker runs what is short, a task what is long."""

    def __init__(self, gui: viser.GuiApi, session: Session) -> None:
        self._session = session
        self._shown: ValidityReport | None = None
        self._progress = "Nothing runs."
        self._check = gui.add_button("Check this clip", icon=viser.Icon.SCALE)
        self._verdict = gui.add_html(verdict_html(None))
        self._forces = _plot(gui, "Force [body weights]", ("up", "ahead", "aside"))
        self._momentum = _plot(gui, "Angular momentum [kg m²/s]", ("x", "y", "z"))
        with gui.add_folder("Repair"):
            self._from = gui.add_number("From [s]", 0.0, min=0.0, max=3600.0, step=0.05)
            self._to = gui.add_number("To [s]", 0.0, min=0.0, max=3600.0, step=0.05)
            self._worst = gui.add_button("Take the worst stretch")
            self._repair = gui.add_button("Repair this stretch", icon=viser.Icon.BANDAGE)
        with gui.add_folder("Jump"):
            self._length = gui.add_slider("Length [m]", *LENGTH_M, 0.05, 1.0)
            self._rise = gui.add_slider("Rise [m]", *RISE_M, 0.01, 0.25)
            self._turn = gui.add_slider("Turn [°]", *TURN_DEG, 15.0, 0.0)
            self._jump = gui.add_button("Make this jump", icon=viser.Icon.JUMP_ROPE)
        self._stop = gui.add_button("Stop, keep the best", icon=viser.Icon.HAND_STOP, disabled=True)
        self._state = gui.add_html("")
        self._connect()
        if session.document.task is not None:  # the page was loaded again
            self._progress = f"{session.document.task.what}: going on"
            session.document.task.listen(self._listener(session.document.task.what, session.document.task.label))

    def refresh(self, document: PageDocument) -> None:
        """Show the report of the clip that is open, and how far the task is."""
        busy = document.task is not None and document.task.is_running
        self._stop.disabled = not busy
        self._repair.disabled = self._jump.disabled = busy
        self._state.content = f'<div data-testid="task" style="padding:0 0.8em">{escape(self._progress)}</div>'
        if document.report is not self._shown:
            self._shown = document.report
            self._verdict.content = verdict_html(document.report)
            _fill_plot(self._forces, document.report, "force")
            _fill_plot(self._momentum, document.report, "momentum")

    def close(self) -> None:
        """Leave what still runs to the next page of this document."""
        if self._session.document.task is not None:
            self._session.document.task.listen(None)

    def _connect(self) -> None:
        self._check.on_click(self._later("check", self._check_clip))
        self._worst.on_click(self._later("worst", self._take_worst))
        self._repair.on_click(self._later("repair", self._start_repair))
        self._jump.on_click(self._later("jump", self._start_jump))
        self._stop.on_click(self._later("stop", self._stop_task))

    def _later(self, key: str, job: Callable[[], None]) -> Callable[[Any], None]:
        """A handler that leaves the job with the worker; our own assignments come without a client."""
        return lambda event: self._post(key, job) if event.client is not None else None

    def _post(self, key: str, job: Callable[[], None]) -> None:
        self._session.post(f"physics {key}", job)

    def _check_clip(self) -> None:
        document = self._session.document
        if document.film is None:
            raise InputError("no clip is open", "Open one first")
        document.report = check_validity(document.film.motion)

    def _take_worst(self) -> None:
        report = self._session.document.report
        if report is None:
            raise InputError("the clip was not checked", "Press 'Check this clip' first")
        bad = [span for span in report.spans if span.status != "green"]
        if not bad:
            raise InputError("every interval is green", "There is nothing to repair")
        worst, last = max(bad, key=lambda span: span.violation), float(report.times[-1])
        begin, end = max(worst.start_s - REPAIR_MARGIN_S, 0.0), min(worst.stop_s + REPAIR_MARGIN_S, last)
        self._from.value, self._to.value = round(begin, 2), round(end, 2)

    def _start_repair(self) -> None:
        from marey.spacetime import make_valid

        film = self._session.document.film
        if film is None:
            raise InputError("no clip is open", "Open one first")
        start, stop = float(self._from.value), float(self._to.value)
        if not 0.0 <= start < stop:
            raise InputError(f"a stretch from {start:g} s to {stop:g} s", "Choose an end after the beginning")
        solve = partial(
            make_valid, film.motion, start_s=start, stop_s=stop, time_limit_s=TIME_LIMIT_S, on_failure="return"
        )
        self._start("repair", f"{self._session.document.label}, repaired", solve)

    def _start_jump(self) -> None:
        from marey.samples import jump_problem
        from marey.spacetime import optimize

        length, rise, turn = (
            _clamp_value(float(slider.value), bounds)
            for slider, bounds in ((self._length, LENGTH_M), (self._rise, RISE_M), (self._turn, TURN_DEG))
        )
        problem = jump_problem(length_m=length, rise_m=rise, turn_deg=turn)
        solve = partial(optimize, problem, time_limit_s=TIME_LIMIT_S, on_failure="return")
        self._start("jump", f"jump {length:g} m {turn:g}°", solve)

    def _start(self, what: str, label: str, solve: Callable[..., SearchOutcome]) -> None:
        document = self._session.document
        if document.task is not None:
            raise InputError("something is being solved already", "Stop it, or wait")
        self._progress = f"{what}: starting"

        def run(listen: Callable[[SQPIteration], bool]) -> SearchOutcome:
            return solve(on_iteration=listen)

        document.task = OptimisationJob(run, self._listener(what, label), what=what, label=label)

    def _listener(self, what: str, label: str) -> OptimisationListener:
        """Notes for the worker of this page."""
        return OptimisationListener(
            on_step=lambda step: self._post("step", partial(self._tell, what, step)),
            on_end=lambda result: self._post("end", partial(self._end, label, result)),
            on_error=lambda error: self._post("end", partial(self._fail, error)),
        )

    def _stop_task(self) -> None:
        if self._session.document.task is not None:
            self._session.document.task.stop()

    def _tell(self, what: str, step: SQPIteration) -> None:
        self._progress = (
            f"{what}: iteration {step.index}, violation {step.violation:.1e}, objective {step.objective:.3g}"
        )

    def _end(self, label: str, result: SearchOutcome) -> None:
        self._session.document.task = None
        self._progress = result.sentence
        self._session.open_motion(label, result.motion)
        self._check_clip()

    def _fail(self, error: Exception) -> None:
        self._session.document.task = None
        self._progress = "It failed; see the message."
        self._session.report(error)


def verdict_html(report: ValidityReport | None) -> str:
    """Result of the check, with the first intervals that are not green."""
    if report is None:
        return '<div data-testid="validity" style="padding:0 0.8em">Not checked.</div>'
    rows = [f'<div style="color:{VALID[report.colour]}">{escape(report.verdict)}</div>']
    bad = [span for span in report.spans if span.status != "green" and span.stop_s - span.start_s >= SHORT_S]
    rows += [
        f'<div style="opacity:0.8">{span.start_s:.2f} to {span.stop_s:.2f} s: {escape(span.words)}</div>'
        for span in bad[:LISTED]
    ]
    rows += [f'<div style="opacity:0.65">{len(bad) - LISTED} more</div>'] if len(bad) > LISTED else []
    return (
        f'<div data-testid="validity" style="padding:0.2em 0.8em;font-size:0.8em;line-height:1.4">{"".join(rows)}</div>'
    )


def _clamp_value(value: float, bounds: tuple[float, float]) -> float:
    """The value inside its slider; a page may send any number."""
    if not np.isfinite(value):
        raise InputError("a slider is not a number")
    return float(np.clip(value, *bounds))


def _plot(gui: viser.GuiApi, title: str, names: tuple[str, ...]) -> viser.GuiUplotHandle:
    colours = ("#2f9e5b", "#5c84be", "#d67e60")
    series = (
        uplot.Series(label="s"),
        *(uplot.Series(label=n, stroke=c, width=1.5) for n, c in zip(names, colours, strict=True)),
    )
    return gui.add_uplot(EMPTY, series, title=title, scales={"x": uplot.Scale(time=False)}, aspect=2.2)


def _fill_plot(plot: viser.GuiUplotHandle, report: ValidityReport | None, what: str) -> None:
    if report is None:
        plot.data = EMPTY
        return
    stride = max(1, report.num_frames // PLOT_POINTS)
    dynamics = report.dynamics
    if what == "force":
        rows = dynamics.forces[::stride, [1, 2, 0]] / report.dynamics.body.weight_n
    else:
        rows = dynamics.angular_momentum[::stride]
    plot.data = (np.ascontiguousarray(report.times[::stride]), *(np.ascontiguousarray(c) for c in rows.T))
