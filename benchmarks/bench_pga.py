"""Principal geodesics of 1 000 poses of 20 joints against geomstats' TangentPCA.

geomstats lives in an environment of its own under ``.venvs/geomstats``, made here, since it does not follow the newest
numpy. So each side runs in a process of its own, this file again as ``python bench_pga.py SIDE POSES.npz``, on one
thread, which answers each line on its input by one fit and its milliseconds: both fits alternate on the same poses.
The peer's space is SO(3)^20 in rotation vectors with the bi-invariant metric, the quickest of its forms. Its mean stops
at a tolerance of 1e-8: at its default of 1e-4 the subspaces would be 1.6e-5 rad apart, and the promise is 1e-6.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

FRAMES, JOINTS, COMPONENTS = 1000, 20, 10
REPEATS = 15
BAR = 20.0
PEER_TOLERANCE = 1e-8  # [rad^2] squared step, by dimension, at which the peer's mean stops
SAME_SUBSPACE = 1e-6  # [rad] largest principal angle
VENV = Path(__file__).resolve().parents[1] / ".venvs" / "geomstats"
PACKAGES = ("geomstats", "numpy<2.4")


# The race


def rows() -> list[Any]:
    """Check that both subspaces are the same, then race."""
    from harness import Row, measure

    from marey.models import PGA

    motion = poses()
    with Side("ours", Path(sys.executable), motion) as ours, Side("peer", ensure_environment(), motion) as peer:
        angle = principal_angle(ours.components, peer.components)
        if angle > SAME_SUBSPACE:
            raise SystemExit(f"marey and geomstats disagree by {angle} rad: the race would be void")
        pairs = [(ours.fit(), peer.fit()) for _ in range(REPEATS)]
    ratios = [theirs / own for own, theirs in pairs]
    low, _, high = quantiles(ratios, n=4)
    own_ms, peer_ms = (median(column) for column in zip(*pairs, strict=True))
    name, note = "PGA fit, 1 000 x 20 joints", f"subspaces {angle:.1e} rad apart; geomstats {peer.version}"
    exact = PGA(n_components=COMPONENTS, method="exact")
    exact.fit(motion)
    return [
        Row(name, "geomstats", own_ms, peer_ms, median(ratios), low, high, BAR, note),
        measure("exact PGA fit, 1 000 x 20 joints", lambda: exact.fit(motion), limit_ms=10_000.0, repeats=3),
    ]


def poses() -> Any:
    """Poses that move in thirty directions of SO(3)^20 with a little noise, about a mean that is the identity.

    geomstats does its SVD on rotation vectors of the chart around the identity, whose axes are orthonormal there alone.
    """
    from marey import SO3
    from marey.lie import frechet_mean

    rng = np.random.default_rng(20)
    size = JOINTS + 1
    spread = 0.6 * 0.75 ** np.arange(30)
    directions = np.linalg.qr(rng.normal(size=(3 * size, 30)))[0]
    v = rng.normal(size=(FRAMES, 30)) * spread @ directions.T + 0.01 * rng.normal(size=(FRAMES, 3 * size))
    rotations = SO3.exp(v.reshape(FRAMES, size, 3))
    return motion_of(frechet_mean(rotations).inverse() @ rotations)


def motion_of(rotations: Any) -> Any:
    """A clip of a chain of joints."""
    from marey import Motion, Skeleton

    size = rotations.shape[1]
    offsets = np.random.default_rng(1).normal(0.0, 0.2, (size, 3))
    skeleton = Skeleton(tuple(f"joint{j}" for j in range(size)), np.arange(size) - 1, offsets)
    return Motion(skeleton, 120.0, np.zeros((len(rotations), 3)), rotations)


def principal_angle(a: np.ndarray, b: np.ndarray) -> float:
    """Largest angle [rad] between two subspaces ``(d, k)``, by its sine, which keeps its digits near zero."""
    a, b = np.linalg.qr(a)[0], np.linalg.qr(b)[0]
    return float(np.arcsin(min(1.0, np.linalg.norm(a - b @ (b.T @ a), 2))))


class Side:
    """The process in which one of the two runs."""

    def __init__(self, side: str, python: Path, motion: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "poses.npz"
        np.savez(self._file, wxyz=motion.rotations.wxyz)
        self._command = [str(python), __file__, side, str(self._file)]

    def __enter__(self) -> Side:
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GEOMSTATS_BACKEND": "numpy"}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(self._command, env={**os.environ, **one_thread}, **pipes)
        answer = self._answer()
        self.version = answer["version"]
        self.components = np.array(answer["components"])
        return self

    def fit(self) -> float:
        """One fit, in milliseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write("fit\n")
        self._process.stdin.flush()
        return float(self._answer()["ms"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self._command[2]} ended; its message is above")
        return json.loads(line)

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._folder.cleanup()


def ensure_environment() -> Path:
    """The python of the peer's environment, made on the first run."""
    python = VENV / "bin" / "python"
    stamp = VENV / ".installed"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(install, check=True)
        stamp.touch()
    return python


# Both sides


def our_side(wxyz: np.ndarray) -> tuple[str, Any]:
    """The version and a function that fits and returns the directions ``(60, 10)``."""
    import marey
    from marey.models import PGA

    motion = motion_of(marey.SO3(wxyz))
    settings = PGA(n_components=COMPONENTS)
    return marey.__version__, lambda: settings.fit(motion).basis[1:].reshape(-1, COMPONENTS)


def peer_side(wxyz: np.ndarray) -> tuple[str, Any]:
    """As :func:`our_side`, for geomstats."""
    from importlib.metadata import version

    import geomstats.backend as gs
    from geomstats.geometry.nfold_manifold import NFoldManifold
    from geomstats.geometry.special_orthogonal import SpecialOrthogonal
    from geomstats.learning.pca import TangentPCA

    q = wxyz[:, 1:] * np.where(wxyz[:, 1:, :1] < 0.0, -1.0, 1.0)
    sine = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    points = gs.array(q[..., 1:] * 2.0 * np.arctan2(sine, q[..., :1]) / np.maximum(sine, 1e-300))
    space = NFoldManifold(SpecialOrthogonal(n=3, point_type="vector"), n_copies=points.shape[1])

    def fit() -> Any:
        analysis = TangentPCA(space, n_components=COMPONENTS)
        analysis.mean_estimator.set(epsilon=PEER_TOLERANCE)
        return analysis.fit(points).components_.T

    return version("geomstats"), fit


def serve(side: str, file: str) -> None:
    """Answer the subspace, then the time of one fit for each line of the input."""
    version, fit = {"ours": our_side, "peer": peer_side}[side](np.load(file)["wxyz"])
    print(json.dumps({"version": version, "components": np.asarray(fit()).tolist()}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        fit()
        print(json.dumps({"ms": 1e3 * (time.perf_counter() - start)}), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        serve(*sys.argv[1:])
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        for row in rows():
            print(row, row.note)
