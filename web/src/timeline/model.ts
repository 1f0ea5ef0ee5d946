/** What the timeline shows: rows of sorted typed arrays, made of clips, strips, events and keys. Times are seconds. Nothing here draws. */

import { type Channel, keyCurve, lowerBound, Pyramid } from "../curves/channel";
import type { Clip, ContactTrack } from "../viewer/clip";

type Level = "green" | "amber" | "red";
export const LEVELS: readonly Level[] = ["green", "amber", "red"];

/** What every row has: a label, and a height of its own if the kind's does not fit. */
interface RowBase {
  id: string;
  label: string;
  height?: number;
}

/** Coloured stretches, such as the verdict of the physics report. */
export interface BandRow extends RowBase {
  kind: "bands";
  starts: Float64Array; // sorted, disjoint
  stops: Float64Array;
  levels: Uint8Array; // indices into LEVELS
  texts: readonly string[];
  worst: number; // the stretch to look at first; -1 where nothing is wrong
}

/** Stretches in which a point of the body touches something; their ends can be dragged. */
export interface ContactRow extends RowBase {
  kind: "contacts";
  side: "left" | "right" | "middle";
  starts: Float64Array;
  stops: Float64Array;
}

export interface KeyRow extends RowBase {
  kind: "keys";
  times: Float64Array; // sorted
}

/** A piece of a take on the timeline: `in_s` to `out_s` of the take, played `loop` times from `start_s` on. */
export interface Strip {
  id: string;
  name: string;
  start_s: number;
  in_s: number;
  out_s: number;
  blend_s: number; // cross-fade with the strip before
  loop: number; // times, at least 1
  take_s?: number; // duration of the take, the limit of trimming
}

export interface StripRow extends RowBase {
  kind: "strips";
  strips: readonly Strip[]; // sorted by start
}

/** Moments with a name: way-points reached, picks, jumps, markers. */
export interface EventRow extends RowBase {
  kind: "events";
  times: Float64Array; // sorted
  texts: readonly string[];
}

/** Channels over time in one frame of value: an effector, the root, coordinates of a pose model. */
export interface CurveRow extends RowBase {
  kind: "curve";
  unit: string;
  channels: readonly Channel[];
}

export type Row = BandRow | ContactRow | KeyRow | StripRow | EventRow | CurveRow;

/** What is selected: keys by row, and at most one contact end or strip. */
export interface Selection {
  keys: ReadonlyMap<string, Int32Array>; // sorted indices
  item: { row: string; index: number; edge: Edge | null } | null;
}

export type Edge = "start" | "stop";
export const NOTHING: Selection = { keys: new Map(), item: null };

export interface TimelineModel {
  durationS: number;
  rateHz: number;
  playheadS: number;
  rangeS: [number, number] | null;
  rows: readonly Row[];
  selection: Selection;
  labelPx: number;
}

export type Phase = "begin" | "move" | "end" | "cancel";

/** What the timeline tells. Every member may be absent: then that thing cannot be changed by the pointer or by keys. */
export interface TimelineEvents {
  onScrub?(timeS: number, phase: Phase): void;
  onRange?(range: [number, number] | null): void;
  onContactEdge?(row: ContactRow, run: number, edge: Edge, timeS: number, phase: Phase): void;
  onKeyMove?(moves: { row: KeyRow; keys: Int32Array }[], dtS: number, phase: Phase): void;
  onStrip?(row: StripRow, strip: string, change: Partial<Strip>, phase: Phase): void;
  onCurveKey?(row: CurveRow, channel: number, keys: Int32Array, dtS: number, dv: number, phase: Phase): void;
  /** A slope by its tangent; NaN leaves it to the neighbours again. */
  onCurveSlope?(row: CurveRow, channel: number, key: number, slope: number, phase: Phase): void;
  /** A sampled curve pulled up or down at one time, by so much of its unit. */
  onCurvePull?(row: CurveRow, channel: number, timeS: number, dv: number, phase: Phase): void;
  onEvent?(row: EventRow, index: number, timeS: number, phase: Phase): void;
  onAddKey?(row: KeyRow | CurveRow | EventRow, timeS: number): void;
  onDelete?(selection: Selection): void;
}

/** First and last + 1 of sorted, disjoint intervals that meet a stretch of time. */
export function visibleRuns(starts: Float64Array, stops: Float64Array, fromS: number, toS: number): [number, number] {
  // An interval that ends where the view begins is not seen: strictly greater
  let first = lowerBound(stops, fromS);
  while (first < stops.length && stops[first] <= fromS) first++;
  return [first, Math.max(first, lowerBound(starts, toS))];
}

/** The interval that holds a time, or -1. */
export function runAt(starts: Float64Array, stops: Float64Array, timeS: number): number {
  const [first, last] = visibleRuns(starts, stops, timeS, timeS + 1e-12);
  return first < last && starts[first] <= timeS ? first : -1;
}

export function stripStop(strip: Strip): number {
  return strip.start_s + (strip.out_s - strip.in_s) * strip.loop;
}

/** Times of a row that a pointer can hold on to or a key can jump to, sorted. */
export function rowTimes(row: Row): Float64Array {
  if (row.kind === "keys" || row.kind === "events") return row.times;
  if (row.kind === "strips") return Float64Array.from(row.strips.flatMap((strip) => [strip.start_s, stripStop(strip)])).sort();
  if (row.kind === "curve") return Float64Array.from(row.channels.flatMap((c) => (c.keys === null ? [] : Array.from(c.keys.times)))).sort();
  return Float64Array.from({ length: 2 * row.starts.length }, (_, i) => (i % 2 === 0 ? row.starts : row.stops)[i >> 1]);
}

/** How many indices of a sorted list lie in [first, last). */
export function countWithin(indices: Int32Array, first: number, last: number): number {
  return lowerBound(indices, last) - lowerBound(indices, first);
}

/** A row in one sentence: the text alternative of what is drawn. */
export function describeRow(row: Row): string {
  const s = (value: number): string => `${value.toFixed(2)} s`;
  if (row.kind === "bands") {
    const red = row.levels.reduce((n, level) => n + Number(level === 2), 0);
    const worst = row.worst < 0 ? "" : `; worst from ${s(row.starts[row.worst])} to ${s(row.stops[row.worst])}: ${row.texts[row.worst]}`;
    return `${row.label}: ${row.starts.length} stretches, ${red} red${worst}`;
  }
  if (row.kind === "contacts") {
    const total = row.starts.reduce((sum, start, i) => sum + row.stops[i] - start, 0);
    return `${row.label}: ${row.starts.length} contacts, ${s(total)} in all`;
  }
  if (row.kind === "strips") return `${row.label}: ${row.strips.map((strip) => `${strip.name} from ${s(strip.start_s)} to ${s(stripStop(strip))}`).join(", ")}`;
  if (row.kind === "curve") return `${row.label}: curves ${row.channels.map((channel) => channel.name).join(", ")} in ${row.unit}`;
  return `${row.label}: ${row.times.length} ${row.kind}`;
}

/** What a clip tells of its time: coloured stretches [s] and contacts [s]. */
type TimedClip = Pick<Clip, "name" | "bands"> & { contacts: readonly Pick<ContactTrack, "name" | "runs">[] };

/** Rows of one clip: its bands, then its contacts. `prefix` names the clip where several are shown. */
export function clipRows(clip: TimedClip, prefix = "", id = clip.name): Row[] {
  const label = prefix === "" ? "" : `${prefix}: `;
  const bands = clip.bands.map((band) => bandRow(`${id}/band/${band.name}`, label + band.name, band.spans));
  const contacts = clip.contacts
    .filter((track) => track.runs.length > 0)
    .map((track): ContactRow => ({
      kind: "contacts",
      id: `${id}/contact/${track.name}`,
      label: label + track.name.replaceAll("_", " "),
      side: track.name.startsWith("left") ? "left" : track.name.startsWith("right") ? "right" : "middle",
      starts: Float64Array.from(track.runs, (run) => run[0]),
      stops: Float64Array.from(track.runs, (run) => run[1]),
    }));
  return [...bands, ...contacts];
}

/** Stretches of a report. The worst is the longest of the worst level, unless the report says which. */
export function bandRow(id: string, label: string, spans: TimedClip["bands"][number]["spans"], worst?: number): BandRow {
  const sorted = [...spans].sort((a, b) => a.start_s - b.start_s);
  const levels = Uint8Array.from(sorted, (span) => LEVELS.indexOf(span.level));
  const most = levels.reduce((a, b) => Math.max(a, b), 0);
  let longest = -1;
  sorted.forEach((span, i) => {
    const lengthOf = (k: number): number => sorted[k].stop_s - sorted[k].start_s;
    if (levels[i] === most && most > 0 && (longest < 0 || span.stop_s - span.start_s > lengthOf(longest))) longest = i;
  });
  return {
    kind: "bands", id, label, levels,
    starts: Float64Array.from(sorted, (span) => span.start_s),
    stops: Float64Array.from(sorted, (span) => span.stop_s),
    texts: sorted.map((span) => span.text),
    worst: worst ?? longest,
  };
}

export function stripRow(id: string, label: string, strips: readonly Strip[]): StripRow {
  return { kind: "strips", id, label, strips: [...strips].sort((a, b) => a.start_s - b.start_s) };
}

export function eventRow(id: string, label: string, events: readonly { time_s: number; text: string }[]): EventRow {
  const sorted = [...events].sort((a, b) => a.time_s - b.time_s);
  return { kind: "events", id, label, times: Float64Array.from(sorted, (e) => e.time_s), texts: sorted.map((e) => e.text) };
}

export function keyRow(id: string, label: string, timesS: ArrayLike<number>): KeyRow {
  return { kind: "keys", id, label, times: Float64Array.from(timesS).sort() };
}

const AXES = ["bad", "good", "accent", "warn", "left", "right"] as const;

/** Channels of a sampled quantity of `components` numbers a frame, such as the root's way (F, 3). */
export function sampledChannels(names: readonly string[], data: Float32Array, rateHz: number, startS = 0): Channel[] {
  const count = data.length / names.length;
  return names.map((name, k) => {
    const values = Float32Array.from({ length: count }, (_, i) => data[i * names.length + k]);
    return { name, colour: AXES[k % AXES.length], samples: new Pyramid(values, rateHz, startS), keys: null };
  });
}

/** Channels of keys with `names.length` numbers each, such as the offsets of a layer, and chosen slopes by name. */
export function keyedChannels(names: readonly string[], timesS: readonly number[], values: readonly (readonly number[])[], slopes: readonly Record<string, number>[] = []): Channel[] {
  return names.map((name, k) => ({
    name, colour: AXES[k % AXES.length], samples: null,
    keys: keyCurve(Float64Array.from(timesS), Float64Array.from(values, (value) => value[k]), Float64Array.from(timesS, (_, i) => slopes[i]?.[name] ?? NaN)),
  }));
}
