"""Functions of scipy without types; imported where they are used, since scipy is slow to load."""

from __future__ import annotations

from typing import Any

from scipy import interpolate as _interpolate
from scipy import linalg as _linalg
from scipy import optimize as _optimize
from scipy import sparse as _sparse
from scipy import spatial as _spatial
from scipy.sparse import csgraph as _csgraph
from scipy.sparse import linalg as _sparse_linalg

sparse_arrays: Any = _sparse
_splines: Any = _interpolate
_solvers: Any = _sparse_linalg
_dense: Any = _linalg
_search: Any = _optimize

splu = _solvers.splu
design_matrix = _splines.BSpline.design_matrix
minimize = _search.minimize
cho_factor = _dense.cho_factor
cho_solve = _dense.cho_solve
lu_factor = _dense.lu_factor
lu_solve = _dense.lu_solve
LinAlgError = _linalg.LinAlgError


sparse: Any = _sparse
_graphs: Any = _csgraph
_trees: Any = _spatial
_curves: Any = _interpolate

dijkstra = _graphs.dijkstra
KDTree = _trees.KDTree
PchipInterpolator = _curves.PchipInterpolator
