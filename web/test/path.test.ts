import { describe, expect, it } from "vitest";
import { applyPatches } from "../src/project/document";
import { addThing, ADDS, asSketch, listFields, listHandles, moveHandle, newSketch, placeOnPath, removeThing, type SketchTree } from "../src/tools/path/sketch";
import { Drive, LIMITS } from "../src/tools/walk/drive";

function full(): SketchTree {
  let sketch = newSketch();
  for (const what of ADDS) sketch = applyPatches(sketch, addThing(sketch, what, [1, 2], [2, 3]));
  return sketch;
}

describe("a sketch", () => {
  it("gets every kind of thing by a click, and each has a handle where it stands", () => {
    const sketch = full();
    expect(listHandles(sketch).map(({ id }) => id)).toEqual(
      expect.arrayContaining(["path/3", "start", "start/heading", "goal", "wall/0", "wall/0/start", "river/0/end", "stone/0", "table/0", "table/0/heading", "object/0", "event/1/to", "event/2", "event/3"]),
    );
    expect(sketch.path!.points).toHaveLength(4);
    expect(sketch.event!.map(({ kind }) => kind)).toEqual(["pick", "place", "jump", "stop"]);
    // What is put onto the table stands at its height
    expect(sketch.object![0].position).toEqual([1, 0.8, 2]);
  });
  it("moves each handle to the place of the pointer, and to nowhere else", () => {
    const sketch = full();
    for (const { id, shape } of listHandles(sketch)) {
      const moved = applyPatches(sketch, moveHandle(sketch, id, 5, -3));
      const at = listHandles(moved).find((handle) => handle.id === id)!.at;
      if (shape !== "turn") expect([at[0], at[2]]).toEqual([expect.closeTo(5, 9), expect.closeTo(-3, 9)]);
      const others = listHandles(moved).filter((handle) => !handle.id.startsWith(id.split("/").slice(0, 2).join("/")) && !["start", "goal", "path"].includes(id.split("/")[0]));
      for (const other of others) expect(other.at).toEqual(listHandles(sketch).find((handle) => handle.id === other.id)!.at);
    }
  });
  it("turns a heading towards the pointer: 0 is +Z, positive towards +X", () => {
    const sketch = newSketch();
    expect(moveHandle(sketch, "start/heading", 3, 0)).toEqual([{ path: ["start", "heading_deg"], value: 90 }]);
    expect(moveHandle(sketch, "start/heading", 0, 9)).toEqual([{ path: ["start", "heading_deg"], value: 0 }]);
  });
  it("moves the start with the first point of its path, and the other way round", () => {
    const sketch = newSketch();
    const moved = applyPatches(sketch, moveHandle(sketch, "path/0", 1, 1));
    expect([moved.start.position, moved.path!.points![0]]).toEqual([[1, 1], [1, 1]]);
    expect(applyPatches(sketch, moveHandle(sketch, "goal", 2, 9)).path!.points!.at(-1)).toEqual([2, 9]);
  });
  it("puts a way-point where the path grows by the least", () => {
    expect(placeOnPath([[0, 0], [0, 2], [0, 4]], [0.5, 3])).toBe(2);
    expect(placeOnPath([[0, 0], [0, 2], [0, 4]], [0, 9])).toBe(3);
  });
  it("loses an object with the events that name it, and never its start", () => {
    const sketch = full();
    const left = applyPatches(sketch, removeThing(sketch, ["object", 0]));
    expect([left.object, left.event!.map(({ kind }) => kind)]).toEqual([[], ["jump", "stop"]]);
    expect(removeThing(sketch, ["start"])).toEqual([]);
    const two: SketchTree = { ...newSketch(), path: { points: [[0, 0], [0, 4]], kind: "spline", speed_mps: 1 } };
    expect(applyPatches(two, removeThing(two, ["path", "points", 0])).path).toEqual({ speed_mps: 1 });
  });
  it("shows the numbers of what is picked with their units", () => {
    const fields = listFields(full(), ["river", 0]);
    expect(fields).toEqual([{ path: ["river", 0, "width_m"], name: "width", value: 0.6, unit: "m" }]);
    expect(asSketch({})).toBeNull();
  });
});

describe("driving", () => {
  it("speeds up while a key is held, keeps the speed, turns while held, and tells only changes", () => {
    const drive = new Drive();
    expect(drive.read(0.1, null)).toBeNull();
    drive.press("w", true);
    expect(drive.read(0.5, null)).toMatchObject({ speed: 0.6 });
    drive.press("w", false);
    expect(drive.read(0.5, null)).toBeNull();
    drive.press("ArrowLeft", true);
    expect(drive.read(0.1, null)).toEqual({ turn_rate: LIMITS.turn, over_s: 0.25 });
    drive.release();
    expect(drive.read(0.1, null)).toMatchObject({ turn_rate: 0 });
    expect(drive.press("q", true)).toBe(false);
  });
  it("jumps once a press, by key and by gamepad", () => {
    const drive = new Drive(1);
    drive.press(" ", true);
    expect(drive.read(0.1, null)?.jump).toBeDefined();
    expect(drive.read(0.1, null)).toBeNull();
    const pad = { axes: [0, 0], buttons: [{ pressed: true, value: 1 }] };
    expect(drive.read(0.1, pad)?.jump).toBeDefined();
    expect(drive.read(0.1, pad)).toBeNull();
  });
  it("follows a stick beyond its dead zone, within the limits", () => {
    const drive = new Drive();
    expect(drive.read(0.1, { axes: [0.1, -0.1], buttons: [] })).toBeNull();
    expect(drive.read(0.1, { axes: [1, -1], buttons: [] })).toMatchObject({ speed: LIMITS.speed, turn_rate: -LIMITS.turn });
  });
});
