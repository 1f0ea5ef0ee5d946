"""The project that a new studio opens with."""

from __future__ import annotations

from marey.dynamics import check_validity
from marey.measure import measure_motion
from marey.pipeline import clean_motion
from marey.pipeline.recipes import format_toml
from marey.samples import starter_project
from marey.world import parse_sketch


def test_the_first_clip_is_sound_and_the_last_has_faults_that_cleaning_mends() -> None:
    project = starter_project()
    first, *_, faulty = project.motions
    assert check_validity(first).is_valid
    assert not measure_motion(first).faults
    assert any("slide" in str(fault) for fault in measure_motion(faulty).faults)
    assert not measure_motion(clean_motion(faulty).motion).faults
    assert len({motion.name for motion in project.motions}) == len(project.motions)


def test_its_sketch_can_be_walked_and_its_markers_lie_in_the_clip() -> None:
    project = starter_project()
    assert parse_sketch(format_toml(project.sketch)).path is not None
    assert all(0.0 <= time_s <= project.motions[0].duration_s for time_s, _ in project.markers)
