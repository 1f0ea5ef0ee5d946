/** Posing and valid editing: drag a joint and the body follows; the release makes one command. */

import { effect, signal } from "@preact/signals";
import * as THREE from "three";
import type { LiveFrame, Session } from "../../project/session";
import { takeToChange } from "../../shell/commands";
import { Icon } from "../../shell/icons";
import { discard, paintMark } from "../../viewer/stage";
import type { Viewport } from "../../viewport/viewport";
import { DragChannel } from "../drag";
import { extensions, type HandleFactory, type ToolPartProps } from "../handles";
import { settingsToSend } from "../panel";

const PATIENCE_MS = 4000; // for the result of a command after the release

/** What the last drag told: a sentence, and the time from each move of the pointer to its drawn pose [ms]. */
export const dragReport = { sentence: signal(""), lagsMs: [] as number[] };
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
