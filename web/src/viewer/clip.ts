/** Clips of a page: what Python wrote into it, as typed arrays. Metres, seconds, radians; +Y up, +Z forward. */

import { makeSkin, type Skin } from "./body";

/** Where an array lies in the page's block of numbers: first element and count. */
type Slice = [first: number, count: number];

/** What a page and the studio's server both tell of a clip. */
export interface ClipFacts {
  name: string;
  rate_hz: number;
  joints: string[];
  parents: number[];
  contacts: ContactTrack[]; // runs of frames
  bands: Band[];
  facts: [string, string][];
}

interface ClipHeader extends ClipFacts {
  offsets: Slice;
  roots: Slice;
  rotations: Slice;
  translations: Slice | null;
  skin: Record<string, Slice> | null;
  capsules: { joints: number[]; sides: number[]; shapes: Slice };
}

export interface PageHeader {
  version: number;
  title: string;
  ground_m: number;
  clips: ClipHeader[];
  world: (Omit<WorldMesh, "vertices"> & { vertices: Slice })[];
}

/** A row of coloured stretches on the timeline, such as the verdict of the physics report. */
export interface Band {
  name: string;
  spans: Span[];
}

interface Span {
  start_s: number;
  stop_s: number;
  level: "green" | "amber" | "red";
  text: string;
}

/** A row of stretches in which a point of the body touches something. */
export interface ContactTrack {
  name: string;
  joint: number;
  runs: [number, number][]; // [s] from, to; in headers frames
}

/** One tapered capsule, fixed to a joint: two balls and the cone that touches both. */
export interface Capsule {
  joint: number;
  side: number; // 0 trunk, 1 left, 2 right
  start: [number, number, number];
  end: [number, number, number];
  startRadius: number;
  endRadius: number;
}

/** Consecutive frames whose arrays are at hand: a whole clip, or a block of a long one. */
export interface Frames {
  first: number;
  roots: Float32Array; // (n, 3)
  rotations: Float32Array; // (n, J, 4) xyzw, parent <- joint
  translations: Float32Array | null; // (n, J, 3) where bones change their length
}

export interface Clip extends Omit<ClipFacts, "rate_hz"> {
  rateHz: number;
  numFrames: number;
  durationS: number;
  offsets: Float32Array; // (J, 3)
  /** The frames around one, or null while they are on their way. */
  framesAt(frame: number): Frames | null;
  capsules: Capsule[];
  skin?: Skin; // drawn in place of the capsules
}

/** A thing of the world: triangles in world, with one colour. */
export interface WorldMesh {
  vertices: Float32Array;
  faces: number[];
  colour: string;
  opacity: number;
}

export interface Page {
  title: string;
  groundM: number;
  clips: Clip[];
  world: WorldMesh[];
}

export const VERSION = 1;

/** Read what `marey.picture.save_page` wrote: a description, and one block of little-endian 32-bit floats. */
export function readPage(header: PageHeader, numbers: Float32Array): Page {
  if (header.version !== VERSION) {
    throw new Error(`this page has version ${header.version}, its player reads version ${VERSION}`);
  }
  const cut = ([first, count]: Slice): Float32Array => {
    if (first < 0 || count < 0 || first + count > numbers.length) {
      throw new Error(`the page is damaged: numbers ${first} to ${first + count} of ${numbers.length}`);
    }
    return numbers.subarray(first, first + count);
  };
  return {
    title: header.title,
    groundM: header.ground_m,
    clips: header.clips.map((clip) => readClip(clip, cut)),
    world: header.world.map((mesh) => ({ ...mesh, vertices: cut(mesh.vertices) })),
  };
}

function readClip(header: ClipHeader, cut: (slice: Slice) => Float32Array): Clip {
  const frames: Frames = {
    first: 0,
    roots: cut(header.roots),
    rotations: cut(header.rotations),
    translations: header.translations === null ? null : cut(header.translations),
  };
  const { joints, sides, shapes } = header.capsules;
  return {
    ...describeClip(header, frames.roots.length / 3),
    offsets: cut(header.offsets),
    framesAt: () => frames,
    capsules: readCapsules(joints, sides, cut(shapes)),
    skin: header.skin ? makeSkin(Object.fromEntries(Object.entries(header.skin).map(([name, slice]) => [name, cut(slice)]))) : undefined,
  };
}

/** The part of a clip that its description tells, in seconds. */
export function describeClip(header: ClipFacts, numFrames: number): Omit<Clip, "offsets" | "framesAt" | "capsules"> {
  const { rate_hz: rateHz, contacts, ...facts } = header;
  const seconds = contacts.map((track) => ({ ...track, runs: track.runs.map(([first, stop]): [number, number] => [first / rateHz, stop / rateHz]) }));
  return { ...facts, contacts: seconds, rateHz, numFrames, durationS: Math.max(0, numFrames - 1) / rateHz };
}

/** Capsules from rows of eight numbers: start, end, two radii. */
export function readCapsules(joints: number[], sides: number[], shapes: Float32Array): Capsule[] {
  return joints.map((joint, s): Capsule => {
    const [x0, y0, z0, x1, y1, z1, startRadius, endRadius] = shapes.subarray(8 * s, 8 * s + 8);
    return { joint, side: sides[s], start: [x0, y0, z0], end: [x1, y1, z1], startRadius, endRadius };
  });
}

/** Numbers from base64, in the byte order of the page. */
export function decodeNumbers(base64: string): Float32Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
