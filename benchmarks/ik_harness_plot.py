"""The study of inverse kinematics as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FLOOR = 1e-8  # [unit²] objectives below this are drawn here: a hundredth of a millimetre in each goal


def draw(report: dict[str, Any], file: Path) -> None:
    """Box plots of the objective at each interval above; below the sweeps of distance, noise, start and step."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(report["coherence"])
    colours = {name: plt.get_cmap("tab20")(k % 20) for k, name in enumerate(names)}
    intervals = list(next(iter(report["coherence"].values())))
    figure, axes = plt.subplots(2, 4, figsize=(20, 11), layout="constrained")
    for axis, interval in zip(axes[0], intervals, strict=True):
        _boxes(axis, report["coherence"], interval, colours, names, is_first=interval == intervals[0])
    below = (
        (
            "stretch",
            "jump_max",
            "goals stretched from the pelvis by",
            "largest turn over what the goals ask for",
            "log",
        ),
        ("noise", "shake", "noise of the goals [m]", "shake: third differences over the reference's", "log"),
        ("starts", "reached_share", "start turned by [rad]", "share of frames reached", "linear"),
    )
    for axis, (sweep, key, across, up, scale) in zip(axes[1], below, strict=False):
        for name in names:
            row = report[sweep][name]
            axis.plot(
                list(row),
                [max(row[s][key], 1e-2 if scale == "log" else 0.0) for s in row],
                ".-",
                color=colours[name],
                label=name,
            )
        axis.set(xlabel=across, ylabel=up, yscale=scale)
        axis.grid(alpha=0.3)
    axes[1, 0].axhline(5.0, color="k", linewidth=0.8, linestyle="--")
    steps = report["transpose_step"]
    for key, label in (
        ("rising_share", "iterations that rise"),
        ("diverged_share", "frames that end above their start"),
    ):
        axes[1, 3].plot(list(steps), [steps[s][key] for s in steps], ".-", label=label)
    axes[1, 3].set(xlabel="fixed step of the transpose", ylabel="share")
    axes[1, 3].legend(fontsize=8)
    what = f"limits: {report['limits']}, {report['slot_ms']:g} ms a frame, clips: {', '.join(report['clips'][:6])}"
    figure.suptitle(f"Solvers of inverse kinematics in the same slot of time ({what})")
    figure.savefig(file, dpi=80)
    plt.close(figure)


def _boxes(
    axis: Any, rows: dict[str, Any], interval: str, colours: dict[str, Any], names: list[str], *, is_first: bool
) -> None:
    stats = []
    for name in names:
        f = rows[name][interval]["objective_unit2"]
        low, q1, middle, q3, high = (max(f[key], FLOOR) for key in ("low", "q1", "median", "q3", "high"))
        fliers = [max(value, FLOOR) for value in f["outliers"]]
        stats.append(
            {"label": name, "whislo": low, "q1": q1, "med": middle, "q3": q3, "whishi": high, "fliers": fliers}
        )
    drawn = axis.bxp(stats, orientation="horizontal", patch_artist=True, flierprops={"marker": ".", "markersize": 4})
    for patch, name in zip(drawn["boxes"], names, strict=True):
        patch.set_facecolor(colours[name])
    axis.axvline(6 * 0.05**2, color="k", linewidth=0.8, linestyle="--")  # six goals, each at the tolerance of 1 cm
    axis.set(xscale="log", xlabel="objective [unit² = 0.04 m²]", title=f"frames {interval} s apart")
    axis.invert_yaxis()
    axis.grid(alpha=0.3, axis="x")
    if not is_first:
        axis.set_yticklabels([])
