/** Rows of what is selected, and what dragging them sends: the timeline's side of the document. */

import { effect, signal } from "@preact/signals";
import { type Channel, evaluate, valueAt } from "../curves/channel";
import type { StoredClip } from "../project/clips";
import { remembered } from "../project/memory";
import type { LiveFrame } from "../project/session";
import type { KeyEntry, LayerEntry, TakeEntry } from "../../build/messages";
import {
  clipRows, type CurveRow, eventRow, keyedChannels, keyRow, type Row, type Phase, sampledChannels, type Selection, type Strip, stripRow, stripStop, Timeline, type TimelineEvents,
} from "../timeline";
import { DragChannel, PLOTS } from "../tools/live";
import { asSketch } from "../tools/path/sketch";
import { settingsToSend } from "../tools/panel";
import { releaseWhenMade } from "../tools/pose/pose";
import { PoseBuffer } from "../viewer/pose";
import { takeToChange } from "./commands";
import type { Studio } from "./context";
import { isDark, readTheme } from "./theme";

export const CURVES = ["no curves", "root", "joint", "layers", "pose space", ...Object.keys(PLOTS)];
/** Which curves lie below the rows. */
export const shownCurves = remembered("curves", "no curves");

/** Keys of one joint in a layer, sorted by time, with their places in the layer's list. */
interface KeyTrack {
  layer: string;
  joint: string;
  kind: "rotation" | "offset";
  indices: number[];
  keys: KeyEntry[];
  channels: Channel[]; // offsets [m], or logarithms of rotations [degrees]
  unit: number; // of a channel's number: degrees in a radian, or 1
}

type Triple = [number, number, number];
const AXES = ["x", "y", "z"];

export function mountTimeline(studio: Studio, host: HTMLElement): () => void {
  const { session } = studio;
  const tracks = new Map<string, KeyTrack>(); // by the ids of key rows and of curve rows
  const sampled = signal<CurveRow | null>(null);
  let asked = ""; // which samples are shown or on their way
  let drag: DragChannel | null = null;
  let nudges = new Map<string, Map<number, { dtS: number; values: Triple }>>();

  const take = (): string | null => {
    const item = session.selected.peek();
    return item?.kind === "take" ? item.id : null;
  };
  const sortedMarkers = () => [...(session.project.peek()?.timeline.markers ?? [])].sort((a, b) => a.time_s - b.time_s);
  const sortedStrips = () => [...(session.project.peek()?.timeline.strips ?? [])].sort((a, b) => a.start_s - b.start_s);
  const show = (frame: LiveFrame): void => studio.viewport.peek()?.holdFrame(frame);
  /** Lead a drag on; at its end the body stands as dragged until the new motion is here, or the old one is shown again. */
  const leadDrag = (args: Record<string, unknown>, phase: Phase): void => {
    const viewport = studio.viewport.peek();
    if (phase === "begin" || phase === "move") return void drag?.move(args);
    if (phase === "end") drag?.end(args);
    else drag?.cancel();
    if (phase === "end" && drag !== null && viewport !== null) releaseWhenMade(viewport, session, refresh);
    else {
      viewport?.hold(null);
      refresh();
    }
    drag = null;
  };
  /** Places in their layers of picked keys; one key may be picked in several rows. */
  const groupByLayer = (picked: Iterable<readonly [string, Int32Array]>): Map<string, number[]> => {
    const all = new Map<string, Set<number>>();
    for (const [list, keys] of picked) {
      const track = tracks.get(list) ?? tracks.get(list.replace(/\/\d+$/, ""));
      if (track === undefined) continue;
      const places = all.get(track.layer) ?? new Set();
      for (const key of keys) places.add(track.indices[key]);
      all.set(track.layer, places);
    }
    return new Map([...all].map(([layer, places]) => [layer, [...places].sort((a, b) => a - b)]));
  };
  /** One command for all channels that a drag of curve keys moved. */
  const sendNudges = (): void => {
    const [motion, all] = [take(), nudges];
    nudges = new Map();
    if (motion === null) return;
    for (const [id, changes] of all) {
      const track = tracks.get(id);
      if (track === undefined) continue;
      const moved = [...changes].map(([place, { dtS, values }]) => moveKey(track, place, dtS, values));
      const isShifted = [...changes.values()].some(({ dtS }) => Math.abs(dtS) > 1e-6);
      const indices = [...changes.keys()].map((place) => track.indices[place]);
      const put = (): Promise<boolean> => session.change("set_keys", { take: motion, layer: track.layer, keys: moved });
      if (!isShifted) void put();
      else if ([...changes.values()].every(({ values }) => values.every((v) => Math.abs(v) < 1e-9))) {
        void session.change("move_keys", { take: motion, layer: track.layer, indices, shift_s: [...changes.values()][0].dtS });
      } else void session.change("remove_keys", { take: motion, layer: track.layer, indices }).then((isDone) => isDone && put());
    }
  };

  const events: TimelineEvents = {
    onScrub: (timeS, phase) => {
      if (phase === "begin") session.pause();
      session.seek(timeS);
    },
    onRange: (range) => (session.rangeS.value = range),
    onContactEdge: (row, run, edge, timeS, phase) => {
      const from_s: [number, number] = [row.starts[run], row.stops[run]];
      const to_s = edge === "start" ? [timeS, from_s[1]] : [from_s[0], timeS];
      if (phase === "begin") {
        const motion = takeToChange(studio, "Contacts are edited in a take of it");
        session.pause();
        drag = motion === null ? null : new DragChannel(session, "contacts", { motion, point: row.id.split("/").at(-1)!, from_s }, show);
      }
      leadDrag({ to_s }, phase);
    },
    onKeyMove: (moves, shift_s, phase) => {
      const motion = take();
      if (phase !== "end" || motion === null) return;
      for (const [layer, indices] of groupByLayer(moves.map(({ row, keys }) => [row.id, keys] as const))) void session.change("move_keys", { take: motion, layer, indices, shift_s });
    },
    onCurveKey: (row, channel, keys, dtS, dv, phase) => {
      if (phase !== "end" || !tracks.has(row.id)) return;
      if (nudges.size === 0) queueMicrotask(sendNudges);
      const changes = nudges.get(row.id) ?? new Map<number, { dtS: number; values: Triple }>();
      for (const key of keys) {
        const change = changes.get(key) ?? { dtS, values: [0, 0, 0] };
        change.values[channel] += dv;
        changes.set(key, change);
      }
      nudges.set(row.id, changes);
    },
    onCurveSlope: (row, channel, place, slope, phase) => {
      const [motion, track] = [take(), tracks.get(row.id)];
      if (phase !== "end" || motion === null || track === undefined) return;
      const key = track.keys[place];
      const { [AXES[channel]]: _, ...others } = key.slope ?? {};
      const own = Number.isNaN(slope) ? {} : { [AXES[channel]]: slope / track.unit };
      void session.change("set_keys", { take: motion, layer: track.layer, keys: [{ ...key, slope: { ...others, ...own } }] });
    },
    onCurvePull: ({ id, channels }, channel, time_s, dv, phase) => {
      const [clip, what] = [session.main.peek(), id.replace("samples/", "")];
      const tool = session.tools.peek().find((each) => each.id === "pose");
      const value = valueAt(channels[channel], time_s) + dv;
      if (clip === null || tool === undefined || PLOTS[what] !== undefined) return refresh();
      // A way of a joint is pulled in the world, a coordinate of the pose space in deviations
      const target = what === "pose space" ? null : channels.slice(0, 3).map((each, k) => (k === channel ? value : valueAt(each, time_s)));
      const args = target === null ? { mode: channel, deviations: Math.min(Math.max(value, -3), 3) } : { joint: what === "root" ? clip.joints[0] : session.joint.peek(), target };
      if (phase === "begin") {
        const motion = takeToChange(studio, "Curves are edited in a take of it");
        drag = motion === null ? null : new DragChannel(session, "pose", { ...settingsToSend(studio, tool), motion, time_s }, show);
      }
      leadDrag(args, phase);
    },
    onAddKey: (row, timeS) => {
      const [motion, track] = [take(), tracks.get(row.id)];
      if (row.id === "markers") void session.change("set_timeline", { markers: [...sortedMarkers(), { time_s: timeS, text: `Marker ${row.kind === "events" ? row.times.length + 1 : 1}` }] });
      // A key where the curve is already: its shape stays
      if (motion !== null && track !== undefined) {
        const values = track.channels.map(({ keys }) => evaluate(keys!, timeS)) as Triple;
        void session.change("set_keys", { take: motion, layer: track.layer, keys: [makeKey(track, timeS, values)] });
      }
    },
    onStrip: (_row, id, change, phase) => {
      const strip = session.project.peek()?.timeline.strips.find((each) => each.id === id);
      if (phase !== "end" || strip === undefined) return;
      const { start_s, in_s, out_s, blend_s, loop } = { ...strip, ...change };
      void session.change("set_strip", { strip: { id, take: strip.take, start_s, in_s, out_s, blend_s, loop } });
    },
    onEvent: (row, index, timeS, phase) => {
      if (phase !== "end" || row.id !== "markers") return refresh();
      const markers = sortedMarkers();
      markers[index] = { ...markers[index], time_s: timeS };
      void session.change("set_timeline", { markers });
    },
    onDelete: ({ keys, item }: Selection) => {
      const motion = take();
      if (motion !== null) for (const [layer, indices] of groupByLayer(keys)) void session.change("remove_keys", { take: motion, layer, indices });
      if (item?.row === "strips") void session.change("remove_strip", { id: sortedStrips()[item.index].id });
      if (item?.row === "markers") void session.change("set_timeline", { markers: sortedMarkers().filter((_, index) => index !== item.index) });
    },
  };

  const timeline = new Timeline(host, events, readTheme);
  (globalThis as { mareyTimeline?: Timeline }).mareyTimeline = timeline;
  let shownId = "";
  const refresh = (): void => {
    const [project, item, clip] = [session.project.value, session.selected.value, session.main.value];
    const rows: Row[] = [];
    tracks.clear();
    const strips = (project?.timeline.strips ?? []).map((strip): Strip => ({ ...strip, name: project!.takes[strip.take]?.name ?? "gone" }));
    if (strips.length > 0) rows.push(stripRow("strips", "Sequence", strips));
    if (project !== null && project.timeline.markers.length > 0) rows.push(eventRow("markers", "Markers", project.timeline.markers));
    const made = item?.kind === "take" ? project?.takes[item.id] : undefined;
    if (clip !== null) {
      if (made?.recipe?.tool === "path" && session.clips.loaded(clip.hash) < 1) void session.clips.arrivals.value;
      const sketched = made === undefined ? [] : findEvents(clip, made);
      if (sketched.length > 0) rows.push(eventRow("sketch", "Sketch", sketched));
      // Contacts of a sequence belong to its takes, and are edited there
      const contacts = session.sequence.value === null ? clip.contacts : [];
      rows.push(...clipRows({ ...clip, contacts, bands: session.bands.value ?? clip.bands }, "", clip.hash));
    }
    for (const layer of made?.layers ?? []) rows.push(...layerRows(layer, tracks));
    if (sampled.value !== null) rows.push(sampled.value);
    const sequence = Math.max(0, ...strips.map(stripStop));
    timeline.set({ rows, durationS: Math.max(clip?.durationS ?? 1, sequence, 0.1), rateHz: clip?.rateHz ?? 30, labelPx: 112 });
    // Another motion is shown from its start to its end; an edit keeps the view
    if (shownId !== (item?.id ?? "")) timeline.show();
    shownId = item?.id ?? "";
  };
  const stops = [
    effect(refresh),
    effect(() => {
      const [clip, choice, joint] = [session.main.value, shownCurves.value, session.joint.value];
      void session.clips.arrivals.value;
      const name = `${clip?.hash}/${choice}/${choice === "joint" ? joint : ""}`;
      const isWaiting = clip !== null && (choice === "root" || choice === "joint") && session.clips.loaded(clip.hash) < 1;
      if (asked === name || isWaiting) return;
      asked = name;
      if (sampled.peek() !== null) sampled.value = null;
      const show = (label: string, unit: string, names: string[], data: Float32Array): void => {
        if (asked !== name) return;
        sampled.value = { kind: "curve", id: `samples/${choice}`, label, unit, channels: sampledChannels(names, data, clip!.rateHz) };
        timeline.revealRow(`samples/${choice}`);
      };
      if (choice === "root" || choice === "joint") {
        const index = choice === "root" || joint === null ? 0 : Math.max(0, clip?.joints.indexOf(joint) ?? 0);
        if (clip !== null) void sampleJoint(clip, index).then((data) => show(clip.joints[index].replaceAll("_", " "), "m", ["x", "y", "z"], data));
      } else if (choice === "pose space" && clip !== null && session.selected.peek() !== null) {
        session.ask("coordinates", { motion: session.selected.peek()!.id }).then(({ arrays }) => {
          const data = arrays.coordinates as Float32Array;
          const count = Math.round(data.length / clip.numFrames);
          show("pose space", "σ", Array.from({ length: count }, (_, k) => `${k + 1}`), data);
        }, (error) => session.report(error));
      } else if (PLOTS[choice] !== undefined && clip !== null) {
        const [array, unit, channels] = PLOTS[choice];
        session.askDynamics().then((arrays) => show(choice, unit, channels, arrays[array] as Float32Array), (error) => session.report(error));
      }
    }),
    effect(() => timeline.set({ playheadS: session.playheadS.value, rangeS: session.rangeS.value })),
    effect(() => {
      void isDark.value;
      requestAnimationFrame(() => timeline.set({}));
    }),
  ];
  return () => {
    for (const stop of stops) stop();
    timeline.dispose();
  };
}

/** One row of keys for each joint that a layer moves, and its curves where they are shown. */
function layerRows(layer: LayerEntry, tracks: Map<string, KeyTrack>): Row[] {
  const names = [...new Set(layer.keys.map((key) => `${key.joint}/${key.rotation === null ? "offset" : "rotation"}`))];
  return names.flatMap((name): Row[] => {
    const [joint, kind] = name.split("/") as [string, KeyTrack["kind"]];
    const indices = layer.keys.flatMap((key, i) => (key.joint === joint && (key.rotation === null) === (kind === "offset") ? [i] : []));
    indices.sort((a, b) => layer.keys[a].time_s - layer.keys[b].time_s);
    const keys = indices.map((i) => layer.keys[i]);
    const times = keys.map((key) => key.time_s);
    const unit = kind === "offset" ? 1 : 180 / Math.PI;
    const slopes = keys.map(({ slope }) => Object.fromEntries(Object.entries(slope ?? {}).map(([axis, value]) => [axis, value * unit])));
    const channels = keyedChannels(AXES, times, keys.map((key) => (key.rotation === null ? key.offset! : logarithm(key.rotation))), slopes);
    const track: KeyTrack = { layer: layer.id, joint, kind, indices, keys, channels, unit };
    const [id, label] = [`keys/${layer.id}/${name}`, `${layer.name}: ${joint.replaceAll("_", " ")}${kind === "offset" ? " place" : ""}`];
    tracks.set(id, track);
    const rows: Row[] = [keyRow(id, label, times)];
    if (shownCurves.value === "layers") {
      tracks.set(`curve/${layer.id}/${name}`, track);
      rows.push({ kind: "curve", id: `curve/${layer.id}/${name}`, label: joint.replaceAll("_", " "), unit: kind === "offset" ? "m" : "°", channels, height: 90 });
    }
    return rows;
  });
}

function makeKey({ joint, kind }: KeyTrack, time_s: number, values: Triple, slope: KeyEntry["slope"] = {}): KeyEntry {
  return kind === "offset" ? { time_s, joint, rotation: null, offset: values, slope } : { time_s, joint, rotation: exponential(values), offset: null, slope };
}

function moveKey(track: KeyTrack, place: number, dtS: number, by: Triple): KeyEntry {
  const values = track.channels.map(({ keys }, k) => keys!.values[place] + by[k]) as Triple;
  return makeKey(track, track.keys[place].time_s + dtS, values, track.keys[place].slope);
}

/** Rotation vector [degrees] of a unit quaternion (wxyz), along the shorter way. */
export function logarithm([w, x, y, z]: readonly number[]): Triple {
  const sign = w < 0 ? -1 : 1;
  const length = Math.hypot(x, y, z);
  // Near the identity the angle over the sine is two
  const scale = (sign * 180) / Math.PI * (length < 1e-9 ? 2 : (2 * Math.atan2(length, Math.abs(w))) / length);
  return [scale * x, scale * y, scale * z];
}

function exponential([x, y, z]: readonly number[]): [number, number, number, number] {
  const half = (Math.hypot(x, y, z) * Math.PI) / 360;
  const scale = half < 1e-9 ? Math.PI / 360 : (Math.sin(half) / half) * (Math.PI / 360);
  return [Math.cos(half), scale * x, scale * y, scale * z];
}

/** Moments of a sketch's events: when the root comes nearest to where each happens, in the order of the sketch. */
function findEvents(clip: StoredClip, made: TakeEntry): { time_s: number; text: string }[] {
  const sketch = made.recipe?.tool === "path" ? asSketch(made.recipe.settings.sketch as Record<string, unknown>) : null;
  const objects = new Map((sketch?.object ?? []).map(({ name, position }) => [name, position as Triple]));
  let first = 0;
  return (sketch?.event ?? []).flatMap(({ kind, at, to, object }) => {
    const place = (at ?? to ?? objects.get(object)) as number[] | undefined;
    if (place === undefined) return [];
    let [best, least] = [first, Infinity];
    for (let frame = first; frame < clip.numFrames; frame++) {
      const frames = clip.framesAt(frame);
      if (frames === null) break;
      const row = 3 * (frame - frames.first);
      const away = Math.hypot(frames.roots[row] - place[0], frames.roots[row + 2] - place[place.length - 1]);
      if (away < least) [best, least] = [frame, away];
    }
    first = best;
    return least < 3 ? [{ time_s: best / clip.rateHz, text: [kind, object].filter(Boolean).join(" ") }] : [];
  });
}

/** Way of a joint in the world, (F, 3) [m]; a long take is gone through a piece an animation frame. */
async function sampleJoint(clip: StoredClip, joint: number): Promise<Float32Array> {
  const pose = new PoseBuffer(clip);
  const way = new Float32Array(3 * clip.numFrames);
  let until = performance.now() + 6;
  for (let frame = 0; frame < clip.numFrames; frame++) {
    pose.sample(frame / clip.rateHz);
    way.set(pose.positions.subarray(3 * joint, 3 * joint + 3), 3 * frame);
    if (frame % 256 === 0 && performance.now() > until) {
      await new Promise(requestAnimationFrame);
      until = performance.now() + 6;
    }
  }
  return way;
}
