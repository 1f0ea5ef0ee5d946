/** Tools that answer while they are led: drags of a pointer, and live sessions, which are steered and plotted. */

import { effect, signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { LiveFrame, Session } from "../project/session";
import { readTheme } from "../shell/theme";
import { type CurveRow, sampledChannels } from "../timeline";
import { TimeAxis } from "../timeline/axis";
import { drawCurves, drawReadout, FONT } from "../timeline/draw";
import { fitValues } from "../timeline/layout";
import { NOTHING } from "../timeline/model";
import type { Viewport } from "../viewport/viewport";

const PATIENCE_MS = 30_000; // for the take of a session that was kept

/** The tool whose session runs. */
export const running = signal<string | null>(null);
let channel: string | null = null;
const isHeld = signal(false);

/** Begin a session unless one runs; tells whether it began. */
export function beginLive(session: Session, tool: string, settings: Record<string, unknown>, show: (frame: LiveFrame) => void): boolean {
  if (channel !== null) return false;
  session.pause();
  channel = session.openChannel(show);
  session.sendDrag(channel, "begin", tool, settings);
  running.value = tool;
  isHeld.value = false;
  return true;
}

export function steer(session: Session, controls: Record<string, unknown>): void {
  if (channel !== null) session.sendDrag(channel, "move", running.peek()!, controls);
}

/** End the session: as a take, which is selected when it comes, or without a trace. */
export function endLive(session: Session, viewport: Viewport, isKept: boolean): void {
  if (channel === null) return;
  session.sendDrag(channel, "end", running.peek()!, isKept ? {} : { cancel: true });
  session.closeChannel(channel);
  channel = null;
  running.value = null;
  viewport.hold(null);
  if (!isKept) return;
  const known = new Set(Object.keys(session.project.peek()?.takes ?? {}));
  const stop = session.project.subscribe((project) => {
    const id = Object.keys(project?.takes ?? {}).find((each) => !known.has(each));
    if (id === undefined) return;
    queueMicrotask(() => stop());
    session.select({ kind: "take", id });
    session.seek(0);
  });
  setTimeout(() => stop(), PATIENCE_MS);
}

/** Hold the time of a session, and let it go on by one frame. */
export function LiveTime({ session }: { session: Session }) {
  return (
    <>
      <button type="button" role="switch" aria-checked={isHeld.value} onClick={() => steer(session, { pause: (isHeld.value = !isHeld.peek()) })}>Hold</button>
      <button type="button" disabled={!isHeld.value} onClick={() => steer(session, { single_step: true })}>One frame</button>
    </>
  );
}

export function LiveEnd({ session, viewport }: { session: Session; viewport: Viewport }) {
  return (
    <div class="pair even">
      <button type="button" class="button main" onClick={() => endLive(session, viewport, true)}>Keep as a take <kbd>↵</kbd></button>
      <button type="button" class="button" onClick={() => endLive(session, viewport, false)}>Discard <kbd>Esc</kbd></button>
    </div>
  );
}

/** Enter keeps what a session recorded, Escape discards it; tells whether the key was one of these. */
export function pressLive(session: Session, viewport: Viewport, event: KeyboardEvent): boolean {
  if (running.peek() === null || (event.key !== "Enter" && event.key !== "Escape")) return false;
  endLive(session, viewport, event.key === "Enter");
  return true;
}

type Args = Record<string, unknown>;
type Wire = Pick<Session, "openChannel" | "closeChannel" | "sendDrag">;

export class DragChannel {
  private readonly channel: string;
  private n = 0;
  private waiting: { args: Args; movedMs: number } | null = null;
  private askedMs: number | null = null; // when the pointer moved to where the answer under way will be
  private isOver = false;

  constructor(
    private readonly wire: Wire,
    private readonly tool: string,
    settings: Args,
    private readonly onAnswer: (answer: LiveFrame, movedMs: number) => void, // and when the pointer had moved there
  ) {
    this.channel = wire.openChannel((answer) => this.receive(answer));
    wire.sendDrag(this.channel, "begin", tool, settings);
  }

  move(args: Args, movedMs = performance.now()): void {
    if (this.isOver) return;
    // The first move that waits tells how late its answer comes
    this.waiting = { args, movedMs: this.waiting?.movedMs ?? movedMs };
    if (this.askedMs === null) this.ask();
  }

  /** Finish; the server makes one command of it. */
  end(args: Args): void {
    if (this.isOver) return;
    this.isOver = true;
    this.wire.sendDrag(this.channel, "end", this.tool, args, ++this.n);
    this.wire.closeChannel(this.channel);
  }

  /** Leave without a command. */
  cancel(): void {
    this.end({ cancel: true });
  }

  private ask(): void {
    const { waiting } = this;
    this.askedMs = null;
    // Without a connection the move waits for the next one
    if (waiting === null || !this.wire.sendDrag(this.channel, "move", this.tool, waiting.args, ++this.n)) return;
    this.askedMs = waiting.movedMs;
    this.waiting = null;
  }

  private receive(answer: LiveFrame): void {
    if (this.isOver || answer.n !== this.n) return;
    const movedMs = this.askedMs ?? performance.now();
    // The server computes the next answer while this one is drawn
    this.ask();
    this.onAnswer(answer, movedMs);
  }
}

const SPAN_S = 6;
const HEIGHT_PX = 110;

/** What is plotted: the array or fact that holds it, its unit, and a name for each of its numbers. */
type Quantity = [name: string, unit: string, channels: string[]];

/** Of the physics report, and of a simulation. */
export const PLOTS: Record<string, Quantity> = {
  "ground force": ["ground_force", "body weights", ["x", "y", "z"]],
  energy: ["energy", "J", ["kinetic", "potential", "total"]],
  momentum: ["momentum", "kg m/s", ["x", "y", "z"]],
  "angular momentum": ["angular_momentum", "kg m²/s", ["x", "y", "z"]],
};

/** The last seconds of a session's facts. */
export class Trace {
  private readonly rows: { timeS: number; facts: Record<string, unknown> }[] = [];

  note(facts: Record<string, unknown>): void {
    const timeS = Number(facts.time_s ?? 0);
    const last = this.rows.at(-1)?.timeS;
    // A session that stands still adds nothing, one that was begun anew starts anew
    if (timeS === last) return;
    if (last !== undefined && timeS < last) this.rows.length = 0;
    this.rows.push({ timeS, facts });
    while (this.rows[0].timeS < timeS - SPAN_S) this.rows.shift();
  }

  get endS(): number {
    return this.rows.at(-1)?.timeS ?? 0;
  }

  /** One quantity as a row of curves; null before there is a line to draw. */
  row([fact, unit, channels]: Quantity): CurveRow | null {
    const { rows } = this;
    if (rows.length < 2) return null;
    const data = Float32Array.from(rows.flatMap(({ facts }) => facts[fact] as number[]));
    const rateHz = (rows.length - 1) / (rows.at(-1)!.timeS - rows[0].timeS);
    return { kind: "curve", id: fact, label: fact, unit, channels: sampledChannels(channels, data, rateHz, rows[0].timeS), height: HEIGHT_PX };
  }
}

/** A plot of one of several quantities; `ticks` is read to draw again. */
export function LivePlot({ trace, quantities, ticks }: { trace: Trace; quantities: Record<string, Quantity>; ticks: () => unknown }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const chosen = useSignal(Object.keys(quantities)[0]);
  useEffect(() => effect(() => {
    ticks();
    const [c, row] = [canvas.current?.getContext("2d"), trace.row(quantities[chosen.value])];
    if (c == null) return;
    const [width, ratio] = [c.canvas.clientWidth, window.devicePixelRatio || 1];
    if (c.canvas.width !== Math.round(width * ratio)) Object.assign(c.canvas, { width: Math.round(width * ratio), height: Math.round(HEIGHT_PX * ratio) });
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, HEIGHT_PX);
    if (row === null) return;
    const axis = new TimeAxis(SPAN_S, width, 40, 4);
    axis.startS = Math.max(0, trace.endS - SPAN_S); // of a window that moves along
    c.save();
    c.font = FONT;
    c.textBaseline = "middle";
    const values = fitValues(row, trace.endS);
    drawCurves(c, row, axis, values, readTheme(), NOTHING);
    drawReadout(c, row, axis, values, readTheme(), trace.endS);
    c.restore();
  }), []);
  return (
    <figure class="plot">
      <div class="segments" role="radiogroup" aria-label="Plot">
        {Object.keys(quantities).map((name) => <button type="button" key={name} role="radio" aria-checked={chosen.value === name} onClick={() => (chosen.value = name)}>{name}</button>)}
      </div>
      <canvas ref={canvas} role="img" aria-label={`${chosen.value} over time`} style={{ width: "100%", height: `${HEIGHT_PX}px` }} />
      <figcaption class="muted">{chosen.value} [{quantities[chosen.value][1]}] over {SPAN_S} s</figcaption>
    </figure>
  );
}
