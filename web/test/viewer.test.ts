import { describe, expect, it } from "vitest";
import { capsuleSurface } from "../src/viewer/body";
import { decodeNumbers, readPage, VERSION, type Clip, type Frames, type PageHeader } from "../src/viewer/clip";
import { Clock } from "../src/viewer/clock";
import { PoseBuffer, slerp } from "../src/viewer/pose";

/** A chain of two bones of 1 m along x whose second joint turns about z from 0 to 90 degrees within a second. */
function chain(): Clip {
  const half = Math.SQRT1_2;
  const frames: Frames = {
    first: 0,
    roots: new Float32Array([0, 1, 0, 2, 1, 0]),
    rotations: new Float32Array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, half, half, 0, 0, 0, 1]),
    translations: null,
  };
  return {
    name: "chain", rateHz: 1, numFrames: 2, durationS: 1, joints: ["a", "b", "c"], parents: [-1, 0, 1],
    offsets: new Float32Array([0, 0, 0, 1, 0, 0, 1, 0, 0]),
    framesAt: () => frames, capsules: [], contacts: [], bands: [], facts: [],
  };
}

describe("poses", () => {
  it("follow the closed form of a turning chain between frames", () => {
    const pose = new PoseBuffer(chain());
    pose.sample(0.5);
    const tip = [1 + 1 + Math.cos(Math.PI / 4), 1 + Math.sin(Math.PI / 4), 0];
    tip.forEach((value, k) => expect(pose.positions[6 + k]).toBeCloseTo(value, 6));
  });
  it("stand at the first and the last frame outside the clip", () => {
    const pose = new PoseBuffer(chain());
    pose.sample(9);
    expect(Array.from(pose.positions.slice(0, 3))).toEqual([2, 1, 0]);
  });
  it("take the shorter arc between q and -q", () => {
    const out = new Float32Array(4);
    const pair = new Float32Array([0, 0, 0, 1, 0, 0, -0.1, -Math.sqrt(0.99)]);
    slerp(pair, 0, pair, 4, 0.5, out);
    expect(Math.abs(out[3])).toBeGreaterThan(0.99);
  });
});

describe("capsules", () => {
  it("have every vertex on one of the two balls and normals that point outwards", () => {
    const capsule = { joint: 0, side: 0, start: [0, 0, 0], end: [0.3, 0.1, 0], startRadius: 0.1, endRadius: 0.05 } as const;
    const { positions, normals, faces } = capsuleSurface({ ...capsule, start: [0, 0, 0], end: [0.3, 0.1, 0] });
    for (let v = 0; v < positions.length; v += 3) {
      const near = Math.abs(Math.hypot(positions[v], positions[v + 1], positions[v + 2]) - 0.1);
      const far = Math.abs(Math.hypot(positions[v] - 0.3, positions[v + 1] - 0.1, positions[v + 2]) - 0.05);
      expect(Math.min(near, far)).toBeLessThan(1e-9);
      expect(Math.hypot(normals[v], normals[v + 1], normals[v + 2])).toBeCloseTo(1, 9);
    }
    expect(Math.max(...faces)).toBe(positions.length / 3 - 1);
  });
  it("are one ball where one lies inside the other", () => {
    const { positions } = capsuleSurface({ joint: 0, side: 0, start: [0, 0, 0], end: [0.01, 0, 0], startRadius: 0.1, endRadius: 0.02 });
    for (let v = 0; v < positions.length; v += 3) {
      expect(Math.hypot(positions[v], positions[v + 1], positions[v + 2])).toBeCloseTo(0.1, 9);
    }
  });
});

describe("the clock", () => {
  it("loops within its range and steps onto frames", () => {
    const clock = new Clock(10);
    clock.seek(2);
    clock.mark("in");
    clock.seek(3);
    clock.mark("out");
    clock.advance(0.5);
    expect(clock.timeS).toBeCloseTo(2.5, 12);
    clock.step(1, 30);
    expect(clock.timeS).toBeCloseTo(76 / 30, 12);
    expect(clock.isPlaying).toBe(false);
  });
  it("stops at the end without looping", () => {
    const clock = new Clock(1);
    clock.isLooping = false;
    clock.advance(5);
    expect([clock.timeS, clock.isPlaying]).toEqual([1, false]);
  });
});

describe("pages", () => {
  const header: PageHeader = { version: VERSION, title: "t", ground_m: 0, clips: [], world: [] };
  it("of another version and with numbers missing are refused", () => {
    expect(() => readPage({ ...header, version: 99 }, new Float32Array())).toThrow("version 99");
    const world = [{ vertices: [0, 9] as [number, number], faces: [0, 1, 2], colour: "#fff", opacity: 1 }];
    expect(() => readPage({ ...header, world }, new Float32Array(3))).toThrow("damaged");
  });
  it("give back the numbers of their base64", () => {
    const numbers = new Float32Array([1.5, -2, 3e-9]);
    const text = btoa(String.fromCharCode(...new Uint8Array(numbers.buffer)));
    expect(Array.from(decodeNumbers(text))).toEqual(Array.from(numbers));
  });
});
