/** What tools add of their own: a part of the panel, and handles in the viewport, which take pointers and keys. */

import type { ComponentType } from "preact";
import type * as THREE from "three";
import type { Session } from "../project/session";
import type { ToolDescription } from "../../build/messages";
import type { Studio } from "../shell/context";
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
  joint: { index: number; name: string; position: THREE.Vector3 } | null;
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

export interface ToolPartProps {
  studio: Studio;
  tool: ToolDescription;
}

/** What a tool adds to what is drawn from its description. */
interface ToolExtension {
  /** Of the viewport; they live while the tool is open. */
  handles?: HandleFactory;
  /** Part of the panel above the settings. */
  View?: ComponentType<ToolPartProps>;
  /** Settings that handles or the part fill in, and the panel need not show. */
  hides?: string[];
}

/** By the id of the tool. */
export const extensions = new Map<string, ToolExtension>();
