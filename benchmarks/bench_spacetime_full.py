"""Fang's examples against the thesis: iterations and seconds, printed as a table ([Fang2003]_ §7).

Run: python benchmarks/bench_spacetime_full.py
"""

from __future__ import annotations

from marey.spacetime import EXAMPLES, optimize

THESIS = {  # iterations, seconds on a 750 MHz Pentium III; None where the thesis gives none
    "dismount-0.6": (650, 26.0),
    "dismount-0.8": (650, 26.0),
    "monkey-bars": (1330, 146.0),
    "pegs": (2213, 243.0),
}


def main() -> None:
    """Solve every example once, after a first one that compiles."""
    optimize(EXAMPLES["monkey-bars"](), on_failure="return")
    optimize(EXAMPLES["dismount-0.6"](), on_failure="return")
    print(
        "| example | thesis: iterations, s | ours: iterations, s | violation | residual between [mg] | valid |"
    )
    print("|---|---|---|---|---|---|")
    for name, build in EXAMPLES.items():
        result = optimize(build(), on_failure="return")
        known = THESIS.get(name)
        theirs = f"{known[0]}, {known[1]:.0f}" if known else "not given"
        ours = f"{result.iterations}, {result.seconds:.2f}"
        check = result.check
        print(
            f"| {name} | {theirs} | {ours} | {result.violation:.0e} | {check.wrench_residual:.3f} | {check.is_valid} |"
        )


if __name__ == "__main__":
    main()
