"""What every test shares: the captured clips, where they exist, and derandomised property tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("marey", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("marey")

MOCAP = Path(os.environ.get("MAREY_MOCAP", Path(__file__).parents[2] / "shared" / "mocap"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
