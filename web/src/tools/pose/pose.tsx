/** Posing, valid editing and footprints: drag a joint or where a foot stands, and the body follows; the release makes one command. */

import { effect, signal } from "@preact/signals";
import * as THREE from "three";
import type { LiveFrame, Session } from "../../project/session";
import { takeToChange } from "../../shell/commands";
import { Icon } from "../../shell/icons";
import { cssColour } from "../../shell/theme";
import { extensions, type HandleFactory, type PointerHit, type ToolPartProps } from "../handles";
import { DragChannel } from "../live";
import { settingsToSend } from "../panel";
import { discard, paintMark } from "../../viewer/stage";
import type { Viewport } from "../../viewport/viewport";

const PATIENCE_MS = 4000; // for the result of a command after the release

/** What the last drag told: a sentence, and the time from each move of the pointer to its drawn pose [ms]. */
const dragReport = { sentence: signal(""), lagsMs: [] as number[] };
(globalThis as { mareyDrag?: typeof dragReport }).mareyDrag = dragReport;

/** Handles of a tool that drags one joint to a place; `place` names its settings from the joint. */
function effectorHandles(toolId: string, place: (joint: string, viewport: Viewport) => Record<string, unknown>): HandleFactory {
  return (viewport, session) => {
    let drag: DragChannel | null = null;
    const [start, target] = [new THREE.Vector3(), new THREE.Vector3()];
    const marker = new THREE.Mesh(new THREE.RingGeometry(0.03, 0.038, 32), new THREE.MeshBasicMaterial({ ...paintMark(), side: THREE.DoubleSide }));
    marker.renderOrder = 11;
    marker.visible = false;
    viewport.scene.add(marker);
    const studio = window.mareyStudio!;
    const show = (frame: LiveFrame, movedMs: number): void => {
      const { facts } = frame;
      dragReport.sentence.value = String(facts.advice || facts.words || facts.status || "");
      viewport.holdFrame(frame);
      viewport.drawNow();
      dragReport.lagsMs.push(performance.now() - movedMs);
    };
    return {
      pointerDown(hit) {
        // A point of a trail is the joint at another time: the playhead goes there
        const trail = hit.joint === null ? viewport.trailAt(hit) : null;
        const held = hit.joint ?? trail;
        if (held === null) return false;
        session.joint.value = held.name;
        session.pause();
        if (trail !== null) session.seek(Math.round(trail.timeS * session.rateHz.peek()) / session.rateHz.peek());
        const tool = session.tools.peek().find((each) => each.id === toolId);
        if (tool === undefined) return false;
        const motion = takeToChange(studio);
        if (motion === null) return true;
        start.copy(held.position);
        target.copy(start);
        const settings = { ...settingsToSend(studio, tool), motion, time_s: session.playheadS.peek(), ...place(held.name, viewport) };
        drag = new DragChannel(session, toolId, settings, show);
        marker.visible = true;
        return true;
      },
      pointerMove(hit) {
        if (drag === null) return;
        target.copy(viewport.facingHit(hit, start));
        // Drawn with the answer: a picture of its own for the marker would keep the answer waiting
        drag.move({ joint: session.joint.peek(), target: target.toArray() }, hit.event.timeStamp);
      },
      pointerUp() {
        marker.visible = false;
        if (drag === null) return;
        // A click picks the joint and changes nothing
        if (target.distanceTo(start) < 1e-4) drag.cancel();
        else drag.end({ joint: session.joint.peek(), target: target.toArray() });
        drag = null;
        releaseWhenMade(viewport, session);
      },
      cancel() {
        drag?.cancel();
        drag = null;
        marker.visible = false;
        viewport.hold(null);
      },
      key(event) {
        if (toolId !== "pose" || event.key.toLowerCase() !== "p" || event.ctrlKey || session.joint.peek() === null) return false;
        togglePin(viewport, session.joint.peek()!);
        return true;
      },
      update() {
        marker.position.copy(target);
        marker.quaternion.copy(viewport.camera.quaternion);
      },
      cursor: (hit) => (hit.joint === null && viewport.trailAt(hit) === null ? "" : "grab"),
      dispose() {
        this.cancel?.();
        discard(marker);
      },
    };
  };
}

/** The dragged pose stands until the document shows it. */
export function releaseWhenMade(viewport: Viewport, session: Session, then = (): void => {}): void {
  const before = session.mainHash.peek();
  let stop = (): void => {};
  const release = (): void => {
    clearTimeout(timer);
    viewport.hold(null);
    then();
    queueMicrotask(() => stop());
  };
  const timer = setTimeout(release, PATIENCE_MS);
  stop = effect(() => {
    const [hash, clip] = [session.mainHash.value, session.main.value];
    void session.clips.arrivals.value;
    if (hash !== before && clip !== null && session.clips.blocks.has(clip.hash, session.playheadS.peek() * clip.rateHz)) release();
  });
}

function togglePin(viewport: Viewport | null, joint: string): void {
  if (viewport === null) return;
  const pins = new Set(viewport.pins.peek());
  if (!pins.delete(joint)) pins.add(joint);
  viewport.pins.value = pins;
}

const NOTES: Record<string, string> = {
  pose: "Drag a joint in the viewport, or a point of its trail (Shift T) at another time. The release sets keys at the playhead, in a layer of the take.",
  edit: "Drag a joint at the playhead: the motion around it changes as little as needed, and contacts can still carry it.",
};

function PosePart({ studio, tool }: ToolPartProps) {
  const viewport = studio.viewport.value;
  const pins = [...(viewport?.pins.value ?? [])];
  const joint = studio.session.joint.value;
  return (
    <div class="fields">
      <p class="note plain">{NOTES[tool.id]}</p>
      <div class="pair go">
        <span class="with-icon"><Icon name="joints" size={15} /><span class="cut">{joint ?? "no joint is picked"}</span></span>
        {tool.id === "pose" && <button type="button" class="button" disabled={joint === null} onClick={() => joint !== null && togglePin(viewport, joint)}>{joint !== null && pins.includes(joint) ? "Unpin" : "Pin"} <kbd>P</kbd></button>}
      </div>
      {pins.length > 0 && <div class="segments">{pins.map((pin) => <button type="button" key={pin} title="Unpin" onClick={() => togglePin(viewport, pin)}>{pin} ×</button>)}</div>}
      {dragReport.sentence.value !== "" && <p class="muted" role="status">{dragReport.sentence.value}</p>}
    </div>
  );
}

extensions.set("pose", {
  handles: effectorHandles("pose", (joint, viewport) => ({ joint, pins: [...viewport.pins.peek()].filter((pin) => pin !== joint) })),
  View: PosePart,
  hides: ["time_s", "joint", "layer", "pins", "free", "deviations"],
});
extensions.set("edit", { handles: effectorHandles("edit", (point) => ({ point })), View: PosePart, hides: ["point", "time_s"] });
extensions.set("contacts", { hides: ["point", "from_s"] });

/** One place of one foot, as the server tells it. */
interface FootPlant {
  foot: "left" | "right";
  place: [number, number, number]; // of the ankle [m]
  heading_deg: number; // 0 is +Z, positive towards +X
  start_s: number;
  stop_s: number;
}

const [LENGTH_M, WIDTH_M, BEHIND_M] = [0.26, 0.1, 0.06]; // of a footprint, and from the heel to under the ankle
const REACH_PX = 14;
const LIFT_M = 0.006;

const makeHandles: HandleFactory = (viewport, session) => {
  const shape = new THREE.PlaneGeometry(WIDTH_M, LENGTH_M).rotateX(-Math.PI / 2).translate(0, 0, LENGTH_M / 2 - BEHIND_M);
  const prints = new THREE.Group();
  viewport.scene.add(prints);
  let plants: FootPlant[] = [];
  let shownHash: string | null = null;
  let hovered = -1;
  let drag: { channel: DragChannel; index: number; isTurn: boolean; args: Record<string, unknown> } | null = null;

  /** Where a footprint lies while it is dragged, or where it was told. */
  const placeOf = (index: number): { x: number; z: number; turnRad: number } => {
    const { place, heading_deg } = plants[index];
    const args = drag?.index === index ? drag.args : {};
    const [x, z] = (args.to as [number, number] | undefined) ?? [place[0], place[2]];
    return { x, z, turnRad: ((heading_deg + Number(args.turn_deg ?? 0)) * Math.PI) / 180 };
  };
  const clear = (): void => discard(...([...prints.children] as THREE.Mesh[]));
  const draw = (): void => {
    plants.forEach((_, index) => {
      const { x, z, turnRad } = placeOf(index);
      const print = prints.children[index] as THREE.Mesh<THREE.BufferGeometry, THREE.MeshBasicMaterial>;
      print.position.set(x, viewport.groundM + LIFT_M, z);
      print.rotation.y = turnRad;
      print.material.opacity = index === hovered || drag?.index === index ? 0.95 : 0.5;
    });
    viewport.requestDraw();
  };
  const ask = (): void => {
    const [hash, item] = [session.mainHash.value, session.selected.value];
    if (hash === null || item === null || hash === shownHash) return;
    shownHash = hash;
    session.tryAsk("plants", { motion: hash }).then((answer) => {
      if (shownHash !== hash) return;
      plants = (answer?.value as { table?: FootPlant[] } | undefined)?.table ?? [];
      clear();
      prints.add(...plants.map(({ foot }) => new THREE.Mesh(shape.clone(), new THREE.MeshBasicMaterial({ color: cssColour(foot), transparent: true, depthWrite: false }))));
      draw();
    });
  };
  const find = (hit: PointerHit): { index: number; isTurn: boolean } | null => {
    const places = plants.flatMap((_, index) => {
      const at = placeOf(index);
      return ([[0.03, false], [LENGTH_M - BEHIND_M, true]] as const).map(([alongM, isTurn]) => ({
        index, isTurn, position: new THREE.Vector3(at.x + alongM * Math.sin(at.turnRad), viewport.groundM, at.z + alongM * Math.cos(at.turnRad)),
      }));
    });
    return viewport.pickNearest(places, hit, REACH_PX);
  };
  const stops = [session.mainHash.subscribe(ask), session.selected.subscribe(ask)];
  const finish = (isKept: boolean): void => {
    if (drag === null) return;
    if (isKept && Object.keys(drag.args).length > 0) drag.channel.end(drag.args);
    else drag.channel.cancel();
    const { index, args } = drag;
    // The footprint stays where it was let go until the new motion tells where it is
    if (isKept && Array.isArray(args.to)) plants[index] = { ...plants[index], place: [args.to[0], plants[index].place[1], args.to[1]] };
    drag = null;
    releaseWhenMade(viewport, session);
    draw();
  };
  return {
    pointerDown(hit) {
      const found = find(hit);
      if (found === null) return false;
      const motion = takeToChange(window.mareyStudio!);
      if (motion === null) return true;
      const { foot, place, start_s, stop_s } = plants[found.index];
      session.pause();
      session.seek(Math.round(0.5 * (start_s + stop_s) * session.rateHz.peek()) / session.rateHz.peek());
      const settings = { motion, foot, place: [place[0], place[2]], while_s: [start_s, Math.max(stop_s, start_s + 0.02)] };
      const channel = new DragChannel(session, "footprints", settings, (answer) => {
        viewport.holdFrame(answer);
        viewport.drawNow();
      });
      drag = { channel, args: {}, index: found.index, isTurn: found.isTurn };
      return true;
    },
    pointerMove(hit) {
      if (drag === null || hit.ground === null) {
        const at = find(hit)?.index ?? -1;
        if (drag === null && at !== hovered) {
          hovered = at;
          draw();
        }
        return;
      }
      const { place, heading_deg } = plants[drag.index];
      const turned = (Math.atan2(hit.ground.x - place[0], hit.ground.z - place[2]) * 180) / Math.PI - heading_deg;
      drag.args = drag.isTurn ? { turn_deg: ((turned + 540) % 360) - 180 } : { to: [hit.ground.x, hit.ground.z] };
      drag.channel.move(drag.args, hit.event.timeStamp);
      draw();
    },
    pointerUp: () => finish(true),
    cancel: () => finish(false),
    cursor: (hit) => (find(hit) === null ? "" : "grab"),
    dispose() {
      finish(false);
      for (const stop of stops) stop();
      clear();
      viewport.scene.remove(prints);
      shape.dispose();
      viewport.requestDraw();
    },
  };
};

extensions.set("footprints", { handles: makeHandles, hides: ["foot", "place", "while_s"] });
