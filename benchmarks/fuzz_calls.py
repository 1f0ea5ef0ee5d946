"""Hostile calls: every public function with one argument that it cannot use.

A call must end in a result without NaN, or in a :class:`marey.MareyError`, within ``PATIENCE_S`` of processor time and
``MEMORY_BYTES`` of memory. Right arguments come from ``fuzz_right_values.py``; functions that cannot be called with
them are counted apart, as "no right call". Each function is tried in a forked process of its own.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_hostile_values import hostile_values
from fuzz_right_values import CLASSES, VALUES, make_value
from fuzz_samples import folder, make_soft_arm

import marey
from marey.base import MareyError

PATIENCE_S, MEMORY_BYTES = 20, 3 << 30
FUNCTION_S = 10.0  # [s] that one function is tried, in an order that the seed gives
CUT = "cut by its time"  # of functions of which some calls were not made
ROOMS = sorted(marey._ROOMS - {"base", "studio"})
SKIPPED = {
    "io.to_glb": "its dictionary is not checked: a tool of writers",
    "graph.register_event": "changes the registry of the process",
    "locomotion.fit_locomotion": "minutes for one call",
    "locomotion.report_held_out": "minutes for one call",
    "locomotion.plot_speed_laws": "minutes for one call",
    "pipeline.run_archive": "minutes for one call",
    "pipeline.run_batch": "starts processes: see the kills",
    "samples.demo_graph": "writes the user's cache",
    "samples.demo_graph_file": "writes the user's cache",
}
NAN_ALLOWED = {
    "world.box_distance", "world.segment_distance",
    "graph.load_graph", "graph.build_graph",  # places of feet that are not planted, as its type says
}  # fmt: skip
# Options that keep a call short; those of functions are made when they are needed
SHORT: dict[str, dict[str, Any]] = {
    "control.track_balance": {"seconds": 0.2},
    "control.solve_tracking": {"seconds": 0.05},
    "muscle.solve_scene": {"max_cells": 60, "max_iterations": 2},
    "muscle.solve_reach": {"arm": make_soft_arm},
    "muscle.solve_elbow_flexion": {"arm": make_soft_arm},
    "muscle.draw_muscle_strip": {"count": 1, "width": 120, "height": 80},
    "control.track_clip": {"steps": 5},
    "graph.search_graph": {"budget_s": 1.0},
    "pipeline.synthesize_sketch": {"budget_s": 1.0, "engine": "locomotion"},
    "spacetime.optimize": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.optimize_reduced": {"time_limit_s": 1.0},
    "spacetime.optimize_styled": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.make_valid": {"time_limit_s": 1.0, "on_failure": "return"},
    "spacetime.edit_physically": {"time_limit_s": 1.0, "on_failure": "return"},
    "simulate.momentum_scenario": {"steps": 3},
    "tracking.seated_motion": {"frames": 20},
    "picture.film_strip": {"width": 200},
    "picture.compare_strips": {"width": 200},
    "picture.save_film": {"size": (64, 48)},
    "picture.render_motion": {"size": (64, 48)},
}


@dataclass(frozen=True, slots=True)
class PublicFunction:
    """A function of a room with the arguments of a right call."""

    name: str  # room.function
    call: Callable[..., Any]

    def parameters(self) -> list[inspect.Parameter]:
        """All but those that collect others."""
        return [p for p in inspect.signature(self.call).parameters.values() if not p.kind.name.startswith("VAR")]

    def right_values(self) -> dict[str, Any]:
        """Arguments of a right call; KeyError where one is not known."""
        found: dict[str, Any] = {}
        for parameter in self.parameters():
            if parameter.default is parameter.empty:
                kind = str(parameter.annotation)
                own = f"{self.name}.{parameter.name}"
                # Names say more than numbers and arrays do, classes say more than names
                keys = (own, kind, parameter.name) if kind in CLASSES else (own, parameter.name, kind)
                found[parameter.name] = make_value(next((key for key in keys if key in VALUES), keys[-1]))
        short = SHORT.get(self.name, {})
        return found | {name: value() if callable(value) else value for name, value in short.items()}


def public_functions() -> list[PublicFunction]:
    """Every function of every room."""
    return [
        PublicFunction(f"{room}.{name}", value)
        for room in ROOMS
        for name in import_module(f"marey.{room}").__all__
        if inspect.isfunction(value := getattr(import_module(f"marey.{room}"), name))
        and f"{room}.{name}" not in SKIPPED
    ]


def find_nan(value: Any, depth: int = 5) -> bool:
    """Whether NaN is somewhere in a result."""
    if isinstance(value, float):
        return value != value
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.isnan(value).any())
    if depth == 0:
        return False
    if is_dataclass(value) and not isinstance(value, type):
        return any(find_nan(getattr(value, field.name, None), depth - 1) for field in fields(value))
    if isinstance(value, dict):
        return any(find_nan(item, depth - 1) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(find_nan(item, depth - 1) for item in value[:200])
    return False


def try_call(function: PublicFunction, values: dict[str, Any]) -> tuple[str, str]:
    """Verdict of one call, and what was said."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function.call(**values)
            if inspect.isgenerator(result):
                result = list(result)
    except MareyError as error:
        said = str(error)
        return ("long message", f"{len(said)} characters") if len(said) > 1000 else ("refused", said[:200])
    except MemoryError as error:
        return "memory", str(error)[:200]
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = "" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
        return "untyped", f"{type(error).__name__}: {str(error)[:120]} ({where})"
    return ("nan", "") if function.name not in NAN_ALLOWED and find_nan(result) else ("returned", "")


def plan_cases(function: PublicFunction) -> Iterator[tuple[str, int, Any]]:
    """Parameter, number and hostile value of every case."""
    for parameter in function.parameters():
        for number, value in enumerate(hostile_values(str(parameter.annotation))):
            yield parameter.name, number, value


def try_function(
    function: PublicFunction, rng: random.Random, share: float, deadline: float
) -> Iterator[dict[str, Any]]:
    """Outcomes of the hostile calls of a function; each is made in a child that may die."""
    try:
        right = function.right_values()
    except Exception as error:
        yield {"name": function.name, "verdict": "no right call", "said": f"{type(error).__name__}: {error}"[:200]}
        return
    # The right call comes first: where it takes too long, the others are not tried
    cases: list[Any] = [("", 0, None)]
    cases += rng.sample(hostile := [case for case in plan_cases(function) if rng.random() < share], len(hostile))
    at = 0
    while at < len(cases) and time.monotonic() < deadline:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(max(1, round(deadline - time.monotonic())))
            _run_cases(function, right, cases[at:], write)
        os.close(write)
        done = 0
        with os.fdopen(read) as answers:
            for line in answers:
                done += 1
                yield json.loads(line)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            left = len(cases) - at - done
            yield {"name": f"{function.name} ({left} of {len(cases) - 1} calls)", "verdict": CUT, "said": ""}
            return
        if at + done < len(cases) and os.WIFSIGNALED(status):
            name, number, _ = cases[at + done]
            is_slow = os.WTERMSIG(status) == signal.SIGPROF
            verdict = f"over {PATIENCE_S} s" if is_slow else f"signal {os.WTERMSIG(status)}"
            if not name:
                yield {"name": function.name, "verdict": "no right call", "said": verdict}
                return
            yield {"name": function.name, "parameter": name, "case": number, "verdict": verdict, "said": ""}
            done += 1
        at += max(done, 1)


def _run_cases(function: PublicFunction, right: dict[str, Any], cases: list[Any], write: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_BYTES, size + MEMORY_BYTES))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.chdir(folder())
    with os.fdopen(write, "w") as answers:
        for name, number, value in cases:
            signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
            verdict, said = try_call(function, right | ({name: value} if name else {}))
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            verdict = verdict if name or verdict in ("returned", "nan") else "no right call"
            print(
                json.dumps(
                    {"name": function.name, "parameter": name, "case": number, "verdict": verdict, "said": said}
                ),
                file=answers,
                flush=True,
            )
    os._exit(0)


def run(
    seed: int, seconds: float, share: float = 1.0, only: str = "", function_s: float = FUNCTION_S
) -> Iterator[dict[str, Any]]:
    """Outcomes of hostile calls, function by function in an order that the seed gives, until the time is up."""
    rng, deadline = random.Random(seed), time.monotonic() + seconds
    functions = [function for function in public_functions() if only in function.name]
    rng.shuffle(functions)
    for function in functions:
        if time.monotonic() > deadline:
            yield {"name": function.name, "verdict": CUT, "said": ""}
            continue
        yield from try_function(function, rng, share, min(deadline, time.monotonic() + function_s))
