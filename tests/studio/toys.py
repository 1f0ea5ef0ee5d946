"""Tools for tests: quick ones of every kind, and one that hangs until its process is killed. Also a worker program."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from marey.base import InputError
from marey.pipeline.tools import DragAnswer, Parameter, Tool, ToolResult
from marey.studio import worker

MOTION = Parameter("motion", "take")


def _double(run, settings):
    motion = run.motion(settings["motion"])
    run.progress(0.5, "half way")
    run.partial(replace(motion, name="partial"))
    print("noise that must not reach the pipe")
    doubled = replace(motion, root_positions=2.0 * motion.root_positions)
    table = [{"name": "seed", "value": np.float64(run.seed)}]
    return ToolResult(doubled, table, "doubled", {"a/b.txt": b"hello"}, {"by": np.arange(2)})


def _die(run, settings):
    run.progress(0.1, f"process {os.getpid()}")
    mark = Path(settings["once"])
    if not settings["once"] or not mark.exists():
        mark.touch() if settings["once"] else None
        os.kill(os.getpid(), 9)
    return ToolResult(text="the second try")


def _hang(run, settings):
    run.progress(0.25, f"process {os.getpid()}")
    time.sleep(600)


def _fail(run, settings):
    if settings["how"] == "in words":
        raise InputError("it cannot be done", "Do something else")
    raise ZeroDivisionError("by nought")


class Push:
    """A drag that shifts the root: each move takes a while, so that later ones overtake."""

    def __init__(self, run, settings):
        self.motion, self.moves = run.motion(settings["motion"]), 0

    def move(self, args):
        if args.get("bad"):
            raise InputError("this is out of reach", "Come nearer")
        self.moves += 1
        time.sleep(0.02)
        arrays = {"pose_root": np.full(3, float(args.get("x", 0))), "pose_rotations": np.array([[1.0, 2.0, 3.0, 4.0]])}
        return DragAnswer(arrays, {"moves": self.moves, "args": dict(args)})

    def end(self, args):
        return ToolResult(text="pushed", report={"edit": {"kind": "trim", "start_s": 0.0, "stop_s": 1.0}})


class Stroll(Push):
    """A live session."""

    def end(self, args):
        return ToolResult(self.motion[:30], report={"recipe": {"tool": "stroll", "settings": {}, "seed": 3}})


TOYS = {
    tool.id: tool
    for tool in (
        Tool("double", "Double", "Toys", "", "job", _double, (MOTION, Parameter("size", "float", 1.0, "m", 0.0, 2.0))),
        Tool("die", "Die", "Toys", "", "job", _die, (Parameter("once", "text", ""),)),
        Tool("hang", "Hang", "Toys", "", "job", _hang),
        Tool("fail", "Fail", "Toys", "", "job", _fail, (Parameter("how", "text", ""),)),
        Tool("push", "Push", "Toys", "", "drag", Push, (MOTION,)),
        Tool("stroll", "Stroll", "Toys", "", "live", Stroll, (MOTION,)),
        Tool(
            "sum",
            "Sum",
            "Toys",
            "",
            "ask",
            lambda run, s: ToolResult(text=str(s["a"] + 1)),
            (Parameter("a", "int", 0),),
        ),
    )
}


def serve() -> None:
    """Be a worker process with these tools."""
    from marey.studio.worker import main

    worker.list_tools = lambda: TOYS
    main()


if __name__ == "__main__":
    serve()
