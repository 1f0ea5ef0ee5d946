/** A page that shows every kind of row, for tests in a real browser: what is told is kept, time is measured. */

import { clipRows, DARK, eventRow, keyedChannels, keyRow, LIGHT, type Row, sampledChannels, stripRow, Timeline } from "../src/timeline";

const told: unknown[][] = [];
const tell = (name: string) => (...values: unknown[]): void => void told.push([name, ...values]);
const isDark = location.hash === "#dark";
const host = document.getElementById("host")!;
document.body.style.background = (isDark ? DARK : LIGHT).bg;
const events = Object.fromEntries(
  ["onScrub", "onRange", "onContactEdge", "onKeyMove", "onStrip", "onCurveKey", "onCurveSlope", "onEvent", "onAddKey", "onDelete"].map((name) => [name, tell(name)]),
);
const timeline = new Timeline(host, location.search === "?read" ? { onScrub: tell("onScrub"), onRange: tell("onRange") } : events, () => (isDark ? DARK : LIGHT));

/** A walk of ten seconds with everything a take can have. */
function everything(): Row[] {
  const span = (start_s: number, stop_s: number, level: "green" | "amber" | "red", text: string) => ({ start_s, stop_s, level, text });
  const step = (from: number): [number, number][] => Array.from({ length: 8 }, (_, i): [number, number] => [from + 1.2 * i, from + 1.2 * i + 0.7]);
  const rows = clipRows({
    name: "walk",
    bands: [
      { name: "validity", spans: [span(0, 2.1, "green", "within what the contacts can give"), span(2.1, 2.5, "amber", "left foot slides 12 mm"), span(2.5, 5.9, "green", "fine"), span(5.9, 6.8, "red", "pulls at the ground with 210 N"), span(6.8, 10, "green", "fine")] },
    ],
    contacts: [{ name: "left_heel", runs: step(0.1) }, { name: "left_ball", runs: step(0.3) }, { name: "right_heel", runs: step(0.7) }, { name: "right_ball", runs: step(0.9) }, { name: "right_hand", runs: [[4.2, 5.1]] }],
  });
  const wave = Float32Array.from({ length: 3 * 600 }, (_, i) => [0.1 * Math.sin((i / 3) * 0.05), 0.95 + 0.03 * Math.sin((i / 3) * 0.2), 0.0021 * (i / 3)][i % 3]);
  return [
    stripRow("strips", "takes", [
      { id: "a", name: "walk to the river", start_s: 0, in_s: 0, out_s: 3.2, blend_s: 0, loop: 1, take_s: 4 },
      { id: "b", name: "walk cycle", start_s: 2.7, in_s: 0.2, out_s: 1.4, blend_s: 0.5, loop: 3, take_s: 3 },
      { id: "c", name: "pick up", start_s: 6.6, in_s: 0, out_s: 3, blend_s: 0.3, loop: 1, take_s: 3 },
    ]),
    eventRow("sketch", "sketch", [{ time_s: 1.3, text: "way-point 1" }, { time_s: 4.4, text: "pick cup" }, { time_s: 6.1, text: "jump river" }, { time_s: 8.8, text: "place cup" }]),
    ...rows,
    keyRow("key/hand", "right hand", [0.5, 1.1, 1.6, 4.3, 4.5, 4.55, 4.6, 4.65, 7]),
    keyRow("key/root", "root", [0.5, 3, 3.05, 3.1, 3.15, 3.2, 6, 9.5]),
    { kind: "curve", id: "curve/root", label: "root", unit: "m", channels: sampledChannels(["x", "y", "z"], wave, 60) },
    { kind: "curve", id: "curve/layer", label: "layer", unit: "m", channels: keyedChannels(["x", "y", "z"], [0.5, 2, 4, 6, 9], [[0, 0.1, 0], [0.2, 0, -0.1], [0.1, 0.3, 0], [0.25, -0.1, 0.2], [0, 0, 0]]) },
  ];
}

/** Fifty effectors with two thousand keys each over 2 500 s. */
function manyKeys(): Row[] {
  return Array.from({ length: 50 }, (_, r) => {
    let t = 0;
    // Clumps and gaps: the worst case for bars
    return keyRow(`k${r}`, `effector ${r}`, Float64Array.from({ length: 2000 }, (_, i) => (t += (i * 7 + r) % 50 < 40 ? 0.05 : 5.9)));
  });
}

/** A take of 150 000 frames at 60 Hz: contacts, validity and curves over 2 500 s. */
function longTake(): Row[] {
  const span = (i: number) => ({ start_s: 5 * i, stop_s: 5 * i + 5, level: (["green", "green", "amber", "red"] as const)[i % 4], text: `stretch ${i}` });
  const runs = Array.from({ length: 2000 }, (_, i): [number, number] => [1.25 * i, 1.25 * i + 0.8]);
  const way = Float32Array.from({ length: 450_000 }, (_, i) => Math.sin(i * 0.001) + 0.05 * Math.sin(i * 1.7));
  return [
    ...clipRows({ name: "long", bands: [{ name: "validity", spans: Array.from({ length: 500 }, (_, i) => span(i)) }], contacts: ["left_heel", "left_ball", "right_heel", "right_ball"].map((name) => ({ name, runs })) }),
    { kind: "curve", id: "root", label: "root", unit: "m", channels: sampledChannels(["x", "y", "z"], way, 60) },
  ];
}

/** Client work of each of `count` frames [ms], drawn one an animation frame. */
async function measure(count: number, act: (i: number) => void): Promise<number[]> {
  const spent: number[] = [];
  for (let i = 0; i < count; i++) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    act(i);
    timeline.draw();
    spent.push(performance.now() - began);
  }
  return spent;
}

timeline.set({ durationS: 10, rateHz: 60, rows: everything(), labelPx: 120 });
Object.assign(window, { timeline, told, everything, manyKeys, longTake, measure });
