/** The viewport: bodies of the project on a stage, overlays, cameras, picking, and the handles of the open tool. */

import { effect, signal } from "@preact/signals";
import * as THREE from "three";
import type { StoredClip } from "../project/clips";
import { type Item, shownHash } from "../project/document";
import { recall, remembered } from "../project/memory";
import type { LiveFrame, Session } from "../project/session";
import { isDark } from "../shell/theme";
import { extensions, type Handles, type PointerHit } from "../tools/handles";
import { Body, type Look, makeSkin, PALETTES, type Skin } from "../viewer/body";
import type { WorldMesh } from "../viewer/clip";
import { discard, Stage, type View } from "../viewer/stage";
import { JointDots, OverlaySet } from "./overlays";

type Role = "main" | "before" | "preview" | "ghost" | "pinned";

interface ActorSpec {
  role: Role;
  clip: StoredClip;
  palette: number;
  look: Look;
  offsetM: number; // aside
}

interface Actor extends ActorSpec {
  key: string;
  body: Body;
  offset: THREE.Vector3;
}

class Cast {
  readonly actors: Actor[] = [];

  constructor(private readonly scene: THREE.Scene) {}

  get main(): Actor | undefined {
    return this.actors.find((actor) => actor.role === "main");
  }

  /** Make the stage hold just these; bodies that stay are kept, the others are freed. */
  set(specs: ActorSpec[]): void {
    const old = new Map(this.actors.map((actor) => [actor.key, actor]));
    this.actors.length = 0;
    for (const [index, spec] of specs.entries()) {
      const key = [spec.role, spec.role === "pinned" || spec.role === "ghost" ? index : 0, spec.clip.hash, spec.palette, spec.look.tint ?? "", spec.look.skin ? "skin" : ""].join();
      const known = old.get(key);
      old.delete(key);
      const actor: Actor = known ?? {
        ...spec, key, body: new Body(spec.clip, PALETTES[spec.palette % PALETTES.length], spec.look), offset: new THREE.Vector3(),
      };
      actor.offset.x = spec.offsetM;
      if (known === undefined) this.scene.add(actor.body.mesh);
      this.actors.push(actor);
    }
    for (const { body } of old.values()) body.dispose();
  }

  dispose(): void {
    this.set([]);
  }
}

const LIGHT = { sky: "#e9ecef", ground: "#d5dae0", line: "#b4bcc5" };
const DARK = { sky: "#1a1d21", ground: "#202428", line: "#4a525b" };
export const GHOST_TINT = "#b08ef0";
const PICKING = new Set(["pose", "edit", "simulate"]); // tools that take joints
const REACH_PX = 16; // of the pointer around a joint
const ASIDE_M = 1.5;
const FLUENT_MS = 25; // between frames of a renderer that can afford the shadow of a drag
const IDLE_MS = 120; // between questions for blocks that nobody waits for

/** Frames that a drag shows instead of the clip's: roots (n, 3), local rotations (n, J, 4) xyzw. */
interface HeldFrames {
  /** First frame of the stretch; a single pose without one stands at every time. */
  first?: number;
  roots: Float32Array;
  rotations: Float32Array;
}

export class Viewport {
  readonly stage: Stage;
  readonly cast: Cast;
  readonly isFollowing = remembered("follow", true);
  readonly isParallel = remembered("parallel", false);
  readonly isApart = remembered("apart", true);
  readonly view = signal<View | null>("free");
  readonly hovered = signal<string | null>(null);
  readonly pins = signal<ReadonlySet<string>>(new Set());
  /** Milliseconds of client work of the last frames, for the status line and the tests. */
  readonly workMs = new Float32Array(64);
  draws = 0;
  private held: HeldFrames | null = null;
  private overlays: OverlaySet | null = null;
  private dots: JointDots | null = null;
  private handles: Handles | null = null;
  private isDragging = false;
  private isDirty = true;
  private isFirst = true;
  private isCastShown = true;
  private lastMs = performance.now();
  private idleMs = 0;
  private paceMs = 0; // mean time of the last frames that were drawn
  private hasDrawn = false;
  private readonly skins = new Map<string, ReturnType<typeof signal<Skin | null>>>();
  private readonly stops: (() => void)[] = [];
  private readonly caster = new THREE.Raycaster();
  private readonly root = new THREE.Vector3();

  constructor(
    readonly host: HTMLElement,
    readonly session: Session,
  ) {
    this.stage = new Stage(host, { groundM: 0, world: [], palette: [LIGHT, DARK] });
    this.cast = new Cast(this.stage.scene);
    Object.assign(this.canvas, { tabIndex: 0, role: "img", ariaLabel: "Viewport" });
    this.stage.controls.addEventListener("change", () => {
      this.view.value = null;
      this.requestDraw();
    });
    new ResizeObserver(() => this.requestDraw()).observe(host);
    this.stops.push(
      effect(() => {
        this.stage.applyTheme(isDark.value);
        this.requestDraw();
      }),
      effect(() => this.arrange()),
      effect(() => this.openHandles(session.tool.value)),
      effect(() => this.askScenery()),
      effect(() => {
        this.stage.project(this.isParallel.value);
        this.requestDraw();
      }),
      // Whatever changes what is seen asks for a new drawing
      effect(() => {
        void [session.playheadS.value, session.clips.arrivals.value, session.overlays.value, session.joint.value, this.hovered.value, this.pins.value];
        this.requestDraw();
      }),
    );
    this.listen();
    this.stage.renderer.setAnimationLoop((nowMs) => this.tick(nowMs));
  }

  get canvas(): HTMLCanvasElement {
    return this.stage.renderer.domElement;
  }

  get scene(): THREE.Scene {
    return this.stage.scene;
  }

  get camera(): THREE.Camera {
    return this.stage.camera;
  }

  /** Positions of the main body's joints now [m], (J, 3). */
  get jointPositions(): Float32Array | null {
    return this.cast.main?.body.pose.positions ?? null;
  }

  requestDraw(): void {
    this.isDirty = true;
  }

  /** Show frames in place of the clip's, or the clip again. */
  hold(frames: HeldFrames | null): void {
    this.held = frames;
    this.requestDraw();
  }

  /** Show what a drag or a live session answered: a pose, or a stretch of frames. */
  holdFrame({ arrays, facts }: LiveFrame): void {
    if (arrays.pose_rotations !== undefined) this.hold({ roots: arrays.pose_root as Float32Array, rotations: arrays.pose_rotations as Float32Array });
    else if (arrays.roots !== undefined) this.hold({ first: Number(facts.first ?? 0), roots: arrays.roots as Float32Array, rotations: arrays.rotations as Float32Array });
  }

  /** The place that lies nearest to a pointer, less than `reachPx` away; a handicap is added to a place's distance. */
  pickNearest<T extends { position: THREE.Vector3; handicapPx?: number }>(places: Iterable<T>, { x, y }: { x: number; y: number }, reachPx: number): T | null {
    let [best, least]: [T | null, number] = [null, reachPx];
    for (const place of places) {
      const seen = this.toPixels(place.position);
      const away = Math.hypot(seen.x - x, seen.y - y) + (place.handicapPx ?? 0);
      if (seen.isAhead && away < least) [best, least] = [place, away];
    }
    return best;
  }

  /** Pixels of a point of the world, from the viewport's upper left corner. */
  toPixels(point: THREE.Vector3): { x: number; y: number; isAhead: boolean } {
    const seen = point.clone().project(this.camera);
    const { clientWidth, clientHeight } = this.host;
    return { x: (0.5 + 0.5 * seen.x) * clientWidth, y: (0.5 - 0.5 * seen.y) * clientHeight, isAhead: seen.z < 1 };
  }

  /** Where a pointer is. */
  hit(event: PointerEvent): PointerHit {
    const box = this.host.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    this.caster.setFromCamera(new THREE.Vector2((2 * x) / box.width - 1, 1 - (2 * y) / box.height), this.camera);
    const { ray } = this.caster;
    const ground = ray.intersectPlane(new THREE.Plane(new THREE.Vector3(0, 1, 0), -this.groundM), new THREE.Vector3());
    return { event, x, y, ray: ray.clone(), ground, joint: this.nearestJoint(x, y) };
  }

  get groundM(): number {
    return this.cast.main?.clip.groundM ?? 0;
  }

  /** The point of the plane through `point` that faces the camera, under the pointer. */
  facingHit(hit: PointerHit, point: THREE.Vector3): THREE.Vector3 {
    const way = this.camera.getWorldDirection(new THREE.Vector3());
    const plane = new THREE.Plane().setFromNormalAndCoplanarPoint(way, point);
    return hit.ray.intersectPlane(plane, new THREE.Vector3()) ?? point.clone();
  }

  look(view: View): void {
    const main = this.cast.main;
    const at = main === undefined ? new THREE.Vector3(0, 0.9, 0) : main.body.rootPosition(new THREE.Vector3()).add(main.offset);
    at.y = this.groundM + 0.85;
    const asides = this.cast.actors.filter((actor) => actor.role === "pinned").length;
    this.stage.look(view, at, main?.body.heading() ?? 0, 1.6 + (this.isApart.peek() ? asides * ASIDE_M : 0));
    this.view.value = view;
    this.requestDraw();
  }

  /** Show or hide the bodies, for a tool that draws its own. */
  showCast(isShown: boolean): void {
    this.isCastShown = isShown;
    this.requestDraw();
  }

  /** Look at something that is no body. */
  frame({ center, radius }: THREE.Sphere): void {
    this.stage.look("free", center.clone(), 0, 0);
    const { camera, controls } = this.stage;
    camera.position.sub(controls.target).setLength(4 * radius).add(controls.target);
    this.requestDraw();
  }

  dispose(): void {
    for (const stop of this.stops) stop();
    this.handles?.dispose();
    this.overlays?.dispose();
    if (this.dots !== null) discard(this.dots.mesh);
    this.cast.dispose();
    this.stage.dispose();
  }

  // --- Drawing

  private tick(nowMs: number): void {
    const wallS = Math.min((nowMs - this.lastMs) / 1000, 0.25); // a hidden page does not catch up
    if (this.hasDrawn) this.paceMs += 0.2 * (1000 * wallS - this.paceMs);
    this.hasDrawn = false;
    this.lastMs = nowMs;
    const started = performance.now();
    const { session } = this;
    session.advance(wallS);
    const hash = session.mainHash.peek();
    if (hash !== null && session.link.peek() === "open" && nowMs - this.idleMs > IDLE_MS) {
      this.idleMs = nowMs;
      session.clips.prefetch(hash, session.playheadS.peek());
    }
    if (this.isDirty) this.drawNow(started);
  }

  /** Draw without waiting for the next frame: an answer under the pointer is shown as it comes. */
  drawNow(started = performance.now()): void {
    this.isDirty = false;
    this.hasDrawn = true;
    this.pose();
    this.workMs[this.draws++ % this.workMs.length] = performance.now() - started;
    this.stage.render(this.isDragging && (this.stage.isSoftware || this.paceMs > FLUENT_MS));
  }

  private pose(): void {
    const { session } = this;
    const timeS = session.playheadS.peek();
    for (const actor of this.cast.actors) {
      actor.body.mesh.visible = this.isCastShown;
      const row = actor.role === "main" ? this.heldRow(actor.clip.joints.length, actor.clip.rateHz, timeS) : -1;
      if (row >= 0) {
        const width = 4 * actor.clip.joints.length;
        actor.body.pose.take(this.held!.roots.subarray(3 * row, 3 * row + 3), this.held!.rotations.subarray(width * row, width * (row + 1)));
        actor.body.place(actor.offset);
      } else {
        actor.body.show(timeS, actor.offset);
      }
    }
    const main = this.cast.main;
    if (main !== undefined && session.clips.blocks.has(main.clip.hash, Math.floor(timeS * main.clip.rateHz))) {
      main.body.rootPosition(this.root).add(main.offset);
      if (this.isFirst) {
        this.isFirst = false;
        this.look("free");
        // Whoever comes for the first time sees a motion
        if (recall("playhead", null) === null && !matchMedia("(prefers-reduced-motion: reduce)").matches) session.play();
      }
      this.stage.follow(this.root, this.isFollowing.peek() && this.isCastShown && !this.isDragging);
    }
    const shown = session.overlays.peek();
    const joint = main === undefined || session.joint.peek() === null ? -1 : main.clip.joints.indexOf(session.joint.peek()!);
    if (main !== undefined) {
      this.overlays?.update(timeS, main.offset, shown, joint);
      this.updateDots(this.isCastShown && (shown.joints || PICKING.has(session.tool.peek() ?? "")), joint);
    }
    this.handles?.update?.(timeS);
  }

  /** Row of the held frames that stands for a time, or -1. */
  private heldRow(joints: number, rateHz: number, timeS: number): number {
    const { held } = this;
    if (held === null) return -1;
    const rows = held.roots.length / 3;
    if (held.rotations.length !== 4 * joints * rows) return -1;
    const row = held.first === undefined ? 0 : Math.round(timeS * rateHz) - held.first;
    return row >= 0 && row < rows ? row : -1;
  }

  private updateDots(areShown: boolean, selected: number): void {
    const main = this.cast.main!;
    if (this.dots === null || this.dots.mesh.count !== main.clip.joints.length) {
      if (this.dots !== null) discard(this.dots.mesh);
      this.dots = new JointDots(main.clip.joints.length);
      this.scene.add(this.dots.mesh);
    }
    this.dots.mesh.visible = areShown;
    if (!areShown) return;
    const index = (name: string): number => main.clip.joints.indexOf(name);
    const distance = this.camera.position.distanceTo(this.root);
    this.dots.update(
      main.body.pose.positions, main.offset, selected, this.hovered.peek() === null ? -1 : index(this.hovered.peek()!),
      new Set([...this.pins.peek()].map(index)), Math.min(2.5, Math.max(0.5, distance / 4.5)),
    );
  }

  /** Bodies for what is selected, previewed and pinned. */
  private arrange(): void {
    const { session } = this;
    const [project, shown] = [session.project.value, session.overlays.value];
    const specs: ActorSpec[] = [];
    const main = session.main.value;
    const add = (hash: string | null, spec: Omit<ActorSpec, "clip">): void => {
      const clip = hash === null ? null : session.clips.find(hash).value;
      if (clip !== null) specs.push({ ...spec, clip });
    };
    if (main !== null) {
      const skin = shown.skin ? this.skinOf(session.selected.value) : null;
      specs.push({ role: "main", clip: main, palette: 0, look: skin === null ? {} : { skin }, offsetM: 0 });
    }
    if (shown.ghost) add(session.beforeHash.value, { role: "before", palette: 0, look: { tint: "#9aa4ae", opacity: 0.28 }, offsetM: 0 });
    add(session.preview.value, { role: "preview", palette: 0, look: { tint: "#4cc38a", opacity: 0.45 }, offsetM: 0 });
    for (const hash of Object.values(session.ghosts.value)) add(hash, { role: "ghost", palette: 0, look: { tint: GHOST_TINT, opacity: 0.4 }, offsetM: 0 });
    const others = session.pinned.value.filter((item) => item.id !== session.selected.value?.id);
    others.forEach((item, index) => {
      const hash = project === null ? null : shownHash(project, item);
      const side = index % 2 === 0 ? 1 : -1;
      const offsetM = this.isApart.value ? side * Math.ceil((index + 1) / 2) * ASIDE_M : 0;
      add(hash, { role: "pinned", palette: index + 1, look: {}, offsetM });
    });
    this.cast.set(specs);
    if (main !== null && this.overlays?.clip !== main) {
      this.overlays?.dispose();
      this.overlays = new OverlaySet(this.scene, main);
      this.stage.setGround(main.groundM);
      if (shown.com || shown.forces) this.askDynamics();
    }
    if ((shown.com || shown.forces) && this.overlays !== null && Object.keys(this.overlays.dynamics).length === 0) this.askDynamics();
    this.requestDraw();
  }

  private skinOf(item: Item | null): Skin | null {
    const project = this.session.project.value;
    if (project === null || item === null) return null;
    const id = (item.kind === "take" ? project.takes[item.id] : project.clips[item.id])?.character;
    const mesh = id === undefined ? null : project.characters[id]?.mesh;
    if (id === undefined || mesh == null) return null;
    let skin = this.skins.get(mesh);
    if (skin === undefined) {
      const fresh = signal<Skin | null>(null);
      this.skins.set(mesh, (skin = fresh));
      this.session.ask("mesh", { character: id }).then(
        ({ arrays }) => (fresh.value = makeSkin(arrays)),
        () => {}, // capsules are shown instead
      );
    }
    return skin.value ?? null;
  }

  private askDynamics(): void {
    const set = this.overlays!;
    set.dynamics = { com: undefined };
    this.session.askDynamics().then((arrays) => {
      set.dynamics = arrays as OverlaySet["dynamics"];
      this.requestDraw();
    }, (error) => this.session.report(error));
  }

  private askScenery(): void {
    const project = this.session.project.value;
    const [world, sketch] = [project?.world, project?.sketch];
    const isShown = this.session.overlays.value.world;
    const show = (meshes: WorldMesh[]): void => {
      this.stage.showWorld(meshes);
      this.requestDraw();
    };
    if (!isShown || world === undefined || (Object.keys(world).length === 0 && Object.keys(sketch ?? {}).length === 0)) {
      show([]);
      return;
    }
    this.session.ask("scenery", {}).then(
      ({ value, arrays }) => {
        const parts = value as { colour: string; opacity: number; first_vertex: number; vertices: number; first_face: number; faces: number }[];
        show(parts.map((part): WorldMesh => ({
          colour: part.colour,
          opacity: part.opacity,
          vertices: (arrays.vertices as Float32Array).slice(3 * part.first_vertex, 3 * (part.first_vertex + part.vertices)),
          faces: Array.from(arrays.faces.subarray(3 * part.first_face, 3 * (part.first_face + part.faces)), (vertex) => vertex - part.first_vertex),
        })));
      },
      () => {},
    );
  }

  // --- Pointers

  private nearestJoint(x: number, y: number): PointerHit["joint"] {
    const main = this.cast.main;
    if (main === undefined) return null;
    const { positions } = main.body.pose;
    const joints = main.clip.joints.map((name, index) => ({ index, name, position: new THREE.Vector3().fromArray(positions, 3 * index).add(main.offset) }));
    return this.pickNearest(joints, { x, y }, REACH_PX);
  }

  /** The point of a drawn trail under the pointer, and its moment; to be dragged there. */
  trailAt(hit: PointerHit): { name: string; timeS: number; position: THREE.Vector3 } | null {
    return this.pickNearest(this.overlays?.trailPoints(this.session.playheadS.peek()) ?? [], hit, REACH_PX / 2);
  }

  private openHandles(tool: string | null): void {
    this.handles?.dispose();
    this.handles = tool === null ? null : (extensions.get(tool)?.handles?.(this, this.session) ?? null);
    this.requestDraw();
  }

  /** The host hears pointers before the camera does, so that a handle can keep them. */
  private listen(): void {
    const { host } = this;
    host.addEventListener("pointerdown", (event) => {
      if (event.target !== this.canvas) return;
      this.canvas.focus({ preventScroll: true });
      if (event.button !== 0) return;
      const hit = this.hit(event);
      if (this.handles?.pointerDown?.(hit) === true) {
        event.stopPropagation();
        host.setPointerCapture(event.pointerId);
        this.isDragging = true;
        this.requestDraw();
      } else if (hit.joint !== null && (this.session.overlays.peek().joints || PICKING.has(this.session.tool.peek() ?? ""))) {
        this.session.joint.value = hit.joint.name;
      }
    }, { capture: true });
    host.addEventListener("pointermove", (event) => {
      if (this.isDragging) {
        event.stopPropagation();
        this.handles?.pointerMove?.(this.hit(event));
        return;
      }
      if (event.buttons !== 0 || event.target !== this.canvas) return;
      const hit = this.hit(event);
      this.hovered.value = hit.joint?.name ?? null;
      this.canvas.style.cursor = this.handles?.cursor?.(hit) ?? "";
      this.handles?.pointerMove?.(hit);
    }, { capture: true });
    const finish = (event: PointerEvent, isLost: boolean): void => {
      if (!this.isDragging) return;
      event.stopPropagation();
      this.isDragging = false;
      if (isLost) this.handles?.cancel?.();
      else this.handles?.pointerUp?.(this.hit(event));
      this.requestDraw();
    };
    host.addEventListener("pointerup", (event) => finish(event, false), { capture: true });
    host.addEventListener("pointercancel", (event) => finish(event, true), { capture: true });
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.isDragging) {
        this.isDragging = false;
        this.handles?.cancel?.();
        event.stopPropagation();
      } else if (this.handles?.key?.(event) === true) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }
}
