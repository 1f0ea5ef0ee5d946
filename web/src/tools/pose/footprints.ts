/** Footprints: where feet stand lies on the ground; a drag moves one, a drag of its toes turns it, and the body follows. */

import * as THREE from "three";
import { takeToChange } from "../../shell/commands";
import { cssColour } from "../../shell/theme";
import { discard } from "../../viewer/stage";
import { DragChannel } from "../drag";
import { extensions, type HandleFactory, type PointerHit } from "../handles";
import { releaseWhenMade } from "./pose";

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

