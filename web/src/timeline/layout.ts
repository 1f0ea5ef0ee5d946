/** Where rows lie, and what lies under a pointer. The same searches as drawing; nothing is asked of the page. */

import { type Channel, type CurveKeys, lowerBound, valueBounds } from "../curves/channel";
import type { TimeAxis } from "./axis";
import { type CurveRow, type Edge, type Row, runAt, type Selection, stripStop } from "./model";

export const RULER_PX = 24;
export const BAR_PX = 10; // the scroll bar below the rows
const GAP_PX = 2;
const HANDLE_PX = 32; // from a selected key of a curve to the ends of its tangent
const HEIGHTS: Record<Row["kind"], number> = { bands: 15, contacts: 15, keys: 17, strips: 34, events: 17, curve: 120 };
const TAB_PX = 9; // the tabs of a strip for its blend and its loop, at its upper corners

/** Rows below one another under the ruler; the ruler stays, rows scroll. */
export class Layout {
  scrollPx = 0;
  readonly tops: Float64Array; // without the scroll; one more than rows
  constructor(
    readonly rows: readonly Row[],
    public heightPx = 0,
  ) {
    this.tops = new Float64Array(rows.length + 1);
    for (const [i, row] of rows.entries()) this.tops[i + 1] = this.tops[i] + rowHeight(row) + GAP_PX;
  }

  /** Height of everything, without scrolling. */
  get totalPx(): number {
    return RULER_PX + this.tops[this.rows.length] + BAR_PX;
  }

  scroll(pixels: number): void {
    this.scrollPx = Math.min(Math.max(this.scrollPx + pixels, 0), Math.max(0, this.totalPx - this.heightPx));
  }

  top(row: number): number {
    return RULER_PX + this.tops[row] - this.scrollPx;
  }

  /** The row at a height, or -1. */
  rowAt(y: number): number {
    if (y < RULER_PX || y >= this.heightPx - BAR_PX) return -1;
    const row = lowerBound(this.tops, y - RULER_PX + this.scrollPx + 1e-9) - 1;
    return row >= 0 && row < this.rows.length ? row : -1;
  }

  reveal(row: number): void {
    const [top, bottom] = [this.tops[row], this.tops[row + 1]];
    const viewPx = this.heightPx - RULER_PX - BAR_PX;
    if (top < this.scrollPx) this.scroll(top - this.scrollPx);
    else if (bottom > this.scrollPx + viewPx) this.scroll(bottom - this.scrollPx - viewPx);
  }
}

export function rowHeight(row: Row): number {
  return row.height ?? HEIGHTS[row.kind];
}

/** Name of a list of keys in a selection: a row, or a channel of a curve row. */
export function keyList(row: Row, channel = -1): string {
  return channel < 0 ? row.id : `${row.id}/${channel}`;
}

/** The way between values and pixels of one curve row: the whole of its channels fits. */
export class ValueAxis {
  constructor(
    readonly low: number,
    readonly high: number,
    readonly topPx: number,
    readonly heightPx: number,
  ) {}

  toPixels(value: number): number {
    return this.topPx + ((this.high - value) / (this.high - this.low)) * this.heightPx;
  }

  get pixelsPerUnit(): number {
    return this.heightPx / (this.high - this.low);
  }

  at(topPx: number): ValueAxis {
    return new ValueAxis(this.low, this.high, topPx, this.heightPx);
  }
}

/** The value axis of a curve row over the whole timeline, so that panning does not change it. */
export function fitValues(row: CurveRow, durationS: number): ValueAxis {
  const [low, high] = valueBounds(row.channels, 0, durationS);
  return new ValueAxis(low, high, 0, rowHeight(row));
}

export type Hit =
  | { part: "ruler" | "bar" | "outside" }
  | { part: "label" | "empty"; row: number }
  | { part: "range"; edge: Edge }
  | { part: "item"; row: number; index: number; edge: Edge | null }
  | { part: "blend" | "loop"; row: number; index: number }
  | { part: "key"; row: number; channel: number; index: number }
  | { part: "slope"; row: number; channel: number; index: number; side: 1 | -1 };

/** What the pointer needs to know of what is shown. */
export interface Scene {
  axis: TimeAxis;
  layout: Layout;
  rangeS: [number, number] | null;
  selection: Selection;
  values(row: CurveRow): ValueAxis;
}

/** What lies under a pointer, at most `reachPx` away. */
export function hitTest(scene: Scene, x: number, y: number, reachPx = 5): Hit {
  const { axis, layout, rangeS } = scene;
  if (x < 0 || x > axis.widthPx || y < 0) return { part: "outside" };
  if (y >= layout.heightPx - BAR_PX) return { part: "bar" };
  if (y < RULER_PX) {
    for (const [i, edge] of (["start", "stop"] as const).entries()) {
      if (rangeS !== null && x >= axis.leftPx - reachPx && Math.abs(axis.toPixels(rangeS[i]) - x) <= reachPx) return { part: "range", edge };
    }
    return { part: "ruler" };
  }
  const row = layout.rowAt(y);
  if (row < 0) return { part: "outside" };
  if (x < axis.leftPx) return { part: "label", row };
  return hitRow(scene, row, x, y, reachPx) ?? { part: "empty", row };
}

function hitRow(scene: Scene, row: number, x: number, y: number, reachPx: number): Hit | null {
  const { axis, layout } = scene;
  const what = layout.rows[row];
  const timeS = axis.toSeconds(x);
  if (what.kind === "curve") return hitCurve(scene, what, row, x, y, reachPx + 1);
  if (what.kind === "strips") {
    // The later strip lies on top
    for (let index = what.strips.length - 1; index >= 0; index--) {
      const strip = what.strips[index];
      const [from, to] = [axis.toPixels(strip.start_s), axis.toPixels(stripStop(strip))];
      if (x < from - reachPx || x > to + reachPx) continue;
      const isTop = y - layout.top(row) < TAB_PX;
      const blendX = axis.toPixels(strip.start_s + strip.blend_s);
      if (isTop && Math.abs(x - to) <= TAB_PX && x <= to + reachPx) return { part: "loop", row, index };
      if (isTop && Math.abs(x - blendX) <= TAB_PX) return { part: "blend", row, index };
      const edge = Math.abs(x - from) <= reachPx ? "start" : Math.abs(x - to) <= reachPx ? "stop" : null;
      return { part: "item", row, index, edge };
    }
    return null;
  }
  const reachS = reachPx / axis.pixelsPerSecond;
  if (what.kind === "keys" || what.kind === "events") {
    const index = nearest(what.times, timeS, reachS);
    if (index < 0) return null;
    return what.kind === "keys" ? { part: "key", row, channel: -1, index } : { part: "item", row, index, edge: null };
  }
  if (what.kind === "contacts") {
    // The nearest end; inside a short run each half belongs to its end, so that both can be held
    const [near, far] = [nearest(what.starts, timeS, reachS), nearest(what.stops, timeS, reachS)];
    const away = (time: number): number => Math.abs(time - timeS);
    if (near >= 0 && (far < 0 || away(what.starts[near]) <= away(what.stops[far]))) return { part: "item", row, index: near, edge: "start" };
    if (far >= 0) return { part: "item", row, index: far, edge: "stop" };
  }
  const index = runAt(what.starts, what.stops, timeS);
  return index < 0 ? null : { part: "item", row, index, edge: null };
}

function hitCurve(scene: Scene, what: CurveRow, row: number, x: number, y: number, reachPx: number): Hit | null {
  const { axis, layout } = scene;
  const values = scene.values(what).at(layout.top(row));
  for (const [channel, { keys }] of what.channels.entries()) {
    if (keys === null) continue;
    for (const index of scene.selection.keys.get(keyList(what, channel)) ?? []) {
      for (const side of [1, -1] as const) {
        const [endX, endY] = tangentEnd(keys, index, side, axis, values);
        if (Math.hypot(endX - x, endY - y) <= reachPx) return { part: "slope", row, channel, index, side };
      }
    }
    const first = lowerBound(keys.times, axis.toSeconds(x - reachPx));
    for (let index = first; index < keys.times.length && axis.toPixels(keys.times[index]) <= x + reachPx; index++) {
      if (Math.hypot(axis.toPixels(keys.times[index]) - x, values.toPixels(keys.values[index]) - y) <= reachPx) return { part: "key", row, channel, index };
    }
  }
  return null;
}

/** Where the tangent of a key ends on one side [px]; there it is held. */
export function tangentEnd({ times, values: heights, slopes }: CurveKeys, index: number, side: 1 | -1, axis: TimeAxis, values: ValueAxis): [number, number] {
  const [dx, dy] = [axis.pixelsPerSecond, -slopes[index] * values.pixelsPerUnit];
  const scale = (side * HANDLE_PX) / Math.hypot(dx, dy);
  return [axis.toPixels(times[index]) + scale * dx, values.toPixels(heights[index]) + scale * dy];
}

/** Index of the time nearest to `timeS` within a reach, or -1. */
export function nearest(times: Float64Array, timeS: number, reachS: number): number {
  const next = lowerBound(times, timeS);
  const after = next < times.length ? times[next] - timeS : Infinity;
  const before = next > 0 ? timeS - times[next - 1] : Infinity;
  if (Math.min(before, after) > reachS) return -1;
  return before < after ? next - 1 : next;
}

/** Keys inside a box of pixels, by list. */
export function boxSelect(scene: Scene, x0: number, y0: number, x1: number, y1: number): Map<string, Int32Array> {
  const { axis, layout } = scene;
  const [left, right] = [axis.toSeconds(Math.min(x0, x1)), axis.toSeconds(Math.max(x0, x1))];
  const [top, bottom] = [Math.min(y0, y1), Math.max(y0, y1)];
  const found = new Map<string, Int32Array>();
  const add = (list: string, times: Float64Array, isInside: (i: number) => boolean): void => {
    const [first, last] = [lowerBound(times, left), lowerBound(times, right)];
    const indices = Int32Array.from({ length: last - first }, (_, i) => first + i).filter(isInside);
    if (indices.length > 0) found.set(list, indices);
  };
  layout.rows.forEach((row, r) => {
    const [rowTop, rowBottom] = [layout.top(r), layout.top(r) + rowHeight(row)];
    if (rowBottom < top || rowTop > bottom) return;
    if (row.kind === "keys") add(keyList(row), row.times, () => true);
    if (row.kind !== "curve") return;
    const values = scene.values(row).at(rowTop);
    row.channels.forEach(({ keys }: Channel, channel) => {
      if (keys === null) return;
      add(keyList(row, channel), keys.times, (i) => {
        const y = values.toPixels(keys.values[i]);
        return y >= top && y <= bottom;
      });
    });
  });
  return found;
}
