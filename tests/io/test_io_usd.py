"""USD skeletons, against usd-core's own skeleton query; damaged and hostile files end in a sentence."""

from __future__ import annotations

import math
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from oracles.mutants import check_mutants, child_peak_mb

import marey
from marey.base import FormatError, MissingExtraError, UnknownNameError
from marey.io.usd.files import LIMITS, READER, list_usd_clips, read_usd

pytest.importorskip("pxr", reason="the extra 'usd' is not installed")


def make_stage(path: Path, *, up: str = "Y", codes: float = 30.0, unit: float | None = 0.01, step: int = 1) -> Path:
    """A leg below a prim that travels, with two animations; their joints are fewer and in another order."""
    from pxr import Gf, Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    if unit is not None:
        UsdGeom.SetStageMetersPerUnit(stage, unit)
    stage.SetTimeCodesPerSecond(codes)
    root = UsdSkel.Root.Define(stage, "/Person")
    travel = root.AddTranslateOp()
    skeleton = UsdSkel.Skeleton.Define(stage, "/Person/Rig")
    skeleton.AddRotateXOp().Set(20.0)
    joints = ["Hips", "Hips/Spine", "Hips/Leg", "Hips/Leg/Foot"]
    skeleton.CreateJointsAttr(joints)

    def at(*place: float) -> Gf.Matrix4d:
        return Gf.Matrix4d(1).SetTranslate(Gf.Vec3d(*place))

    turned = Gf.Matrix4d(1).SetRotate(Gf.Rotation(Gf.Vec3d(0, 0, 1), 30.0))
    rest = [turned * at(0, 100, 0), at(0, 40, 0), at(10, -50, 0), turned * at(0, -45, 0)]
    skeleton.CreateRestTransformsAttr(rest)
    skeleton.CreateBindTransformsAttr([rest[0], rest[1] * rest[0], rest[2] * rest[0], rest[3] * rest[2] * rest[0]])
    for number, name in enumerate(("Idle", "Walk", "Run")):
        animation = UsdSkel.Animation.Define(stage, f"/Person/{name}")
        animation.CreateJointsAttr([joints[3], joints[0], joints[2]])
        animation.CreateScalesAttr([Gf.Vec3h(1)] * 3)
        moved, rotated = animation.CreateTranslationsAttr(), animation.CreateRotationsAttr()
        places = [Gf.Vec3f(0, -45, 0), Gf.Vec3f(0, 100, 0), Gf.Vec3f(10, -50, 0)]
        moved.Set(places)
        rotated.Set([Gf.Quatf(1)] * 3)
        for code in range(0, 20 * step, step) if number else ():
            moved.Set([places[0], Gf.Vec3f(0, 100 + code, 0), places[2]], code)
            a, b = math.sin(code / 3) / 2, math.cos(number * code / 5) / 2
            bent, swung = Gf.Quatf(math.cos(a), math.sin(a), 0, 0), Gf.Quatf(math.cos(b), 0, 0, math.sin(b))
            rotated.Set([bent, swung, Gf.Quatf(math.cos(b), 0, math.sin(b), 0)], code)
            travel.Set(Gf.Vec3d(3.0 * code, 0, -code), code)
    UsdSkel.BindingAPI.Apply(skeleton.GetPrim()).CreateAnimationSourceRel().SetTargets(["/Person/Walk"])
    stage.GetRootLayer().Save()
    return path


def query_positions(path: Path, animation: str, times: list[float]) -> np.ndarray:
    """World positions ``(F, J, 3)`` by UsdSkelSkeletonQuery, +Y up, in metres."""
    from pxr import Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.Open(str(path))
    prim = stage.GetPrimAtPath("/Person/Rig")
    UsdSkel.BindingAPI(prim).GetAnimationSourceRel().SetTargets([animation])
    cache = UsdSkel.Cache()
    cache.Populate(UsdSkel.Root(stage.GetPrimAtPath("/Person")), Usd.PrimDefaultPredicate)
    query = cache.GetSkelQuery(UsdSkel.Skeleton(prim))
    places = []
    for code in times:
        matrices = query.ComputeJointWorldTransforms(UsdGeom.XformCache(code))
        places.append([list(matrix.ExtractTranslation()) for matrix in matrices])
    found = np.array(places) * UsdGeom.GetStageMetersPerUnit(stage)
    if UsdGeom.GetStageUpAxis(stage) == "Z":
        found = np.stack([found[..., 0], found[..., 2], -found[..., 1]], axis=-1)
    return found


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usd"])
@pytest.mark.parametrize("up", ["Y", "Z"])
@pytest.mark.parametrize("name", ["Walk", "Run"])
def test_joints_are_where_the_skeleton_query_has_them(tmp_path, suffix, up, name):
    path = make_stage(tmp_path / f"leg{suffix}", up=up)
    motion = read_usd(path, clip=name)
    assert motion.skeleton.names == ("Hips", "Spine", "Leg", "Foot")
    assert motion.num_frames == 20 and motion.rate_hz == 30.0
    theirs = query_positions(path, f"/Person/{name}", list(range(20)))
    np.testing.assert_allclose(motion.joint_positions(), theirs, atol=1e-6)


def test_between_samples_the_values_are_those_of_usd(tmp_path):
    path = make_stage(tmp_path / "sparse.usda", step=4, codes=24.0)
    motion = read_usd(path, clip="Run")
    assert motion.rate_hz == 24.0 and motion.num_frames == 77
    theirs = query_positions(path, "/Person/Run", [float(i) for i in range(77)])
    np.testing.assert_allclose(motion.joint_positions(), theirs, atol=1e-5)


def test_the_first_animation_that_moves_is_read_and_a_note_names_the_others(tmp_path):
    path = make_stage(tmp_path / "leg.usda")
    assert marey.clips(path) == list_usd_clips(path) == ("Idle", "Walk", "Run")
    motion = marey.load(path)
    assert motion.name == "Walk"
    assert any("'Idle', 'Run'" in note for note in motion.load_report.notes)
    assert np.ptp(marey.load(path, clip=0).rotations.wxyz, axis=0).max() < 1e-12
    with pytest.raises(UnknownNameError, match="Did you mean 'Run'"):
        marey.load(path, clip="Rum")


def test_a_package_is_read_like_its_layer(tmp_path):
    from pxr import UsdUtils

    layer = make_stage(tmp_path / "leg.usdc")
    assert UsdUtils.CreateNewUsdzPackage(str(layer), str(tmp_path / "leg.usdz"))
    plain, packed = read_usd(layer), read_usd(tmp_path / "leg.usdz")
    np.testing.assert_array_equal(plain.joint_positions(), packed.joint_positions())


def test_a_stage_without_a_unit_is_in_centimetres_and_says_so(tmp_path):
    motion = read_usd(make_stage(tmp_path / "leg.usda", unit=None))
    assert motion.source is not None and motion.source.metres_per_unit == 0.01
    assert any("no unit" in note for note in motion.load_report.notes)
    metres = read_usd(tmp_path / "leg.usda", unit="m")
    np.testing.assert_allclose(metres.joint_positions(), 100.0 * motion.joint_positions(), rtol=1e-12)


def test_layers_are_read_beside_the_file_and_nowhere_else(tmp_path):
    (tmp_path / "inside").mkdir()
    make_stage(tmp_path / "inside" / "rig.usda")
    make_stage(tmp_path / "secret.usda")
    text = '#usda 1.0\n(\n    metersPerUnit = 0.01\n)\ndef "Person" (\n    references = @{place}@</Person>\n)\n{{\n}}\n'
    file = tmp_path / "inside" / "scene.usda"
    file.write_text(text.format(place="./rig.usda"))
    assert read_usd(file).skeleton.num_joints == 4
    for place in ("../secret.usda", str(tmp_path / "secret.usda"), "https://example.org/rig.usda"):
        file.write_text(text.format(place=place))
        with pytest.raises(FormatError, match="no skeleton"):
            read_usd(file)
    (tmp_path / "inside" / "link.usda").symlink_to(tmp_path / "secret.usda")
    file.write_text(text.format(place="./link.usda"))
    with pytest.raises(FormatError, match="no skeleton"):
        read_usd(file)


def test_payloads_and_sublayers_outside_are_left_out_too(tmp_path):
    (tmp_path / "inside").mkdir()
    make_stage(tmp_path / "secret.usda")
    file = tmp_path / "inside" / "scene.usda"
    file.write_text("#usda 1.0\n(\n    subLayers = [@../secret.usda@]\n)\n")
    with pytest.raises(FormatError, match="no skeleton"):
        read_usd(file)
    file.write_text('#usda 1.0\ndef "Person" (\n    payload = @../secret.usda@</Person>\n)\n{\n}\n')
    with pytest.raises(FormatError, match="no skeleton"):
        read_usd(file)
    file.write_text(
        '#usda 1.0\ndef "A" (\n    variants = {\n        string v = "x"\n    }\n    prepend variantSets = "v"\n)\n{\n'
        '    variantSet "v" = {\n        "x" (\n            references = @../secret.usda@</Person>\n        ) {\n'
        "        }\n    }\n}\n"
    )
    with pytest.raises(FormatError, match="no skeleton"):
        read_usd(file)


def test_without_the_library_the_install_line_is_given(tmp_path, monkeypatch):
    (tmp_path / "pxr.py").write_text("raise ImportError('not here')")
    (tmp_path / "leg.usda").write_text("#usda 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"pip install 'marey\[usd\]'"):
        read_usd(tmp_path / "leg.usda")


# Damaged and hostile files


@pytest.mark.parametrize("count", [6, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_damaged_files_end_in_a_motion_or_a_sentence(tmp_path, suffix, count):
    content = make_stage(tmp_path / f"leg{suffix}").read_bytes()
    check_mutants(read_usd, content, tmp_path / f"mutant{suffix}", count)


def test_a_child_holds_less_than_200_mb(tmp_path):
    content = bytearray(make_stage(tmp_path / "leg.usdc").read_bytes())
    assert child_peak_mb(READER, tmp_path / "leg.usdc", {"clip": None}, LIMITS) > 30.0
    rng = np.random.default_rng(2)
    for _ in range(6):
        damaged = bytearray(content)
        for at in rng.integers(0x58, len(content) - 8, 8):
            damaged[at : at + 8] = (0x7FFFFFFF).to_bytes(8, "little")
        (tmp_path / "damaged.usdc").write_bytes(damaged)
        assert child_peak_mb(READER, tmp_path / "damaged.usdc", {"clip": None}, LIMITS) < 200.0


def test_a_bomb_in_a_package_is_refused(tmp_path):
    path = tmp_path / "bomb.usdz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("scene.usda", b"#usda 1.0\n" + b" " * (300 << 20))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(FormatError):
        read_usd(path)


@pytest.mark.parametrize("text", ["", "#usda 1.0\n", "#usda 1.0\ndef X {\n", "hello", "#usda 9.9\n"])
def test_files_without_a_skeleton_are_refused(tmp_path, text):
    (tmp_path / "odd.usda").write_text(text)
    with pytest.raises(FormatError):
        read_usd(tmp_path / "odd.usda")


def test_deep_nesting_is_refused(tmp_path):
    deep = "#usda 1.0\n" + "".join(f'def "a{i}" {{\n' for i in range(30_000))
    (tmp_path / "deep.usda").write_text(deep + "}\n" * 30_000)
    with pytest.raises(FormatError):
        read_usd(tmp_path / "deep.usda")


@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_a_million_joints_are_refused_in_time(tmp_path, suffix):
    from pxr import Sdf

    joints = ", ".join(f'"j{i}"' for i in range(1_000_000))
    layer = Sdf.Layer.CreateNew(str(tmp_path / f"many{suffix}"))
    layer.ImportFromString(f'#usda 1.0\ndef Skeleton "Rig"\n{{\n    uniform token[] joints = [{joints}]\n}}\n')
    layer.Save()
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.process_time()
    with pytest.raises(FormatError, match="joints"):
        read_usd(tmp_path / f"many{suffix}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert time.process_time() - started + after.ru_utime - before.ru_utime < 2.0


@pytest.mark.real
def test_real_files_stand_where_usd_core_has_them(real):
    from pxr import Usd, UsdGeom, UsdSkel

    for name, joints in (("simple_character.usda", 7), ("character_with_materials.usda", 17)):
        path = real / "momentum-tests" / name
        motion = marey.load(path)
        stage = Usd.Stage.Open(str(path))
        prim = next(prim for prim in stage.Traverse() if prim.IsA(UsdSkel.Skeleton))
        query = UsdSkel.Cache().GetSkelQuery(UsdSkel.Skeleton(prim))
        matrices = query.ComputeJointWorldTransforms(UsdGeom.XformCache())
        assert len(matrices) == joints
        places = dict(zip(motion.skeleton.names, motion.joint_positions()[0], strict=True))
        for joint, matrix in zip(query.GetJointOrder(), matrices, strict=True):
            np.testing.assert_allclose(places[joint], list(matrix.ExtractTranslation()), atol=1e-9)
    with pytest.raises(FormatError, match="no skeleton"):
        marey.load(real / "momentum-tests" / "simple_mesh.usda")
