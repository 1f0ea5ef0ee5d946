"""What splines take from scipy, which has no types; imported where it is used, since it is slow to load."""

from __future__ import annotations

from typing import Any

from scipy import interpolate as _interpolate
from scipy import sparse as _sparse
from scipy import spatial as _spatial
from scipy.sparse import csgraph as _csgraph

sparse: Any = _sparse
_graphs: Any = _csgraph
_trees: Any = _spatial
_curves: Any = _interpolate

dijkstra = _graphs.dijkstra
KDTree = _trees.KDTree
PchipInterpolator = _curves.PchipInterpolator
