/** Rows from what the rest of the client holds: clips, strips of the document, events, keys of layers. */

import { type Channel, keyCurve, Pyramid } from "../curves/channel";
import type { Clip, ContactTrack } from "../viewer/clip";
import { type BandRow, type ContactRow, type EventRow, type KeyRow, LEVELS, type Row, type Strip, type StripRow } from "./model";

/** What a clip tells of its time: coloured stretches [s] and contacts [s]. */
export type TimedClip = Pick<Clip, "name" | "bands"> & { contacts: readonly Pick<ContactTrack, "name" | "runs">[] };

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
