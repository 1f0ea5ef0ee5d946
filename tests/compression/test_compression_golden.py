"""One small file of every version and method, still readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from marey.compression import compress, compute_distortion, compute_joint_errors, compute_shell_errors, decompress

from .conftest import chain_motion

GOLDEN = Path(__file__).parent / "golden"


def test_version_1_of_the_default_codec_still_decodes():
    clip = chain_motion(frames=40)
    back = decompress((GOLDEN / "v1_default.marey").read_bytes())
    assert compute_shell_errors(clip, back).max() <= 5e-3 and compute_joint_errors(clip, back).max() <= 5e-3
    assert back.skeleton.names == clip.skeleton.names
    assert back.contacts is not None and back.contacts.names == ("left_heel", "right\nheel")


def test_version_1_of_waves_still_decodes():
    clip = chain_motion(frames=40)
    back = decompress((GOLDEN / "v1_waves.marey").read_bytes())
    assert compute_distortion(clip, back) <= 3.0


def test_version_1_of_the_thesis_codec_still_decodes():
    clip = chain_motion(frames=40)
    back = decompress((GOLDEN / "v1_tournier2011.marey").read_bytes())
    assert compute_distortion(clip, back) <= 30.0


@pytest.mark.parametrize("method", ["default", "waves"])
def test_today_s_files_are_no_larger(method):
    clip = chain_motion(frames=40)
    options = {"max_error_m": 5e-3} if method == "default" else {"distortion_percent": 3.0}
    assert len(compress(clip, **options)) <= 1.02 * (GOLDEN / f"v1_{method}.marey").stat().st_size
