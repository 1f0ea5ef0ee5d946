"""What every test shares: the captured clips, where they exist, and derandomised property tests."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

# Before numpy is loaded: on matrices as small as ours the threads of its library wait for each other, and those of two
# workers on two cores take four times the processor time of one thread each
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from marey.cli import compile_ahead

if TYPE_CHECKING:
    from collections.abc import Generator

    from marey.dynamics import Body
    from marey.models import PoseModel
    from marey.motion import Motion
    from marey.skeleton import Skeleton

sys.path.insert(0, str(Path(__file__).parent))  # tests import `oracles`: what only tests run
settings.register_profile("marey", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("marey")
# hypothesis parses every module of ours that is loaded, for constants to try: seconds in each worker, and examples that
# depend on which tests ran before
providers.is_local_module_file = lambda _: False  # pyright: ignore
compile_ahead.MAX_HELPERS = 0  # workers fill both cores already
gc.set_threshold(100_000, 20, 20)  # compiling makes objects that stay; to look through them often takes a tenth of it

SHORTEST_M, RADIUS_M, MASS_KG = 0.05, 0.06, 70.0  # of the rods
MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))
REAL = Path(os.environ.get("MAREY_REAL", Path(__file__).parents[2] / "shared" / "real"))


LONG_FILES = (  # begun first
    "test_ik_engell",  # from here those that compile most, one of each room: no two workers compile the same
    "test_muscle_body",
    "test_loco_engine",
    "test_simulate_ball",
    "test_compression_captured",
    "test_full_examples",
    "test_graph_ara",
    "test_control_track",
    "test_graph_move",
    "test_ik_model_limits",
    "test_docs",  # from here those that last, so that no worker waits for another at the end
    "test_limits_contract",
    "test_compression_codec",
    "test_io_usd",
    "test_base_kernels",
    "test_edit",
    "test_ik_smooth",
    "test_tracking_filters",
    "test_muscle_human",
    "test_recipes",
    "test_graph_search",
    "test_markers_shape",
    "test_loco_gait_meter",
    "test_loco_obstacles",
    "test_io_fbx",
    "test_pipeline_batch",
    "test_cli_options",
)


def mark_slow_cases(items: list[pytest.Item]) -> None:
    """Give the mark ``slow`` to what `quick_cases.toml` keeps for `make study`: cases it does not name, whole tests."""
    table = tomllib.loads((Path(__file__).parent / "quick_cases.toml").read_text(encoding="utf-8"))
    whole, by_name = table.pop("study"), dict[str, list[pytest.Item]]()
    for item in items:
        by_name.setdefault(f"{item.path.stem}::{item.name.partition('[')[0]}", []).append(item)
    for name, found in by_name.items():
        for item in found if name in whole else ():
            item.add_marker(pytest.mark.slow)
    for name, quick in ((name, quick) for room in table.values() for name, quick in room.items()):
        found = [
            item
            for one in ([one for one in by_name if fnmatch(one, name)] if "*" in name else [name])
            for item in by_name.get(one, ())
            if hasattr(item, "callspec")
        ]
        slow = [item for item in found if not any(fnmatch(item.callspec.id, case) for case in quick)]  # pyright: ignore
        if len(found) > 1 and len(slow) == len(found):
            raise pytest.UsageError(f"quick_cases.toml: no case of {name} is any of {quick}")
        for item in slow:
            item.add_marker(pytest.mark.slow)


def mark_long_tests(items: list[pytest.Item]) -> None:
    """Give the mark ``long`` to what `long_tests.txt` names: half a second of processor time and more."""
    names = set((Path(__file__).parent / "long_tests.txt").read_text(encoding="utf-8").split())
    for item in items:
        if not names.isdisjoint(f"{item.path.stem}::{name}" for name in (item.name, item.name.partition("[")[0])):
            item.add_marker(pytest.mark.long)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-times", metavar="FOLDER", help="write what each test costs; see list_long_tests.py")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write the processor time of each test, its processes' too, where ``--processor-times`` asks for it."""
    folder, before = item.config.getoption("processor_times"), os.times()
    try:
        return (yield)
    finally:
        if folder is not None:
            seconds = sum(os.times()[:4]) - sum(before[:4])
            with (Path(folder) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.tsv").open("a") as file:
                file.write(f"{seconds:.3f}\t{item.path.stem}::{item.name}\n")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow_cases(items)
    mark_long_tests(items)
    items.sort(key=lambda item: LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES))
    for marker, folder, what in (("mocap", MOCAP, "captured clips"), ("real", REAL, "files of other tools")):
        if folder.is_dir():
            continue
        skip = pytest.mark.skip(reason=f"{what} are not at {folder}; set MAREY_{marker.upper()} to their folder")
        for item in items:
            if marker in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def mocap() -> Path:
    """The folder of captured clips; a test that uses it is marked ``mocap``."""
    return MOCAP


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of files of other tools and laboratories; a test that uses it is marked ``real``."""
    return REAL


@pytest.fixture
def run(capfd):
    """Run the command in this process; give exit code, stdout and stderr."""

    from marey.cli import main

    def do(*arguments: object) -> SimpleNamespace:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return do


def rod_body(skeleton: Skeleton) -> Body:
    """One rod per joint, from the joint to the mean of its children, of mass in proportion to its length."""
    from marey.dynamics import Body

    count = skeleton.num_joints
    ends = np.array(skeleton.tips)
    for j in range(count):
        children = np.flatnonzero(skeleton.parents == j)
        if children.size:
            ends[j] = skeleton.offsets[children].mean(axis=0)
    lengths = np.maximum(np.linalg.norm(ends, axis=1), SHORTEST_M)
    masses = MASS_KG * lengths / lengths.sum()
    inertias = np.empty((count, 3, 3))
    for j in range(count):
        norm = np.linalg.norm(ends[j])
        axis = ends[j] / norm if norm > 1e-9 else np.array([0.0, 1.0, 0.0])
        along = np.outer(axis, axis)
        across = (np.eye(3) - along) * (lengths[j] ** 2 / 12 + RADIUS_M**2 / 4)
        inertias[j] = masses[j] * (across + along * RADIUS_M**2 / 2)
    return Body(skeleton, masses, ends / 2, inertias, height_m=1.7)


@pytest.fixture(scope="session")
def d1_walk(mocap: Path) -> Motion:
    """Clip 02_01 without its first frame, a T-pose: the thresholds of dynamics and control were measured on it."""
    import marey

    return marey.load(mocap / "cmu-bvh" / "02_01.bvh")[1:]


@pytest.fixture(scope="session")
def d1_body(d1_walk: Motion) -> Body:
    """Rods of 70 kg on the skeleton of 02_01."""
    return rod_body(d1_walk.skeleton)


@pytest.fixture(scope="session")
def d1_model(d1_walk: Motion) -> PoseModel:
    """Ten geodesics of 02_01."""
    from marey.models import PGA

    return PGA(n_components=10).fit([d1_walk])


@pytest.fixture(scope="session")
def c1_model(d1_walk: Motion) -> PoseModel:
    """Fifteen geodesics of 02_01, for control."""
    from marey.models import PGA

    return PGA(n_components=15).fit([d1_walk])
