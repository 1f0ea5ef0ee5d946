"""`marey run`: make takes again from their recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from marey.cli.common import Outcome, plan_outputs, progress_bar, remark, run_each, write_motion
from marey.cli.options import Csv, Format, Json, check_motion_file, option


def run(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...", help="Recipe files (TOML).")],
    out: Annotated[str | None, option("Motion file to write; for several recipes, a folder.", "-o", "--out")] = None,
    format: Format = "safetensors",  # noqa: A002 (the option is called so)
    seed: Annotated[int | None, option("Another seed than the recipe's.", min=0)] = None,
    json: Json = False,
    csv: Csv = None,
) -> None:
    """Run recipes of takes: a tool of the studio, its inputs, settings and seed, and the layers and edits on top.

    Each gives its motion, beside the recipe unless -o says where; files that a tool makes go to the same folder. Paths
    in a recipe are those of its own folder. Same recipe, same bytes.
    """
    from marey.pipeline.recipes import load_recipe, run_recipe
    from marey.studio.tools import TOOLS

    targets = plan_outputs(recipes, out, f".{format}")
    for target in targets.values():
        check_motion_file(target)

    def cook(file: str) -> Outcome:
        from dataclasses import replace

        from marey.base import write_atomically

        recipe = load_recipe(file)
        recipe = recipe if seed is None else replace(recipe, seed=seed)
        with progress_bar(recipe.tool) as tell:
            made = run_recipe(recipe, TOOLS, on_progress=lambda share, _: tell(round(100 * share), 100))
        facts: dict[str, Any] = {"tool": recipe.tool, "out": None, "files": [], "text": made.text}
        if made.motion is not None:
            write_motion(made.motion, targets[file])
            facts |= {"out": targets[file], "frames": made.motion.num_frames, "rate_hz": made.motion.rate_hz}
        for name, data in made.files.items():
            path = Path(targets[file]).parent / name
            write_atomically(path, data)
            remark(f"wrote {path}")
            facts["files"].append(str(path))
        facts |= {"table": list(made.table), "report": dict(made.report)}
        return Outcome(facts, f"{file}  {recipe.tool}: {made.text}", list(made.table) or None)

    run_each("run", recipes, cook, is_json=json, csv=csv)
