/** Edits of rows by dragging: each gives a new row and leaves the old one as it is, so that the old one is its inverse. */

import { lowerBound } from "../curves/channel";
import { nearest } from "./layout";
import { type ContactRow, type Edge, type Row, rowTimes, type Strip, stripStop } from "./model";

/** Nearest of sorted candidates within a reach, else the nearest frame. */
export function snapTime(timeS: number, candidates: Float64Array, reachS: number, rateHz: number): number {
  const near = nearest(candidates, timeS, reachS);
  return near < 0 ? Math.round(timeS * rateHz) / rateHz : candidates[near];
}

/** Times worth snapping to: the playhead, the range, and what is visible of every row except what is dragged. */
export function snapCandidates(rows: readonly Row[], extra: number[], fromS: number, toS: number, isDragged: (row: Row, timeS: number) => boolean): Float64Array {
  const found = [...extra];
  for (const row of rows) {
    const times = rowTimes(row);
    const [first, last] = [lowerBound(times, fromS), lowerBound(times, toS)];
    // Where hundreds are visible, a snap to each would be a snap to none
    if (last - first > 400) continue;
    for (let i = first; i < last; i++) if (!isDragged(row, times[i])) found.push(times[i]);
  }
  return Float64Array.from(found).sort();
}

/** Another end of a contact: at least a frame long, and at least a frame away from the next contact. */
export function moveEdge(row: ContactRow, run: number, edge: Edge, timeS: number, frameS: number, durationS: number): ContactRow {
  const { starts, stops } = row;
  const moved = edge === "start" ? starts.slice() : stops.slice();
  const [least, most] =
    edge === "start"
      ? [run > 0 ? stops[run - 1] + frameS : 0, stops[run] - frameS]
      : [starts[run] + frameS, run + 1 < starts.length ? starts[run + 1] - frameS : durationS];
  // An end that already breaks the limits (touching runs of a file) may stay where it is
  moved[run] = Math.min(Math.max(timeS, Math.min(least, moved[run])), Math.max(most, moved[run]));
  return edge === "start" ? { ...row, starts: moved } : { ...row, stops: moved };
}

/** The part of a shift that keeps keys on the timeline. */
export function limitShift(times: Float64Array, selected: Int32Array, dtS: number, durationS: number): number {
  if (selected.length === 0) return dtS;
  const [first, last] = [times[selected[0]], times[selected[selected.length - 1]]];
  return Math.min(Math.max(dtS, -first), Math.max(0, durationS - last));
}

export type StripDrag = "move" | "trim-start" | "trim-stop" | "loop" | "blend";

/** What a drag of a strip to a time changes: `timeS` is where the held part (start, end or tab) should lie. */
export function dragStrip(strips: readonly Strip[], index: number, drag: StripDrag, timeS: number, frameS: number): Partial<Strip> {
  const strip = strips[index];
  const length = strip.out_s - strip.in_s;
  const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), Math.max(low, high));
  switch (drag) {
    case "move": {
      const start_s = Math.max(0, timeS);
      // Where the strip now overlaps the one before, the overlap is the cross-fade
      const before = strips.filter((other, i) => i !== index && other.start_s <= start_s).map(stripStop);
      const overlap = Math.max(0, ...before) - start_s;
      return overlap > 0 ? { start_s, blend_s: Math.min(overlap, length * strip.loop) } : { start_s };
    }
    case "trim-start": {
      const shift = clamp(timeS - strip.start_s, Math.max(-strip.in_s, -strip.start_s), length - frameS);
      return { start_s: strip.start_s + shift, in_s: strip.in_s + shift };
    }
    case "trim-stop":
      return { out_s: clamp(strip.in_s + (timeS - strip.start_s) / strip.loop, strip.in_s + frameS, strip.take_s ?? Infinity) };
    case "loop": {
      const loop = Math.max(1, (timeS - strip.start_s) / length);
      // Whole turns hold
      return { loop: Math.abs(loop - Math.round(loop)) < 0.08 ? Math.round(loop) : loop };
    }
    case "blend":
      return { blend_s: clamp(timeS - strip.start_s, 0, length * strip.loop) };
  }
}
