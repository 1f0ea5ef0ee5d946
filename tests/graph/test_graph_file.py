"""Graphs on disk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.graph_parts import graph_bytes

from marey.base import FormatError, InputError, MissingFileError, TensorFormat
from marey.graph import load_graph, save_graph
from marey.graph.construction.file import GRAPH_FILE, _pack_graph, check_graph, hash_arrays, pack_tensors
from marey.skeleton import joint_positions

pytestmark = pytest.mark.mocap


@pytest.fixture(scope="module")
def saved(picking, tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "picking.safetensors"
    save_graph(picking, path)
    return path


def test_a_graph_comes_back(picking, saved):
    graph = load_graph(saved)
    assert graph_bytes(graph) == graph_bytes(picking) == saved.read_bytes()
    for one, two in zip(graph.arrays, picking.arrays, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype
    assert graph.settings == picking.settings
    assert graph.stretches(5) == picking.stretches(5)
    assert graph.size == picking.size
    assert not graph.arrays.cost.flags.writeable


def test_no_half_written_file_is_left(saved):
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
def test_one_wrong_byte_is_refused_with_a_sentence(saved, tmp_path, place):
    content = bytearray(saved.read_bytes())
    content[int(place * len(content))] ^= 0x10
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(content)
    with pytest.raises(FormatError, match="damaged motion graph") as caught:
        load_graph(broken)
    assert "build it again" in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_file_cut_off_is_refused(saved, tmp_path, share):
    broken = tmp_path / "cut.safetensors"
    broken.write_bytes(saved.read_bytes()[: int(share * saved.stat().st_size)])
    with pytest.raises(FormatError, match="safetensors"):
        load_graph(broken)


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "other.safetensors"
    TensorFormat("marey-pose-model", "pose model", 1, "").write(other, {"a": np.zeros(3)}, {})
    with pytest.raises(FormatError, match="holds a 'marey-pose-model'"):
        load_graph(other)
    with pytest.raises(MissingFileError):
        load_graph(tmp_path / "none.safetensors")


def test_a_newer_version_is_refused(picking, tmp_path):
    newer = tmp_path / "newer.safetensors"
    replace(GRAPH_FILE, version=GRAPH_FILE.version + 1).write(newer, *_pack_graph(picking))
    with pytest.raises(FormatError, match="reads versions up to"):
        load_graph(newer)


def test_a_name_of_another_kind_is_refused(picking, tmp_path):
    with pytest.raises(InputError, match="safetensors"):
        save_graph(picking, tmp_path / "graph.json")
    with pytest.raises(MissingFileError):
        save_graph(picking, tmp_path / "nowhere" / "graph.safetensors")


def test_numbers_that_point_nowhere_are_refused(picking, tmp_path):
    """A file with a true fingerprint whose edges lead to states that do not exist."""
    tensors, facts = _pack_graph(picking)
    tensors["arrays/target"] = tensors["arrays/target"] + 100_000
    bad = tmp_path / "bad.safetensors"
    GRAPH_FILE.write(bad, tensors, {**facts, "sha256": hash_arrays(tensors)})
    with pytest.raises(FormatError, match="points outside"):
        load_graph(bad)


@pytest.mark.parametrize("change", [
    {"cost": np.nan}, {"seconds": -1.0},
])  # fmt: skip
def test_costs_that_are_no_costs_are_refused(picking, change):
    ((name, value),) = change.items()
    wrong = getattr(picking.arrays, name).copy()
    wrong[0] = value
    with pytest.raises(InputError, match=name):
        check_graph(replace(picking, arrays=picking.arrays._replace(**{name: wrong})))


def test_rows_that_do_not_cut_are_refused(picking):
    wrong = picking.arrays.first.copy()
    wrong[1], wrong[2] = wrong[2] + 1, wrong[1]
    with pytest.raises(InputError, match="first"):
        check_graph(replace(picking, arrays=picking.arrays._replace(first=wrong)))


def test_a_packed_graph_is_small_and_shows_the_same_poses(picking, saved, tmp_path):
    packed = tmp_path / "packed.safetensors"
    save_graph(picking, packed, is_packed=True)
    assert packed.stat().st_size < 0.1 * saved.stat().st_size
    graph, database = load_graph(packed), picking.database
    here = joint_positions(database.body.skeleton, database.roots, database.wxyz)
    there = joint_positions(database.body.skeleton, graph.database.roots, graph.database.wxyz)
    assert np.linalg.norm(here - there, axis=-1).max() < 3e-4
    # Whole numbers are exact, so that edges show the same stretches; costs and likenesses are close
    for name in ("first", "target", "way", "kind", "event"):
        np.testing.assert_array_equal(getattr(graph.arrays, name), getattr(picking.arrays, name))
    assert graph.stretches(5) == picking.stretches(5)
    np.testing.assert_allclose(graph.arrays.cost, picking.arrays.cost, rtol=1e-6)
    np.testing.assert_allclose(
        graph.transitions.distance, picking.transitions.distance, rtol=2.0**-6 + 2.0**-11, atol=1e-5
    )
    np.testing.assert_array_equal(graph.database.phases.feet, picking.database.phases.feet)


def test_a_packed_graph_with_a_wrong_size_is_refused(picking, tmp_path):
    tensors, facts = _pack_graph(picking)
    packed, kinds = pack_tensors(tensors)
    kinds["arrays/cost"][1] = [10**12]
    bad = tmp_path / "bad.safetensors"
    GRAPH_FILE.write(bad, packed, {**facts, "packed": kinds, "sha256": hash_arrays(packed)})
    with pytest.raises(FormatError, match="cannot have the shape"):
        load_graph(bad)
    kinds["arrays/cost"][1] = [3]
    GRAPH_FILE.write(bad, packed, {**facts, "packed": kinds, "sha256": hash_arrays(packed)})
    with pytest.raises(FormatError, match="announces"):
        load_graph(bad)
