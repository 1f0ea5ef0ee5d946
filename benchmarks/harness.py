"""Ours and the peer's alternate in one process, on the same data; the ratio is what we publish."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

Job = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: ``ratio`` is peer time over ours, so above one we are faster."""

    name: str
    peer: str
    ours_ms: float
    peer_ms: float
    ratio: float
    ratio_low: float  # lower quartile over the repeats
    ratio_high: float
    bar: float | None  # the ratio we promise, if any
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept; ``None`` without one."""
        return None if self.bar is None else self.ratio >= self.bar

    def __str__(self) -> str:
        verdict = {None: "", True: "holds", False: "FALLS SHORT"}[self.holds]
        bar = "" if self.bar is None else f"(bar {self.bar:g}x) "
        times = f"{self.ours_ms:9.3f} ms   {self.peer:12s} {self.peer_ms:9.3f} ms"
        return f"{self.name:34s} {times}   {self.ratio:7.1f}x {bar}{verdict}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "holds": self.holds}


def seconds(job: Job) -> float:
    """Wall time of one call [s]."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def compare(name: str, ours: Job, peer_name: str, peer: Job, *, repeats: int = 40, bar: float | None = None) -> Row:
    """Alternate both jobs after one warm call each; medians and quartiles of the ratio."""
    ours(), peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    ratios = [p / o for o, p in pairs]
    low, _, high = quantiles(ratios, n=4)
    ours_ms, peer_ms = (1e3 * median(column) for column in zip(*pairs, strict=True))
    return Row(name, peer_name, ours_ms, peer_ms, median(ratios), low, high, bar)


def measure(name: str, job: Job, *, limit_ms: float, repeats: int = 7, note: str = "") -> Row:
    """Time a job that has a budget instead of a peer: the ratio is budget over time."""
    times = [1e3 * seconds(job) for _ in range(repeats)]
    low, _, high = quantiles([limit_ms / t for t in times], n=4)
    return Row(name, "budget", median(times), limit_ms, limit_ms / median(times), low, high, 1.0, note)
