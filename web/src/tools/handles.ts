/** Handles of tools in the viewport: what a tool draws there, and which pointers and keys it takes. */

import type * as THREE from "three";
import type { Session } from "../project/session";
import type { Viewport } from "../viewport/viewport";

/** Where the pointer is: in pixels of the viewport, as a ray, and what lies under it. */
export interface PointerHit {
  event: PointerEvent;
  x: number;
  y: number;
  ray: THREE.Ray;
  /** The place on the ground, or null above the horizon. */
  ground: THREE.Vector3 | null;
  /** The joint of the main body next to the pointer, within reach. */
  joint: { index: number; name: string; position: THREE.Vector3; distancePx: number } | null;
}

/** All parts are optional; a handler that returns true has taken the event, and the camera does not move. */
export interface Handles {
  pointerDown?(hit: PointerHit): boolean;
  pointerMove?(hit: PointerHit): void;
  pointerUp?(hit: PointerHit): void;
  /** Escape, or a lost pointer, while a drag is on. */
  cancel?(): void;
  key?(event: KeyboardEvent): boolean;
  /** Called before each drawing. */
  update?(timeS: number): void;
  /** The CSS cursor while the pointer hovers here. */
  cursor?(hit: PointerHit): string;
  dispose(): void;
}

export type HandleFactory = (viewport: Viewport, session: Session) => Handles;

const factories = new Map<string, HandleFactory>();

/** Give a tool of the registry handles of its own; they live while the tool is open. */
export function registerHandles(toolId: string, factory: HandleFactory): void {
  factories.set(toolId, factory);
}

export function findHandles(toolId: string): HandleFactory | undefined {
  return factories.get(toolId);
}
