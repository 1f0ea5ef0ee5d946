/** The sketch as a tree, its handles on the ground, and what moving, adding and removing them changes. Nothing here draws. */

import type { DocumentPatch } from "../../../build/messages";

export type Point2 = [x: number, z: number];
type Point3 = [x: number, y: number, z: number];
type Path = (string | number)[];

/** Kinds of things that stand in lists of the sketch's tree. */
export const KINDS = ["wall", "river", "stone", "table", "box", "object", "event"] as const;
export type Kind = (typeof KINDS)[number];
export type Item = Record<string, unknown>;

interface GroundPose {
  position: Point2;
  heading_deg?: number | null;
  tolerance_m?: number;
}

export interface SketchTree extends Partial<Record<Kind, Item[]>> {
  version?: number;
  name?: string;
  start: GroundPose;
  goal: GroundPose;
  path?: { points?: Point2[]; kind?: string; corridor_m?: number; speed_mps?: number };
}

/** A point that can be dragged: where it stands, whose it is, and what of the tree follows it. */
export interface Handle {
  id: string; // "path/2", "wall/0/start", "goal/heading"
  at: Point3;
  shape: "point" | "end" | "turn" | "thing";
  label: string;
  owner: Path; // what is removed and whose fields are shown
}

const TURN_M = 0.8; // from a place to the tip of its heading

/** The tree of the project as a sketch; null where there is none yet. */
export function asSketch(tree: Record<string, unknown> | undefined): SketchTree | null {
  return tree !== undefined && "start" in tree && "goal" in tree ? (tree as unknown as SketchTree) : null;
}

/** A first sketch: four metres ahead of a place. */
export function newSketch([x, z]: Point2 = [0, 0]): SketchTree {
  return {
    version: 1, name: "sketch", start: { position: [x, z], heading_deg: 0 }, goal: { position: [x, z + 4] },
    path: { points: [[x, z], [x, z + 2], [x, z + 4]], corridor_m: 1 },
  };
}

export function listHandles(sketch: SketchTree | null): Handle[] {
  if (sketch === null) return [];
  const handles: Handle[] = [];
  const add = (id: string, at: Point3, shape: Handle["shape"], label: string, owner: Path): void => void handles.push({ id, at, shape, label, owner });
  const points = sketch.path?.points ?? [];
  points.forEach((p, i) => add(`path/${i}`, [p[0], 0, p[1]], "point", `way-point ${i + 1}`, ["path", "points", i]));
  for (const end of ["start", "goal"] as const) {
    const { position, heading_deg } = sketch[end];
    add(end, [position[0], 0, position[1]], "thing", end, [end]);
    if (heading_deg != null) add(`${end}/heading`, tipOf(position, heading_deg), "turn", `heading of the ${end}`, [end]);
  }
  for (const kind of ["wall", "river"] as const) {
    (sketch[kind] ?? []).forEach((item, i) => {
      const [a, b] = [item.start as Point2, item.end as Point2];
      add(`${kind}/${i}`, [(a[0] + b[0]) / 2, 0, (a[1] + b[1]) / 2], "thing", kind, [kind, i]);
      add(`${kind}/${i}/start`, [a[0], 0, a[1]], "end", `end of the ${kind}`, [kind, i]);
      add(`${kind}/${i}/end`, [b[0], 0, b[1]], "end", `end of the ${kind}`, [kind, i]);
    });
  }
  for (const kind of ["stone", "table", "box"] as const) {
    (sketch[kind] ?? []).forEach((item, i) => {
      const at = item.position as Point2;
      add(`${kind}/${i}`, [at[0], 0, at[1]], "thing", kind, [kind, i]);
      if (kind !== "stone") add(`${kind}/${i}/heading`, tipOf(at, Number(item.heading_deg ?? 0)), "turn", `heading of the ${kind}`, [kind, i]);
    });
  }
  (sketch.object ?? []).forEach((item, i) => add(`object/${i}`, item.position as Point3, "thing", String(item.name), ["object", i]));
  (sketch.event ?? []).forEach((item, i) => {
    if (Array.isArray(item.at)) add(`event/${i}`, [item.at[0], 0, item.at[1]], "thing", String(item.kind), ["event", i]);
    if (Array.isArray(item.to)) add(`event/${i}/to`, item.to as Point3, "end", `${item.kind} ${item.object ?? ""}`, ["event", i]);
  });
  return handles;
}

/** Where the tip of a heading lies: 0 is +Z, positive towards +X. */
function tipOf([x, z]: Point2, headingDeg: number): Point3 {
  const angle = (headingDeg * Math.PI) / 180;
  return [x + TURN_M * Math.sin(angle), 0, z + TURN_M * Math.cos(angle)];
}

/** What a drag of a handle to a place changes: patches below the sketch. Numbers are kept to the millimetre and the tenth of a degree. */
export function moveHandle(sketch: SketchTree, id: string, x: number, z: number): DocumentPatch[] {
  const [name, second, part] = id.split("/");
  const at: Point2 = [round(x), round(z)];
  if ((name === "start" || name === "goal") && second === "heading") return [{ path: [name, "heading_deg"], value: headingFrom(sketch[name].position, x, z) }];
  if (name === "path" || name === "start" || name === "goal") {
    const points = sketch.path?.points ?? [];
    const moved = new Map<string, DocumentPatch>([[id, { path: name === "path" ? ["path", "points", Number(second)] : [name, "position"], value: at }]]);
    // The start and the goal go with the ends of their path, and these with them
    for (const [end, place] of [["start", 0], ["goal", points.length - 1]] as const) {
      const [position, point] = [sketch[end].position, points[place]];
      if (point === undefined || Math.hypot(position[0] - point[0], position[1] - point[1]) >= 1e-6) continue;
      if (name === end) moved.set(`path/${place}`, { path: ["path", "points", place], value: at });
      else if (id === `path/${place}`) moved.set(end, { path: [end, "position"], value: at });
    }
    return [...moved.values()];
  }
  const [kind, index] = [name as Kind, Number(second)];
  const item = sketch[kind]![index];
  if (part === "heading") return [{ path: [kind, index, "heading_deg"], value: headingFrom(item.position as Point2, x, z) }];
  if (kind === "object") return [{ path: [kind, index, "position"], value: [at[0], (item.position as Point3)[1], at[1]] }];
  if (kind === "event") {
    return part === "to" ? [{ path: [kind, index, "to"], value: [at[0], (item.to as Point3)[1], at[1]] }] : [{ path: [kind, index, "at"], value: at }];
  }
  if (kind === "wall" || kind === "river") {
    if (part === "start" || part === "end") return [{ path: [kind, index, part], value: at }];
    const [a, b] = [item.start as Point2, item.end as Point2];
    const [dx, dz] = [x - (a[0] + b[0]) / 2, z - (a[1] + b[1]) / 2];
    return [{ path: [kind, index, "start"], value: [round(a[0] + dx), round(a[1] + dz)] }, { path: [kind, index, "end"], value: [round(b[0] + dx), round(b[1] + dz)] }];
  }
  return [{ path: [kind, index, "position"], value: at }];
}

function headingFrom([x, z]: Point2, toX: number, toZ: number): number {
  return Math.round((1800 / Math.PI) * Math.atan2(toX - x, toZ - z)) / 10;
}

function round(value: number): number {
  return Math.round(1000 * value) / 1000;
}

/** What can be put onto the ground by a click or, for walls and rivers, by a stroke. */
export const ADDS = ["way-point", "wall", "river", "stone", "table", "pick", "place", "jump", "stop"] as const;
export type Add = (typeof ADDS)[number];

export function addThing(sketch: SketchTree, what: Add, from: Point2, to: Point2 = from): DocumentPatch[] {
  const [a, b]: [Point2, Point2] = [[round(from[0]), round(from[1])], [round(to[0]), round(to[1])]];
  /** At the end of a list of the tree, or as a list of its own. */
  const append = (kind: Kind, item: Item): DocumentPatch =>
    sketch[kind] === undefined ? { path: [kind], value: [item] } : { path: [kind, sketch[kind].length], insert: item };
  /** What lies on a table stands at its height, all else on the floor. */
  const rest = (): Point3 => {
    const table = (sketch.table ?? []).find(({ position, size }) => {
      const [p, s] = [position as Point2, (size ?? [0.8, 0.5]) as Point2];
      return Math.abs(p[0] - a[0]) <= s[0] / 2 && Math.abs(p[1] - a[1]) <= s[1] / 2;
    });
    return [a[0], table === undefined ? 0.1 : round(Number(table.height_m ?? 0.75) + 0.05), a[1]];
  };
  switch (what) {
    case "way-point": {
      const points = sketch.path?.points;
      if (points === undefined) return [{ path: ["path"], value: { ...sketch.path, points: [sketch.start.position, a, sketch.goal.position] } }];
      return [{ path: ["path", "points", placeOnPath(points, a)], insert: a }];
    }
    case "wall":
    case "river": {
      // A click alone makes one of two metres across
      const ends: [Point2, Point2] = Math.hypot(b[0] - a[0], b[1] - a[1]) < 0.1 ? [[round(a[0] - 1), a[1]], [round(a[0] + 1), a[1]]] : [a, b];
      return [append(what, { start: ends[0], end: ends[1], ...(what === "river" ? { width_m: 0.6 } : {}) })];
    }
    case "stone":
      return [append("stone", { position: a, radius_m: 0.2 })];
    case "table":
      return [append("table", { position: a, size: [0.8, 0.5], height_m: 0.75, heading_deg: 0 })];
    case "jump":
      return [append("event", { kind: "jump", at: a })];
    case "stop":
      return [append("event", { kind: "stop", at: a, seconds: 1 })];
    case "pick": {
      const names = new Set((sketch.object ?? []).map(({ name }) => name));
      let number = 1;
      while (names.has(`object ${number}`)) number++;
      const name = `object ${number}`;
      return [append("object", { name, position: rest() }), append("event", { kind: "pick", object: name })];
    }
    case "place": {
      const picked = (sketch.event ?? []).filter(({ kind }) => kind === "pick").at(-1);
      return picked === undefined ? [] : [append("event", { kind: "place", object: picked.object, to: rest() })];
    }
  }
}

/** Index at which a new way-point makes the path longer by the least. */
export function placeOnPath(points: readonly Point2[], [x, z]: Point2): number {
  const away = (p: Point2): number => Math.hypot(p[0] - x, p[1] - z);
  const gap = (i: number): number => Math.hypot(points[i][0] - points[i - 1][0], points[i][1] - points[i - 1][1]);
  let [best, least] = [points.length, points.length > 0 ? away(points[points.length - 1]) : 0];
  for (let i = 1; i < points.length; i++) {
    const more = away(points[i - 1]) + away(points[i]) - gap(i);
    if (more < least) [best, least] = [i, more];
  }
  return best;
}

/** Take a handle's owner away; an object goes with the events that name it. Start and goal stay. */
export function removeThing(sketch: SketchTree, owner: Path): DocumentPatch[] {
  if (owner[0] === "start" || owner[0] === "goal") return [];
  if (owner[0] === "path") {
    const { points, kind: _, ...others } = sketch.path!;
    // A path needs two points: with fewer the engine finds its own way
    return points!.length > 2 ? [{ path: owner, remove: true }] : [{ path: ["path"], value: others }];
  }
  const patches: DocumentPatch[] = [{ path: owner, remove: true }];
  if (owner[0] === "object") {
    const { name } = sketch.object![owner[1] as number];
    // From the last to the first, so that indices stay true
    (sketch.event ?? []).forEach((event, i) => event.object === name && patches.unshift({ path: ["event", i], remove: true }));
  }
  return patches;
}

/** The numbers of a thing that its panel shows, with their units. */
export function listFields(sketch: SketchTree, owner: Path): { path: Path; name: string; value: number; unit: string }[] {
  if (owner[0] === "path") return [];
  let item: unknown = sketch;
  for (const step of owner) item = (item as Record<string | number, unknown>)?.[step];
  const plain: Record<string, Item> = {
    start: { heading_deg: 0 }, goal: { tolerance_m: 0.2 }, wall: { height_m: 2, thickness_m: 0.1 }, river: { width_m: 0.6 }, stone: { radius_m: 0.2, height_m: 0 },
    table: { height_m: 0.75, heading_deg: 0 }, box: { height_m: 0.3, heading_deg: 0 },
  };
  const all = { ...plain[String(owner[0])], ...(item as Item) };
  const units: Record<string, string> = { m: "m", deg: "°", seconds: "s" };
  return Object.entries(all).flatMap(([name, value]) => {
    const unit = units[name.split("_").at(-1)!];
    return typeof value === "number" && unit !== undefined ? [{ path: [...owner, name], name: name.replace(/_(m|deg)$/, "").replaceAll("_", " "), value, unit }] : [];
  });
}
