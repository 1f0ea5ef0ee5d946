/** What is drawn over a body: joints, trails, onion skins, the centre of mass, forces and the support polygon. */

import * as THREE from "three";
import type { StoredClip } from "../project/clips";
import type { Overlays } from "../project/session";
import { Body, PALETTES } from "../viewer/body";
import { PoseBuffer } from "../viewer/pose";
import { discard, drawAlways, makeGeometry, paintMark } from "../viewer/stage";

const TRAIL_S = 1.2; // to each side of the playhead
const TRAIL_POINTS = 121;
const ONION_STEP_S = 0.2;
const ONION_SKINS = 3; // to each side
const FORCE_M_PER_N = 1 / 900;
const PAST = new THREE.Color("#5aa9f0");
const FUTURE = new THREE.Color("#e6a15c");

/** Spheres on the joints, drawn through the body; one of them may be selected. */
export class JointDots {
  readonly mesh: THREE.InstancedMesh;
  private readonly matrix = new THREE.Matrix4();

  constructor(count: number) {
    const material = new THREE.MeshBasicMaterial(paintMark("#ffffff", 0.95));
    this.mesh = drawAlways(new THREE.InstancedMesh(new THREE.SphereGeometry(0.014, 8, 5), material, count), 10);
  }

  update(positions: Float32Array, offset: THREE.Vector3, selected: number, hovered: number, pins: ReadonlySet<number>, scale: number): void {
    for (let j = 0; j < this.mesh.count; j++) {
      const size = scale * (j === selected ? 1.9 : j === hovered ? 1.6 : pins.has(j) ? 1.5 : 1);
      this.matrix.makeScale(size, size, size);
      this.matrix.setPosition(positions[3 * j] + offset.x, positions[3 * j + 1] + offset.y, positions[3 * j + 2] + offset.z);
      this.mesh.setMatrixAt(j, this.matrix);
      this.mesh.setColorAt(j, j === selected ? SELECTED : pins.has(j) ? PINNED : j === hovered ? HOVERED : PLAIN);
    }
    this.mesh.instanceMatrix.needsUpdate = true;
    if (this.mesh.instanceColor !== null) this.mesh.instanceColor.needsUpdate = true;
  }
}

const SELECTED = new THREE.Color("#ffb454");
const HOVERED = new THREE.Color("#ffffff");
const PINNED = new THREE.Color("#e5484d");
const PLAIN = new THREE.Color("#5aa9f0");

/** Time of a point of a trail, from the playhead [s]. */
function trailShift(index: number): number {
  return TRAIL_S * ((2 * index) / (TRAIL_POINTS - 1) - 1);
}

/** The way of one joint around the playhead: past and future in two colours. */
class Trail {
  readonly line: THREE.Line<THREE.BufferGeometry, THREE.LineBasicMaterial>;

  constructor() {
    const colours = new Float32Array(3 * TRAIL_POINTS);
    for (let i = 0; i < TRAIL_POINTS; i++) {
      const half = (TRAIL_POINTS - 1) / 2;
      const { r, g, b } = i < half ? PAST : FUTURE;
      colours.set([r, g, b], 3 * i);
    }
    const geometry = makeGeometry({ position: new Float32Array(3 * TRAIL_POINTS), color: colours });
    this.line = drawAlways(new THREE.Line(geometry, new THREE.LineBasicMaterial({ ...paintMark("#ffffff", 0.85), vertexColors: true })), 8);
  }

  set(index: number, positions: Float32Array, joint: number, offset: THREE.Vector3): void {
    const array = this.line.geometry.getAttribute("position").array as Float32Array;
    array[3 * index] = positions[3 * joint] + offset.x;
    array[3 * index + 1] = positions[3 * joint + 1] + offset.y;
    array[3 * index + 2] = positions[3 * joint + 2] + offset.z;
  }

  finish(): void {
    this.line.geometry.getAttribute("position").needsUpdate = true;
  }
}

/** Arrows of forces: six numbers each, the point [m] and the force [N]. */
export class ForceArrows extends THREE.Group {
  private readonly arrows: THREE.ArrowHelper[] = [];

  /** Show `count` arrows: the first stands at row `first` of the forces, and each `stride` rows after the one before. */
  show(forces: Float32Array, count: number, first = 0, stride = 1): void {
    while (this.arrows.length < count) this.add(this.arrows[this.arrows.push(new THREE.ArrowHelper(undefined, undefined, 1, "#4cc38a")) - 1]);
    this.arrows.forEach((arrow, k) => {
      const at = 6 * (first + k * stride);
      const force = new THREE.Vector3();
      if (k < count) force.fromArray(forces, at + 3);
      const length = FORCE_M_PER_N * force.length();
      arrow.visible = length > 0.01;
      if (!arrow.visible) return;
      arrow.position.fromArray(forces, at);
      arrow.setDirection(force.normalize());
      arrow.setLength(length, Math.min(0.1, 0.3 * length), Math.min(0.06, 0.2 * length));
    });
  }

  dispose(): void {
    for (const arrow of this.arrows) arrow.dispose();
    this.removeFromParent();
  }
}

/** Marks of the centre of mass and of what carries the body. */
export function makeMarks(): { mass: THREE.Mesh; support: THREE.LineLoop } {
  const mass = new THREE.Mesh(new THREE.SphereGeometry(0.035, 20, 14), new THREE.MeshBasicMaterial(paintMark()));
  return { mass: drawAlways(mass, 9), support: drawAlways(new THREE.LineLoop(new THREE.BufferGeometry(), new THREE.LineBasicMaterial(paintMark())), 9) };
}

/** Quantities over a whole motion: com (F, 3), forces (K, F, 6) as point and force [N], hulls of what touches (F, N, 2), flights (K, 2) as frames, their free falls (K, P, 3). */
type Dynamics = Partial<Record<"com" | "forces" | "support" | "flights" | "falls", Float32Array>>;

/** All overlays of the main body. */
export class OverlaySet {
  private readonly group = new THREE.Group();
  private readonly sampler: PoseBuffer;
  private trails = new Map<number, Trail>();
  private skins: { body: Body; shiftS: number }[] = [];
  private readonly mass: THREE.Mesh;
  private readonly massShadow = drawAlways(new THREE.Mesh(new THREE.RingGeometry(0.03, 0.045, 24).rotateX(-Math.PI / 2), new THREE.MeshBasicMaterial(paintMark())), 9);
  private readonly polygon: THREE.LineLoop;
  private readonly arrows = new ForceArrows();
  private readonly massWay = new Trail();
  private flights: { line: THREE.Line<THREE.BufferGeometry, THREE.LineDashedMaterial>; startS: number; stopS: number }[] = [];
  dynamics: Dynamics = {};
  private drawn: Dynamics | null = null; // whose flights are drawn

  constructor(
    private readonly scene: THREE.Scene,
    readonly clip: StoredClip,
  ) {
    this.sampler = new PoseBuffer(clip);
    ({ mass: this.mass, support: this.polygon } = makeMarks());
    this.mass.visible = this.massShadow.visible = this.polygon.visible = false;
    this.group.add(this.mass, this.massShadow, this.polygon, this.arrows, this.massWay.line);
    scene.add(this.group);
  }

  update(timeS: number, offset: THREE.Vector3, shown: Overlays, joint: number): void {
    this.updateTrails(timeS, offset, shown.trails ? this.trailJoints(joint) : []);
    this.updateOnion(timeS, offset, shown.onion);
    this.updateDynamics(timeS, offset, shown);
  }

  dispose(): void {
    this.updateTrails(0, ORIGIN, []);
    this.updateOnion(0, ORIGIN, false);
    this.arrows.dispose();
    discard(this.massWay.line, ...this.flights.map(({ line }) => line), this.mass, this.massShadow, this.polygon);
    this.scene.remove(this.group);
  }

  /** Points of the trails that are drawn, within the motion: which joint is where, and when. */
  *trailPoints(nowS: number): Generator<{ name: string; timeS: number; position: THREE.Vector3 }> {
    for (const [joint, { line }] of this.trails) {
      const { array } = line.geometry.getAttribute("position");
      for (let i = 0; i < TRAIL_POINTS; i += 2) {
        const timeS = nowS + trailShift(i);
        if (timeS >= 0 && timeS <= this.clip.durationS) yield { name: this.clip.joints[joint], timeS, position: new THREE.Vector3().fromArray(array, 3 * i) };
      }
    }
  }

  /** The selected joint, or the ends of the limbs and the root. */
  private trailJoints(joint: number): number[] {
    if (joint >= 0) return [joint];
    const { parents, joints } = this.clip;
    const wanted = joints.map((name, j) => ({ name: name.toLowerCase(), j })).filter(({ name }) => /(hand|wrist|toe|ball|foot)/.test(name));
    const ends = wanted.filter(({ j }) => !wanted.some((other) => parents[other.j] === j));
    return [0, ...ends.map(({ j }) => j)].slice(0, 7);
  }

  private updateTrails(timeS: number, offset: THREE.Vector3, joints: number[]): void {
    for (const [joint, trail] of this.trails) {
      if (joints.includes(joint)) continue;
      discard(trail.line);
      this.trails.delete(joint);
    }
    if (joints.length === 0) return;
    for (const joint of joints) {
      if (this.trails.has(joint)) continue;
      const trail = new Trail();
      this.trails.set(joint, trail);
      this.group.add(trail.line);
    }
    for (let i = 0; i < TRAIL_POINTS; i++) {
      const at = timeS + trailShift(i);
      this.sampler.sample(Math.min(Math.max(at, 0), this.clip.durationS));
      for (const joint of joints) this.trails.get(joint)!.set(i, this.sampler.positions, joint, offset);
    }
    for (const joint of joints) this.trails.get(joint)!.finish();
  }

  private updateOnion(timeS: number, offset: THREE.Vector3, isShown: boolean): void {
    if (isShown && this.skins.length === 0) {
      for (let k = -ONION_SKINS; k <= ONION_SKINS; k++) {
        if (k === 0) continue;
        const tint = `#${(k < 0 ? PAST : FUTURE).getHexString()}`;
        const body = new Body(this.clip, PALETTES[0], { tint, opacity: 0.26 - 0.06 * Math.abs(k) });
        this.skins.push({ body, shiftS: k * ONION_STEP_S });
        this.group.add(body.mesh);
      }
    } else if (!isShown && this.skins.length > 0) {
      for (const { body } of this.skins) body.dispose();
      this.skins = [];
    }
    for (const { body, shiftS } of this.skins) {
      const at = timeS + shiftS;
      body.mesh.visible = at >= 0 && at <= this.clip.durationS;
      if (body.mesh.visible) body.show(at, offset);
    }
  }

  /** Dashed lines that a free fall would follow from the last contact to the next. */
  private buildFlights(offset: THREE.Vector3): void {
    discard(...this.flights.map(({ line }) => line));
    this.flights = [];
    this.drawn = this.dynamics;
    const { flights = NONE, falls = NONE } = this.dynamics;
    for (let k = 0; k < flights.length; k += 2) {
      const [startS, stopS] = [flights[k] / this.clip.rateHz, flights[k + 1] / this.clip.rateHz];
      const size = (2 * falls.length) / flights.length;
      const geometry = makeGeometry({ position: falls.slice((k / 2) * size, (k / 2 + 1) * size) });
      const material = new THREE.LineDashedMaterial({ ...paintMark(), dashSize: 0.03, gapSize: 0.025 });
      const line = drawAlways(new THREE.Line(geometry, material).computeLineDistances(), 9);
      line.position.copy(offset);
      this.group.add(line);
      this.flights.push({ line, startS, stopS });
    }
  }

  private updateDynamics(timeS: number, offset: THREE.Vector3, shown: Overlays): void {
    const { com, forces, support } = this.dynamics;
    const frames = this.clip.numFrames;
    const f = Math.min(Math.max(0, Math.round(timeS * this.clip.rateHz)), frames - 1);
    this.mass.visible = this.massShadow.visible = this.massWay.line.visible = shown.com && com !== undefined;
    if (com !== undefined && this.mass.visible) {
      this.mass.position.fromArray(com, 3 * f).add(offset);
      this.massShadow.position.copy(this.mass.position).setY(this.clip.groundM + 0.004);
      for (let i = 0; i < TRAIL_POINTS; i++) {
        const at = Math.round((timeS + trailShift(i)) * this.clip.rateHz);
        this.massWay.set(i, com, Math.min(Math.max(0, at), frames - 1), offset);
      }
      this.massWay.finish();
      if (this.drawn !== this.dynamics) this.buildFlights(offset);
    }
    // The parabola of a flight is seen a little before and after it
    for (const { line, startS, stopS } of this.flights) line.visible = this.mass.visible && timeS > startS - 0.5 && timeS < stopS + 0.5;
    this.polygon.visible = shown.com && support !== undefined;
    if (support !== undefined && this.polygon.visible) {
      const corners = support.length / (2 * frames);
      const at = (i: number): number => 2 * (f * corners + i);
      this.polygon.geometry.setFromPoints(Array.from({ length: corners }, (_, i) => new THREE.Vector3(support[at(i)] + offset.x, this.clip.groundM + 0.005, support[at(i) + 1] + offset.z)));
    }
    this.arrows.position.copy(offset);
    this.arrows.show(forces ?? NONE, shown.forces && forces !== undefined ? forces.length / (6 * frames) : 0, f, frames);
  }
}

const NONE = new Float32Array(0);
const ORIGIN = new THREE.Vector3();
