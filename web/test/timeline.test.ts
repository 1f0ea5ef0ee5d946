import { describe, expect, it } from "vitest";
import { evaluate, fitSlopes, keyCurve, lowerBound, moveCurveKeys, moveTimes, Pyramid, setSlope, valueBounds } from "../src/curves/channel";
import { TimeAxis } from "../src/timeline/axis";
import { dragStrip, limitShift, moveEdge, snapCandidates, snapTime } from "../src/timeline/drags";
import { boxSelect, fitValues, hitTest, keyList, Layout, type Scene, tangentEnd } from "../src/timeline/layout";
import { bandRow, clipRows, type ContactRow, countWithin, type CurveRow, describeRow, keyedChannels, type KeyRow, keyRow, NOTHING, type Row, rowTimes, runAt, sampledChannels, type Strip, stripRow, visibleRuns } from "../src/timeline/model";

/** Numbers that look random and are the same each time. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function contacts(starts: number[], stops: number[]): ContactRow {
  return { kind: "contacts", id: "c", label: "left heel", side: "left", starts: Float64Array.from(starts), stops: Float64Array.from(stops) };
}

/** Rows on an axis of 10 s over 1 000 px with labels of 100 px. */
function sceneOf(rows: Row[], selection = NOTHING): Scene {
  return { axis: new TimeAxis(10, 1100, 100), layout: new Layout(rows, 600), rangeS: [2, 8], selection, values: (row) => fitValues(row, 10) };
}

describe("the time axis", () => {
  it("keeps what lies under the pointer while it zooms, and never leaves the clip", () => {
    const axis = new TimeAxis(100, 1096);
    axis.zoom(0.1, 596);
    expect(axis.toSeconds(596)).toBeCloseTo(50, 9);
    axis.pan(1000);
    expect(axis.stopS).toBeCloseTo(100, 9);
    axis.zoom(1e9, 300);
    expect([axis.startS, axis.spanS]).toEqual([0, 100]);
  });
  it("holds its invariants over a thousand random zooms and pans", () => {
    const roll = dice(7);
    const axis = new TimeAxis(2500, 1440, 140, 8, 0.03);
    for (let i = 0; i < 1000; i++) {
      const pixel = 140 + roll() * 1292;
      const [under, span] = [axis.toSeconds(pixel), axis.spanS];
      if (roll() < 0.5) axis.zoom(Math.exp(4 * roll() - 2), pixel);
      else axis.pan((roll() - 0.5) * span);
      expect(axis.startS).toBeGreaterThanOrEqual(0);
      expect(axis.stopS).toBeLessThanOrEqual(2500 * (1 + 1e-12));
      expect(axis.spanS).toBeGreaterThanOrEqual(0.03);
      expect(axis.toSeconds(axis.toPixels(under))).toBeCloseTo(under, 6);
    }
  });
  it("goes there and back by a zoom and its inverse", () => {
    const axis = new TimeAxis(100, 1100, 100);
    axis.show(20, 60);
    axis.zoom(0.5, 400);
    axis.zoom(2, 400);
    expect([axis.startS, axis.spanS].map((v) => Number(v.toFixed(9)))).toEqual([20, 40]);
  });
  it("stays a view of the whole when the clip grows, and keeps a closer view", () => {
    const axis = new TimeAxis(10, 1100, 100);
    axis.resize(20, 1100);
    expect(axis.spanS).toBe(20);
    axis.show(5, 6);
    axis.resize(30, 800);
    expect([axis.startS, axis.spanS]).toEqual([5, 1]);
  });
  it("marks seconds at steps of 1, 2 or 5, never closer than 64 px, with ticks on frames when close", () => {
    for (const span of [0.1, 0.7, 3, 40, 2500]) {
      const axis = new TimeAxis(2500, 1100, 100);
      axis.show(0, span);
      const { markS, tickS } = axis.ruler(120);
      expect(markS * axis.pixelsPerSecond).toBeGreaterThan(63);
      expect(tickS * axis.pixelsPerSecond).toBeGreaterThan(6);
      const mantissa = markS / 10 ** Math.floor(Math.log10(markS + 1e-12));
      expect([1, 2, 5, 10].some((m) => Math.abs(m - mantissa) < 1e-6) || markS % 15 === 0).toBe(true);
    }
    const axis = new TimeAxis(200, 1100, 100);
    expect([axis.ruler(60).markS, axis.ruler(60).label(5)]).toEqual([15, "1:15"]);
    axis.show(0, 0.5);
    expect(axis.ruler(60).tickS).toBeCloseTo(1 / 60, 12);
  });
});

describe("visible ranges", () => {
  it("of a hundred thousand intervals and keys are those of a scan", () => {
    const starts = Float64Array.from({ length: 100_000 }, (_, i) => i);
    const stops = starts.map((t) => t + 0.5);
    for (const [from, to] of [[-1, 0.2], [0.5, 3], [12345.4, 12345.6], [12345.6, 12345.9], [1e6, 2e6], [99_999, 1e6]]) {
      const scan = Array.from(starts.keys()).filter((i) => stops[i] > from && starts[i] < to);
      const [first, last] = visibleRuns(starts, stops, from, to);
      expect([last - first, ...(last > first ? [first, last - 1] : [])]).toEqual([scan.length, ...(scan.length > 0 ? [scan[0], scan.at(-1)] : [])]);
      expect(lowerBound(starts, from)).toBe(Array.from(starts).filter((t) => t < from).length);
    }
    expect([runAt(starts, stops, 7.2), runAt(starts, stops, 7.7), runAt(starts, stops, -3)]).toEqual([7, -1, -1]);
    expect(countWithin(Int32Array.of(2, 5, 9, 12), 5, 12)).toBe(2);
  });
});

describe("hit tests", () => {
  const rows: Row[] = [
    bandRow("v", "validity", [{ start_s: 0, stop_s: 4, level: "green", text: "fine" }, { start_s: 4, stop_s: 5, level: "red", text: "pulls" }]),
    contacts([1, 3], [2, 3.04]),
    keyRow("k", "hand", [1, 1.02, 5, 9]),
    stripRow("s", "takes", [{ id: "a", name: "walk", start_s: 1, in_s: 0, out_s: 2, blend_s: 0.5, loop: 2 }, { id: "b", name: "run", start_s: 4, in_s: 0, out_s: 3, blend_s: 1, loop: 1 }]),
  ];
  const scene = sceneOf(rows);
  const at = (row: number, timeS: number, dy = 8): ReturnType<typeof hitTest> => hitTest(scene, scene.axis.toPixels(timeS), scene.layout.top(row) + dy);
  it("find rows, stretches, contact ends, keys and the parts of strips", () => {
    expect(at(0, 4.5)).toEqual({ part: "item", row: 0, index: 1, edge: null });
    expect(at(0, 7)).toEqual({ part: "empty", row: 0 });
    expect(at(1, 1.5)).toEqual({ part: "item", row: 1, index: 0, edge: null });
    expect(at(1, 0.97)).toEqual({ part: "item", row: 1, index: 0, edge: "start" });
    expect(at(1, 2.03)).toEqual({ part: "item", row: 1, index: 0, edge: "stop" });
    expect(at(2, 1.016)).toEqual({ part: "key", row: 2, channel: -1, index: 1 });
    expect(at(2, 5.1)).toEqual({ part: "empty", row: 2 });
    expect(at(3, 1, 20)).toEqual({ part: "item", row: 3, index: 0, edge: "start" });
    expect(at(3, 1.5, 4)).toEqual({ part: "blend", row: 3, index: 0 });
    expect(at(3, 7, 4)).toEqual({ part: "loop", row: 3, index: 1 });
    expect(at(3, 4.5, 20)).toEqual({ part: "item", row: 3, index: 1, edge: null }); // the later strip lies on top
  });
  it("hold both ends of a contact of four pixels", () => {
    expect(at(1, 3.001)).toMatchObject({ index: 1, edge: "start" });
    expect(at(1, 3.039)).toMatchObject({ index: 1, edge: "stop" });
  });
  it("tell the ruler, the range's ends, labels, the bar and the outside", () => {
    expect(hitTest(scene, 500, 5)).toEqual({ part: "ruler" });
    expect(hitTest(scene, scene.axis.toPixels(8) + 3, 5)).toEqual({ part: "range", edge: "stop" });
    expect(hitTest(scene, 20, scene.layout.top(2) + 3)).toEqual({ part: "label", row: 2 });
    expect(hitTest(scene, 500, 598)).toEqual({ part: "bar" });
    expect(hitTest(scene, 500, 400)).toEqual({ part: "outside" });
    expect(hitTest(scene, -3, 50)).toEqual({ part: "outside" });
  });
  it("follow the rows while they scroll", () => {
    const many = sceneOf(Array.from({ length: 200 }, (_, i) => keyRow(`r${i}`, `r${i}`, [5])));
    many.layout.scroll(1e9);
    const last = many.layout.top(199);
    expect(hitTest(many, many.axis.toPixels(5), last + 5)).toMatchObject({ part: "key", row: 199 });
    many.layout.reveal(0);
    expect(many.layout.scrollPx).toBe(0);
  });
  it("find keys of curves by time and value", () => {
    const row: CurveRow = { kind: "curve", id: "q", label: "root", unit: "m", channels: keyedChannels(["x"], [2, 5, 8], [[0], [1], [0]]) };
    const curve = sceneOf([row]);
    const values = curve.values(row).at(curve.layout.top(0));
    const [x, y] = [curve.axis.toPixels(5), values.toPixels(1)];
    expect(hitTest(curve, x + 2, y - 2)).toEqual({ part: "key", row: 0, channel: 0, index: 1 });
    expect(hitTest(curve, x, y + 12)).toEqual({ part: "empty", row: 0 });
  });
  it("find the ends of a selected key's tangent, which lie on the slope", () => {
    const row: CurveRow = { kind: "curve", id: "q", label: "root", unit: "m", channels: keyedChannels(["x"], [2, 5, 8], [[0], [1], [0]], [{}, { x: 0.5 }, {}]) };
    const scene = sceneOf([row], { keys: new Map([[keyList(row, 0), Int32Array.of(1)]]), item: null });
    const values = scene.values(row).at(scene.layout.top(0));
    for (const side of [1, -1] as const) {
      const [x, y] = tangentEnd(row.channels[0].keys!, 1, side, scene.axis, values);
      const [dt, dv] = [(x - scene.axis.toPixels(5)) / scene.axis.pixelsPerSecond, (values.toPixels(1) - y) / values.pixelsPerUnit];
      expect(dv / dt).toBeCloseTo(0.5, 9);
      expect(hitTest(scene, x + 1, y)).toEqual({ part: "slope", row: 0, channel: 0, index: 1, side });
    }
  });
});

describe("snapping", () => {
  it("takes the nearest candidate within reach, else the nearest frame", () => {
    const candidates = Float64Array.of(1.234, 5);
    expect(snapTime(1.23, candidates, 0.01, 30)).toBe(1.234);
    expect(snapTime(1.3, candidates, 0.01, 30)).toBe(39 / 30);
    expect(snapTime(-0.001, new Float64Array(), 0.01, 30)).toBeCloseTo(0, 12);
  });
  it("leaves out what is dragged and rows with too many things", () => {
    const rows = [contacts([1, 3], [2, 4]), keyRow("k", "many", Array.from({ length: 1000 }, (_, i) => i / 100))];
    const found = snapCandidates(rows, [7], 0, 10, (row, t) => row.id === "c" && t === 2);
    expect(Array.from(found)).toEqual([1, 3, 4, 7]);
  });
});

describe("drags and their inverses", () => {
  it("move a contact's end between its neighbours; the old time gives the row back bit by bit", () => {
    const row = contacts([1, 3, 6], [2, 4.1, 7]);
    const far = moveEdge(row, 1, "stop", 99, 0.02, 10);
    expect(far.stops[1]).toBeCloseTo(5.98, 12);
    expect(moveEdge(row, 1, "start", 0, 0.02, 10).starts[1]).toBeCloseTo(2.02, 12);
    expect(moveEdge(row, 0, "start", -5, 0.02, 10).starts[0]).toBe(0);
    expect(moveEdge(row, 0, "start", 50, 0.02, 10).starts[0]).toBeCloseTo(1.98, 12);
    const back = moveEdge(far, 1, "stop", row.stops[1], 0.02, 10);
    expect(back).toEqual(row);
    expect(row.stops[1]).toBe(4.1);
  });
  it("move keys past others: sorted, the selected ones by the shift and no other, and the old row stays as it is", () => {
    const roll = dice(3);
    for (let round = 0; round < 50; round++) {
      const { times } = keyRow("k", "k", Array.from({ length: 40 }, () => 10 * roll()));
      const [before, dtS] = [times.slice(), (roll() - 0.5) * 3];
      const selected = Int32Array.from(Array.from({ length: 40 }, (_, i) => i).filter(() => roll() < 0.3));
      const moved = moveTimes(times, selected, dtS);
      expect(times).toEqual(before);
      expect(Array.from(moved.times)).toEqual(Array.from(moved.times).sort((a, b) => a - b));
      expect(Array.from(moved.selected, (i) => moved.times[i])).toEqual(Array.from(selected, (i) => times[i] + dtS));
      expect(Array.from(moved.order).sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i));
      const others = (picked: Int32Array) => (_: number, i: number): boolean => !picked.includes(i);
      expect(Array.from(moved.times).filter(others(moved.selected))).toEqual(Array.from(times).filter(others(selected)));
    }
  });
  it("keep keys on the timeline", () => {
    const times = Float64Array.of(1, 2, 9);
    expect(limitShift(times, Int32Array.of(0, 1), -5, 10)).toBe(-1);
    expect(limitShift(times, Int32Array.of(2), 5, 10)).toBe(1);
    expect(limitShift(times, Int32Array.of(), 5, 10)).toBe(5);
  });
  const strips: Strip[] = [
    { id: "a", name: "a", start_s: 0, in_s: 0.5, out_s: 2.5, blend_s: 0, loop: 1, take_s: 3 },
    { id: "b", name: "b", start_s: 4, in_s: 0, out_s: 2, blend_s: 0, loop: 1, take_s: 2 },
  ];
  it("trim strips inside their take, loop them, and cross-fade where they overlap", () => {
    expect(dragStrip(strips, 0, "trim-start", 1, 0.02)).toEqual({ start_s: 1, in_s: 1.5 });
    expect(dragStrip(strips, 0, "trim-start", -9, 0.02)).toEqual({ start_s: 0, in_s: 0.5 }); // nothing before zero
    expect(dragStrip(strips, 0, "trim-stop", 9, 0.02)).toEqual({ out_s: 3 });
    expect(dragStrip(strips, 0, "trim-stop", -9, 0.02)).toEqual({ out_s: 0.52 });
    expect(dragStrip(strips, 1, "move", 1.5, 0.02)).toEqual({ start_s: 1.5, blend_s: 0.5 });
    expect(dragStrip(strips, 1, "move", 3, 0.02)).toEqual({ start_s: 3 });
    expect(dragStrip(strips, 1, "loop", 10.05, 0.02)).toEqual({ loop: 3 });
    expect(dragStrip(strips, 1, "loop", 1, 0.02)).toEqual({ loop: 1 });
    expect(dragStrip(strips, 1, "blend", 99, 0.02)).toEqual({ blend_s: 2 });
  });
});

describe("box selection", () => {
  it("takes the keys of the rows it meets, and keys of curves by value too", () => {
    const keys: KeyRow = keyRow("k", "k", [1, 2, 3, 4]);
    const curve: CurveRow = { kind: "curve", id: "q", label: "q", unit: "m", channels: keyedChannels(["x", "y"], [2, 3], [[0, 10], [1, 10]]) };
    const scene = sceneOf([keys, curve]);
    const [x0, x1] = [scene.axis.toPixels(1.5), scene.axis.toPixels(3.5)];
    expect(boxSelect(scene, x1, 30, x0, 35)).toEqual(new Map([["k", Int32Array.of(1, 2)]]));
    const values = scene.values(curve).at(scene.layout.top(1));
    const found = boxSelect(scene, x0, values.toPixels(2), x1, values.toPixels(0.5));
    expect(found).toEqual(new Map([[keyList(curve, 0), Int32Array.of(1)]]));
  });
});

describe("curves", () => {
  it("pass through their keys, keep monotone stretches monotone, and are constant outside", () => {
    const keys = keyCurve(Float64Array.of(0, 1, 2, 5), Float64Array.of(0, 1, 1.1, 4));
    keys.times.forEach((t, i) => {
      expect(evaluate(keys, t)).toBeCloseTo(keys.values[i], 12);
    });
    let before = -Infinity;
    for (let t = 0; t <= 5; t += 0.01) {
      const value = evaluate(keys, t);
      expect(value).toBeGreaterThanOrEqual(before - 1e-12);
      before = value;
    }
    expect([evaluate(keys, -9), evaluate(keys, 99)]).toEqual([0, 4]);
  });
  it("are those of SciPy's PchipInterpolator, which the server's layers go along", () => {
    const keys = keyCurve(Float64Array.of(0, 0.5, 2, 2.25, 4), Float64Array.of(0, 1, 1.2, -0.5, -0.4));
    const slopes = [2.466666666666667, 0.2926829268292682, 0, 0, 0.17142857142857137];
    expect(Array.from(fitSlopes(keys.times, keys.values))).toEqual(slopes.map((slope) => expect.closeTo(slope, 12)));
    const values = [0.5155512195121952, 1.1336195121951218, 0.6015999999999991, -0.47840000000000005];
    expect([0.2, 1.1, 2.1, 3.3].map((t) => evaluate(keys, t))).toEqual(values.map((value) => expect.closeTo(value, 12)));
  });
  it("are the exact cubic between two keys with slopes", () => {
    // x(t) = t^3 on [1, 2]: slopes 3 and 12
    const keys = keyCurve(Float64Array.of(1, 2), Float64Array.of(1, 8), Float64Array.of(3, 12));
    for (const t of [1.1, 1.5, 1.93]) expect(evaluate(keys, t)).toBeCloseTo(t ** 3, 12);
    expect(setSlope(setSlope(keys, 0, Number.NaN), 1, Number.NaN)).toEqual(keyCurve(keys.times, keys.values));
    expect(moveCurveKeys(keys, Int32Array.of(0), 3, 0).keys.own).toEqual(Float64Array.of(12, 3));
  });
  it("find the least and greatest of any stretch as a scan does", () => {
    const roll = dice(11);
    const values = Float32Array.from({ length: 150_000 }, () => roll() - 0.5);
    const pyramid = new Pyramid(values, 60);
    for (let i = 0; i < 200; i++) {
      const first = Math.floor(roll() * 150_000);
      const last = Math.min(150_000, first + Math.floor(roll() ** 4 * 150_000) + 1);
      let [low, high] = [Infinity, -Infinity];
      for (let k = first; k < last; k++) [low, high] = [Math.min(low, values[k]), Math.max(high, values[k])];
      expect(pyramid.bounds(first, last)).toEqual([low, high]);
    }
    expect(valueBounds(sampledChannels(["x", "y"], Float32Array.of(0, 5, 1, 7), 1), 0, 1)).toEqual([-0.56, 7.56].map((v) => expect.closeTo(v, 6)));
  });
  it("keep every key when keys move past each other", () => {
    const keys = keyCurve(Float64Array.of(0, 1, 2), Float64Array.of(5, 6, 7));
    const moved = moveCurveKeys(keys, Int32Array.of(0), 1.5, 1);
    expect([Array.from(moved.keys.times), Array.from(moved.keys.values), Array.from(moved.selected)]).toEqual([[1, 1.5, 2], [6, 6, 7], [1]]);
    expect(Array.from(keys.times)).toEqual([0, 1, 2]);
  });
});

describe("rows of a clip", () => {
  it("hold its bands with the worst stretch, and its contacts; each has a text", () => {
    const rows = clipRows({
      name: "walk",
      bands: [{ name: "validity", spans: [{ start_s: 0, stop_s: 1, level: "green", text: "ok" }, { start_s: 1, stop_s: 1.2, level: "red", text: "slides" }, { start_s: 1.2, stop_s: 2, level: "red", text: "pulls" }] }],
      contacts: [{ name: "left_heel", runs: [[0, 1]] }, { name: "right_hand", runs: [] }],
    });
    expect(rows.map((row) => [row.kind, row.label])).toEqual([["bands", "validity"], ["contacts", "left heel"]]);
    expect(rows[0]).toMatchObject({ worst: 2 });
    expect(describeRow(rows[0])).toContain("2 red; worst from 1.20 s to 2.00 s: pulls");
    expect(Array.from(rowTimes(rows[1]))).toEqual([0, 1]);
    expect(bandRow("v", "v", [{ start_s: 0, stop_s: 1, level: "green", text: "" }]).worst).toBe(-1);
  });
});
