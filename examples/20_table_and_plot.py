"""A table over clips, and the plot of one of them: validity by frame as CSV, and its margins as curves."""

import marey

REPORTS = {}
for name in ("walk", "run", "jump"):
    clip = marey.load(name)  # a shipped name, or the path of your own file
    REPORTS[name] = marey.dynamics.check_validity(clip, marey.Body.from_motion(clip))
    print(REPORTS[name])

# One row for each frame: time, colour, causes, margins. pandas.read_csv takes the file as it is.
for name, report in REPORTS.items():
    report.to_csv(f"20_{name}.csv")

# One row for each clip
rows = [{"clip": name, "valid": report.valid_fraction, "verdict": report.verdict} for name, report in REPORTS.items()]
marey.base.write_table(rows, "20_clips.csv")

REPORTS["jump"].plot("20_jump.png")
