/** The solid body of a clip: all its capsules in one mesh, each vertex carried by one joint. One draw call a body. */

import * as THREE from "three";
import type { Capsule, Clip } from "./clip";
import { PoseBuffer } from "./pose";
import { makeGeometry } from "./stage";

const AROUND = 12; // segments round a capsule
const ALONG = 3; // rings of a half ball
const TOUCH = new THREE.Color("#c8452f");

export interface Palette {
  sides: [trunk: string, left: string, right: string];
}

/** A surface of the user's own: vertices carried by up to four joints each, in the pose it was bound in. */
export interface Skin {
  vertices: Float32Array; // (V, 3)
  faces: Uint32Array; // (T, 3)
  carriers: Uint16Array; // (V, 4)
  weights: Float32Array; // (V, 4)
  inverseBind: Float32Array; // (J, 16) column-major, joint <- mesh
}

/** A skin from the arrays that Python sends. */
export function makeSkin(arrays: Record<string, Iterable<number>>): Skin {
  const [vertices, weights, inverseBind] = [arrays.vertices, arrays.weights, arrays.inverse_bind].map((list) => Float32Array.from(list));
  return { vertices, faces: Uint32Array.from(arrays.faces), carriers: Uint16Array.from(arrays.carriers), weights, inverseBind };
}

export interface Look {
  opacity?: number;
  /** One colour for all sides: a ghost. */
  tint?: string;
  skin?: Skin;
}

export const PALETTES: Palette[] = [
  { sides: ["#d3d6d8", "#6d9bc8", "#e0a76f"] },
  { sides: ["#b5c9b4", "#5fa58d", "#a9b85c"] },
  { sides: ["#cbb9cc", "#8f7fc4", "#d288ae"] },
  { sides: ["#d3c7ae", "#b98d4a", "#d9b84f"] },
];

export class Body {
  readonly mesh: THREE.SkinnedMesh;
  readonly pose: PoseBuffer;
  private readonly bones: THREE.Bone[];
  private readonly colours: THREE.BufferAttribute;
  private readonly plain: Float32Array;
  private readonly paintsContacts: boolean;
  private touching = "";

  constructor(
    readonly clip: Clip,
    palette: Palette,
    look: Look = {},
  ) {
    this.pose = new PoseBuffer(clip);
    const sides = look.tint === undefined ? palette.sides : ([look.tint, look.tint, look.tint] as Palette["sides"]);
    const geometry = look.skin === undefined ? buildGeometry(clip.capsules, { sides }) : skinGeometry(look.skin, sides[0]);
    this.colours = geometry.getAttribute("color") as THREE.BufferAttribute;
    this.plain = (this.colours.array as Float32Array).slice();
    // Bones are flat and hold world transforms: forward kinematics is ours, three only uploads the matrices
    this.bones = clip.parents.map(() => {
      const bone = new THREE.Bone();
      bone.matrixAutoUpdate = false;
      bone.matrixWorldAutoUpdate = false;
      return bone;
    });
    this.paintsContacts = look.tint === undefined && look.skin === undefined;
    const opacity = look.opacity ?? 1;
    const material = new THREE.MeshLambertMaterial({ vertexColors: true, opacity });
    material.transparent = opacity < 1;
    material.depthWrite = opacity >= 1;
    const inverses = clip.parents.map((_, j) => {
      const inverse = new THREE.Matrix4();
      return look.skin === undefined ? inverse : inverse.fromArray(look.skin.inverseBind, 16 * j);
    });
    this.mesh = new THREE.SkinnedMesh(geometry, material);
    this.mesh.bindMode = THREE.DetachedBindMode;
    this.mesh.bind(new THREE.Skeleton(this.bones, inverses), new THREE.Matrix4());
    this.mesh.castShadow = opacity >= 1;
    this.mesh.receiveShadow = opacity >= 1;
    this.mesh.frustumCulled = false; // the geometry lies in joint frames; its bounds say nothing of the pose
  }

  /** Show the body at a time [s], shifted by `offset` [m]. */
  show(timeS: number, offset: THREE.Vector3): void {
    this.pose.sample(timeS);
    this.place(offset);
    if (this.paintsContacts) this.paintContacts(timeS);
  }

  /** Hand the present pose to the mesh, shifted by `offset` [m]. */
  place(offset: THREE.Vector3): void {
    const { positions, rotations } = this.pose;
    for (let j = 0; j < this.bones.length; j++) {
      POSITION.set(positions[3 * j], positions[3 * j + 1], positions[3 * j + 2]).add(offset);
      ROTATION.set(rotations[4 * j], rotations[4 * j + 1], rotations[4 * j + 2], rotations[4 * j + 3]);
      this.bones[j].matrixWorld.compose(POSITION, ROTATION, UNIT);
    }
  }

  /** Where the root is now [m]. */
  rootPosition(out: THREE.Vector3): THREE.Vector3 {
    return out.fromArray(this.pose.positions, 0);
  }

  /** Direction of the root's way on the ground [rad], 0 = +Z, over the first frames that are here; 0 for a body that stays. */
  heading(): number {
    const roots = this.clip.framesAt(0)?.roots ?? new Float32Array(3);
    const last = roots.length - 3;
    const [x, z] = [roots[last] - roots[0], roots[last + 2] - roots[2]];
    return Math.hypot(x, z) < 0.3 ? 0 : Math.atan2(x, z);
  }

  dispose(): void {
    this.mesh.removeFromParent();
    this.mesh.geometry.dispose();
    (this.mesh.material as THREE.Material).dispose();
    this.mesh.skeleton.dispose();
  }

  /** Parts that touch something now take the colour of contacts. */
  private paintContacts(timeS: number): void {
    const joints = new Set<number>();
    for (const track of this.clip.contacts) {
      if (track.runs.some(([from, to]) => timeS >= from && timeS < to)) joints.add(track.joint);
    }
    const key = [...joints].sort().join();
    if (key === this.touching) return;
    this.touching = key;
    const colours = this.colours.array as Float32Array;
    const carriers = this.mesh.geometry.getAttribute("skinIndex").array;
    for (let v = 0; v < this.colours.count; v++) {
      const touches = joints.has(carriers[4 * v]);
      colours[3 * v] = touches ? TOUCH.r : this.plain[3 * v];
      colours[3 * v + 1] = touches ? TOUCH.g : this.plain[3 * v + 1];
      colours[3 * v + 2] = touches ? TOUCH.b : this.plain[3 * v + 2];
    }
    this.colours.needsUpdate = true;
  }
}

const POSITION = new THREE.Vector3();
const ROTATION = new THREE.Quaternion();
const UNIT = new THREE.Vector3(1, 1, 1);

function buildGeometry(capsules: Capsule[], palette: Palette): THREE.BufferGeometry {
  const whole: Surface = { positions: [], normals: [], faces: [] };
  const colours: number[] = [];
  const carriers: number[] = [];
  const weights: number[] = [];
  for (const capsule of capsules) {
    const colour = new THREE.Color(palette.sides[capsule.side]);
    const first = whole.positions.length / 3;
    const surface = capsuleSurface(capsule);
    whole.positions.push(...surface.positions);
    whole.normals.push(...surface.normals);
    whole.faces.push(...surface.faces.map((vertex) => first + vertex));
    for (let v = 0; v < surface.positions.length / 3; v++) {
      colours.push(colour.r, colour.g, colour.b);
      carriers.push(capsule.joint, 0, 0, 0);
      weights.push(1, 0, 0, 0);
    }
  }
  const [position, normal, color, skinWeight] = [whole.positions, whole.normals, colours, weights].map((list) => Float32Array.from(list));
  return makeGeometry({ position, normal, color, skinIndex: Uint16Array.from(carriers), skinWeight }, Uint32Array.from(whole.faces));
}

function skinGeometry(skin: Skin, colour: string): THREE.BufferGeometry {
  const { r, g, b } = new THREE.Color(colour);
  const color = new Float32Array(skin.vertices.length);
  for (let v = 0; v < color.length; v += 3) color.set([r, g, b], v);
  const geometry = makeGeometry({ position: skin.vertices, color, skinIndex: skin.carriers, skinWeight: skin.weights }, skin.faces);
  geometry.computeVertexNormals();
  return geometry;
}

interface Surface {
  positions: number[];
  normals: number[];
  faces: number[];
}

/**
 * Triangles of two balls and the cone that touches both, in the joint's frame.
 *
 * With radii r0, r1 at distance d the cone touches both balls where the normal makes sin(a) = (r0 - r1) / d with the
 * plane across the axis. A ball inside the other leaves the larger one alone.
 */
export function capsuleSurface(capsule: Capsule): Surface {
  const start = new THREE.Vector3(...capsule.start);
  const end = new THREE.Vector3(...capsule.end);
  let [r0, r1] = [capsule.startRadius, capsule.endRadius];
  const axis = end.clone().sub(start);
  const length = axis.length();
  if (length <= Math.abs(r0 - r1)) {
    if (r1 > r0) start.copy(end);
    end.copy(start);
    r0 = r1 = Math.max(r0, r1);
    axis.set(0, 1, 0);
  } else {
    axis.divideScalar(length);
  }
  const tilt = Math.asin(Math.min(1, Math.max(-1, end.distanceTo(start) > 0 ? (r0 - r1) / length : 0)));
  const across = new THREE.Vector3(Math.abs(axis.x) < 0.9 ? 1 : 0, Math.abs(axis.x) < 0.9 ? 0 : 1, 0).cross(axis).normalize();
  const other = axis.clone().cross(across);
  // Rings from the pole of the first ball to that of the second: latitude of the normal, and which ball it lies on
  const rings: [latitude: number, centre: THREE.Vector3, radius: number][] = [];
  for (let i = 0; i <= ALONG; i++) rings.push([-Math.PI / 2 + (i / ALONG) * (tilt + Math.PI / 2), start, r0]);
  for (let i = 0; i <= ALONG; i++) rings.push([tilt + (i / ALONG) * (Math.PI / 2 - tilt), end, r1]);
  const surface: Surface = { positions: [], normals: [], faces: [] };
  for (const [latitude, centre, radius] of rings) {
    for (let k = 0; k < AROUND; k++) {
      const turn = (2 * Math.PI * k) / AROUND;
      const normal = axis
        .clone()
        .multiplyScalar(Math.sin(latitude))
        .addScaledVector(across, Math.cos(latitude) * Math.cos(turn))
        .addScaledVector(other, Math.cos(latitude) * Math.sin(turn));
      surface.normals.push(normal.x, normal.y, normal.z);
      surface.positions.push(centre.x + radius * normal.x, centre.y + radius * normal.y, centre.z + radius * normal.z);
    }
  }
  for (let ring = 0; ring < rings.length - 1; ring++) {
    for (let k = 0; k < AROUND; k++) {
      const [a, b] = [ring * AROUND + k, ring * AROUND + ((k + 1) % AROUND)];
      surface.faces.push(a, b, b + AROUND, a, b + AROUND, a + AROUND);
    }
  }
  return surface;
}
