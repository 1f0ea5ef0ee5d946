"""Run every race and keep the figures: ``python benchmarks/run.py [name ...]``."""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import Row  # noqa: E402

PACKAGES = ("marey", "numpy", "numba", "pybvh", "upc-pymotion", "pin", "mink", "mujoco", "geomstats")


def processor() -> str:
    """Name of the processor, as the system tells it."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor()


def versions() -> dict[str, str]:
    """Versions of all that took part."""
    found: dict[str, str] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main(names: list[str] | None = None) -> int:
    """Run the races whose module name contains one of ``names`` (all by default); 1 if a promise is broken."""
    modules = sorted(path.stem for path in HERE.glob("bench_*.py"))
    chosen = [m for m in modules if not names or any(n in m for n in names)]
    if not chosen:
        print(f"no benchmark called {', '.join(names or [])}; there are {', '.join(modules)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for module in chosen:
        for row in import_module(module).rows():
            rows.append(row)
            print(row, flush=True)
    if not names:
        report = {"processor": processor(), "versions": versions(), "rows": [row.as_dict() for row in rows]}
        (HERE / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(row.holds is not False for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
