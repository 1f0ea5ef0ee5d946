"""What every test shares: the captured clips, where they exist, and derandomised property tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

settings.register_profile("marey", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("marey")
gc.set_threshold(100_000, 20, 20)  # compiling makes objects that stay; to look through them often takes a tenth of it

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))


LONG_FILES = (  # begun first, so that no worker waits for another at the end
    "test_ik_engell",
    "test_loco_engine",
    "test_loco_fit_captured",
    "test_loco_transitions_machine",
    "test_models_safonova",
    "test_library_crash",
    "test_full_examples",
    "test_full_objectives",
    "test_reduced_examples",
    "test_repair",
    "test_compression_captured",
    "test_validity_captured",
    "test_examples",
    "test_pipeline_batch",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES))
    if MOCAP.is_dir():
        return
    skip = pytest.mark.skip(reason=f"captured clips are not at {MOCAP}; set MAREY_MOCAP to their folder")
    for item in items:
        if "mocap" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def mocap() -> Path:
    """The folder of captured clips; a test that uses it is marked ``mocap``."""
    return MOCAP


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
