/** Poses between frames, and forward kinematics. Nothing is allocated while a clip plays. */

import type { Clip, Frames } from "./clip";

/** World transforms of all joints at one instant. */
export class PoseBuffer {
  readonly positions: Float32Array; // (J, 3) [m]
  readonly rotations: Float32Array; // (J, 4) xyzw, world <- joint
  private readonly local = new Float32Array(4);

  constructor(private readonly clip: Pick<Clip, "parents" | "offsets" | "numFrames" | "rateHz" | "framesAt">) {
    this.positions = new Float32Array(3 * clip.parents.length);
    this.rotations = new Float32Array(4 * clip.parents.length);
  }

  /** Pose the body at a time [s]: slerp of the two nearest frames. Frames on their way leave the pose as it is: false. */
  sample(timeS: number): boolean {
    const { clip } = this;
    const last = clip.numFrames - 1;
    const frame = Math.min(Math.max(timeS * clip.rateHz, 0), last);
    const a = Math.floor(frame);
    const from = clip.framesAt(a);
    if (from === null) return false;
    const b = Math.min(a + 1, last);
    const to = clip.framesAt(b);
    // The last pose of a block stands until the next block is here
    if (to === null) this.compose(from, a - from.first, from, a - from.first, 0);
    else this.compose(from, a - from.first, to, b - to.first, frame - a);
    return true;
  }

  /** Pose the body from one frame: the root's place (3) and local rotations (J, 4) xyzw. */
  take(root: Float32Array, rotations: Float32Array): void {
    const frames: Frames = { first: 0, roots: root, rotations, translations: null };
    this.compose(frames, 0, frames, 0, 0);
  }

  /** A pass from the root to the leaves, between row `a` of one stretch and row `b` of another. */
  private compose(from: Frames, a: number, to: Frames, b: number, share: number): void {
    const { clip, positions, rotations, local } = this;
    const count = clip.parents.length;
    for (let j = 0; j < count; j++) {
      slerp(from.rotations, 4 * (a * count + j), to.rotations, 4 * (b * count + j), share, local);
      const parent = clip.parents[j];
      const p = 3 * j;
      if (parent < 0) {
        for (let k = 0; k < 3; k++) positions[p + k] = mix(from.roots[3 * a + k], to.roots[3 * b + k], share);
        rotations.set(local, 4 * j);
        continue;
      }
      // The joint's origin in its parent's frame: the bone, or a track where bones change their length
      const [source, at] = from.translations === null ? [clip.offsets, p] : [from.translations, 3 * (a * count + j)];
      const [target, next] = to.translations === null ? [clip.offsets, p] : [to.translations, 3 * (b * count + j)];
      const x = mix(source[at], target[next], share);
      const y = mix(source[at + 1], target[next + 1], share);
      const z = mix(source[at + 2], target[next + 2], share);
      rotate(rotations, 4 * parent, x, y, z, positions, p);
      for (let k = 0; k < 3; k++) positions[p + k] += positions[3 * parent + k];
      multiply(rotations, 4 * parent, local, rotations, 4 * j);
    }
  }
}

function mix(a: number, b: number, share: number): number {
  return a + share * (b - a);
}

/** Spherical interpolation along the shorter arc, from entry `a` of one array to entry `b` of another. */
export function slerp(from: Float32Array, a: number, to: Float32Array, b: number, share: number, out: Float32Array): void {
  let cosine = from[a] * to[b] + from[a + 1] * to[b + 1] + from[a + 2] * to[b + 2] + from[a + 3] * to[b + 3];
  const sign = cosine < 0 ? -1 : 1;
  cosine = Math.min(1, sign * cosine);
  const angle = Math.acos(cosine);
  // Below a thousandth of a radian the chord is the arc to single precision
  const sine = Math.sin(angle);
  const first = angle < 1e-3 ? 1 - share : Math.sin((1 - share) * angle) / sine;
  const second = sign * (angle < 1e-3 ? share : Math.sin(share * angle) / sine);
  let square = 0;
  for (let k = 0; k < 4; k++) {
    out[k] = first * from[a + k] + second * to[b + k];
    square += out[k] * out[k];
  }
  const scale = square > 0 ? 1 / Math.sqrt(square) : 0;
  for (let k = 0; k < 4; k++) out[k] *= scale;
}

/** out[at] = p q for quaternions xyzw; `q` may not be the target. */
function multiply(p: Float32Array, i: number, q: Float32Array, out: Float32Array, at: number): void {
  const [px, py, pz, pw] = [p[i], p[i + 1], p[i + 2], p[i + 3]];
  const [qx, qy, qz, qw] = [q[0], q[1], q[2], q[3]];
  out[at] = pw * qx + px * qw + py * qz - pz * qy;
  out[at + 1] = pw * qy - px * qz + py * qw + pz * qx;
  out[at + 2] = pw * qz + px * qy - py * qx + pz * qw;
  out[at + 3] = pw * qw - px * qx - py * qy - pz * qz;
}

/** out[at] = q (x, y, z) q^-1: v + 2 w (u x v) + 2 u x (u x v). */
function rotate(q: Float32Array, i: number, x: number, y: number, z: number, out: Float32Array, at: number): void {
  const [ux, uy, uz, w] = [q[i], q[i + 1], q[i + 2], q[i + 3]];
  const cx = uy * z - uz * y;
  const cy = uz * x - ux * z;
  const cz = ux * y - uy * x;
  out[at] = x + 2 * (w * cx + uy * cz - uz * cy);
  out[at + 1] = y + 2 * (w * cy + uz * cx - ux * cz);
  out[at + 2] = z + 2 * (w * cz + ux * cy - uy * cx);
}
