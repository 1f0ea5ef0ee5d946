"""Behaviour files: space, body and usual poses in one ``.safetensors`` file that cannot run code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from marey.base import FloatArray, MareyError, TensorFormat, Tensors
from marey.dynamics import JointTree, TreeSkeleton
from marey.skeleton import Skeleton
from marey.spacetime._behaviour import BehaviourPose, BehaviourSpace, ContactBorder

BEHAVIOUR_FILE: Final = TensorFormat(
    "marey-behaviour", "behaviour", 1, "Fit one with BehaviourSpace.fit, or name a shipped one."
)
_TREE_FIELDS: Final = ("parents", "kinds", "axes", "offsets", "masses", "centres", "inertias", "orientations")
_SPACE_FIELDS: Final = ("columns", "mean", "basis", "variances", "lower", "upper")


def write_behaviour(behaviour: BehaviourSpace, path: Path) -> None:
    """Write a behaviour that :func:`read_behaviour` gives back bit for bit."""
    tree, figure = behaviour.tree, behaviour.tree.figure
    assert figure is not None
    skeleton = figure.skeleton
    tensors: Tensors = {f"tree.{name}": getattr(tree, name) for name in _TREE_FIELDS}
    tensors |= {"tree.lower": tree.lower, "tree.upper": tree.upper}
    tensors |= {f"space.{name}": getattr(behaviour, name) for name in _SPACE_FIELDS}
    tensors |= {f"skeleton.{name}": getattr(skeleton, name) for name in ("parents", "offsets", "tips")}
    for name, border in behaviour.borders.items():
        tensors |= {f"border.{name}.mean": border.mean, f"border.{name}.deviation": border.deviation}
    for name, pose in behaviour.poses.items():
        tensors |= {f"pose.{name}.q": pose.q, f"pose.{name}.qd": pose.qd}
    BEHAVIOUR_FILE.write(path, tensors, _describe_behaviour(behaviour, figure))


def _describe_behaviour(behaviour: BehaviourSpace, figure: TreeSkeleton) -> dict[str, Any]:
    """What is not an array."""
    tree, skeleton = behaviour.tree, figure.skeleton
    return {
        "name": behaviour.name,
        "trials": behaviour.trials,
        "report": behaviour.report,
        "residual_variance": behaviour.residual_variance,
        "explained": behaviour.explained,
        "accel_scale": behaviour.accel_scale,
        "coordinates": tree.names,
        "groups": tree.groups,
        "points": {name: [dof, *point.tolist()] for name, (dof, point) in tree.points.items()},
        "skeleton": skeleton.name,
        "joints": skeleton.names,
        "joint_dofs": figure.joint_dofs,
        "borders": sorted(behaviour.borders),
        "poses": sorted(behaviour.poses),
    }


def read_behaviour(path: Path) -> BehaviourSpace:
    """Read a behaviour file.

    Raises:
        MissingFileError: there is no such file.
        FormatError: the file is damaged, holds something else, or was written by a newer marey.
    """
    tensors, described = BEHAVIOUR_FILE.read(path)
    try:
        return _restore_behaviour(tensors, described)
    except (MareyError, KeyError, TypeError, ValueError, IndexError) as error:
        raise BEHAVIOUR_FILE.damaged(path, error) from error


def _restore_behaviour(tensors: Tensors, described: Mapping[str, Any]) -> BehaviourSpace:
    skeleton = Skeleton(
        tuple(str(name) for name in described["joints"]),
        tensors["skeleton.parents"],
        tensors["skeleton.offsets"],
        tensors["skeleton.tips"],
        name=str(described["skeleton"]),
    )
    dofs = tuple(tuple(int(dof) for dof in joint) for joint in described["joint_dofs"])
    points = {str(name): (int(p[0]), np.array(p[1:], dtype=np.float64)) for name, p in described["points"].items()}
    tree = JointTree(
        names=tuple(str(name) for name in described["coordinates"]),
        **{name: tensors[f"tree.{name}"] for name in _TREE_FIELDS},  # type: ignore[arg-type]
        lower=tensors["tree.lower"],
        upper=tensors["tree.upper"],
        groups=tuple(str(name) for name in described["groups"]),
        points=points,
        figure=TreeSkeleton(skeleton, dofs),
    )
    return BehaviourSpace(
        tree=tree,
        **{name: tensors[f"space.{name}"] for name in _SPACE_FIELDS},  # type: ignore[arg-type]
        residual_variance=float(described["residual_variance"]),
        explained=float(described["explained"]),
        borders={
            str(n): ContactBorder(*_read_pair(tensors, f"border.{n}", "mean", "deviation"))
            for n in described["borders"]
        },
        poses={str(n): BehaviourPose(*_read_pair(tensors, f"pose.{n}", "q", "qd")) for n in described["poses"]},
        accel_scale=float(described["accel_scale"]),
        trials=tuple(str(trial) for trial in described["trials"]),
        name=str(described["name"]),
        report=tuple(str(line) for line in described["report"]),
    )


def _read_pair(tensors: Tensors, stem: str, first: str, second: str) -> tuple[FloatArray, FloatArray]:
    return tensors[f"{stem}.{first}"], tensors[f"{stem}.{second}"]
