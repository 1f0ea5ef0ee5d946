"""Pictures and films on disk, read back by other means."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageSequence

from marey.base import InputError, MissingExtraError, MissingFileError, UnknownNameError
from marey.picture import PinholeCamera, files, render, render_motion, save_film, save_image
from marey.picture.files import film_frames, nearest_colour_table
from marey.picture.motions import smooth_camera_path

SMALL = (64, 48)


def test_a_png_keeps_every_value(tmp_path, travelling):
    image = render_motion(travelling, 10, size=SMALL)
    path = save_image(image, tmp_path / "frame.png")
    with Pillow.open(path) as read:
        np.testing.assert_array_equal(np.asarray(read), image)


@pytest.mark.parametrize(("rate_hz", "num_frames", "fps"), [(120.0, 240, 30.0), (30.0, 61, 25.0), (24.0, 1, 30.0)])
def test_a_film_lasts_as_long_as_the_clip_and_shows_the_nearest_frames(swing, rate_hz, num_frames, fps):
    clip = swing(num_frames, rate_hz=rate_hz)
    frames = film_frames(clip, fps)
    assert len(frames) == max(1, round(num_frames / rate_hz * fps))
    times = np.arange(len(frames)) / fps
    inside = times <= clip.duration_s
    assert np.abs(frames / rate_hz - times)[inside].max() <= 0.5 / rate_hz + 1e-9
    assert frames[-1] < num_frames


def test_a_gif_has_all_pictures_and_the_length_of_the_clip(tmp_path, swing):
    clip = swing(31, rate_hz=30.0)
    seen: list[tuple[int, int]] = []
    path = save_film(clip, tmp_path / "film.gif", fps=15.0, size=SMALL, progress=lambda a, b: seen.append((a, b)))
    with Pillow.open(path) as film:
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]
        assert film.size == SMALL and film.info["loop"] == 0
    assert len(durations) == 16
    assert sum(durations) == pytest.approx(1000 * 16 / 15, abs=10)  # a GIF counts in hundredths
    assert seen == [(i, 16) for i in range(1, 17)]


def test_a_gif_keeps_white_paper_and_the_colour_of_touching_feet(tmp_path, swing):
    clip, size = swing(3), (160, 120)
    path = save_film(clip, tmp_path / "film.gif", size=size)
    with Pillow.open(path) as film:
        shown = np.asarray(film.convert("RGB")).astype(int)
    scenes = files._film_scenes(clip, np.array([0]), size, "three-quarter", "follow", files.PALETTES[0])
    drawn = render(next(scenes), size).astype(int)
    assert (shown[0, 0] == 255).all()
    assert np.abs(shown - drawn).mean() < 2.0 and np.quantile(np.abs(shown - drawn), 0.999) < 20


def test_every_colour_of_a_gif_maps_to_its_nearest():
    rng = np.random.default_rng(1)
    colours = rng.integers(0, 256, (256, 3)).astype(np.uint8)
    colours[-1] = 255
    table = nearest_colour_table(colours)
    for cell in rng.integers(0, 64, (50, 3)):
        centre = 4 * cell + 2.0
        distances = np.linalg.norm(colours - centre, axis=1)
        found = table[(cell[0] << 12) | (cell[1] << 6) | cell[2]]
        assert distances[found] == pytest.approx(distances.min())


def test_an_mp4_has_all_pictures_at_the_asked_rate(tmp_path, swing):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    clip = swing(21, rate_hz=30.0)
    path = save_film(clip, tmp_path / "film.mp4", fps=30.0, size=SMALL, camera="all")
    count, seconds = ffmpeg.count_frames_and_secs(str(path))
    assert count == 21 and seconds == pytest.approx(21 / 30, abs=0.02)
    command = [
        ffmpeg.get_ffmpeg_exe(),
        "-loglevel",
        "error",
        "-i",
        str(path),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-",
    ]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(raw, dtype=np.uint8).reshape(21, SMALL[1], SMALL[0], 3).astype(int)
    assert np.abs(frames[0] - frames[10]).max() > 60  # the body moved
    image = render_motion(clip, 0, size=SMALL)
    assert frames[0].mean() == pytest.approx(image.mean(), abs=12)  # and the colours are right


def test_what_ffmpeg_says_reaches_the_user(tmp_path, swing):
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(InputError, match="ffmpeg could not write"):
        files._write_mp4(tmp_path / "absent" / "film.mp4", iter([np.zeros((48, 64, 3), dtype=np.uint8)] * 3), 30.0)


def test_films_are_the_same_bytes_twice(tmp_path, swing):
    clip = swing(7)
    for suffix in ("gif", "mp4"):
        one, two = (save_film(clip, tmp_path / f"{n}.{suffix}", size=SMALL).read_bytes() for n in ("one", "two"))
        assert one == two


def test_a_following_camera_keeps_the_body_in_the_middle_and_a_still_one_does_not(travelling):
    scenes = {
        kind: list(files._film_scenes(travelling, np.array([0, 60]), SMALL, "side", kind, files.PALETTES[0]))
        for kind in ("follow", "all")
    }
    columns = {
        kind: [s.camera.project(travelling.root_positions[f], SMALL)[0] for s, f in zip(both, (0, 60), strict=True)]
        for kind, both in scenes.items()
    }
    assert columns["follow"][0] == pytest.approx(columns["follow"][1], abs=1e-6)
    assert columns["all"][1] - columns["all"][0] > 20
    for scene, f in zip(scenes["all"], (0, 60), strict=True):
        u, v, _ = scene.camera.project(travelling.joint_positions()[f], SMALL).T
        assert u.min() > 0 and u.max() < SMALL[0] and v.min() > 0 and v.max() < SMALL[1]


def test_the_following_camera_does_not_sway(swing):
    clip = swing(121, rate_hz=60.0)
    sway = 0.05 * np.sin(2 * np.pi * clip.times())  # once a second
    roots = clip.root_positions + sway[:, None] * [1.0, 0.0, 0.0]
    way = smooth_camera_path(replace(clip, root_positions=roots))
    np.testing.assert_allclose(way[:, 2], clip.root_positions[:, 2], atol=1e-9)
    assert np.abs(way[30:-30, 0]).max() < 0.002 and (way[:, 1] == 0.0).all()


def test_a_given_camera_films(travelling):
    camera = PinholeCamera([4, 1, 2], [0, 1, 2])
    (scene,) = files._film_scenes(travelling, np.array([3]), SMALL, "side", camera, files.PALETTES[0])
    assert scene.camera is camera


def test_a_failed_film_leaves_nothing_and_keeps_the_old_file(tmp_path, travelling):
    target = tmp_path / "film.gif"
    target.write_bytes(b"old")

    def fail(done: int, total: int) -> None:
        if done == 3:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        save_film(travelling, target, size=SMALL, progress=fail)
    assert [p.name for p in tmp_path.iterdir()] == ["film.gif"] and target.read_bytes() == b"old"


def test_without_the_video_extra_one_sentence_says_what_to_install(tmp_path, travelling, monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'marey\[video\]'"):
        save_film(travelling, tmp_path / "film.mp4", size=SMALL)
    assert not list(tmp_path.iterdir())


def test_wrong_targets_are_refused(tmp_path, travelling):
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    with pytest.raises(InputError, match="suffix"):
        save_image(image, tmp_path / "frame.xyz")
    with pytest.raises(InputError, match="suffix"):
        save_film(travelling, tmp_path / "film.avi")
    with pytest.raises(MissingFileError, match="Make the folder"):
        save_image(image, tmp_path / "absent" / "frame.png")
    with pytest.raises(InputError, match="uint8"):
        save_image(np.zeros((4, 4, 3)), tmp_path / "frame.png")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="even"):
        save_film(travelling, tmp_path / "film.mp4", size=(63, 48))
    with pytest.raises(InputError, match="at most 50"):
        save_film(travelling, tmp_path / "film.gif", fps=60.0)
    with pytest.raises(UnknownNameError, match="follow"):
        save_film(travelling, tmp_path / "film.gif", camera="folow")
    assert not list(tmp_path.iterdir())
