/** The path tool: way-points and things on the ground are dragged in the viewport; each drag, click or number is one command. */

import { type Signal, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as THREE from "three";
import { applyPatches } from "../../project/document";
import type { Session, Way } from "../../project/session";
import type { DocumentPatch } from "../../../build/messages";
import { chooseFiles } from "../../shell/files";
import { Icon } from "../../shell/icons";
import { cssColour } from "../../shell/theme";
import { discard, paintMark } from "../../viewer/stage";
import { GHOST_TINT, type Viewport } from "../../viewport/viewport";
import { extensions, type HandleFactory, type PointerHit, type ToolPartProps } from "../handles";
import { changeSetting } from "../panel";
import { type Add, ADDS, addThing, asSketch, type Handle, type Item, listFields, listHandles, moveHandle, newSketch, type Point2, removeThing, type SketchTree } from "./sketch";

const REACH_PX = 14;
const LIFT_M = 0.015; // lines lie on the ground, and are not lost in it

/** What the next click puts down, and which handle is picked. */
const adding: Signal<Add | null> = signal(null);
const picked: Signal<string | null> = signal(null);

function sketchOf(session: Session): SketchTree | null {
  return asSketch(session.project.peek()?.sketch);
}

function edit(session: Session, patches: DocumentPatch[]): void {
  if (patches.length > 0) void session.change("edit_world", { root: "sketch", patches });
}

function removePicked(session: Session): void {
  const sketch = sketchOf(session);
  const handle = listHandles(sketch).find(({ id }) => id === picked.peek());
  if (sketch === null || handle === undefined) return;
  edit(session, removeThing(sketch, handle.owner));
  picked.value = null;
}

/** Outlines and handles of a sketch as lines and points of the scene. */
class Drawing {
  private readonly group = new THREE.Group();
  handles: Handle[] = [];

  constructor(private readonly viewport: Viewport) {
    viewport.scene.add(this.group);
  }

  show(sketch: SketchTree | null, hovered: string | null, ways: Way[]): void {
    this.clear();
    this.handles = listHandles(sketch);
    const ground = this.viewport.groundM + LIFT_M;
    const colour = (name: Parameters<typeof cssColour>[0]): THREE.Color => new THREE.Color(cssColour(name));
    const line = (points: readonly Point2[], paint: THREE.Color, isClosed = false, opacity = 1): void => {
      const geometry = new THREE.BufferGeometry().setFromPoints(points.map(([x, z]) => new THREE.Vector3(x, ground, z)));
      const material = new THREE.LineBasicMaterial(paintMark(paint, opacity));
      this.group.add(isClosed ? new THREE.LineLoop(geometry, material) : new THREE.Line(geometry, material));
    };
    // The newest solution of the search is the strongest; those with blending have another colour
    ways.forEach(({ k, places }, i) => line(places, new THREE.Color(k === 1 ? "#4cc38a" : GHOST_TINT), false, Math.max(0.15, 1 - 0.25 * (ways.length - 1 - i))));
    if (sketch === null) return;
    const corners = sketch.path?.points ?? [sketch.start.position, sketch.goal.position];
    const points = sketch.path?.kind === "spline" ? splineOf(corners) : corners;
    line(points, colour(sketch.path?.points === undefined ? "muted" : "accent"));
    // The band in which the root stays
    for (const side of [-1, 1]) line(offsetLine(points, (side * (sketch.path?.corridor_m ?? 1)) / 2), colour("muted"));
    for (const [kind, width] of [["wall", "thickness_m"], ["river", "width_m"]] as const) {
      for (const item of sketch[kind] ?? []) line(bandOf(item, Number(item[width] ?? (kind === "wall" ? 0.1 : 0.6))), colour(kind === "wall" ? "ink" : "accent"), true);
    }
    for (const item of [...(sketch.table ?? []), ...(sketch.box ?? [])]) line(boxOf(item), colour("ink"), true);
    for (const item of sketch.stone ?? []) line(circleOf(item.position as Point2, Number(item.radius_m ?? 0.2)), colour("ink"), true);
    for (const handle of this.handles.filter(({ shape }) => shape === "turn")) {
      const place = this.handles.find(({ id }) => id === handle.id.replace("/heading", ""))!;
      line([[place.at[0], place.at[2]], [handle.at[0], handle.at[2]]], colour("good"));
    }
    const paints = { point: "accent", end: "ink", turn: "good", thing: "warn" } as const;
    for (const handle of this.handles) {
      const isLit = handle.id === picked.peek() || handle.id === hovered;
      const material = new THREE.MeshBasicMaterial(paintMark(colour(isLit ? "bad" : paints[handle.shape])));
      const mesh = new THREE.Mesh(DISCS[handle.shape], material);
      mesh.position.set(handle.at[0], Math.max(ground, handle.at[1]), handle.at[2]);
      mesh.renderOrder = 12;
      this.group.add(mesh);
    }
  }

  /** The handle next to the pointer. */
  find(hit: PointerHit): Handle | null {
    const { viewport } = this;
    const places = this.handles.map((handle) => ({
      // Ends and way-points lie above what they belong to
      handle, handicapPx: handle.shape === "thing" ? 4 : 0, position: new THREE.Vector3(handle.at[0], Math.max(handle.at[1], viewport.groundM), handle.at[2]),
    }));
    return viewport.pickNearest(places, hit, REACH_PX)?.handle ?? null;
  }

  clear(): void {
    discard(...(this.group.children as (THREE.Line | THREE.Mesh)[]));
  }

  dispose(): void {
    this.clear();
    this.viewport.scene.remove(this.group);
  }
}

const DISCS = Object.fromEntries(
  ([["point", 0.09], ["end", 0.07], ["turn", 0.06], ["thing", 0.11]] as const).map(([shape, radius]) => [shape, new THREE.SphereGeometry(radius, 16, 10)]),
) as Record<Handle["shape"], THREE.SphereGeometry>;

function bandOf(item: Item, widthM: number): Point2[] {
  const ends = [item.start, item.end] as Point2[];
  return [...offsetLine(ends, widthM / 2), ...offsetLine(ends, -widthM / 2).reverse()];
}

function boxOf(item: Item): Point2[] {
  const [[x, z], [w, d]] = [item.position as Point2, (item.size ?? [0.8, 0.5]) as Point2];
  const angle = (Number(item.heading_deg ?? 0) * Math.PI) / 180;
  const [s, c] = [Math.sin(angle), Math.cos(angle)];
  // Own axes: z along the heading, x to its left-hand side's opposite
  return ([[-1, -1], [1, -1], [1, 1], [-1, 1]] as const).map(([i, k]): Point2 => [x + (i * w * c) / 2 + (k * d * s) / 2, z - (i * w * s) / 2 + (k * d * c) / 2]);
}

function circleOf([x, z]: Point2, radiusM: number): Point2[] {
  return Array.from({ length: 24 }, (_, i): Point2 => [x + radiusM * Math.cos((i * Math.PI) / 12), z + radiusM * Math.sin((i * Math.PI) / 12)]);
}

function splineOf(points: readonly Point2[]): Point2[] {
  const curve = new THREE.CatmullRomCurve3(points.map(([x, z]) => new THREE.Vector3(x, 0, z)), false, "centripetal");
  return curve.getPoints(12 * points.length).map(({ x, z }): Point2 => [x, z]);
}

/** A line beside a line: each point goes along the normal of its neighbours. */
function offsetLine(points: readonly Point2[], byM: number): Point2[] {
  return points.map(([x, z], i): Point2 => {
    const [a, b] = [points[Math.max(0, i - 1)], points[Math.min(points.length - 1, i + 1)]];
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
    return [x + (byM * (b[1] - a[1])) / length, z - (byM * (b[0] - a[0])) / length];
  });
}

const makeHandles: HandleFactory = (viewport, session) => {
  const drawing = new Drawing(viewport);
  let drag: { id: string; patches: DocumentPatch[] } | null = null;
  let stroke: { what: Add; from: Point2; to: Point2 } | null = null;
  let hovered: string | null = null;
  const draw = (): void => {
    const sketch = sketchOf(session);
    const job = session.jobs.peek().filter(({ tool }) => tool === "path").at(-1);
    const ways = job?.result.ways ?? (job?.result.report?.ways as Way[] | undefined) ?? [];
    const shown = drag === null || sketch === null ? sketch : applyPatches(sketch, drag.patches);
    drawing.show(stroke === null || shown === null ? shown : applyPatches(shown, addThing(shown, stroke.what, stroke.from, stroke.to)), hovered, ways);
    viewport.requestDraw();
  };
  const stops = [session.project.subscribe(draw), session.jobs.subscribe(draw), picked.subscribe(draw)];
  return {
    pointerDown(hit) {
      const [sketch, what] = [sketchOf(session), adding.peek()];
      if (what !== null && hit.ground !== null) {
        if (sketch === null) edit(session, [{ path: [], value: newSketch([hit.ground.x, hit.ground.z]) }]);
        else stroke = { what, from: [hit.ground.x, hit.ground.z], to: [hit.ground.x, hit.ground.z] };
        draw();
        return true;
      }
      const handle = drawing.find(hit);
      picked.value = handle?.id ?? null;
      if (handle === null || sketch === null) return false;
      drag = { id: handle.id, patches: [] };
      return true;
    },
    pointerMove(hit) {
      const sketch = sketchOf(session);
      if (stroke !== null && hit.ground !== null) {
        stroke.to = [hit.ground.x, hit.ground.z];
        draw();
      } else if (drag !== null && sketch !== null) {
        const handle = drawing.handles.find(({ id }) => id === drag!.id);
        // A thing above the ground moves in the plane of its height
        const plane = new THREE.Plane(new THREE.Vector3(0, 1, 0), -Math.max(viewport.groundM, handle?.at[1] ?? 0));
        const place = hit.ray.intersectPlane(plane, new THREE.Vector3());
        if (place !== null) drag.patches = moveHandle(sketch, drag.id, place.x, place.z);
        draw();
      } else {
        const found = drawing.find(hit)?.id ?? null;
        if (found !== hovered) {
          hovered = found;
          draw();
        }
      }
    },
    pointerUp() {
      const sketch = sketchOf(session);
      if (stroke !== null && sketch !== null) {
        const patches = addThing(sketch, stroke.what, stroke.from, stroke.to);
        if (patches.length === 0) session.toast("info", "Nothing is picked up yet", "Put a pick down first: a place needs its object");
        edit(session, patches);
        // Way-points and stones come in rows; other things once
        if (stroke.what !== "way-point" && stroke.what !== "stone") adding.value = null;
      }
      if (drag !== null) edit(session, drag.patches);
      drag = stroke = null;
      draw();
    },
    cancel() {
      drag = stroke = null;
      adding.value = null;
      draw();
    },
    key(event) {
      if (event.key === "Delete" || event.key === "Backspace") removePicked(session);
      else if (event.key === "Escape" && adding.peek() !== null) adding.value = null;
      else return false;
      return true;
    },
    cursor: (hit) => (adding.peek() !== null ? "crosshair" : drawing.find(hit) === null ? "" : "grab"),
    dispose() {
      for (const stop of stops) stop();
      adding.value = null;
      drawing.dispose();
      viewport.requestDraw();
    },
  };
};

function PathPart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const sketch = asSketch(session.project.value?.sketch);
  // The tree goes into the recipe, so that it stands for itself
  useEffect(() => changeSetting(studio, tool.id, "sketch", sketch), [sketch]);
  const shipped = tool.parameters.find(({ name }) => name === "shipped")?.choices ?? [];
  const load = async (name: string): Promise<void> => {
    const answer = await session.tryAsk("shipped_sketch", { name });
    if (answer !== null) edit(session, [{ path: [], value: (answer.value as { report: { sketch: SketchTree } }).report.sketch }]);
  };
  const handle = listHandles(sketch).find(({ id }) => id === picked.value);
  const number = (label: string, value: number | undefined, unit: string, set: (value: number) => void, placeholder = "") => (
    <label class="pair" key={label}>
      <span class="muted">{label} [{unit}]</span>
      <input class="control num" type="number" step="any" value={value === undefined ? "" : String(value)} placeholder={placeholder} onChange={(event) => event.currentTarget.value !== "" && set(Number(event.currentTarget.value))} />
    </label>
  );
  return (
    <div class="fields path">
      <p class="note" style={{ margin: 0 }}>
        {adding.value !== null ? `Click on the ground: ${adding.value}. Esc ends.` : sketch === null ? "Draw a first path, then drag its points in the viewport." : "Drag points and things on the ground; Delete removes the picked one."}
      </p>
      <select class="control" aria-label="Load a sketch that ships" value="" onChange={(event) => event.currentTarget.value !== "" && void load(event.currentTarget.value)}>
        <option value="">Load a sketch that ships…</option>
        {shipped.filter((name) => name !== "").map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <button type="button" class="button" onClick={() => chooseFiles(session, ".toml")}><Icon name="import" size={15} /> Your own sketch file…</button>
      {sketch === null ? (
        <button type="button" class="button" onClick={() => edit(session, [{ path: [], value: newSketch() }])}>New sketch</button>
      ) : (
        <>
          <div class="segments" role="radiogroup" aria-label="Add to the sketch">
            {ADDS.map((what) => (
              <button type="button" role="radio" key={what} aria-checked={adding.value === what} onClick={() => (adding.value = adding.value === what ? null : what)}>{what}</button>
            ))}
          </div>
          {number("Speed along the path", sketch.path?.speed_mps, "m/s", (value) => edit(session, [{ path: ["path"], value: { ...sketch.path, speed_mps: value } }]), "free")}
          {number("Width of the path", sketch.path?.corridor_m ?? 1, "m", (value) => edit(session, [{ path: ["path"], value: { ...sketch.path, corridor_m: value } }]))}
          {handle !== undefined && (
            <fieldset class="picked" style={{ display: "grid", gap: "8px", border: "1px solid var(--line)", borderRadius: "6px" }}>
              <legend>{handle.label}</legend>
              {listFields(sketch, handle.owner).map(({ path, name, value, unit }) => number(name, value, unit, (to) => edit(session, [{ path, value: to }])))}
              <button type="button" class="button" disabled={removeThing(sketch, handle.owner).length === 0} onClick={() => removePicked(session)}><Icon name="close" size={13} /> Remove</button>
            </fieldset>
          )}
        </>
      )}
    </div>
  );
}

extensions.set("path", { handles: makeHandles, View: PathPart, hides: ["sketch", "shipped"] });
