"""`marey compress` and `marey decompress`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import marey
from marey.base import FormatError, InputError, MissingFileError
from marey.cli.clips import library as _compress
from marey.compression import decompress
from marey.io import load, save

app = typer.Typer()
app.command("compress")(_compress.compress)
app.command("decompress")(_compress.decompress)
runner = CliRunner()


@pytest.fixture
def clip(tmp_path, chain):
    path = tmp_path / "chain.safetensors"
    save(chain, path)
    return path


def test_a_clip_goes_through_and_back(clip, tmp_path):
    packed, back = tmp_path / "x.marey", tmp_path / "back.safetensors"
    done = runner.invoke(app, ["compress", str(clip), "-o", str(packed), "--max-error-mm", "0.5", "--json"])
    assert done.exit_code == 0
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["bytes"] == packed.stat().st_size and facts["max_joint_error_mm"] <= 0.5
    assert facts["ratio_acl"] > 1.0
    done = runner.invoke(app, ["decompress", str(packed), "-o", str(back)])
    assert done.exit_code == 0
    assert np.abs(load(back).joint_positions() - load(clip).joint_positions()).max() < 6e-4


def test_many_files_go_to_a_folder_or_stay_beside(clip, tmp_path, chain):
    other = tmp_path / "other.safetensors"
    save(chain[:20], other)
    done = runner.invoke(app, ["compress", str(clip), str(other), "-o", str(tmp_path / "out") + "/"])
    assert done.exit_code == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"chain.marey", "other.marey"}
    assert decompress((tmp_path / "out" / "other.marey").read_bytes()).num_frames == 20
    done = runner.invoke(app, ["decompress", str(tmp_path / "out" / "other.marey"), "--format", "glb", "--json"])
    assert done.exit_code == 0 and (tmp_path / "out" / "other.glb").exists()


def test_one_bad_file_does_not_stop_the_others(clip, tmp_path):
    bad = tmp_path / "bad.bvh"
    bad.write_text("nothing")
    done = runner.invoke(app, ["compress", str(bad), str(clip)])
    assert done.exit_code == 1
    assert (tmp_path / "chain.marey").exists() and not (tmp_path / "bad.marey").exists()


def test_errors_name_the_file(tmp_path):
    broken = tmp_path / "broken.marey"
    broken.write_bytes(b"MARY" + bytes(50))
    with pytest.raises(FormatError, match=r"broken\.marey"):
        _compress.read_compressed(str(broken))
    with pytest.raises(MissingFileError):
        _compress.read_compressed(str(tmp_path / "none.marey"))


def test_two_inputs_of_one_name_have_targets_of_their_own(clip, tmp_path):
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "chain.safetensors").write_bytes(clip.read_bytes())
    done = runner.invoke(
        app, ["compress", str(clip), str(folder / "chain.safetensors"), "-o", str(tmp_path / "out") + "/"]
    )
    assert done.exit_code == 0
    assert len(list((tmp_path / "out").rglob("*.marey"))) == 2


def test_a_compressed_file_is_loaded_like_any_other(tmp_path):
    walk = marey.samples.walk()[:60]
    (tmp_path / "walk.marey").write_bytes(marey.compress(walk, max_error_m=1e-3))
    motion = marey.load(tmp_path / "walk.marey")
    assert motion.num_frames == 60
    assert np.abs(motion.joint_positions() - walk.joint_positions()).max() < 1.1e-3
    (tmp_path / "cut.marey").write_bytes((tmp_path / "walk.marey").read_bytes()[:100])
    with pytest.raises(FormatError, match=r"cut\.marey"):
        marey.load(tmp_path / "cut.marey")
    with pytest.raises(InputError, match="always in metres"):
        marey.load(tmp_path / "walk.marey", unit="cm")
