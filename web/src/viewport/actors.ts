/** Which bodies stand on the stage: the selected motion, its ghost, a preview, and those pinned beside it. */

import * as THREE from "three";
import type { StoredClip } from "../project/clips";
import { Body, type Look, PALETTES } from "../viewer/body";

export type Role = "main" | "before" | "preview" | "ghost" | "pinned";

export interface ActorSpec {
  role: Role;
  clip: StoredClip;
  palette: number;
  look: Look;
  offsetM: number; // aside
}

export interface Actor extends ActorSpec {
  key: string;
  body: Body;
  offset: THREE.Vector3;
}

export class Cast {
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
    for (const { body } of old.values()) {
      this.scene.remove(body.mesh);
      body.dispose();
    }
  }

  dispose(): void {
    this.set([]);
  }
}
