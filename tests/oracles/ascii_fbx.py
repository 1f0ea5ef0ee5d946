"""ASCII FBX 7.4 files put together by hand, and where their nodes are by matrices of scipy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

KTIME = 46_186_158_000  # FBX ticks in a second
Curves = dict[tuple[str, str], tuple[list[float], list[list[float]]]]


@dataclass
class Node:
    """A model: rotations in degrees, x first, then y, then z, as FBX has them."""

    name: str
    parent: str = ""
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    pre: tuple[float, float, float] = (0.0, 0.0, 0.0)
    kind: str = "LimbNode"


@dataclass
class Scene:
    """Nodes and takes; a take gives (node, "T" | "R" | "S") its key times [s] and values, linear between them."""

    nodes: list[Node]
    takes: dict[str, Curves] = field(default_factory=dict)
    unit_cm: float = 1.0
    up: int = 1
    time_mode: int = 6  # 30 Hz
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    def text(self) -> str:
        """The file."""
        objects: list[str] = []
        links: list[str] = []
        numbers = {node.name: 10 + 2 * i for i, node in enumerate(self.nodes)}
        for node in self.nodes:
            number = numbers[node.name]
            values = (
                ("Lcl Translation", node.translation),
                ("Lcl Rotation", node.rotation),
                ("Lcl Scaling", node.scale),
            )
            props = "".join(f'P: "{n}", "{n}", "", "A",{v[0]},{v[1]},{v[2]}\n' for n, v in values)
            props += 'P: "RotationActive", "bool", "", "",1\nP: "InheritType", "enum", "", "",1\n'
            props += f'P: "PreRotation", "Vector3D", "Vector", "",{node.pre[0]},{node.pre[1]},{node.pre[2]}\n'
            objects.append(
                f'Model: {number}, "Model::{node.name}", "{node.kind}" {{\nProperties70: {{\n{props}}}\n}}\n'
            )
            flag = "Skeleton" if node.kind == "LimbNode" else "Null"
            called = f'NodeAttribute: {number + 1}, "NodeAttribute::{node.name}", "{node.kind}"'
            objects.append(f'{called} {{\nTypeFlags: "{flag}"\n}}\n')
            links += [f'C: "OO",{number},{numbers.get(node.parent, 0)}', f'C: "OO",{number + 1},{number}']
        next_id = 10_000
        for take, curves in self.takes.items():
            stack, layer = next_id, next_id + 1
            next_id += 2
            begin, end = self.ranges.get(take, (0.0, 0.0))
            span = (
                f'P: "LocalStart", "KTime", "Time", "",{round(begin * KTIME)}\n'
                f'P: "LocalStop", "KTime", "Time", "",{round(end * KTIME)}\n'
            )
            span = f"Properties70: {{\n{span}}}\n" if end > begin else ""
            objects.append(f'AnimationStack: {stack}, "AnimStack::{take}", "" {{\n{span}}}\n')
            objects.append(f'AnimationLayer: {layer}, "AnimLayer::Base", "" {{\n}}\n')
            links.append(f'C: "OO",{layer},{stack}')
            for (name, kind), (times, values) in curves.items():
                prop = {"T": "Lcl Translation", "R": "Lcl Rotation", "S": "Lcl Scaling"}[kind]
                group = next_id
                next_id += 1
                objects.append(f'AnimationCurveNode: {group}, "AnimCurveNode::{kind}", "" {{\n}}\n')
                links += [f'C: "OO",{group},{layer}', f'C: "OP",{group},{numbers[name]}, "{prop}"']
                for axis, column in zip("XYZ", np.array(values).T, strict=True):
                    ticks = ",".join(str(round(t * KTIME)) for t in times)
                    floats = ",".join(repr(float(v)) for v in column)
                    count = len(times)
                    objects.append(
                        f'AnimationCurve: {next_id}, "AnimCurve::", "" {{\nKeyVer: 4008\n'
                        f"KeyTime: *{count} {{\na: {ticks}\n}}\nKeyValueFloat: *{count} {{\na: {floats}\n}}\n"
                        "KeyAttrFlags: *1 {\na: 4\n}\nKeyAttrDataFloat: *4 {\na: 0,0,0,0\n}\n"
                        f"KeyAttrRefCount: *1 {{\na: {count}\n}}\n}}\n"
                    )
                    links.append(f'C: "OP",{next_id},{group}, "d|{axis}"')
                    next_id += 1
        front, across = {1: (2, 0), 2: (1, 0)}[self.up]
        sign = {1: 1, 2: -1}[self.up]
        return (
            "; FBX 7.4.0 project file\n"
            'FBXHeaderExtension: {\nFBXHeaderVersion: 1003\nFBXVersion: 7400\nCreator: "by hand"\n}\n'
            "GlobalSettings: {\nVersion: 1000\nProperties70: {\n"
            f'P: "UpAxis", "int", "Integer", "",{self.up}\nP: "UpAxisSign", "int", "Integer", "",1\n'
            f'P: "FrontAxis", "int", "Integer", "",{front}\nP: "FrontAxisSign", "int", "Integer", "",{sign}\n'
            f'P: "CoordAxis", "int", "Integer", "",{across}\nP: "CoordAxisSign", "int", "Integer", "",1\n'
            f'P: "UnitScaleFactor", "double", "Number", "",{self.unit_cm}\n'
            f'P: "TimeMode", "enum", "", "",{self.time_mode}\n}}\n}}\n'
            f"Objects: {{\n{''.join(objects)}}}\nConnections: {{\n" + "\n".join(links) + "\n}\n"
        )

    def position(self, name: str, take: str, time: float) -> np.ndarray:
        """Where a node is [m], +Y up."""
        matrix = self.world(name, take, time)
        x, y, z = matrix[:3, 3] * self.unit_cm / 100.0
        return np.array([x, y, z] if self.up == 1 else [x, z, -y])

    def world(self, name: str, take: str, time: float) -> np.ndarray:
        """4x4 matrix of a node in the file's axes and unit."""
        node = next(node for node in self.nodes if node.name == name)
        parts = {"T": node.translation, "R": node.rotation, "S": node.scale}
        for kind in parts:
            found = self.takes.get(take, {}).get((name, kind))
            if found is not None:
                times, values = found
                parts[kind] = tuple(np.interp(time, times, column) for column in np.array(values).T)
        turn = Rotation.from_euler("xyz", node.pre, degrees=True) * Rotation.from_euler("xyz", parts["R"], degrees=True)
        local = np.eye(4)
        local[:3, :3] = turn.as_matrix() * np.array(parts["S"])
        local[:3, 3] = parts["T"]
        return local if not node.parent else self.world(node.parent, take, time) @ local
