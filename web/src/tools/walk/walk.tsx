/** Walking live: keys, a gamepad and sliders drive a character; what it walks is recorded and becomes a take. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as THREE from "three";
import type { Session } from "../../project/session";
import { chooseFiles } from "../../shell/files";
import { Icon } from "../../shell/icons";
import { cssColour } from "../../shell/theme";
import { Body, PALETTES } from "../../viewer/body";
import { discard } from "../../viewer/stage";
import type { Viewport } from "../../viewport/viewport";
import { extensions, type HandleFactory, type ToolPartProps } from "../handles";
import { beginLive, endLive, LiveEnd, LiveTime, pressLive, running, steer } from "../live";
import { changeSetting, settingsOf, settingsToSend } from "../panel";
import { Drive } from "./drive";

const NOWHERE = new THREE.Vector3();
const JOINTS = 22; // of the walkers' skeleton

interface WalkFacts {
  time_s: number;
  state: string;
  speed_mps: number;
  footprints: [side: string, x: number, y: number, z: number, heading: number][];
  obstacles: { label: string }[];
  remarks: string[];
  characters: string[];
  selected: string;
}

/** What the last frame of a walk told. */
const facts = signal<WalkFacts | null>(null);
/** The walkers that are not driven, as poses. */
const NONE: Float32Array = new Float32Array(0);
const others = signal({ roots: NONE, rotations: NONE });
const styles = signal<{ style: string; label: string }[]>([]);
let drive = new Drive();

function begin(session: Session, viewport: Viewport, settings: Record<string, unknown>): void {
  const joints = session.main.peek()?.joints.length ?? JOINTS;
  if (joints !== JOINTS) {
    session.toast("warning", `The selected motion has ${joints} joints, a walker has ${JOINTS}`, "Select a motion of the plain body to see the walk; it is recorded all the same");
  }
  facts.value = null;
  drive = new Drive(Number(settings.speed ?? 0));
  const hasBegun = beginLive(session, "walk", settings, (frame) => {
    const { arrays, facts: told } = frame;
    viewport.holdFrame(frame);
    others.value = { roots: (arrays.other_roots ?? NONE) as Float32Array, rotations: (arrays.other_rotations ?? NONE) as Float32Array };
    facts.value = told as unknown as WalkFacts;
  });
  if (!hasBegun) return;
  viewport.canvas.focus({ preventScroll: true });
  let last = performance.now();
  const step = (now: number): void => {
    if (running.peek() !== "walk") return;
    const pad = navigator.getGamepads?.().find((each) => each !== null) ?? null; // the first that is plugged in
    const changes = drive.read(Math.min((now - last) / 1000, 0.1), pad);
    last = now;
    if (changes !== null) steer(session, { ...changes });
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

const makeHandles: HandleFactory = (viewport, session) => {
  // Footprints on the ground, newest strongest
  const geometry = new THREE.PlaneGeometry(0.1, 0.26).rotateX(-Math.PI / 2);
  const prints = new THREE.InstancedMesh(geometry, new THREE.MeshBasicMaterial({ transparent: true, opacity: 0.55, depthWrite: false }), 64);
  prints.count = 0;
  prints.frustumCulled = false;
  viewport.scene.add(prints);
  const known = new Map<string, WalkFacts["footprints"][number]>();
  const [place, turn, up] = [new THREE.Matrix4(), new THREE.Quaternion(), new THREE.Vector3(0, 1, 0)];
  const stop = facts.subscribe((told) => {
    if (told === null) known.clear();
    for (const print of told?.footprints ?? []) known.set(print.slice(1, 4).join(), print);
    const shown = [...known.values()].slice(-64);
    shown.forEach(([side, x, , z, heading], i) => {
      place.compose(new THREE.Vector3(x, viewport.groundM + 0.005, z), turn.setFromAxisAngle(up, heading), new THREE.Vector3(1, 1, 1));
      prints.setMatrixAt(i, place);
      prints.setColorAt(i, new THREE.Color(cssColour(side === "left" ? "left" : "right")));
    });
    prints.count = shown.length;
    prints.instanceMatrix.needsUpdate = true;
    if (prints.instanceColor !== null) prints.instanceColor.needsUpdate = true;
    viewport.requestDraw();
  });
  const bodies: Body[] = [];
  const stopOthers = others.subscribe(({ roots, rotations }) => {
    const main = viewport.cast.main;
    while (main !== undefined && main.clip.joints.length === JOINTS && bodies.length < roots.length / 3) {
      const body = new Body(main.clip, PALETTES[(bodies.length + 1) % PALETTES.length]);
      bodies.push(body);
      viewport.scene.add(body.mesh);
    }
    bodies.forEach((body, k) => {
      body.mesh.visible = k < roots.length / 3;
      if (!body.mesh.visible) return;
      body.pose.take(roots.subarray(3 * k, 3 * k + 3), rotations.subarray(4 * JOINTS * k, 4 * JOINTS * (k + 1)));
      body.place(NOWHERE);
    });
  });
  const hearing = new AbortController();
  // Keys drive wherever the focus is, but in a field
  window.addEventListener("keydown", (event) => {
    const isField = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
    if (running.peek() !== "walk" || event.ctrlKey || event.metaKey || isField) return;
    if (!pressLive(session, viewport, event) && !drive.press(event.key, true)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, { capture: true, signal: hearing.signal });
  window.addEventListener("keyup", (event) => void drive.press(event.key, false), hearing);
  window.addEventListener("blur", () => drive.release(), hearing);
  return {
    dispose() {
      endLive(session, viewport, true);
      facts.value = null;
      hearing.abort();
      stop();
      stopOthers();
      others.value = { roots: NONE, rotations: NONE };
      for (const body of bodies) body.dispose();
      discard(prints);
    },
  };
};

function WalkPart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const viewport = studio.viewport.value;
  useEffect(() => {
    if (styles.peek().length > 0) return;
    session.ask("styles", {}).then(({ value }) => {
      styles.value = (value as { table?: { style: string; label: string }[] }).table ?? [];
    }, () => {});
  }, []);
  // Sliders steer as well
  const { speed, run, turn_rate, leg_length_m, style } = settingsOf(studio, tool);
  useEffect(() => {
    drive.adopt(Number(speed));
    steer(session, { speed });
  }, [speed]);
  useEffect(() => steer(session, { run }), [run]);
  useEffect(() => steer(session, { turn_rate }), [turn_rate]);
  useEffect(() => (leg_length_m === null ? undefined : steer(session, { leg_length_m })), [leg_length_m]);
  useEffect(() => (style === "" ? undefined : steer(session, { style })), [style]);
  const told = facts.value;
  const styleChoice = styles.value.length > 0 && (
    <label class="field">
      <span class="label">Style</span>
      <select class="control" value={String(style || styles.value[0].style)} onChange={(event) => changeSetting(studio, tool.id, "style", event.currentTarget.value)}>
        {styles.value.map(({ style: name, label }) => <option key={name} value={name}>{label}</option>)}
      </select>
    </label>
  );
  if (viewport === null) return null;
  if (running.value !== tool.id) {
    return (
      <div class="fields">
        <p class="note" style={{ margin: 0 }}>Drive with W A S D or the arrows, Shift runs, Space jumps; or with a gamepad: left stick, A jumps, right trigger runs.</p>
        <button type="button" class="button main wide" onClick={() => begin(session, viewport, settingsToSend(studio, tool))}><Icon name="walk" size={15} /> Walk</button>
        <button type="button" class="button" title="Actions, transitions and jumps as a text file; it can be dropped too" onClick={() => chooseFiles(session, ".toml,.xml")}><Icon name="import" size={15} /> Play a script file…</button>
        {styleChoice}
      </div>
    );
  }
  return (
    <div class="fields">
      <div class="pair even" aria-live="polite">
        <span class="num">{(told?.time_s ?? 0).toFixed(1)} s · {told?.state ?? "starting"}</span>
        <span class="num">{(told?.speed_mps ?? 0).toFixed(2)} m/s</span>
      </div>
      {styleChoice}
      <div class="segments">
        {[0.5, 0.8, 1.1].map((length_m) => <button type="button" key={length_m} onClick={() => steer(session, { jump: { length_m } })}>Jump {length_m} m</button>)}
        <button type="button" onClick={() => steer(session, { obstacle: true })}>Obstacle ahead</button>
        <button type="button" onClick={() => steer(session, { cancel_jump: true })}>No jump</button>
        {(told?.obstacles.length ?? 0) > 0 && <button type="button" onClick={() => steer(session, { clear_obstacles: true })}>Clear {told!.obstacles.length}</button>}
      </div>
      <div class="segments" role="radiogroup" aria-label="Who is driven">
        {(told?.characters ?? []).map((name) => <button type="button" key={name} role="radio" aria-checked={name === told!.selected} onClick={() => steer(session, { select: name })}>{name}</button>)}
        <button type="button" onClick={() => steer(session, { add: true })}>Add a walker</button>
        {(told?.characters.length ?? 0) > 1 && <button type="button" onClick={() => steer(session, { remove: true })}>Remove</button>}
        <LiveTime session={session} />
      </div>
      {(told?.remarks.length ?? 0) > 0 && <p class="note" style={{ margin: 0 }}>{told!.remarks.at(-1)}</p>}
      <LiveEnd session={session} viewport={viewport} />
    </div>
  );
}

extensions.set("walk", { handles: makeHandles, View: WalkPart, hides: ["commands", "seconds", "style"] });
