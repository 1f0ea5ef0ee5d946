"""The shipped motion graph: what it holds, and that a build of today's clips still gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from marey.base import cache_folder
from marey.graph import build_graph
from marey.locomotion import Engine, load_model
from marey.samples import DEMO_SETTINGS, demo_clips, demo_graph
from marey.samples import graph_clips as _clips
from marey.samples.figure import pick_up


def test_the_shipped_graph_walks_jumps_and_picks():
    graph = demo_graph()
    assert set(graph.tables) == {"jump", "pick", "stand"}
    assert {"walk", "run", "jump", "pick"} <= set(graph.database.behaviours)
    assert graph.num_states > 100
    assert graph is demo_graph(), "it is read once"


@pytest.mark.slow
def test_the_shipped_graph_is_that_of_todays_clips():
    """Built anew it has the same clips; figures of the two stand in the message."""
    shipped, built = demo_graph(), build_graph(demo_clips(), **DEMO_SETTINGS)
    figures = [(one.num_states, one.num_edges, one.size.poses) for one in (shipped, built)]
    assert shipped.database.clips == built.database.clips, figures
    np.testing.assert_allclose(figures[0], figures[1], rtol=0.02)
    # The clips themselves: the same places at the same time
    apart = np.linalg.norm(shipped.database.roots - built.database.roots, axis=1)
    assert np.quantile(apart, 0.95) < 0.01, figures


def test_a_stand_is_shown_no_longer_than_it_is_of_use():
    """Clips stand still for half a second at their ends; nobody who comes by has to wait for that."""
    model = load_model()
    walks = [_clips._perform_timeline(model, f"walk-{v}", _clips._build_timeline(v, 1.2)) for v in (0.9, 1.2)]
    arrays = build_graph([*walks, pick_up(Engine(model).pose, [-0.1, 0.9, 0.4])], **DEMO_SETTINGS).arrays
    leaves = arrays.is_standing[arrays.source]
    assert leaves.any()
    assert arrays.seconds[leaves].max() < 0.15


def test_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("MAREY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("MAREY_CACHE")
    assert isinstance(cache_folder(), Path)
    assert cache_folder().name == "marey"
