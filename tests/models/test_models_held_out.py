"""Walks of people who were not in the fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from marey import load
from marey.models import PCA, PGA, joint_error

FITTED = ("07_01", "07_02", "08_01", "16_15", "35_01", "35_02", "39_01", "39_03")
HELD_OUT = ("02_01", "37_01", "38_01", "43_01", "69_01", "91_57")


@pytest.mark.mocap
@pytest.mark.slow
def test_a_model_of_walks_reconstructs_walks_of_other_people(mocap, capsys):
    """The 90, 95 and 99 % rules; a table of joint errors, PCA and PGA side by side (the whole study: benchmarks)."""
    fitted, held = ([load(mocap / "cmu-bvh" / f"{n}.bvh")[::4] for n in names] for names in (FITTED, HELD_OUT))
    means: dict[tuple[str, float], float] = {}
    lines = []
    for settings in (PCA(space="euler"), PCA(), PGA(), PGA(weights="lever")):
        for share in (0.90, 0.95, 0.99):
            model = replace(settings, explained=share).fit(fitted)
            error = joint_error(model, held)
            means[str(settings), share] = error.mean_cm
            lines.append(f"{share:.2f} {model!r}: {error}")
            assert model.num_components <= 25
    with capsys.disabled():
        print("", *lines, sep="\n")
    for share in (0.90, 0.95):
        pca, pga, lever = (means[str(s), share] for s in (PCA(), PGA(), PGA(weights="lever")))
        assert pga <= 1.02 * pca
        assert lever <= pga
        assert lever < 6.0
