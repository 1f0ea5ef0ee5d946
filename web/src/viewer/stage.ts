/** The room in which bodies move: ground, world, light, cameras. */

import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import type { Page } from "./clip";

const LIGHT = { sky: "#f4f5f6", ground: "#e4e7ea", line: "#c6cbd0" };
const DARK = { sky: "#22262a", ground: "#2c3136", line: "#434a51" };
const GRID_M = 60;

export type View = "free" | "front" | "side" | "top";

export class Stage {
  readonly scene = new THREE.Scene();
  readonly renderer: THREE.WebGLRenderer;
  private readonly camera = new THREE.PerspectiveCamera(35, 1, 0.05, 500);
  private readonly controls: OrbitControls;
  private readonly sun = new THREE.DirectionalLight("#ffffff", 2.2);
  private readonly floor: THREE.Mesh<THREE.PlaneGeometry, THREE.MeshStandardMaterial>;
  private grid = new THREE.GridHelper();
  private readonly target = new THREE.Vector3();

  constructor(
    private readonly host: HTMLElement,
    private readonly page: Page,
  ) {
    this.renderer = new THREE.WebGLRenderer({ antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFSoftShadowMap;
    host.append(this.renderer.domElement);
    this.controls = new OrbitControls(this.camera, this.renderer.domElement);
    this.controls.maxPolarAngle = 0.54 * Math.PI;
    this.floor = new THREE.Mesh(
      new THREE.PlaneGeometry(4 * GRID_M, 4 * GRID_M).rotateX(-Math.PI / 2),
      new THREE.MeshStandardMaterial({ roughness: 1 }),
    );
    this.floor.position.y = page.groundM - 0.002;
    this.floor.receiveShadow = true;
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    Object.assign(this.sun.shadow.camera, { left: -4, right: 4, top: 4, bottom: -4, near: 0.5, far: 20 });
    this.sun.shadow.normalBias = 0.02;
    this.scene.add(this.floor, this.sun, this.sun.target, new THREE.HemisphereLight("#ffffff", "#8a8f96", 1.5));
    this.addWorld();
    this.applyTheme(false);
    new ResizeObserver(() => this.resize()).observe(host);
    this.resize();
  }

  applyTheme(isDark: boolean): void {
    const theme = isDark ? DARK : LIGHT;
    this.scene.background = new THREE.Color(theme.sky);
    this.scene.fog = new THREE.Fog(theme.sky, 18, 60);
    this.floor.material.color.set(theme.ground);
    this.scene.remove(this.grid);
    this.grid.dispose();
    this.grid = new THREE.GridHelper(GRID_M, GRID_M, theme.line, theme.line);
    this.grid.position.y = this.page.groundM;
    this.scene.add(this.grid);
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
    this.sun.target.position.copy(at);
    this.sun.position.set(at.x + 3, at.y + 7, at.z + 4);
  }

  render(): void {
    this.controls.update();
    this.renderer.render(this.scene, this.camera);
  }

  private addWorld(): void {
    for (const mesh of this.page.world) {
      const geometry = new THREE.BufferGeometry();
      geometry.setAttribute("position", new THREE.BufferAttribute(mesh.vertices, 3));
      geometry.setIndex(mesh.faces);
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
      this.scene.add(thing);
    }
  }

  private resize(): void {
    const [width, height] = [this.host.clientWidth, Math.max(1, this.host.clientHeight)];
    this.renderer.setPixelRatio(window.devicePixelRatio || 1);
    this.renderer.setSize(width, height);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
  }
}
