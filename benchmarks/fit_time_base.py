"""Fit the weights of the time-base check on captured clips, and test them on subjects left out.

    python benchmarks/fit_time_base.py FOLDER_OF_BVH RATES.csv

RATES.csv has lines ``file,true_rate_hz``. Each clip gives an example of a right rate and one of double speed: clips
whose header is right are also read with every second frame left out, clips whose header is twice too fast are also
read at half of it. Prints the table for ``marey/motion/time_base.py`` and who is missed or flagged in error when the
subject of the clip is left out of the fit.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from marey.io import load
from marey.motion.time_base import FLAG_DOUBTFUL, CueWeight, find_body, measure_cues, score_cues
from marey.motion.time_base import WEIGHTS as CUE_WEIGHTS

RIDGE = 0.2  # on standardised log cues
CLIP_PERCENT = 5.0  # cues are limited to this range of percentiles, so that one odd value cannot decide alone
SIGNS = {"swing": -1.0, "step time": -1.0}  # durations shrink at double speed, all other cues grow
WEIGHTS = {"fast header": 3.0, "right header": 1.0, "half header": 1.0, "every second frame": 0.3}


@dataclass(frozen=True)
class Example:
    """One reading of a clip, at the right speed or at double speed."""

    name: str
    kind: str
    is_fast: bool
    cues: dict[str, float]

    @property
    def subject(self) -> str:
        """Who was captured."""
        return self.name.split("_")[0]


def examples_of(path: Path, true_hz: float) -> list[Example]:
    """Read a clip at the right speed and at double speed."""
    motion = load(path)
    if true_hz < 0.75 * motion.rate_hz:
        readings = [("fast header", True, motion), ("half header", False, replace(motion, rate_hz=true_hz))]
    else:
        fast = replace(motion[::2], rate_hz=motion.rate_hz)
        readings = [("right header", False, motion), ("every second frame", True, fast)]
    found = [(kind, fast, find_body(clip)) for kind, fast, clip in readings]
    return [Example(path.stem, kind, fast, measure_cues(body)) for kind, fast, body in found if body is not None]


def fit(examples: list[Example]) -> tuple[float, dict[str, CueWeight]]:
    """Ridge logistic regression on log cues; a cue that is absent, or half way between the classes, says nothing."""
    logs = np.array([[np.log(e.cues.get(name, np.nan)) for name in CUE_WEIGHTS] for e in examples])
    fast = np.array([e.is_fast for e in examples])
    low, high = np.nanpercentile(logs, [CLIP_PERCENT, 100.0 - CLIP_PERCENT], axis=0)
    logs = np.clip(logs, low, high)
    middle = 0.5 * (np.nanmedian(logs[fast], axis=0) + np.nanmedian(logs[~fast], axis=0))
    spread = np.nanstd(logs, axis=0)
    x = np.column_stack([np.ones(len(logs)), np.nan_to_num((logs - middle) / spread)])
    beta = logistic(x, fast.astype(float), np.array([WEIGHTS[e.kind] for e in examples]))
    columns = zip(CUE_WEIGHTS, beta[1:] / spread, middle, low, high, strict=True)
    return float(beta[0]), {n: CueWeight(float(b), *(float(np.exp(v)) for v in r)) for n, b, *r in columns}


def logistic(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Newton's method; a slope whose sign contradicts physics is set to zero and the others are fitted again."""
    sign = np.array([1.0] + [SIGNS.get(name, 1.0) for name in CUE_WEIGHTS])
    used = np.ones(x.shape[1], dtype=bool)
    while True:
        beta = np.zeros(x.shape[1])
        beta[used] = newton(x[:, used], y, weight)
        wrong = sign * beta < 0.0
        wrong[0] = False
        if not wrong.any():
            return beta
        used[np.argmin(np.where(wrong, sign * beta, 0.0))] = False


def newton(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weighted ridge logistic regression; the bias is free."""
    ridge = np.diag([1e-6] + [RIDGE] * (x.shape[1] - 1))
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ beta, -30.0, 30.0)))
        hessian = x.T @ ((weight * p * (1.0 - p) + 1e-9)[:, None] * x) + ridge
        beta = beta + np.linalg.solve(hessian, x.T @ (weight * (y - p)) - ridge @ beta)
    return beta


def leave_one_subject_out(examples: list[Example]) -> dict[tuple[str, str], float]:
    """Score each example with a fit that has not seen its subject."""
    scores: dict[tuple[str, str], float] = {}
    for subject in sorted({e.subject for e in examples}):
        bias, weights = fit([e for e in examples if e.subject != subject])
        scores |= {(e.name, e.kind): score_cues(e.cues, bias, weights) for e in examples if e.subject == subject}
    return scores


def report(examples: list[Example], scores: dict[tuple[str, str], float]) -> None:
    """Print who is judged wrongly, by kind of example."""
    for kind in WEIGHTS:
        these = [e for e in examples if e.kind == kind]
        judged = [(scores[e.name, kind], e) for e in these]
        wrong = sorted((score, e.name) for score, e in judged if (score > FLAG_DOUBTFUL) != e.is_fast)
        listed = ", ".join(f"{name} ({score:+.1f})" for score, name in wrong)
        print(f"{kind}: {len(these) - len(wrong)} of {len(these)} right; wrong: {listed or 'none'}")


def main() -> None:
    """Fit, print the table, test."""
    folder, table = Path(sys.argv[1]), Path(sys.argv[2])
    with table.open() as lines:
        rates = {row[0]: float(row[1]) for row in csv.reader(lines)}
    examples = [e for name, hz in rates.items() for e in examples_of(folder / name, hz)]
    bias, weights = fit(examples)
    print(f"BIAS: Final = {bias:.3f}")
    for name, w in weights.items():
        print(f'    "{name}": CueWeight({w.slope:.2f}, {w.middle:.3g}, {w.low:.3g}, {w.high:.3g}),')
    print("-- fitted on all")
    report(examples, {(e.name, e.kind): score_cues(e.cues, bias, weights) for e in examples})
    print("-- subject left out")
    report(examples, leave_one_subject_out(examples))


if __name__ == "__main__":
    main()
