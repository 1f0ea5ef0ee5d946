"""Binary FBX 7.4: a tree of named records with typed values, objects and connections; the skinned mesh as objects.

A record is its end in the file, the number and size of its values, its name, the values, the records below it and, if
there are any, thirteen zero bytes. The layout is known from readers (ufbx, Blender); there is no public specification.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from marey.base import FloatArray, IntArray
from marey.io.character import Character, weight_matrix

CENTIMETRES: Final = 100.0  # in a metre
FIRST_ID: Final = 1_000_000
VERSION: Final = 7400
MAGIC: Final = b"Kaydara FBX Binary  \x00\x1a\x00"
CREATION_TIME: Final = "1970-01-01 10:00:00:000"  # fixed: the same motion gives the same bytes
FILE_ID: Final = bytes.fromhex("28b32aebb624ccc2bfc8b02aa92bfcf1")  # belongs to that time
FOOTER_ID: Final = bytes.fromhex("fabcab09d0c8d466b176fb831cf7267e")  # belongs to that time
FOOTER_MAGIC: Final = bytes.fromhex("f85a8c6adef5d97eece90ce3758f290b")
NO_RECORD: Final = b"\0" * 13  # ends a list of records
EMPTY_BLOCKS: Final = ("AnimationStack", "AnimationLayer")  # end with a list even where it is empty
COMPRESSED_BYTES: Final = 256  # [byte] shorter arrays are stored plainly
FAST: Final = 1  # level of zlib: times shrink a hundredfold, values hardly
_ARRAYS: Final = {"float32": b"f", "float64": b"d", "int64": b"l", "int32": b"i"}


@dataclass(slots=True)
class FbxRecord:
    """One record; values are ints (64 bits), floats, strings, bytes, arrays, or whatever :func:`short` makes."""

    name: str
    values: tuple[Any, ...] = ()
    records: list[FbxRecord] = field(default_factory=list["FbxRecord"])

    def add(self, name: str, *values: Any) -> FbxRecord:
        """Append a record and return it."""
        self.records.append(FbxRecord(name, values))
        return self.records[-1]


@dataclass(frozen=True, slots=True)
class PackedValue:
    """A value that is encoded already."""

    content: bytes


def short(value: int) -> PackedValue:
    """Encode an integer of 32 bits."""
    return PackedValue(b"I" + struct.pack("<i", value))


def pack_array(array: NDArray[Any]) -> PackedValue:
    """Encode an array of float32, float64, int32 or int64, compressed where that pays."""
    content = np.ascontiguousarray(array).tobytes()
    code, plain = _ARRAYS[array.dtype.name], len(content)
    is_long = plain > COMPRESSED_BYTES
    content = zlib.compress(content, FAST) if is_long else content
    return PackedValue(code + struct.pack("<III", array.size, int(is_long), len(content)) + content)


@dataclass(slots=True)
class FbxScene:
    """Objects and connections of a file while they are collected."""

    objects: FbxRecord = field(default_factory=lambda: FbxRecord("Objects"))
    connections: FbxRecord = field(default_factory=lambda: FbxRecord("Connections"))

    def add(self, kind: str, name: str, label: str, form: str) -> tuple[int, FbxRecord]:
        """Append an object such as ``Model`` of ``form`` ``LimbNode``; returns its number and its record."""
        number = FIRST_ID + len(self.objects.records)
        return number, self.objects.add(kind, number, f"{name}\x00\x01{label}", form)

    def connect(self, child: int, parent: int, to: str | None = None) -> None:
        """Hang an object on another, or on a property of it; 0 is the scene."""
        values = ("OO", child, parent) if to is None else ("OP", child, parent, to)
        self.connections.add("C", *values)


def add_properties(record: FbxRecord, *rows: tuple[Any, ...]) -> None:
    """Append typed properties: name, type, label, flags, values."""
    table = record.add("Properties70")
    for row in rows:
        table.add("P", *row)


def matrix_values(place: FloatArray) -> PackedValue:
    """Encode a translation as a matrix of 16 numbers, columns first."""
    matrix = np.eye(4)
    matrix[3, :3] = place
    return pack_array(matrix.reshape(-1))


def pack_file(records: list[FbxRecord]) -> bytes:
    """Return the content of a binary FBX file."""
    parts = [MAGIC, struct.pack("<I", VERSION)]
    size = len(MAGIC) + 4
    for record in records:
        size = _pack_record(record, size, parts)
    parts += [NO_RECORD, FOOTER_ID, b"\0" * 4]
    size += len(NO_RECORD) + len(FOOTER_ID) + 4
    # The version starts on a multiple of sixteen, after at least one zero
    parts += [b"\0" * (16 - size % 16), struct.pack("<I", VERSION), b"\0" * 120, FOOTER_MAGIC]
    return b"".join(parts)


def _pack_record(record: FbxRecord, start: int, parts: list[bytes]) -> int:
    """Append one record, which begins at byte ``start`` of the file, and return where it ends."""
    values = b"".join([_pack_value(value) for value in record.values])
    name = record.name.encode()
    place = len(parts)
    parts += [b"", values]
    end = start + 13 + len(name) + len(values)
    for below in record.records:
        end = _pack_record(below, end, parts)
    if record.records or not record.values or record.name in EMPTY_BLOCKS:
        parts.append(NO_RECORD)
        end += len(NO_RECORD)
    parts[place] = struct.pack("<IIIB", end, len(record.values), len(values), len(name)) + name
    return end


def _pack_value(value: Any) -> bytes:
    if isinstance(value, PackedValue):
        return value.content
    if isinstance(value, bool):
        return b"C" + struct.pack("<?", value)
    if isinstance(value, int):
        return b"L" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"D" + struct.pack("<d", value)
    kind, content = (b"R", value) if isinstance(value, bytes) else (b"S", str(value).encode())
    return kind + struct.pack("<I", len(content)) + content


MOST_TINTS: Final = 32  # materials; a texture has more colours


def add_mesh(scene: FbxScene, character: Character, models: list[int], rest: FloatArray) -> list[int]:
    """Add a character's mesh, skinned to its joints; returns the number of its model, in a list.

    Args:
        scene: what is being written.
        character: the mesh.
        models: limb node of each joint of its skeleton.
        rest: joint positions ``(J, 3)`` [cm] in the rest pose.
    """
    name = character.name
    geometry, record = scene.add("Geometry", name, "Geometry", "Mesh")
    record.add("GeometryVersion", short(124))
    record.add("Vertices", pack_array((character.vertices * CENTIMETRES).reshape(-1)))
    # The last corner of a polygon is stored as its complement
    corners = character.triangles.astype(np.int32)
    corners[:, 2] = ~corners[:, 2]
    record.add("PolygonVertexIndex", pack_array(corners.reshape(-1)))
    # Colours of the materials, and which one each triangle has: the mean of all where they are many
    first = np.round(character.colours[character.triangles[:, 0]], 3)
    tints, painted = np.unique(first, axis=0, return_inverse=True)
    painted = painted.reshape(-1).astype(np.int64)
    if len(tints) > MOST_TINTS:
        tints, painted = character.colours.mean(axis=0, keepdims=True), np.zeros(len(first), dtype=np.int64)
    _add_layers(record, character, painted)
    model, record = scene.add("Model", name, "Model", "Mesh")
    record.add("Version", short(232))
    add_properties(
        record,
        ("InheritType", "enum", "", "", short(1)),
        ("DefaultAttributeIndex", "int", "Integer", "", short(0)),
    )
    record.add("Shading", True)
    record.add("Culling", "CullingOff")
    scene.connect(model, 0)
    scene.connect(geometry, model)
    for number, tint in enumerate(tints):
        material, record = scene.add("Material", f"{name}_{number}", "Material", "")
        record.add("Version", short(102))
        record.add("ShadingModel", "lambert")
        add_properties(record, ("DiffuseColor", "Color", "", "A", *(float(x) for x in tint)))
        scene.connect(material, model)
    skin, record = scene.add("Deformer", name, "Deformer", "Skin")
    record.add("Version", short(101))
    record.add("Link_DeformAcuracy", 50.0)
    scene.connect(skin, geometry)
    # One cluster for each joint: which vertices, how much, and both frames when they were bound
    weights = weight_matrix(character).tocsc()
    for joint, bone in enumerate(models):
        held = slice(weights.indptr[joint], weights.indptr[joint + 1])
        shares = weights.data[held]
        some = shares > 0.0
        if not some.any():
            continue
        cluster, record = scene.add("Deformer", character.skeleton.names[joint], "SubDeformer", "Cluster")
        record.add("Version", short(100))
        record.add("UserData", "", "")
        record.add("Indexes", pack_array(weights.indices[held][some].astype(np.int32)))
        record.add("Weights", pack_array(shares[some]))
        record.add("Transform", matrix_values(-rest[joint]))
        record.add("TransformLink", matrix_values(rest[joint]))
        scene.connect(cluster, skin)
        scene.connect(bone, cluster)
    return [model]


def _add_layers(record: FbxRecord, character: Character, painted: IntArray) -> None:
    """Add vertex colours and the material of each triangle."""
    colours = record.add("LayerElementColor", short(0))
    colours.add("Version", short(101))
    colours.add("Name", "colours")
    colours.add("MappingInformationType", "ByPolygonVertex")
    colours.add("ReferenceInformationType", "IndexToDirect")
    rgba = np.concatenate([character.colours, np.ones((len(character.colours), 1))], axis=1)
    colours.add("Colors", pack_array(rgba.reshape(-1)))
    colours.add("ColorIndex", pack_array(character.triangles.reshape(-1).astype(np.int32)))
    materials = record.add("LayerElementMaterial", short(0))
    materials.add("Version", short(101))
    materials.add("Name", "")
    materials.add("MappingInformationType", "ByPolygon")
    materials.add("ReferenceInformationType", "IndexToDirect")
    materials.add("Materials", pack_array(painted.astype(np.int32)))
    layer = record.add("Layer", short(0))
    layer.add("Version", short(100))
    for kind in ("LayerElementColor", "LayerElementMaterial"):
        element = layer.add("LayerElement")
        element.add("Type", kind)
        element.add("TypedIndex", short(0))
