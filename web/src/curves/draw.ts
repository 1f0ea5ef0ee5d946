/** Draws a curve row: sampled channels as envelopes of least and greatest a pixel, keyed ones as lines with their keys. */

import type { TimeAxis } from "../timeline/axis";
import { keyList, tangentEnd, type ValueAxis } from "../timeline/layout";
import { type CurveRow, lowerBound, type Selection } from "../timeline/model";
import type { Theme } from "../timeline/theme";
import { type Channel, type CurveKeys, evaluate, type Pyramid, valueAt } from "./channel";

export function drawCurves(c: CanvasRenderingContext2D, row: CurveRow, axis: TimeAxis, values: ValueAxis, theme: Theme, selection: Selection): void {
  drawGrid(c, row, axis, values, theme);
  c.beginPath();
  c.rect(axis.leftPx, values.topPx, axis.widthPx - axis.leftPx, values.heightPx);
  c.clip();
  row.channels.forEach((channel, index) => {
    if (channel.samples !== null) drawSamples(c, channel.samples, axis, values, theme[channel.colour], channel.keys === null);
    if (channel.keys !== null) drawKeys(c, channel, axis, values, theme, selection.keys.get(keyList(row, index)));
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
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least) ?? 10 * power;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  for (let mark = Math.ceil(values.low / step); mark * step <= values.high; mark++) {
    const y = Math.round(values.toPixels(mark * step));
    c.fillStyle = theme.line;
    c.fillRect(axis.leftPx, y, axis.widthPx - axis.leftPx, mark === 0 ? 1.5 : 0.75);
    if (y < values.topPx + 7 || y > values.topPx + values.heightPx - 6) continue;
    c.fillStyle = theme.muted;
    c.textAlign = "right";
    c.fillText((mark * step).toFixed(decimals), axis.leftPx - 5, y);
    c.textAlign = "left";
  }
  // The names stand in the row, each in its colour
  let x = axis.leftPx + 8;
  for (const channel of row.channels) {
    c.fillStyle = theme[channel.colour];
    c.fillText(channel.name, x, values.topPx + 9);
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
    c.strokeStyle = colour;
    c.lineWidth = 1.25;
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

function drawKeys(c: CanvasRenderingContext2D, channel: Channel, axis: TimeAxis, values: ValueAxis, theme: Theme, selected: Int32Array | undefined): void {
  const keys = channel.keys!;
  const colour = theme[channel.colour];
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.beginPath();
  for (let x = axis.leftPx; x <= axis.widthPx; x += 2) c.lineTo(x, values.toPixels(evaluate(keys, axis.toSeconds(x))));
  c.stroke();
  const chosen = new Set(selected);
  const first = lowerBound(keys.times, axis.startS);
  for (let i = first; i < keys.times.length && keys.times[i] <= axis.stopS; i++) {
    const [x, y] = [axis.toPixels(keys.times[i]), values.toPixels(keys.values[i])];
    if (chosen.has(i)) drawTangent(c, keys, i, axis, values, theme);
    c.fillStyle = chosen.has(i) ? theme.accent : theme.panel;
    c.strokeStyle = chosen.has(i) ? theme.ink : colour;
    c.lineWidth = 1.5;
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
  c.beginPath();
  for (const [x, y] of ends) c.lineTo(x, y);
  c.stroke();
  for (const [x, y] of ends) {
    c.beginPath();
    c.arc(x, y, 3, 0, 2 * Math.PI);
    c.fill();
    c.stroke();
  }
}
