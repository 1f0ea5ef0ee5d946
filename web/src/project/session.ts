/** One session with the server: the mirror of the project, its clips, jobs, and what the user looks at. */

import { batch, computed, effect, signal, untracked } from "@preact/signals";
import type {
  AnswerMessage, ClientMessage, Commands, FrameMessage, JobMessage, ProjectDocument, ProtocolVersion, ServerMessage, ToolDescription,
} from "../../build/messages";
import { type Link, Socket, type Wire } from "../protocol/socket";
import type { Band } from "../viewer/clip";
import { Clock } from "../viewer/clock";
import { ClipStore, type StoredClip } from "./clips";
import { applyPatches, type Item, shownHash, sourceHash } from "./document";
import { recall, remembered, store } from "./memory";

const VERSION: ProtocolVersion = 2;
const JUDGE_MS = 700; // after a motion has been chosen

/** The way of one solution of a search, on the ground. */
export interface Way {
  k: number;
  cost: number;
  places: [x: number, z: number][];
}

export interface JobResult {
  partial?: string;
  partials?: Record<string, string>; // by name
  ways?: Way[];
  take?: string;
  takes?: string[];
  clips?: string[];
  table?: Record<string, unknown>[];
  text?: string;
  report?: Record<string, unknown>;
  files?: { name: string; size: number; url: string }[];
}

export interface Job extends Omit<JobMessage, "result"> {
  result: JobResult;
}

export interface Toast {
  id: number;
  level: "info" | "warning" | "error" | "good";
  sentence: string;
  fix: string;
  act?: { label: string; run: () => void };
}

type Answer = Pick<AnswerMessage, "value" | "arrays">;
export type LiveFrame = FrameMessage;

/** The server said no: a sentence, and what would help. */
class Refusal extends Error {
  constructor(
    sentence: string,
    readonly fix: string,
  ) {
    super(sentence);
  }
}

interface Waiter {
  done: (answer: Answer) => void;
  failed: (refusal: Refusal) => void;
}

export type Overlays = Record<"joints" | "trails" | "onion" | "ghost" | "com" | "forces" | "world" | "skin", boolean>;

export class Session {
  // What the server tells
  readonly link = signal<Link>("connecting");
  readonly project = signal<ProjectDocument | null>(null);
  readonly tools = signal<ToolDescription[]>([]);
  readonly jobs = signal<Job[]>([]);
  readonly undoLabel = signal<string | null>(null);
  readonly redoLabel = signal<string | null>(null);
  readonly lastLabel = signal("");
  // What the user looks at: not part of the document, kept by the browser
  readonly selected = remembered<Item | null>("selected", null);
  readonly pinned = remembered<Item[]>("pinned", []);
  readonly tool = remembered<string | null>("tool", null);
  readonly joint = signal<string | null>(null);
  readonly overlays = remembered<Overlays>("overlays", {
    joints: false, trails: false, onion: false, ghost: true, com: false, forces: false, world: true, skin: true,
  });
  readonly toasts = signal<Toast[]>([]);
  /** Hash of a motion that a running job shows, or of a result on trial, drawn as a ghost. */
  readonly preview = signal<string | null>(null);
  /** Further motions beside the selected one, by name: hashes. */
  readonly ghosts = signal<Record<string, string>>({});
  /** Whether the strips of the timeline are played one after another, and the hash of what they make. */
  readonly isSequence = signal(false);
  readonly sequence = signal<string | null>(null);
  /** Coloured stretches of the last report on the shown motion, in place of those of its header. */
  readonly bands = signal<Band[] | null>(null);
  // Playback
  readonly playheadS = signal(recall<number>("playhead", 0));
  readonly isPlaying = signal(false);
  readonly speed = signal(1);
  readonly isLooping = remembered("loop", true);
  readonly rangeS = signal<[number, number] | null>(null);

  readonly clips: ClipStore;
  private readonly socket: Socket;
  private readonly waiters = new Map<string, Waiter>();
  private readonly listeners = new Map<string, (frame: LiveFrame) => void>();
  private readonly clock = new Clock(0);
  private readonly verdicts = new Map<string, Band[]>();
  private readonly dynamics = new Map<string, Promise<Answer["arrays"]>>();
  private judging: ReturnType<typeof setTimeout> | undefined;
  private count = 0;

  /** What is selected, in the document that holds it. */
  private readonly shown = computed(() => {
    const [project, item] = [this.project.value, this.selected.value];
    return project === null || item === null ? null : ([project, item] as const);
  });
  /** The hash that the main body shows. */
  readonly mainHash = computed(() => this.sequence.value ?? (this.shown.value === null ? null : shownHash(...this.shown.value)));
  readonly beforeHash = computed(() => (this.shown.value === null || this.sequence.value !== null ? null : sourceHash(...this.shown.value)));
  readonly main = computed<StoredClip | null>(() => (this.mainHash.value === null ? null : this.clips.find(this.mainHash.value).value));
  readonly durationS = computed(() => this.main.value?.durationS ?? 0);
  readonly rateHz = computed(() => this.main.value?.rateHz ?? 30);
  readonly isEmpty = computed(() => {
    const project = this.project.value;
    return project !== null && Object.keys(project.clips).length === 0 && Object.keys(project.takes).length === 0;
  });

  constructor(open: () => Wire) {
    this.clips = new ClipStore((hash, first, count) => this.socket.send({ t: "want", hash, first, count }));
    this.socket = new Socket({ t: "hello", version: VERSION }, {
      onLink: (link) => {
        if (this.link.peek() === "open" && link !== "open") this.failWaiters();
        this.link.value = link;
      },
      onMessage: (message) => this.receive(message),
      onGap: () => this.clips.resume(),
    }, open);
    effect(() => this.judge(this.mainHash.value));
    const strips = computed(() => this.project.value?.timeline.strips);
    const results = computed(() => strips.value?.map(({ take }) => this.project.value?.takes[take]?.result).join());
    effect(() => {
      const isOn = this.isSequence.value && (strips.value?.length ?? 0) > 0;
      void results.value;
      untracked(() => this.askSequence(isOn));
    });
    // A tool works on the selected motion
    effect(() => {
      if (this.tool.value !== null) this.isSequence.value = false;
    });
  }

  private askSequence(isOn: boolean): void {
    if (!isOn) this.sequence.value = null;
    else this.ask("sequence", {}).then(({ value }) => {
      if (this.isSequence.peek()) this.sequence.value = (value as { hash: string }).hash;
    }, (error) => this.report(error));
  }

  /** Ask in a quiet moment which stretches of the shown motion a body could have made. */
  private judge(hash: string | null): void {
    clearTimeout(this.judging);
    this.bands.value = hash === null ? null : (this.verdicts.get(hash) ?? null);
    if (hash === null || this.bands.peek() !== null) return;
    this.judging = setTimeout(async () => {
      if (this.link.peek() !== "open" || !this.tools.peek().some((tool) => tool.id === "physics")) return;
      try {
        const { value } = await this.ask("physics", { motion: hash });
        this.takeVerdict(hash, (value as JobResult).report ?? {});
      } catch {
        // A motion that physics cannot judge has no band; the tool says why
      }
    }, JUDGE_MS);
  }

  /** Keep the coloured stretches of a report for a motion. */
  takeVerdict(hash: string, report: Record<string, unknown>): void {
    const spans = (report.spans as { start_s: number; stop_s: number; status: Band["spans"][number]["level"]; words: string }[] | undefined) ?? [];
    if (spans.length === 0) return;
    this.verdicts.set(hash, [{ name: "validity", spans: spans.map(({ start_s, stop_s, status, words }) => ({ start_s, stop_s, level: status, text: words })) }]);
    if (hash === this.mainHash.peek()) this.bands.value = this.verdicts.get(hash)!;
  }

  // --- What is asked of the server

  /** Change the document; resolves when the change is in the mirror. */
  command<N extends keyof Commands>(name: N, args: Commands[N]): Promise<Answer> {
    return this.question((id) => ({ t: "command", id, name, args }));
  }

  ask(what: string, args: Record<string, unknown>): Promise<Answer> {
    return this.question((id) => ({ t: "ask", id, what, args }));
  }

  /** Like `ask`, but a refusal becomes a toast, and null. */
  tryAsk(what: string, args: Record<string, unknown>): Promise<Answer | null> {
    return this.ask(what, args).catch((error) => {
      this.report(error);
      return null;
    });
  }

  /** Centre of mass, forces, energies and momenta of the shown motion; asked for once. */
  askDynamics(): Promise<Answer["arrays"]> {
    const hash = this.mainHash.peek() ?? "";
    let found = this.dynamics.get(hash);
    if (found === undefined) {
      this.dynamics.set(hash, (found = this.ask("overlay", { motion: hash }).then(({ arrays }) => arrays)));
      found.catch(() => this.dynamics.delete(hash));
    }
    return found;
  }

  /** Like `command`, but a refusal becomes a toast. Tells whether the change was made. */
  change<N extends keyof Commands>(name: N, args: Commands[N]): Promise<boolean> {
    return this.command(name, args).then(() => true, (error) => {
      this.report(error);
      return false;
    });
  }

  start(tool: string, take: string, settings: Record<string, unknown>, into = ""): void {
    const id = this.nextId();
    this.waiters.set(id, { done: () => {}, failed: (refusal) => this.report(refusal) });
    this.socket.send({ t: "start", id, tool, take, settings, into });
  }

  cancel(job: string): void {
    this.socket.send({ t: "cancel", job });
  }

  undo(): void {
    if (this.undoLabel.peek() !== null) this.socket.send({ t: "undo" });
  }

  redo(): void {
    if (this.redoLabel.peek() !== null) this.socket.send({ t: "undo", redo: true });
  }

  retry(): void {
    this.socket.retry();
  }

  /** Open a channel of drags or of live steps; its answers go to `listen` until it is closed. */
  openChannel(listen: (frame: LiveFrame) => void): string {
    const channel = this.nextId();
    this.listeners.set(channel, listen);
    return channel;
  }

  closeChannel(channel: string): void {
    this.listeners.delete(channel);
  }

  /** Begin, move or end a drag or a live session; a move goes now or not at all. Tells whether it goes. */
  sendDrag(channel: string, phase: "begin" | "move" | "end", tool: string, args: Record<string, unknown>, n = 0): boolean {
    const message: ClientMessage = { t: "drag", channel, n, phase, tool, args };
    if (phase === "move") return this.socket.sendNow(message);
    this.socket.send(message);
    return true;
  }

  // --- Playback: the clock lives here, time needs no server

  /** Let wall time pass [s]. */
  advance(wallS: number): void {
    if (!this.isPlaying.peek()) return;
    const clock = this.clockNow();
    clock.advance(wallS);
    batch(() => {
      this.playheadS.value = clock.timeS;
      this.isPlaying.value = clock.isPlaying;
    });
  }

  seek(timeS: number): void {
    this.playheadS.value = Math.min(Math.max(timeS, 0), this.durationS.peek());
    store("playhead", this.playheadS.peek());
  }

  step(frames: number): void {
    this.isPlaying.value = false;
    const clock = this.clockNow();
    clock.step(frames, this.rateHz.peek());
    this.seek(clock.timeS);
  }

  play(speed = 1): void {
    const range = this.rangeS.peek();
    const [start, stop] = range ?? [0, this.durationS.peek()];
    batch(() => {
      this.speed.value = speed;
      this.isPlaying.value = true;
      // At the end, forwards means from the start again
      if (!this.isLooping.peek() && speed > 0 && this.playheadS.peek() >= stop) this.playheadS.value = start;
      if (!this.isLooping.peek() && speed < 0 && this.playheadS.peek() <= start) this.playheadS.value = stop;
    });
  }

  pause(): void {
    this.isPlaying.value = false;
    store("playhead", this.playheadS.peek());
  }

  mark(end: "in" | "out"): void {
    const clock = this.clockNow();
    clock.mark(end);
    this.rangeS.value = clock.range;
  }

  select(item: Item | null): void {
    const same = item !== null && this.selected.peek()?.id === item.id;
    batch(() => {
      this.selected.value = item;
      this.preview.value = null;
      this.ghosts.value = {};
      this.isSequence.value = false;
      if (!same) this.rangeS.value = null;
    });
  }

  /** Select what was just made, where it is in the document. */
  selectMade(take?: string, clip?: string): void {
    const project = this.project.peek();
    if (take !== undefined && project?.takes[take] !== undefined) this.select({ kind: "take", id: take });
    else if (clip !== undefined && project?.clips[clip] !== undefined) this.select({ kind: "clip", id: clip });
  }

  toast(level: Toast["level"], sentence: string, fix = "", act?: Toast["act"]): void {
    const id = ++this.count;
    this.toasts.value = [...this.toasts.peek().filter((old) => old.sentence !== sentence), { id, level, sentence, fix, act }].slice(-4);
  }

  dropToast(id: number): void {
    this.toasts.value = this.toasts.peek().filter((toast) => toast.id !== id);
  }

  /** An error of any kind as a toast. */
  report(error: unknown): void {
    if (error instanceof Refusal) this.toast("error", error.message, error.fix);
    else this.toast("error", error instanceof Error ? error.message : String(error), "");
  }

  dispose(): void {
    this.socket.dispose();
  }

  private clockNow(): Clock {
    const { clock } = this;
    clock.durationS = this.durationS.peek();
    clock.timeS = this.playheadS.peek();
    clock.speed = this.speed.peek();
    clock.isPlaying = this.isPlaying.peek();
    clock.isLooping = this.isLooping.peek();
    clock.range = this.rangeS.peek();
    return clock;
  }

  private nextId(): string {
    return `c${Math.random().toString(36).slice(2, 8)}${++this.count}`;
  }

  private question(make: (id: string) => ClientMessage): Promise<Answer> {
    const id = this.nextId();
    return new Promise((done, failed) => {
      this.waiters.set(id, { done, failed });
      this.socket.send(make(id));
    });
  }

  private settle(id: string, act: (waiter: Waiter) => void): boolean {
    const waiter = this.waiters.get(id);
    if (waiter === undefined) return false;
    this.waiters.delete(id);
    act(waiter);
    return true;
  }

  private failWaiters(): void {
    for (const id of [...this.waiters.keys()]) {
      this.settle(id, (waiter) => waiter.failed(new Refusal("The server does not answer", "It is tried again; nothing that was done is lost")));
    }
  }

  private receive(message: ServerMessage): void {
    if (message.t === "welcome") {
      batch(() => {
        this.tools.value = message.tools;
        this.jobs.value = message.jobs;
        this.takeDocument(message.project, message);
      });
      this.clips.resume();
    } else if (message.t === "patch") {
      batch(() => {
        this.lastLabel.value = message.label;
        this.takeDocument(applyPatches(this.project.peek()!, message.patches), message);
      });
      this.settle(message.id, (waiter) => waiter.done({ value: message.patches, arrays: {} }));
    } else if (message.t === "refused") {
      const refusal = new Refusal(message.sentence, message.fix);
      if (!this.settle(message.id, (waiter) => waiter.failed(refusal))) this.report(refusal);
    } else if (message.t === "frame") {
      for (const sentence of (message.facts.refused as string[] | undefined) ?? []) this.toast("warning", sentence);
      this.listeners.get(message.channel)?.(message);
    } else if (message.t === "answer") this.settle(message.id, (waiter) => waiter.done(message));
    else if (message.t === "job") this.takeJob(message);
    else if (message.t === "clip") this.clips.takeHeader(message);
    else if (message.t === "block") this.clips.takeBlock(message);
    else if (message.t === "toast") this.toast(message.level, message.sentence, message.fix);
  }

  private takeDocument(project: ProjectDocument, { undo, redo }: { undo: string | null; redo: string | null }): void {
    this.project.value = project;
    this.undoLabel.value = undo;
    this.redoLabel.value = redo;
    this.settleSelection();
  }

  private takeJob(job: Job): void {
    this.settle(job.id, () => {});
    const known = this.jobs.peek().find((old) => old.id === job.id);
    this.jobs.value = known === undefined ? [...this.jobs.peek(), job] : this.jobs.peek().map((old) => (old.id === job.id ? job : old));
    if (job.result.partial !== undefined && job.state === "running") {
      this.preview.value = job.result.partial;
      this.ghosts.value = Object.fromEntries(Object.entries(job.result.partials ?? {}).filter(([, hash]) => hash !== job.result.partial));
    }
    if (known?.state === job.state) return;
    if (job.state === "failed") this.toast("error", job.sentence, job.fix);
    if (job.state === "done" || job.state === "failed" || job.state === "cancelled") this.preview.value = null;
    if (job.state === "done") {
      const take = job.result.take ?? job.result.takes?.[0];
      // A repair waits as a ghost over its source
      const ghost = job.tool === "repair" && take !== undefined ? this.project.peek()?.takes[take]?.base : undefined;
      if (ghost != null) {
        this.preview.value = ghost;
        if (job.result.text) this.toast("good", job.result.text, "It is the green ghost: accept or refuse it in the panel");
        return;
      }
      const clip = job.result.clips?.[0];
      this.selectMade(take, clip);
      // What a comparison made besides stands there as a ghost
      const others = job.tool === "path" ? (job.result.takes ?? []).slice(1).map((id) => this.project.peek()?.takes[id]) : [];
      this.ghosts.value = Object.fromEntries(others.flatMap((other) => (other?.base == null ? [] : [[other.name, other.base]])));
      // Whoever sent the file says it by its name, and an open panel by itself
      if (job.result.text && job.tool !== "import" && job.tool !== this.tool.peek()) this.toast("good", job.result.text);
    }
  }

  /** Something is shown where there is something: the selection of the last time, or the first take or clip. */
  private settleSelection(): void {
    const project = this.project.peek()!;
    const exists = (item: Item): boolean => (item.kind === "take" ? project.takes : project.clips)[item.id] !== undefined;
    const item = this.selected.peek();
    if (item !== null && exists(item)) return;
    const [take] = Object.keys(project.takes);
    const [clip] = Object.keys(project.clips);
    this.selected.value = take !== undefined ? { kind: "take", id: take } : clip !== undefined ? { kind: "clip", id: clip } : null;
    const pinned = this.pinned.peek().filter(exists);
    if (pinned.length !== this.pinned.peek().length) this.pinned.value = pinned;
  }
}
