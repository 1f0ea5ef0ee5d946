/** Quantities of a live session over its last seconds, drawn as the timeline draws curves. */

import { effect, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { readTheme } from "../shell/theme";
import { type CurveRow, sampledChannels } from "../timeline";
import { TimeAxis } from "../timeline/axis";
import { drawCurves, drawReadout, FONT } from "../timeline/draw";
import { fitValues } from "../timeline/layout";
import { NOTHING } from "../timeline/model";

const SPAN_S = 6;
const HEIGHT_PX = 110;

/** What is plotted: the array or fact that holds it, its unit, and a name for each of its numbers. */
export type Quantity = [name: string, unit: string, channels: string[]];

/** Of the physics report, and of a simulation. */
export const PLOTS: Record<string, Quantity> = {
  "ground force": ["ground_force", "body weights", ["x", "y", "z"]],
  energy: ["energy", "J", ["kinetic", "potential", "total"]],
  momentum: ["momentum", "kg m/s", ["x", "y", "z"]],
  "angular momentum": ["angular_momentum", "kg m²/s", ["x", "y", "z"]],
};

/** The last seconds of a session's facts. */
export class Trace {
  private readonly rows: { timeS: number; facts: Record<string, unknown> }[] = [];

  note(facts: Record<string, unknown>): void {
    const timeS = Number(facts.time_s ?? 0);
    const last = this.rows.at(-1)?.timeS;
    // A session that stands still adds nothing, one that was begun anew starts anew
    if (timeS === last) return;
    if (last !== undefined && timeS < last) this.rows.length = 0;
    this.rows.push({ timeS, facts });
    while (this.rows[0].timeS < timeS - SPAN_S) this.rows.shift();
  }

  get endS(): number {
    return this.rows.at(-1)?.timeS ?? 0;
  }

  /** One quantity as a row of curves; null before there is a line to draw. */
  row([fact, unit, channels]: Quantity): CurveRow | null {
    const { rows } = this;
    if (rows.length < 2) return null;
    const data = Float32Array.from(rows.flatMap(({ facts }) => facts[fact] as number[]));
    const rateHz = (rows.length - 1) / (rows.at(-1)!.timeS - rows[0].timeS);
    return { kind: "curve", id: fact, label: fact, unit, channels: sampledChannels(channels, data, rateHz, rows[0].timeS), height: HEIGHT_PX };
  }
}

/** A plot of one of several quantities; `ticks` is read to draw again. */
export function LivePlot({ trace, quantities, ticks }: { trace: Trace; quantities: Record<string, Quantity>; ticks: () => unknown }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const chosen = useSignal(Object.keys(quantities)[0]);
  useEffect(() => effect(() => {
    ticks();
    const [c, row] = [canvas.current?.getContext("2d"), trace.row(quantities[chosen.value])];
    if (c == null) return;
    const [width, ratio] = [c.canvas.clientWidth, window.devicePixelRatio || 1];
    if (c.canvas.width !== Math.round(width * ratio)) Object.assign(c.canvas, { width: Math.round(width * ratio), height: Math.round(HEIGHT_PX * ratio) });
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, HEIGHT_PX);
    if (row === null) return;
    const axis = new TimeAxis(SPAN_S, width, 40, 4);
    axis.startS = Math.max(0, trace.endS - SPAN_S); // of a window that moves along
    c.save();
    c.font = FONT;
    c.textBaseline = "middle";
    const values = fitValues(row, trace.endS);
    drawCurves(c, row, axis, values, readTheme(), NOTHING);
    drawReadout(c, row, axis, values, readTheme(), trace.endS);
    c.restore();
  }), []);
  return (
    <figure class="plot">
      <div class="segments" role="radiogroup" aria-label="Plot">
        {Object.keys(quantities).map((name) => <button type="button" key={name} role="radio" aria-checked={chosen.value === name} onClick={() => (chosen.value = name)}>{name}</button>)}
      </div>
      <canvas ref={canvas} role="img" aria-label={`${chosen.value} over time`} style={{ width: "100%", height: `${HEIGHT_PX}px` }} />
      <figcaption class="muted">{chosen.value} [{quantities[chosen.value][1]}] over {SPAN_S} s</figcaption>
    </figure>
  );
}
