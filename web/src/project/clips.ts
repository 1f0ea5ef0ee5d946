/** Motions by content hash: headers and blocks as they come from the server, as clips that the viewer's body can play. */

import { type Signal, signal } from "@preact/signals";
import type { BlockMessage, ClipMessage } from "../../build/messages";
import { type Clip, type ClipFacts, describeClip, type Frames, readCapsules } from "../viewer/clip";

export const BLOCK_FRAMES = 1024;

interface Entry extends Frames {
  bytes: number;
  used: number;
}

export class BlockCache {
  private readonly entries = new Map<string, Entry>();
  private readonly asked = new Set<string>();
  private turn = 0;
  bytes = 0; // of all that is here

  constructor(
    private readonly want: (hash: string, first: number, count: number) => void,
    private readonly limitBytes = 384 << 20,
    private readonly newest = 4, // questions under way at one time
  ) {}

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

export interface ClipHeader extends ClipFacts {
  frames: number;
  sides: number[];
  ground_m?: number;
  capsules: { joints: number[]; sides: number[] };
}

export interface StoredClip extends Clip {
  hash: string;
  groundM: number;
}

export class ClipStore {
  private readonly clips = new Map<string, Signal<StoredClip | null>>();
  readonly blocks: BlockCache;
  /** Counts arrivals, so that a paused viewport draws again. */
  readonly arrivals = signal(0);

  constructor(private readonly want: (hash: string, first: number, count: number) => void) {
    this.blocks = new BlockCache(want);
  }

  /** The clip of a hash; null until its header is here, which is asked for. */
  find(hash: string): Signal<StoredClip | null> {
    let entry = this.clips.get(hash);
    if (entry === undefined) {
      entry = signal(null);
      this.clips.set(hash, entry);
      this.want(hash, 0, 0);
    }
    return entry;
  }

  /** Ask again for what a lost connection did not answer. */
  resume(): void {
    this.blocks.forgetQuestions();
    for (const [hash, entry] of this.clips) if (entry.peek() === null) this.want(hash, 0, 0);
  }

  takeHeader({ hash, arrays, ...message }: ClipMessage): void {
    const header = message.header as unknown as ClipHeader;
    const entry = this.clips.get(hash) ?? signal<StoredClip | null>(null);
    this.clips.set(hash, entry);
    const { joints, sides } = header.capsules;
    entry.value = {
      ...describeClip(header, header.frames),
      hash,
      groundM: header.ground_m ?? 0,
      offsets: arrays.offsets as Float32Array,
      capsules: readCapsules(joints, sides, arrays.shapes as Float32Array),
      framesAt: (frame) => this.blocks.find(hash, frame),
    };
    this.blocks.find(hash, 0);
  }

  takeBlock({ hash, first, roots, rotations, translations }: BlockMessage): void {
    this.blocks.put(hash, { first, roots, rotations, translations: translations ?? null });
    this.arrivals.value++;
  }

  /** In an idle moment: the next block that a clip lacks, those after the playhead first. */
  prefetch(hash: string, timeS: number): void {
    const clip = this.clips.get(hash)?.peek();
    if (clip == null) return;
    this.blocks.prefetch(hash, Math.min(Math.max(0, Math.floor(timeS * clip.rateHz)), clip.numFrames - 1), clip.numFrames);
  }

  /** Share of a clip's frames that is here, 0 to 1. */
  loaded(hash: string): number {
    const clip = this.clips.get(hash)?.peek();
    if (clip == null) return 0;
    const blocks = Math.ceil(clip.numFrames / BLOCK_FRAMES);
    let here = 0;
    for (let block = 0; block < blocks; block++) if (this.blocks.has(hash, block * BLOCK_FRAMES)) here++;
    return here / blocks;
  }
}
