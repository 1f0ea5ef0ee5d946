/** Motions by content hash: headers and blocks as they come from the server, as clips that the viewer's body can play. */

import { signal, type Signal } from "@preact/signals";
import { BLOCK_FRAMES, BlockCache } from "../protocol/blocks";
import type { BlockMessage, ClipMessage } from "../../build/messages";
import { type Clip, type ClipFacts, describeClip, readCapsules } from "../viewer/clip";

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
