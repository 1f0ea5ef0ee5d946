/** Draws the rows and the ruler on a canvas. Only what is visible is found and drawn; dense keys become bars. */

import { type Channel, type CurveKeys, evaluate, lowerBound, type Pyramid, valueAt } from "../curves/channel";
import { decimalsOf, roundStep, type TimeAxis } from "./axis";
import { BAR_PX, keyList, RULER_PX, rowHeight, type Scene, tangentEnd, type ValueAxis } from "./layout";
import {
  type BandRow, type ContactRow, countWithin, type CurveRow, type EventRow, type KeyRow, type Row, type Selection, type StripRow, stripStop,
  type TimelineModel, visibleRuns,
} from "./model";

/** A page or the studio hands its colours in, so that both themes come from one place. */
export const COLOURS = ["bg", "panel", "ink", "muted", "line", "accent", "good", "warn", "bad", "left", "right"] as const;
export type Theme = Record<(typeof COLOURS)[number], string>;

export const LIGHT: Theme = {
  bg: "#f4f5f6", panel: "#ffffff", ink: "#22262a", muted: "#5d656d", line: "#d3d8dc", accent: "#1f6fbf",
  good: "#4f9d69", warn: "#d9a441", bad: "#c8452f", left: "#6d9bc8", right: "#e0a76f",
};

export const DARK: Theme = {
  bg: "#22262a", panel: "#2b3036", ink: "#e8eaec", muted: "#a3abb3", line: "#3b4249", accent: "#5aa9f0",
  good: "#5fb37c", warn: "#dfb156", bad: "#e0614b", left: "#7fabd6", right: "#e6b07c",
};

const BUCKET_PX = 8; // keys nearer than this become a bar
const KEY_PX = 4.5; // half the width of a key's diamond
export const FONT = "11px system-ui, sans-serif";
const LEVEL_COLOURS = ["good", "warn", "bad"] as const;

/** Texts shortened to a width, found once. */
export class TextCache {
  private readonly texts = new Map<string, string>();

  fit(c: CanvasRenderingContext2D, text: string, widthPx: number): string {
    const key = `${Math.floor(widthPx)} ${text}`;
    const known = this.texts.get(key);
    if (known !== undefined) return known;
    let [low, high] = [0, text.length];
    if (c.measureText(text).width > widthPx) {
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (c.measureText(`${text.slice(0, middle)}…`).width <= widthPx) low = middle;
        else high = middle - 1;
      }
    } else low = -1;
    const short = low < 0 ? text : low === 0 ? "" : `${text.slice(0, low)}…`;
    if (this.texts.size > 2000) this.texts.clear();
    this.texts.set(key, short);
    return short;
  }
}

export interface Picture extends Scene {
  model: TimelineModel;
  theme: Theme;
  texts: TextCache;
  focusedRow: number; // by keyboard, or -1
}

/** Everything that does not move with the playhead. */
export function drawPicture(c: CanvasRenderingContext2D, picture: Picture): void {
  const { axis, layout, theme, model } = picture;
  const { widthPx } = axis;
  fillBox(c, theme.bg, 0, 0, widthPx, layout.heightPx);
  c.font = FONT;
  c.textBaseline = "middle";
  c.textAlign = "left";
  const ruler = axis.ruler(model.rateHz);
  // Lines at the marks lie behind the rows
  c.fillStyle = theme.line;
  forMarks(axis, ruler.markS, (x) => c.fillRect(Math.round(x), RULER_PX, 1, layout.heightPx - RULER_PX - BAR_PX));
  c.save();
  clipTo(c, 0, RULER_PX, widthPx, layout.heightPx - RULER_PX - BAR_PX);
  layout.rows.forEach((row, index) => {
    const [top, height] = [layout.top(index), rowHeight(row)];
    if (top + height < RULER_PX || top > layout.heightPx) return;
    fillBox(c, theme.line, 0, Math.round(top + height) + 0.5, widthPx, 0.5);
    c.save();
    c.beginPath();
    c.rect(axis.leftPx, top, widthPx - axis.leftPx, height);
    if (row.kind !== "curve") c.clip();
    drawRow(c, picture, row, top, height);
    c.restore();
    if (index === picture.focusedRow) {
      fillBox(c, theme.accent, 0, top, 3, height);
    }
    c.fillStyle = theme.ink;
    const roomPx = axis.leftPx - 16 - (row.kind === "curve" ? 26 : 0);
    c.fillText(picture.texts.fit(c, row.label, roomPx), 8, row.kind === "curve" ? top + 9 : top + height / 2 + 0.5);
  });
  c.restore();
  fillBox(c, theme.panel, 0, 0, widthPx, RULER_PX);
  fillText(c, theme.muted, "time", 8, RULER_PX / 2);
  forMarks(axis, ruler.tickS, (x) => c.fillRect(Math.round(x), RULER_PX - 4, 1, 4));
  forMarks(axis, ruler.markS, (x, mark) => {
    fillBox(c, theme.muted, Math.round(x), RULER_PX - 9, 1, 9);
    c.fillStyle = theme.ink;
    // A label that would be cut at the edge is left out
    const label = ruler.label(mark);
    if (x + 8 + 6 * label.length < widthPx) c.fillText(label, x + 4, RULER_PX / 2 - 2);
  });
  fillBox(c, theme.line, 0, RULER_PX - 1, widthPx, 1);
  c.fillRect(axis.leftPx - 1, 0, 1, layout.heightPx);
  drawBars(c, picture);
}

/** What moves: the range, the playhead, the box of a selection. */
export function drawOverlay(c: CanvasRenderingContext2D, picture: Picture, box: [number, number, number, number] | null, snapS: number | null): void {
  const { axis, layout, theme, model } = picture;
  const bottom = layout.heightPx - BAR_PX;
  c.save();
  clipTo(c, axis.leftPx - 1, 0, axis.widthPx - axis.leftPx + 1, layout.heightPx);
  if (model.rangeS !== null) {
    const [from, to] = model.rangeS.map((limit) => axis.toPixels(limit));
    // What lies outside the range that is played is dimmed
    c.fillStyle = theme.bg;
    c.globalAlpha = 0.55;
    c.fillRect(axis.leftPx, RULER_PX, Math.max(0, from - axis.leftPx), bottom - RULER_PX);
    c.fillRect(to, RULER_PX, Math.max(0, axis.widthPx - to), bottom - RULER_PX);
    c.globalAlpha = 0.3;
    fillBox(c, theme.accent, from, RULER_PX - 5, to - from, 4);
    c.globalAlpha = 1;
    for (const [x, way] of [[from, 1], [to, -1]]) {
      c.fillRect(x - 1, 0, 2, bottom);
      fillPolygon(c, [[x, RULER_PX - 10], [x + way * 7, RULER_PX - 5], [x, RULER_PX]]);
    }
  }
  if (snapS !== null) {
    fillBox(c, theme.accent, axis.toPixels(snapS) - 0.5, RULER_PX, 1, bottom - RULER_PX);
  }
  if (box !== null) {
    const [x, y, w, h] = [Math.min(box[0], box[2]), Math.min(box[1], box[3]), Math.abs(box[2] - box[0]), Math.abs(box[3] - box[1])];
    c.fillStyle = theme.accent;
    c.globalAlpha = 0.15;
    c.fillRect(x, y, w, h);
    c.globalAlpha = 1;
    setPen(c, theme.accent, 1);
    c.strokeRect(x + 0.5, y + 0.5, w, h);
  }
  c.font = FONT;
  c.textBaseline = "middle";
  for (const [index, row] of layout.rows.entries()) {
    if (row.kind !== "curve" || layout.top(index) < RULER_PX || layout.top(index) > bottom) continue;
    drawReadout(c, row, axis, picture.values(row).at(layout.top(index)), theme, model.playheadS);
  }
  const head = axis.toPixels(model.playheadS);
  fillBox(c, theme.bad, head - 0.75, RULER_PX - 12, 1.5, bottom - RULER_PX + 12);
  fillPolygon(c, [[head - 5, 2], [head + 5, 2], [head + 5, 8], [head, 14], [head - 5, 8]]);
  c.restore();
}

function fillBox(c: CanvasRenderingContext2D, colour: string, x: number, y: number, width: number, height: number): void {
  c.fillStyle = colour;
  c.fillRect(x, y, width, height);
}

function fillText(c: CanvasRenderingContext2D, colour: string, text: string, x: number, y: number): void {
  c.fillStyle = colour;
  c.fillText(text, x, y);
}

function setPen(c: CanvasRenderingContext2D, colour: string, widthPx: number): void {
  c.strokeStyle = colour;
  c.lineWidth = widthPx;
}

function clipTo(c: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
  c.beginPath();
  c.rect(x, y, width, height);
  c.clip();
}

/** Lines through points, or the ends of one. */
function strokeLine(c: CanvasRenderingContext2D, points: readonly (readonly [number, number])[]): void {
  c.beginPath();
  for (const [x, y] of points) c.lineTo(x, y);
  c.stroke();
}

function fillPolygon(c: CanvasRenderingContext2D, points: [number, number][]): void {
  c.beginPath();
  for (const [x, y] of points) c.lineTo(x, y);
  c.fill();
}

function forMarks(axis: TimeAxis, stepS: number, act: (x: number, mark: number) => void): void {
  for (let mark = Math.ceil(axis.startS / stepS - 1e-9); mark * stepS <= axis.stopS + 1e-9; mark++) act(axis.toPixels(mark * stepS), mark);
}

function drawRow(c: CanvasRenderingContext2D, picture: Picture, row: Row, top: number, height: number): void {
  const { axis, theme, selection } = picture;
  if (row.kind === "bands") drawBands(c, row, axis, theme, top, height);
  else if (row.kind === "contacts") drawContacts(c, row, axis, theme, selection, top, height);
  else if (row.kind === "keys") drawKeys(c, row, axis, theme, selection, top, height);
  else if (row.kind === "strips") drawStrips(c, row, picture, top, height);
  else if (row.kind === "events") drawEvents(c, row, picture, top, height);
  else drawCurves(c, row, axis, picture.values(row).at(top), theme, selection);
}

/** Stretches in pixels; those that would share a pixel are one, of the worst level, so that a red frame is never lost. */
function drawBands(c: CanvasRenderingContext2D, row: BandRow, axis: TimeAxis, theme: Theme, top: number, height: number): void {
  const [first, last] = visibleRuns(row.starts, row.stops, axis.startS, axis.stopS);
  let i = first;
  while (i < last) {
    const from = Math.max(axis.leftPx, axis.toPixels(row.starts[i]));
    let to = axis.toPixels(row.stops[i]);
    let level = row.levels[i++];
    while (to - from < 1 && i < last && axis.toPixels(row.stops[i]) - from < 2) {
      to = axis.toPixels(row.stops[i]);
      level = Math.max(level, row.levels[i++]);
    }
    fillBox(c, theme[LEVEL_COLOURS[level]], from, top + 2, Math.max(level > 0 ? 2 : 1, to - from), height - 4);
  }
  if (row.worst < 0) return;
  // The worst stretch has a frame and a pointer of its own
  const [from, to] = [axis.toPixels(row.starts[row.worst]), axis.toPixels(row.stops[row.worst])];
  setPen(c, theme.ink, 1.5);
  c.strokeRect(from - 0.5, top + 1.25, Math.max(3, to - from + 1), height - 2.5);
  const middle = (Math.max(from, axis.leftPx) + Math.min(to, axis.widthPx)) / 2;
  c.fillStyle = theme.ink;
  fillPolygon(c, [[middle - 4, top], [middle + 4, top], [middle, top + 5]]);
}

function drawContacts(c: CanvasRenderingContext2D, row: ContactRow, axis: TimeAxis, theme: Theme, selection: Selection, top: number, height: number): void {
  const [first, last] = visibleRuns(row.starts, row.stops, axis.startS, axis.stopS);
  const colour = row.side === "middle" ? theme.muted : theme[row.side];
  const held = selection.item?.row === row.id ? selection.item : null;
  c.fillStyle = colour;
  let drawnPx = -1;
  for (let i = first; i < last; i++) {
    const [from, to] = [axis.toPixels(row.starts[i]), axis.toPixels(row.stops[i])];
    if (to < drawnPx) continue; // many in one pixel
    drawnPx = Math.max(to, from + 1);
    c.fillRect(from, top + 2, Math.max(1, to - from), height - 4);
    if (to - from < 14 && held?.index !== i) continue;
    // Grips at both ends; the selected one in the accent's colour
    for (const [edge, x] of [["start", from], ["stop", to - 2.5]] as const) {
      c.fillStyle = held?.index === i && held.edge === edge ? theme.accent : theme.ink;
      c.globalAlpha = held?.index === i && held.edge === edge ? 1 : 0.45;
      c.fillRect(x, top + 2, 2.5, height - 4);
    }
    c.globalAlpha = 1;
    c.fillStyle = colour;
  }
}

/** Diamonds where keys can be told apart, bars whose height grows with the logarithm of their number where not. */
function drawKeys(c: CanvasRenderingContext2D, row: KeyRow, axis: TimeAxis, theme: Theme, selection: Selection, top: number, height: number): void {
  const { times } = row;
  const selected = selection.keys.get(keyList(row)) ?? new Int32Array();
  const bucketS = BUCKET_PX / axis.pixelsPerSecond;
  const middle = top + height / 2;
  const stopS = axis.stopS + bucketS;
  let i = lowerBound(times, axis.startS - bucketS);
  const diamonds: [Path2D, Path2D] = [new Path2D(), new Path2D()];
  let colour = "";
  while (i < times.length && times[i] < stopS) {
    // Buckets lie at multiples of their width, so that bars do not flicker while panning
    const bucket = Math.floor(times[i] / bucketS);
    const next = lowerBound(times, (bucket + 1) * bucketS, i + 1);
    const count = next - i;
    const chosen = selected.length === 0 ? 0 : countWithin(selected, i, next);
    if (count === 1 || times[next - 1] === times[i]) {
      const [path, x] = [diamonds[chosen > 0 ? 1 : 0], axis.toPixels(times[i])];
      path.moveTo(x - KEY_PX, middle);
      path.lineTo(x, middle - KEY_PX);
      path.lineTo(x + KEY_PX, middle);
      path.lineTo(x, middle + KEY_PX);
      path.closePath();
    } else {
      const bar = (height - 4) * Math.min(1, 0.35 + 0.16 * Math.log2(count));
      const wanted = chosen > 0 ? theme.accent : theme.muted;
      if (wanted !== colour) fillBox(c, colour = wanted, axis.toPixels(bucket * bucketS), middle - bar / 2, BUCKET_PX - 1, bar);
    }
    i = next;
  }
  c.fillStyle = theme.ink;
  c.fill(diamonds[0]);
  c.fillStyle = theme.accent;
  c.fill(diamonds[1]);
  setPen(c, theme.ink, 1);
  c.stroke(diamonds[1]);
}

function drawStrips(c: CanvasRenderingContext2D, row: StripRow, { axis, theme, selection, texts }: Picture, top: number, height: number): void {
  row.strips.forEach((strip, index) => {
    const stopS = stripStop(strip);
    const [from, to] = [axis.toPixels(strip.start_s), axis.toPixels(stopS)];
    if (to < axis.leftPx || from > axis.widthPx) return;
    const isSelected = selection.item?.row === row.id && selection.item.index === index;
    c.beginPath();
    c.roundRect(from, top + 2, Math.max(2, to - from), height - 4, 4);
    c.fillStyle = theme.panel;
    c.fill();
    c.save();
    c.clip();
    c.globalAlpha = 0.3;
    fillBox(c, theme.accent, from, top, to - from, height);
    c.globalAlpha = 1;
    // Each turn of a loop has a notch
    const periodS = strip.out_s - strip.in_s;
    c.fillStyle = theme.accent;
    for (let turn = 1; turn < strip.loop - 1e-9; turn++) c.fillRect(axis.toPixels(strip.start_s + turn * periodS), top, 1, height);
    if (strip.blend_s > 0) {
      // The cross-fade: this strip comes up under a slope
      const x = axis.toPixels(strip.start_s + strip.blend_s);
      c.globalAlpha = 0.4;
      fillPolygon(c, [[from, top + height - 2], [x, top + 2], [x, top + height - 2]]);
      c.globalAlpha = 1;
      setPen(c, theme.accent, 1.5);
      strokeLine(c, [[from, top + height - 2], [x, top + 2]]);
    }
    c.restore();
    c.beginPath();
    c.roundRect(from + 0.5, top + 2.5, Math.max(2, to - from - 1), height - 5, 4);
    setPen(c, isSelected ? theme.ink : theme.accent, isSelected ? 2 : 1);
    c.stroke();
    if (to - from > 30) {
      // Tabs at the upper corners: blend on the left, loop on the right
      c.fillStyle = theme.ink;
      const x = axis.toPixels(strip.start_s + strip.blend_s);
      fillPolygon(c, [[x, top + 2], [x + 8, top + 2], [x, top + 10]]);
      c.beginPath();
      c.arc(to - 5, top + 7, 3, 0.4, 5.6);
      setPen(c, theme.ink, 1.25);
      c.stroke();
    }
    const left = Math.max(from, axis.leftPx) + 10;
    const turns = strip.loop > 1 ? ` × ${Number(strip.loop.toFixed(2))}` : "";
    fillText(c, theme.ink, texts.fit(c, strip.name + turns, to - left - 12), left, top + height / 2 + 3);
  });
}

function drawEvents(c: CanvasRenderingContext2D, row: EventRow, { axis, theme, texts }: Picture, top: number, height: number): void {
  const middle = top + height / 2;
  const first = lowerBound(row.times, axis.startS - 200 / axis.pixelsPerSecond);
  for (let i = first; i < row.times.length && row.times[i] <= axis.stopS; i++) {
    const x = axis.toPixels(row.times[i]);
    const next = i + 1 < row.times.length ? axis.toPixels(row.times[i + 1]) : axis.widthPx;
    if (next - x < 2) continue;
    c.fillStyle = theme.accent;
    fillPolygon(c, [[x, top + 2], [x + 7, middle], [x, top + height - 2]]);
    fillText(c, theme.ink, texts.fit(c, row.texts[i], next - x - 14), x + 10, middle);
  }
}

/** The scroll bars: time below, rows at the right, each only where there is more than is shown. */
function drawBars(c: CanvasRenderingContext2D, { axis, layout, theme }: Picture): void {
  const y = layout.heightPx - BAR_PX;
  fillBox(c, theme.panel, 0, y, axis.widthPx, BAR_PX);
  const roomPx = axis.widthPx - axis.leftPx;
  if (axis.spanS < axis.wholeS) {
    c.fillStyle = theme.muted;
    c.beginPath();
    c.roundRect(axis.leftPx + (axis.startS / axis.wholeS) * roomPx, y + 2, Math.max(12, (axis.spanS / axis.wholeS) * roomPx), BAR_PX - 4, 3);
    c.fill();
  }
  const viewPx = layout.heightPx - RULER_PX - BAR_PX;
  const allPx = layout.totalPx - RULER_PX - BAR_PX;
  if (allPx > viewPx) {
    c.fillStyle = theme.muted;
    c.globalAlpha = 0.6;
    c.fillRect(axis.widthPx - 4, RULER_PX + (layout.scrollPx / allPx) * viewPx, 3, Math.max(16, (viewPx / allPx) * viewPx));
    c.globalAlpha = 1;
  }
}

/** Sampled channels as envelopes of least and greatest a pixel, keyed ones as lines with their keys. */
export function drawCurves(c: CanvasRenderingContext2D, row: CurveRow, axis: TimeAxis, values: ValueAxis, theme: Theme, selection: Selection): void {
  drawGrid(c, row, axis, values, theme);
  clipTo(c, axis.leftPx, values.topPx, axis.widthPx - axis.leftPx, values.heightPx);
  row.channels.forEach((channel, index) => {
    if (channel.samples !== null) drawSamples(c, channel.samples, axis, values, theme[channel.colour], channel.keys === null);
    if (channel.keys !== null) drawCurveKeys(c, channel, axis, values, theme, selection.keys.get(keyList(row, index)));
  });
}

/** Where the playhead crosses the curves: a dot on each, and its value behind its name. */
export function drawReadout(c: CanvasRenderingContext2D, row: CurveRow, axis: TimeAxis, values: ValueAxis, theme: Theme, timeS: number): void {
  let x = axis.leftPx + 8;
  const digits = values.high - values.low < 20 ? 2 : 0;
  for (const channel of row.channels) {
    const value = valueAt(channel, timeS);
    c.fillStyle = theme[channel.colour];
    c.beginPath();
    c.arc(axis.toPixels(timeS), values.toPixels(value), 3, 0, 2 * Math.PI);
    c.fill();
    c.fillText(value.toFixed(digits), x, values.topPx + 22);
    x += nameWidth(c, channel);
  }
}

/** Room for a name, and for the value below it. */
function nameWidth(c: CanvasRenderingContext2D, { name }: Channel): number {
  return Math.max(46, c.measureText(name).width + 10);
}

function drawGrid(c: CanvasRenderingContext2D, row: CurveRow, axis: TimeAxis, values: ValueAxis, theme: Theme): void {
  const least = 26 / values.pixelsPerUnit;
  const step = roundStep(least);
  const decimals = decimalsOf(step);
  for (let mark = Math.ceil(values.low / step); mark * step <= values.high; mark++) {
    const y = Math.round(values.toPixels(mark * step));
    fillBox(c, theme.line, axis.leftPx, y, axis.widthPx - axis.leftPx, mark === 0 ? 1.5 : 0.75);
    if (y < values.topPx + 7 || y > values.topPx + values.heightPx - 6) continue;
    c.fillStyle = theme.muted;
    c.textAlign = "right";
    c.fillText((mark * step).toFixed(decimals), axis.leftPx - 5, y);
    c.textAlign = "left";
  }
  // The names stand in the row, each in its colour
  let x = axis.leftPx + 8;
  for (const channel of row.channels) {
    fillText(c, theme[channel.colour], channel.name, x, values.topPx + 9);
    x += nameWidth(c, channel);
  }
}

function drawSamples(c: CanvasRenderingContext2D, samples: Pyramid, axis: TimeAxis, values: ValueAxis, colour: string, isAlone: boolean): void {
  const { rateHz, startS, values: numbers } = samples;
  const first = Math.max(0, Math.floor((axis.startS - startS) * rateHz));
  const last = Math.min(numbers.length, Math.ceil((axis.stopS - startS) * rateHz) + 1);
  if (last <= first) return;
  c.globalAlpha = isAlone ? 1 : 0.4;
  const perPixel = rateHz / axis.pixelsPerSecond;
  if (perPixel < 1) {
    setPen(c, colour, 1.25);
    c.beginPath();
    for (let i = first; i < last; i++) c.lineTo(axis.toPixels(startS + i / rateHz), values.toPixels(numbers[i]));
    c.stroke();
  } else {
    // A column of pixels holds many samples: from its least to its greatest, and on to the next column's. Bars cost less than a path
    c.fillStyle = colour;
    const [from, to] = [Math.floor(axis.toPixels(startS + first / rateHz)), axis.toPixels(startS + (last - 1) / rateHz)];
    for (let x = from; x <= to; x++) {
      const at = (axis.toSeconds(x) - startS) * rateHz;
      const [low, high] = samples.bounds(Math.floor(at), Math.ceil(at + perPixel) + 1);
      if (!(low <= high)) continue;
      const top = values.toPixels(high);
      c.fillRect(x, top, 1, Math.max(1.25, values.toPixels(low) - top));
    }
  }
  c.globalAlpha = 1;
}

function drawCurveKeys(c: CanvasRenderingContext2D, channel: Channel, axis: TimeAxis, values: ValueAxis, theme: Theme, selected: Int32Array | undefined): void {
  const keys = channel.keys!;
  const colour = theme[channel.colour];
  setPen(c, colour, 1.5);
  c.beginPath();
  for (let x = axis.leftPx; x <= axis.widthPx; x += 2) c.lineTo(x, values.toPixels(evaluate(keys, axis.toSeconds(x))));
  c.stroke();
  const chosen = new Set(selected);
  const first = lowerBound(keys.times, axis.startS);
  for (let i = first; i < keys.times.length && keys.times[i] <= axis.stopS; i++) {
    const [x, y] = [axis.toPixels(keys.times[i]), values.toPixels(keys.values[i])];
    if (chosen.has(i)) drawTangent(c, keys, i, axis, values, theme);
    c.fillStyle = chosen.has(i) ? theme.accent : theme.panel;
    setPen(c, chosen.has(i) ? theme.ink : colour, 1.5);
    c.beginPath();
    c.rect(x - 3, y - 3, 6, 6);
    c.fill();
    c.stroke();
  }
}

/** The tangent of a selected key with its two ends: full where its slope was chosen, hollow where the neighbours tell. */
function drawTangent(c: CanvasRenderingContext2D, keys: CurveKeys, index: number, axis: TimeAxis, values: ValueAxis, theme: Theme): void {
  const ends = ([-1, 1] as const).map((side) => tangentEnd(keys, index, side, axis, values));
  c.strokeStyle = theme.muted;
  c.fillStyle = Number.isNaN(keys.own[index]) ? theme.panel : theme.muted;
  c.lineWidth = 1;
  strokeLine(c, ends);
  for (const [x, y] of ends) {
    c.beginPath();
    c.arc(x, y, 3, 0, 2 * Math.PI);
    c.fill();
    c.stroke();
  }
}
