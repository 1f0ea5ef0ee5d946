/** The room in which bodies move: ground, world, light, cameras. */

import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import type { Page, WorldMesh } from "./clip";

const LIGHT = { sky: "#f4f5f6", ground: "#e4e7ea", line: "#c6cbd0" };
const DARK = { sky: "#22262a", ground: "#2c3136", line: "#434a51" };
const MARK = "#ffb454"; // of what is drawn over bodies
const GRID_M = 60;
const PIECE_M = 2;
const SHADE_M = 8; // around the body, where shadows fall

export type View = "free" | "front" | "side" | "top";

type StageOptions = Pick<Page, "groundM" | "world"> & { palette?: [light: Tones, dark: Tones] };
type Tones = typeof LIGHT;

export class Stage {
  readonly scene = new THREE.Scene();
  readonly renderer: THREE.WebGLRenderer;
  readonly controls: OrbitControls;
  camera: THREE.PerspectiveCamera | THREE.OrthographicCamera;
  private readonly perspective = new THREE.PerspectiveCamera(35, 1, 0.05, 500);
  private readonly parallel = new THREE.OrthographicCamera(-1, 1, 1, -1, -100, 500);
  private readonly sun = new THREE.DirectionalLight("#ffffff", 2.2);
  private readonly floor: THREE.Mesh<THREE.PlaneGeometry, THREE.MeshBasicMaterial>;
  private readonly shade = new THREE.Mesh(new THREE.PlaneGeometry(SHADE_M, SHADE_M).rotateX(-Math.PI / 2), new THREE.ShadowMaterial({ opacity: 0.4, depthWrite: false }));
  private readonly tones: [light: Tones, dark: Tones];
  private readonly grid = buildGrid();
  /** Whether the processor draws: soft edges then cost more than everything else together. */
  readonly isSoftware = rendersBySoftware();
  private isDraft = false;
  private world: THREE.Mesh[] = [];
  private readonly target = new THREE.Vector3();
  private readonly watch: ResizeObserver;

  constructor(
    readonly host: HTMLElement,
    options: StageOptions,
  ) {
    this.tones = options.palette ?? [LIGHT, DARK];
    this.camera = this.perspective;
    this.renderer = new THREE.WebGLRenderer({ antialias: !this.isSoftware });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = this.isSoftware ? THREE.BasicShadowMap : THREE.PCFSoftShadowMap;
    host.append(this.renderer.domElement);
    this.controls = new OrbitControls(this.camera, this.renderer.domElement);
    this.controls.maxPolarAngle = 0.54 * Math.PI;
    this.floor = new THREE.Mesh(
      new THREE.PlaneGeometry(4 * GRID_M, 4 * GRID_M).rotateX(-Math.PI / 2),
      // Behind the lines of the grid at every slope. Light is even on it, so that only the shade around the body asks for light
      new THREE.MeshBasicMaterial({ polygonOffset: true, polygonOffsetFactor: 2, polygonOffsetUnits: 4 }),
    );
    this.shade.receiveShadow = true;
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.setScalar(this.isSoftware ? 1024 : 2048);
    Object.assign(this.sun.shadow.camera, { left: -SHADE_M / 2, right: SHADE_M / 2, top: SHADE_M / 2, bottom: -SHADE_M / 2, near: 0.5, far: 20 });
    this.sun.shadow.normalBias = 0.02;
    this.scene.add(this.floor, this.shade, this.grid, this.sun, this.sun.target, new THREE.HemisphereLight("#ffffff", "#8a8f96", 1.5));
    this.showWorld(options.world);
    this.applyTheme(false);
    this.setGround(options.groundM);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(host);
    this.resize();
  }

  applyTheme(isDark: boolean): void {
    const theme = this.tones[isDark ? 1 : 0];
    this.scene.background = new THREE.Color(theme.sky);
    this.scene.fog = new THREE.Fog(theme.sky, 18, 60);
    this.floor.material.color.set(theme.ground);
    this.grid.material.color.set(theme.line);
  }

  setGround(groundM: number): void {
    this.floor.position.y = groundM - 0.002;
    this.shade.position.y = this.grid.position.y = groundM;
  }

  /** Parallel or perspective projection, from where the camera stands. */
  project(isParallel: boolean): void {
    const next = isParallel ? this.parallel : this.perspective;
    if (next === this.camera) return;
    next.position.copy(this.camera.position);
    next.quaternion.copy(this.camera.quaternion);
    this.parallel.zoom = 1;
    this.camera = next;
    this.controls.object = next;
    this.resize();
  }

  /** Look at a place from one of the named directions; `heading` [rad] is where the body faces, 0 = +Z. */
  look(view: View, at: THREE.Vector3, heading: number, sizeM: number): void {
    const distance = 1.1 * sizeM + 2.6;
    const [azimuth, height] = { front: [0, 0.1], side: [Math.PI / 2, 0.1], top: [0.001, 20], free: [0.9, 0.32] }[view];
    const turn = heading + azimuth;
    const way = new THREE.Vector3(Math.sin(turn), height, Math.cos(turn)).normalize();
    this.target.copy(at);
    this.controls.target.copy(at);
    this.camera.position.copy(at).addScaledVector(way, distance);
    this.parallel.zoom = 1;
    this.resize();
    this.controls.update();
  }

  /** Carry camera and light along with a body. */
  follow(at: THREE.Vector3, isFollowing: boolean): void {
    if (isFollowing) {
      const step = at.clone().sub(this.target).setY(0);
      this.camera.position.add(step);
      this.controls.target.add(step);
    }
    this.target.copy(at);
    // Whole metres, so that its lines stay where they are in the world
    for (const ground of [this.grid, this.floor]) ground.position.set(Math.round(at.x), ground.position.y, Math.round(at.z));
    this.shade.position.set(at.x, this.shade.position.y, at.z);
    this.sun.target.position.copy(at);
    this.sun.position.set(at.x + 3, at.y + 7, at.z + 4);
  }

  /** A draft has a quarter of the pixels, and shadows that stand still. */
  render(isDraft = false): void {
    if (isDraft !== this.isDraft) {
      this.isDraft = isDraft;
      this.resize();
    }
    this.controls.update();
    this.renderer.shadowMap.autoUpdate = !isDraft;
    this.renderer.render(this.scene, this.camera);
  }

  dispose(): void {
    this.watch.disconnect();
    this.controls.dispose();
    this.showWorld([]);
    discard(this.grid, this.shade, this.floor);
    this.sun.dispose();
    this.renderer.setAnimationLoop(null);
    this.renderer.dispose();
    this.renderer.domElement.remove();
  }

  /** Replace the things that stand around the bodies. */
  showWorld(meshes: WorldMesh[]): void {
    discard(...this.world);
    this.world = meshes.map(buildThing);
    if (this.world.length > 0) this.scene.add(...this.world);
  }

  private resize(): void {
    const [width, height] = [Math.max(1, this.host.clientWidth), Math.max(1, this.host.clientHeight)];
    this.renderer.setPixelRatio((window.devicePixelRatio || 1) * (this.isDraft ? 0.5 : 1));
    this.renderer.setSize(width, height);
    this.perspective.aspect = width / height;
    this.perspective.updateProjectionMatrix();
    // A parallel view shows what the perspective one shows at the distance of its target
    const half = this.camera.position.distanceTo(this.controls.target) * Math.tan((this.perspective.fov * Math.PI) / 360);
    const { parallel } = this;
    [parallel.left, parallel.right, parallel.top, parallel.bottom] = [(-half * width) / height, (half * width) / height, half, -half];
    parallel.updateProjectionMatrix();
  }
}

/** Ask a context of its own for the name of what draws. */
function rendersBySoftware(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  const info = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = info ? String(gl!.getParameter(info.UNMASKED_RENDERER_WEBGL)) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

/** Take things out of their scene, and free what the graphics card holds of them. */
export function discard(...things: (THREE.Mesh | THREE.Line)[]): void {
  for (const thing of things) {
    thing.removeFromParent();
    thing.geometry.dispose();
    for (const material of [thing.material].flat()) material.dispose();
    if (thing instanceof THREE.InstancedMesh) thing.dispose();
  }
}

/** Geometry from arrays by name: carriers and weights of a skin have four numbers a vertex, all else has three. */
export function makeGeometry(arrays: Record<string, THREE.TypedArray>, faces?: Uint32Array): THREE.BufferGeometry {
  const geometry = new THREE.BufferGeometry();
  for (const [name, numbers] of Object.entries(arrays)) geometry.setAttribute(name, new THREE.BufferAttribute(numbers, name.startsWith("skin") ? 4 : 3));
  if (faces !== undefined) geometry.setIndex(new THREE.BufferAttribute(faces, 1));
  return geometry;
}

/** Paint of a mark that is seen through bodies. */
export function paintMark(color: THREE.ColorRepresentation = MARK, opacity = 1) {
  return { color, opacity, depthTest: false, transparent: true };
}

/** Draw a thing wherever it is, after those of lower order: its geometry moves without new bounds. */
export function drawAlways<T extends THREE.Object3D>(thing: T, order = 0): T {
  thing.frustumCulled = false;
  thing.renderOrder = order;
  return thing;
}

/** Lines a metre apart, in short pieces: a piece that runs behind the camera is lost without its neighbours. */
function buildGrid(): THREE.LineSegments<THREE.BufferGeometry, THREE.LineBasicMaterial> {
  const half = GRID_M / 2;
  const points: number[] = [];
  for (let at = -half; at <= half; at++) {
    for (let from = -half; from < half; from += PIECE_M) points.push(at, 0, from, at, 0, from + PIECE_M, from, 0, at, from + PIECE_M, 0, at);
  }
  return new THREE.LineSegments(makeGeometry({ position: Float32Array.from(points) }), new THREE.LineBasicMaterial());
}

function buildThing(mesh: WorldMesh): THREE.Mesh {
  const geometry = makeGeometry({ position: mesh.vertices }, Uint32Array.from(mesh.faces));
  geometry.computeVertexNormals();
  const isPane = mesh.opacity < 1;
  const material = new THREE.MeshStandardMaterial({
    color: mesh.colour,
    opacity: mesh.opacity,
    transparent: isPane,
    depthWrite: !isPane,
    side: THREE.DoubleSide,
    flatShading: true,
    roughness: 0.9,
  });
  const thing = new THREE.Mesh(geometry, material);
  thing.castShadow = !isPane;
  thing.receiveShadow = true;
  return thing;
}
