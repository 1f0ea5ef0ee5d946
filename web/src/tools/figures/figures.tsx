/** Figures that live: a body that obeys physics, pulled by the pointer, and soft bodies that muscles move. */

import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import * as THREE from "three";
import type { LiveFrame, Session } from "../../project/session";
import { Icon } from "../../shell/icons";
import { discard, drawAlways, makeGeometry, paintMark } from "../../viewer/stage";
import { ForceArrows, makeMarks } from "../../viewport/overlays";
import { readable, unitOf } from "../fields";
import { extensions, type HandleFactory, type ToolPartProps } from "../handles";
import { beginLive, endLive, LiveEnd, LivePlot, LiveTime, PLOTS, pressLive, running, steer, Trace } from "../live";
import { settingsToSend, show as showValue } from "../panel";

/** What the last frame of a session told. */
const facts = signal<Record<string, unknown>>({});
let trace = new Trace();
/** Frames of the soft body as they came, and the one that is shown again after the end. */
const film: LiveFrame[] = [];
const FILM_FRAMES = 2400; // 40 s
/** How a figure is pushed, and what is thrown at it. */
const blow = signal({ part: "chest", heading_deg: 0, force_n: 200, duration_s: 0.2, speed_m_s: 8, mass_kg: 2 });
const PARTS = ["chest", "head", "pelvis", "left_hand", "right_hand", "left_foot", "right_foot"];
const replayAt = signal<number | null>(null);
let draw: (frame: LiveFrame) => void = () => {};

function begin(session: Session, tool: string, settings: Record<string, unknown>): void {
  facts.value = {};
  trace = new Trace();
  film.length = 0;
  replayAt.value = null;
  beginLive(session, tool, settings, (frame) => {
    trace.note(frame.facts);
    if (tool === "muscle" && film.length < FILM_FRAMES) film.push(frame);
    facts.value = frame.facts;
    draw(frame);
  });
}

const simulateHandles: HandleFactory = (viewport, session) => {
  const balls = drawAlways(new THREE.InstancedMesh(new THREE.SphereGeometry(0.11, 20, 14), new THREE.MeshStandardMaterial({ color: "#e0a76f", roughness: 0.6 }), 32));
  balls.count = 0;
  balls.castShadow = true;
  const rope = drawAlways(new THREE.Line(new THREE.BufferGeometry(), new THREE.LineBasicMaterial(paintMark())));
  rope.visible = false;
  viewport.scene.add(balls, rope);
  // Forces on the figure, its centre of mass and what carries it
  const marks = new THREE.Group();
  const { mass, support } = makeMarks();
  const arrows = new ForceArrows();
  marks.add(mass, support, arrows);
  marks.visible = false;
  viewport.scene.add(marks);
  const [start, hand] = [new THREE.Vector3(), new THREE.Vector3()];
  let grip = -1;
  const matrix = new THREE.Matrix4();
  draw = (frame) => {
    const { arrays } = frame;
    if (arrays.pose_rotations === undefined) return;
    viewport.holdFrame(frame);
    const places = (arrays.balls as Float32Array | undefined) ?? new Float32Array(0);
    balls.count = Math.min(32, places.length / 3);
    for (let i = 0; i < balls.count; i++) balls.setMatrixAt(i, matrix.makeTranslation(places[3 * i], places[3 * i + 1], places[3 * i + 2]));
    balls.instanceMatrix.needsUpdate = true;
    marks.visible = true;
    mass.position.fromArray(arrays.com as Float32Array);
    support.geometry.setAttribute("position", new THREE.BufferAttribute(arrays.support as Float32Array, 3));
    const forces = (arrays.forces as Float32Array | undefined) ?? new Float32Array(0);
    arrows.show(forces, forces.length / 6);
  };
  return {
    pointerDown(hit) {
      if (running.peek() !== "simulate" || hit.joint === null) return false;
      grip = hit.joint.index;
      session.joint.value = hit.joint.name;
      start.copy(hit.joint.position);
      hand.copy(start);
      steer(session, { grab: { joint: hit.joint.name, place: start.toArray() } });
      return true;
    },
    pointerMove(hit) {
      if (grip < 0) return;
      hand.copy(viewport.facingHit(hit, start));
      steer(session, { pull: hand.toArray() });
    },
    pointerUp() {
      grip = -1;
      steer(session, { release: true });
    },
    cancel() {
      this.pointerUp?.(null as never);
    },
    update() {
      marks.visible &&= running.peek() === "simulate";
      rope.visible = grip >= 0;
      const joints = viewport.jointPositions;
      if (grip >= 0 && joints !== null) rope.geometry.setFromPoints([new THREE.Vector3().fromArray(joints, 3 * grip), hand]);
    },
    key: (event) => pressLive(session, viewport, event),
    cursor: (hit) => (running.peek() === "simulate" && hit.joint !== null ? "grab" : ""),
    dispose() {
      endLive(session, viewport, true);
      arrows.dispose();
      marks.removeFromParent();
      discard(balls, rope, mass, support);
    },
  };
};

function SimulatePart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const viewport = studio.viewport.value;
  if (viewport === null) return null;
  if (running.value !== tool.id) {
    return (
      <div class="fields">
        <p class="note plain">The figure starts from the pose at the playhead. Drag a joint to pull it; push it or throw balls at it.</p>
        <button type="button" class="button main wide" disabled={session.selected.value === null} onClick={() => begin(session, tool.id, { ...settingsToSend(studio, tool), time_s: session.playheadS.peek() })}><Icon name="play" size={15} /> Simulate</button>
      </div>
    );
  }
  const { part, ...numbers } = blow.value;
  const { heading_deg, force_n, duration_s, speed_m_s, mass_kg } = numbers;
  return (
    <div class="fields">
      <div class="segments">
        <button type="button" onClick={() => steer(session, { push: { part, heading_deg, force_n, duration_s } })}>Push</button>
        <button type="button" onClick={() => steer(session, { throw: { part, heading_deg, speed_m_s, mass_kg } })}>Throw a ball</button>
        <button type="button" onClick={() => steer(session, { restart: true })}>Restart</button>
        <LiveTime session={session} />
      </div>
      <details class="more">
        <summary><Icon name="chevron" size={14} />How hard, and where</summary>
        <div class="fields">
          <select class="control" aria-label="Part of the body" value={part} onChange={(event) => (blow.value = { ...blow.value, part: event.currentTarget.value })}>
            {PARTS.map((name) => <option key={name} value={name}>{name.replaceAll("_", " ")}</option>)}
          </select>
          {Object.entries(numbers).map(([name, value]) => (
            <label class="pair" key={name}>
              <span class="muted">{readable(name)} [{unitOf(name)}]</span>
              <input class="control num" type="number" step="any" value={String(value)} onChange={(event) => (blow.value = { ...blow.value, [name]: Number(event.currentTarget.value) })} />
            </label>
          ))}
        </div>
      </details>
      <LivePlot trace={trace} quantities={PLOTS} ticks={() => facts.value} />
      <LiveFacts names={["time_s", "words", "margin_m", "step_ms"]} />
      <LiveEnd session={session} viewport={viewport} />
    </div>
  );
}

const PASSIVE = new THREE.Color("#d8c3b4");
const RED = new THREE.Color("#c8452f");
const BLUE = new THREE.Color("#4a7fb5");

const muscleHandles: HandleFactory = (viewport, session) => {
  let mesh: THREE.Mesh<THREE.BufferGeometry, THREE.MeshStandardMaterial> | null = null;
  const bones = drawAlways(new THREE.LineSegments(new THREE.BufferGeometry(), new THREE.LineBasicMaterial(paintMark("#f1efe6", 0.7))));
  viewport.scene.add(bones);
  const mixed = new THREE.Color();
  draw = ({ arrays }) => {
    const surface = arrays.surface as Float32Array | undefined;
    if (surface === undefined) return;
    if (arrays.faces !== undefined) {
      clear();
      const geometry = makeGeometry({ position: surface.slice(), color: new Float32Array(surface.length) }, Uint32Array.from(arrays.faces));
      mesh = drawAlways(new THREE.Mesh(geometry, new THREE.MeshStandardMaterial({ vertexColors: true, roughness: 0.7 })));
      mesh.castShadow = true;
      viewport.scene.add(mesh);
      viewport.showCast(false);
      geometry.computeBoundingSphere();
      viewport.frame(geometry.boundingSphere!);
    }
    if (mesh === null) return;
    const position = mesh.geometry.getAttribute("position") as THREE.BufferAttribute;
    const colour = mesh.geometry.getAttribute("color") as THREE.BufferAttribute;
    (position.array as Float32Array).set(surface);
    for (let v = 0; v < position.count; v++) {
      mixed.copy(PASSIVE).lerp(RED, arrays.red[v]).lerp(BLUE, arrays.blue[v]);
      colour.setXYZ(v, mixed.r, mixed.g, mixed.b);
    }
    position.needsUpdate = colour.needsUpdate = true;
    mesh.geometry.computeVertexNormals();
    bones.geometry.setAttribute("position", new THREE.BufferAttribute(arrays.bones as Float32Array, 3));
    viewport.requestDraw();
  };
  const clear = (): void => {
    if (mesh !== null) discard(mesh);
    mesh = null;
  };
  return {
    dispose() {
      endLive(session, viewport, false);
      film.length = 0;
      replayAt.value = null;
      clear();
      viewport.showCast(true);
      viewport.look("free");
      discard(bones);
    },
  };
};

function MusclePart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const viewport = studio.viewport.value;
  if (viewport === null) return null;
  if (running.value !== tool.id) {
    return (
      <div class="fields">
        <p class="note plain">The scene runs by its own programme; a slider takes a muscle over by hand.</p>
        <button type="button" class="button main wide" onClick={() => begin(session, tool.id, settingsToSend(studio, tool))}><Icon name="play" size={15} /> Start the scene</button>
        <button type="button" class="button wide" onClick={() => session.start(tool.id, "", settingsToSend(studio, tool))}><Icon name="export" size={15} /> Compute and save as GLB</button>
        {replayAt.value !== null && <Replay />}
      </div>
    );
  }
  const activations = (facts.value.activations ?? {}) as Record<string, number>;
  return (
    <div class="fields">
      {Object.entries(activations).slice(0, 12).map(([name, value]) => (
        <div class="field" key={name}>
          <label for={`muscle-${name}`}><span>{name.replaceAll("_", " ")}</span><span class="num">{value.toFixed(2)}</span></label>
          <input id={`muscle-${name}`} type="range" min={0} max={1} step={0.01} value={value} onInput={(event) => steer(session, { [name]: Number(event.currentTarget.value) })} />
        </div>
      ))}
      <div class="segments">
        <button type="button" onClick={() => steer(session, { release: true })}>By its programme</button>
        <button type="button" onClick={() => steer(session, { reset: true })}>Back to rest</button>
      </div>
      <LiveFacts names={["time_s", "step_ms"]} />
      <button type="button" class="button main wide" onClick={() => {
        endLive(session, viewport, false);
        replayAt.value = film.length > 1 ? 0 : null;
      }}>End and replay</button>
    </div>
  );
}

/** The scene that was just played, from the frames that came: a slider, and playing at its own speed. */
function Replay() {
  const isPlaying = useSignal(true);
  const timeOf = (at: number): number => Number(film[at]?.facts.time_s ?? 0);
  const show = (at: number): void => {
    replayAt.value = at;
    draw(film[at]);
  };
  useEffect(() => {
    let [request, last] = [0, performance.now()];
    const step = (now: number): void => {
      request = requestAnimationFrame(step);
      const at = replayAt.peek() ?? 0;
      if (!isPlaying.peek() || film.length < 2) last = now;
      else if ((now - last) / 1000 >= timeOf((at + 1) % film.length) - timeOf(at)) {
        last = now;
        show((at + 1) % film.length);
      }
    };
    request = requestAnimationFrame(step);
    return () => cancelAnimationFrame(request);
  }, []);
  return (
    <div class="field">
      <label for="replay"><span>Replay</span><span class="num">{timeOf(replayAt.value ?? 0).toFixed(2)} s</span></label>
      <div class="pair go">
        <input
          id="replay" type="range" min={0} max={film.length - 1} step={1} value={replayAt.value ?? 0}
          onInput={(event) => {
            isPlaying.value = false;
            show(Number(event.currentTarget.value));
          }}
        />
        <button type="button" class="quiet" aria-label={isPlaying.value ? "Pause the replay" : "Play the replay"} onClick={() => (isPlaying.value = !isPlaying.peek())}><Icon name={isPlaying.value ? "pause" : "play"} size={15} /></button>
      </div>
    </div>
  );
}

function LiveFacts({ names }: { names: string[] }) {
  return (
    <table class="facts">
      <tbody>
        {names.filter((name) => facts.value[name] != null && facts.value[name] !== "").map((name) => <tr key={name}><td>{readable(name)}</td><td class="n">{showValue(facts.value[name])} {unitOf(name)}</td></tr>)}
      </tbody>
    </table>
  );
}

/** Muscles over a clip: a rod for each piece of their lines, from pale to red as they work. */
const shownMuscles = signal<{ hash: string; lines: Float32Array; work: Float32Array; radii: Float32Array; rateHz: number } | null>(null);

const muscleLines: HandleFactory = (viewport, session) => {
  let rods: THREE.InstancedMesh | null = null;
  const [matrix, turn, size, a, b, up, colour] = [new THREE.Matrix4(), new THREE.Quaternion(), new THREE.Vector3(), new THREE.Vector3(), new THREE.Vector3(), new THREE.Vector3(0, 1, 0), new THREE.Color()];
  const stop = shownMuscles.subscribe((found) => {
    if (rods !== null) discard(rods);
    rods = found === null ? null : drawAlways(new THREE.InstancedMesh(new THREE.CylinderGeometry(1, 1, 1, 8), new THREE.MeshBasicMaterial(paintMark("#ffffff", 0.85)), found.radii.length), 9);
    if (rods !== null) viewport.scene.add(rods);
    viewport.requestDraw();
  });
  return {
    update(timeS) {
      const found = shownMuscles.peek();
      if (rods === null || found === null) return;
      rods.visible = found.hash === session.mainHash.peek();
      const count = found.radii.length;
      const frame = Math.min(Math.max(Math.round(timeS * found.rateHz), 0), found.work.length / count - 1);
      for (let k = 0; k < count; k++) {
        a.fromArray(found.lines, 6 * (frame * count + k));
        b.fromArray(found.lines, 6 * (frame * count + k) + 3);
        size.set(found.radii[k], Math.max(a.distanceTo(b), 1e-6), found.radii[k]);
        turn.setFromUnitVectors(up, b.clone().sub(a).normalize());
        rods.setMatrixAt(k, matrix.compose(a.add(b).multiplyScalar(0.5), turn, size));
        rods.setColorAt(k, colour.copy(PASSIVE).lerp(RED, Math.sqrt(found.work[frame * count + k])));
      }
      rods.instanceMatrix.needsUpdate = true;
      if (rods.instanceColor !== null) rods.instanceColor.needsUpdate = true;
    },
    dispose() {
      stop();
      shownMuscles.value = null;
      if (rods !== null) discard(rods);
      viewport.requestDraw();
    },
  };
};

function MusclesPart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const isAsking = useSignal(false);
  const isShown = shownMuscles.value?.hash === session.mainHash.value && shownMuscles.value !== null;
  const show = async (): Promise<void> => {
    const hash = session.mainHash.peek();
    if (isShown || hash === null) {
      shownMuscles.value = null;
      return;
    }
    isAsking.value = true;
    const found = await session.tryAsk("muscle_lines", { ...settingsToSend(studio, tool), motion: hash });
    isAsking.value = false;
    if (found === null) return;
    const { lines, work, radii } = found.arrays as Record<string, Float32Array>;
    shownMuscles.value = { hash, lines, work, radii, rateHz: (found.value as { report: { rate_hz: number } }).report.rate_hz };
  };
  return (
    <div class="fields">
      <button type="button" class="button wide" aria-pressed={isShown} disabled={session.main.value === null || isAsking.value} onClick={() => void show()}><Icon name="muscles" size={15} /> {isAsking.value ? "Working…" : isShown ? "Hide the muscles" : "Show them on the body"}</button>
    </div>
  );
}

extensions.set("muscles", { handles: muscleLines, View: MusclesPart });
extensions.set("simulate", { handles: simulateHandles, View: SimulatePart, hides: ["time_s", "commands", "seconds"] });
extensions.set("muscle", { handles: muscleHandles, View: MusclePart });
