/** Frames of clips in blocks, the least recently used ones thrown away: a long take need not lie in memory whole. */

import type { Frames } from "../viewer/clip";

export const BLOCK_FRAMES = 1024;

interface Entry extends Frames {
  bytes: number;
  used: number;
}

export class BlockCache {
  private readonly entries = new Map<string, Entry>();
  private readonly asked = new Set<string>();
  private turn = 0;
  private bytes = 0;

  constructor(
    private readonly want: (hash: string, first: number, count: number) => void,
    private readonly limitBytes = 384 << 20,
    private readonly newest = 4, // questions under way at one time
  ) {}

  get sizeBytes(): number {
    return this.bytes;
  }

  /** The block that holds a frame, or null; a block that is missing is asked for. */
  find(hash: string, frame: number): Frames | null {
    const first = Math.floor(frame / BLOCK_FRAMES) * BLOCK_FRAMES;
    const key = `${hash}:${first}`;
    const entry = this.entries.get(key);
    if (entry !== undefined) {
      entry.used = ++this.turn;
      return entry;
    }
    this.ask(hash, first, key);
    return null;
  }

  has(hash: string, frame: number): boolean {
    return this.entries.has(`${hash}:${Math.floor(frame / BLOCK_FRAMES) * BLOCK_FRAMES}`);
  }

  /** Ask for the first block that is not here, counted from a frame onwards and round; for idle moments. */
  prefetch(hash: string, frame: number, numFrames: number): void {
    if (this.asked.size > 0 || this.bytes > 0.75 * this.limitBytes) return;
    const blocks = Math.ceil(numFrames / BLOCK_FRAMES);
    const start = Math.floor(frame / BLOCK_FRAMES);
    for (let i = 0; i < blocks; i++) {
      const first = ((start + i) % blocks) * BLOCK_FRAMES;
      if (this.entries.has(`${hash}:${first}`)) continue;
      this.ask(hash, first, `${hash}:${first}`);
      return;
    }
  }

  put(hash: string, frames: Frames): void {
    const key = `${hash}:${frames.first}`;
    this.asked.delete(key);
    const old = this.entries.get(key);
    if (old !== undefined) this.bytes -= old.bytes;
    const bytes = frames.roots.byteLength + frames.rotations.byteLength + (frames.translations?.byteLength ?? 0);
    this.entries.set(key, { ...frames, bytes, used: ++this.turn });
    this.bytes += bytes;
    this.shrink(key);
  }

  /** Questions of a lost connection get no answer. */
  forgetQuestions(): void {
    this.asked.clear();
  }

  private ask(hash: string, first: number, key: string): void {
    if (this.asked.has(key) || this.asked.size >= this.newest) return;
    this.asked.add(key);
    this.want(hash, first, BLOCK_FRAMES);
  }

  private shrink(keep: string): void {
    while (this.bytes > this.limitBytes && this.entries.size > 1) {
      let oldest = "";
      let least = Infinity;
      for (const [key, entry] of this.entries) {
        if (entry.used < least && key !== keep) [oldest, least] = [key, entry.used];
      }
      this.bytes -= this.entries.get(oldest)!.bytes;
      this.entries.delete(oldest);
    }
  }
}
