"""The locomotion engine against its budgets: one frame with foot plants, crowds at 60 Hz, prediction, memory.

[Glardon2005]_ §III.2 took 4.7 ms for the worst frame with plants, on one character.
"""

from __future__ import annotations

import time
import tracemalloc
from statistics import median, quantiles

import numpy as np
from harness import Row

FRAME_S = 1.0 / 60.0
REPEATS = 9


def rows() -> list[Row]:
    """Every budget of the engine."""
    from marey.locomotion import Crowd, Engine, load_model

    model, rng = load_model(), np.random.default_rng(5)

    def crowd(count: int, plants: bool) -> Crowd:
        legs, speeds = rng.uniform(0.7, 1.1, count), rng.uniform(0.6, 1.6, count)
        return Crowd(model, legs, speeds=speeds, phases=rng.uniform(0.0, 1.0, count), plants=plants)

    engine = Engine(model, speed=1.3)
    found = [budget("one character, a frame with plants", engine.step, 1, 0.2)]
    engine.set(speed=0.8, turn_rate=0.4, over_s=1e3)
    found.append(budget("one character, changing", engine.step, 1, 0.2))
    found.append(budget("batch, a frame with plants", crowd(100, True).step, 100, 0.05))
    changing = crowd(100, True)
    changing.set(speed=rng.uniform(0.6, 1.6, 100), turn_rate=0.3, over_s=1e3)
    found.append(budget("batch, changing, with plants", changing.step, 100, 0.05))
    found.append(budget("300 characters at 60 Hz", crowd(300, False).step, 1, 1e3 * FRAME_S))
    found.append(budget("100 characters with plants, 60 Hz", crowd(100, True).step, 1, 1e3 * FRAME_S))
    found.append(memory(engine, rng))
    return found


def budget(name: str, step: object, share: int, limit_ms: float) -> Row:
    """Median time of a frame on one core, over ``share`` characters, against a limit; a repeat is a second of motion.

    It is the processor's time: what else runs on the machine does not count.
    """
    assert callable(step)
    step(FRAME_S)
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(60):
            step(FRAME_S)
        times.append(1e3 * (time.process_time() - start) / (60 * share))
    low, _, high = quantiles([limit_ms / t for t in times], n=4)
    return Row(name, "budget", median(times), limit_ms, limit_ms / median(times), low, high, 1.0)


def memory(engine: object, rng: np.random.Generator) -> Row:
    """Growth [MB] over ten minutes of random control, in the columns of times; the limit is 1 MB."""
    from marey.locomotion import Engine

    assert isinstance(engine, Engine)

    def drive(frames: int) -> None:
        for frame in range(frames):
            if frame % 20 == 0:
                wish = {"speed": rng.uniform(0.0, 1.6), "turn_rate": rng.uniform(-1.0, 1.0)}
                engine.set(**wish, over_s=rng.uniform(0.0, 3.0))
            engine.step(1.0 / 30.0)

    drive(600)
    tracemalloc.start()
    drive(30)
    before = tracemalloc.get_traced_memory()[0]
    drive(18_000)
    grown = max((tracemalloc.get_traced_memory()[0] - before) / 1e6, 1e-3)
    tracemalloc.stop()
    return Row("ten minutes of control, growth [MB]", "budget", grown, 1.0, 1.0 / grown, 1.0 / grown, 1.0 / grown, 1.0)
