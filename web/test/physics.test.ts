import * as THREE from "three";
import { describe, expect, it } from "vitest";
import { valueAt } from "../src/curves/channel";
import { sampledChannels } from "../src/timeline";
import { Trace } from "../src/tools/plot";
import { ballisticPath, hullOf } from "../src/viewport/overlays";

describe("overlays of physics", () => {
  it("a flight falls at gravity between its ends", () => {
    const path = ballisticPath(new THREE.Vector3(0, 1, 0), new THREE.Vector3(1, 1.2, 0), 0.6, 61);
    expect(path[0].y).toBeCloseTo(1);
    expect(path[60].toArray()).toEqual([1, 1.2, 0]);
    const [a, b, c] = [path[20], path[21], path[22]].map(({ y }) => y);
    expect((a - 2 * b + c) / 0.01 ** 2).toBeCloseTo(-9.81, 6);
    const [p, q, r] = [path[20], path[21], path[22]].map(({ x }) => x);
    expect(p - 2 * q + r).toBeCloseTo(0);
  });
  it("a support is the hull of what touches", () => {
    expect(hullOf([[0, 0], [2, 0], [1, 0.5], [2, 1], [0, 1], [1, 0]])).toEqual([[0, 0], [2, 0], [2, 1], [0, 1]]);
    expect(hullOf([[1, 1]])).toEqual([[1, 1]]);
  });
});

describe("plots", () => {
  it("tell the value at the playhead", () => {
    const [x, y] = sampledChannels(["x", "y"], Float32Array.of(0, 10, 1, 11, 2, 12), 2);
    expect([valueAt(x, 0.5), valueAt(y, 1), valueAt(y, 9), valueAt(x, -1)]).toEqual([1, 12, 12, 0]);
  });
  it("keep the last seconds of a live session, and begin anew with it", () => {
    const trace = new Trace();
    for (let i = 0; i <= 600; i++) trace.note({ time_s: i / 60, energy: [i, 0, i] });
    trace.note({ time_s: 10, energy: [7, 7, 7] });
    const row = trace.row(["energy", "J", ["kinetic", "potential", "total"]])!;
    const { samples } = row.channels[0];
    expect(samples!.rateHz).toBeCloseTo(60);
    expect(samples!.startS).toBeGreaterThanOrEqual(4 - 1e-9);
    expect(valueAt(row.channels[2], 10)).toBe(600);
    trace.note({ time_s: 0, energy: [1, 2, 3] });
    expect(trace.row(["energy", "J", ["a", "b", "c"]])).toBeNull();
  });
});
