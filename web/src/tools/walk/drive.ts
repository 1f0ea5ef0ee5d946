/** How keys and a gamepad drive a walker: what is held becomes speed, turn and jumps. Nothing here draws or sends. */

/** Controls that go to the server, only those that changed. */
export interface Controls {
  speed?: number; // [m/s]
  run?: number; // 0 walks, 1 runs
  turn_rate?: number; // [rad/s], positive to the left
  jump?: { length_m: number; kind?: string };
  over_s?: number;
}

/** A gamepad as the browser tells it: the left stick, and the lower and left buttons. */
interface Pad {
  axes: readonly number[];
  buttons: readonly { pressed: boolean; value: number }[];
}

export const LIMITS = { speed: 1.6, runSpeed: 3, turn: 1.2 };
const DEAD = 0.15; // of a stick that rests
const JUMP_M = 0.8;
const KEYS: Record<string, string> = {
  w: "forward", arrowup: "forward", s: "slower", arrowdown: "slower", a: "left", arrowleft: "left", d: "right", arrowright: "right", shift: "run", " ": "jump",
};

export class Drive {
  private readonly held = new Set<string>();
  private told: Required<Pick<Controls, "speed" | "run" | "turn_rate">>;
  private cruise: number; // speed that stays when nothing is held
  private wasJumping = false;
  private isJumping = false;

  constructor(speed = 0) {
    this.told = { speed, run: 0, turn_rate: 0 };
    this.cruise = speed;
  }

  /** A key went down or up; whether it drives. */
  press(key: string, isDown: boolean): boolean {
    const name = KEYS[key.toLowerCase()];
    if (name === undefined) return false;
    if (isDown) this.held.add(name);
    else this.held.delete(name);
    if (name === "jump" && isDown) this.isJumping = true;
    return true;
  }

  release(): void {
    this.held.clear();
  }

  /** Another speed, from elsewhere: it stays until a key changes it. */
  adopt(speed: number): void {
    this.cruise = this.told.speed = speed;
  }

  /** What changed since the last call, after `wallS` of holding; null where nothing did. */
  read(wallS: number, pad: Pad | null): Controls | null {
    const stick = (axis: number): number => {
      const value = pad?.axes[axis] ?? 0;
      return Math.abs(value) < DEAD ? 0 : (value - Math.sign(value) * DEAD) / (1 - DEAD);
    };
    const isPadRun = (pad?.buttons[7]?.value ?? 0) > 0.3 || pad?.buttons[2]?.pressed === true;
    const run = this.held.has("run") || isPadRun ? 1 : 0;
    const most = run === 1 ? LIMITS.runSpeed : LIMITS.speed;
    // Keys change the speed that stays; a stick tells it at once
    if (this.held.has("forward")) this.cruise = Math.min(most, this.cruise + 1.2 * wallS);
    if (this.held.has("slower")) this.cruise = Math.max(0, this.cruise - 2 * wallS);
    this.cruise = Math.min(this.cruise, most);
    const push = Math.max(0, -stick(1));
    const speed = push > 0 ? push * most : this.cruise;
    const turn = LIMITS.turn * (Number(this.held.has("left")) - Number(this.held.has("right"))) - LIMITS.turn * stick(0);
    const isPadJump = pad?.buttons[0]?.pressed === true;
    const jump = this.isJumping || (isPadJump && !this.wasJumping);
    [this.wasJumping, this.isJumping] = [isPadJump, false];
    const next = { speed: round(speed), run, turn_rate: round(Math.max(-LIMITS.turn, Math.min(LIMITS.turn, turn))) };
    const changes: Controls = {};
    for (const name of ["speed", "run", "turn_rate"] as const) if (next[name] !== this.told[name]) changes[name] = next[name];
    this.told = next;
    if (jump) changes.jump = { length_m: JUMP_M };
    if (Object.keys(changes).length === 0) return null;
    return { ...changes, over_s: 0.25 };
  }
}

function round(value: number): number {
  return Math.round(100 * value) / 100;
}
