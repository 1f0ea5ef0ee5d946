/** Clips of a page: what Python wrote into it, as typed arrays. Metres, seconds, radians; +Y up, +Z forward. */

/** Where an array lies in the page's block of numbers: first element and count. */
type Slice = [first: number, count: number];

interface ClipHeader {
  name: string;
  rate_hz: number;
  joints: string[];
  parents: number[];
  sides: number[];
  offsets: Slice;
  roots: Slice;
  rotations: Slice;
  translations: Slice | null;
  capsules: { joints: number[]; sides: number[]; shapes: Slice };
  contacts: { name: string; joint: number; runs: [number, number][] }[];
  bands: Band[];
  facts: [string, string][];
}

/** A thing of the world: triangles in world, with one colour. */
interface MeshHeader {
  vertices: Slice;
  faces: number[];
  colour: string;
  opacity: number;
}

export interface PageHeader {
  version: number;
  title: string;
  ground_m: number;
  clips: ClipHeader[];
  world: MeshHeader[];
}

/** A row of coloured stretches on the timeline, such as the verdict of the physics report. */
export interface Band {
  name: string;
  spans: Span[];
}

export interface Span {
  start_s: number;
  stop_s: number;
  level: "green" | "amber" | "red";
  text: string;
}

/** A row of stretches in which a point of the body touches something. */
export interface ContactTrack {
  name: string;
  joint: number;
  runs: [number, number][]; // [s] from, to
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

export interface Clip {
  name: string;
  rateHz: number;
  numFrames: number;
  durationS: number;
  joints: string[];
  parents: number[];
  offsets: Float32Array; // (J, 3)
  roots: Float32Array; // (F, 3)
  rotations: Float32Array; // (F, J, 4) xyzw, parent <- joint
  translations: Float32Array | null; // (F, J, 3) where bones change their length
  capsules: Capsule[];
  contacts: ContactTrack[];
  bands: Band[];
  facts: [string, string][];
}

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
  const roots = cut(header.roots);
  const numFrames = roots.length / 3;
  const shapes = cut(header.capsules.shapes); // (S, 8): start, end, two radii
  const capsules = header.capsules.joints.map((joint, s): Capsule => {
    const at = 8 * s;
    return {
      joint,
      side: header.capsules.sides[s],
      start: [shapes[at], shapes[at + 1], shapes[at + 2]],
      end: [shapes[at + 3], shapes[at + 4], shapes[at + 5]],
      startRadius: shapes[at + 6],
      endRadius: shapes[at + 7],
    };
  });
  return {
    name: header.name,
    rateHz: header.rate_hz,
    numFrames,
    durationS: Math.max(0, numFrames - 1) / header.rate_hz,
    joints: header.joints,
    parents: header.parents,
    offsets: cut(header.offsets),
    roots,
    rotations: cut(header.rotations),
    translations: header.translations === null ? null : cut(header.translations),
    capsules,
    contacts: header.contacts.map((track) => ({
      ...track,
      runs: track.runs.map(([first, stop]): [number, number] => [first / header.rate_hz, stop / header.rate_hz]),
    })),
    bands: header.bands,
    facts: header.facts,
  };
}

/** Numbers from base64, in the byte order of the page. */
export function decodeNumbers(base64: string): Float32Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
