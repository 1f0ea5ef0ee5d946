import { describe, expect, it } from "vitest";
import { valueAt } from "../src/curves/channel";
import { sampledChannels } from "../src/timeline";
import { Trace } from "../src/tools/live";

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
