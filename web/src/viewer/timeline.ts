/** The timeline on one canvas: ruler, coloured bands, contact rows, range and playhead. Only what is visible is drawn. */

import type { Clip } from "./clip";

const RULER_PX = 22;
const ROW_PX = 14;
const GAP_PX = 3;
const LABEL_PX = 96;
const MIN_SPAN_S = 0.05;
const LEVELS = { green: "#4f9d69", amber: "#d9a441", red: "#c8452f" } as const;

/** Which part of time the canvas shows, and the way between seconds and pixels. */
export class TimeAxis {
  startS = 0;
  spanS: number;

  constructor(
    readonly durationS: number,
    public widthPx: number,
  ) {
    this.spanS = Math.max(durationS, MIN_SPAN_S);
  }

  toPixels(timeS: number): number {
    return LABEL_PX + ((timeS - this.startS) / this.spanS) * (this.widthPx - LABEL_PX);
  }

  toSeconds(pixel: number): number {
    return this.startS + ((pixel - LABEL_PX) / Math.max(1, this.widthPx - LABEL_PX)) * this.spanS;
  }

  /** Show `factor` times as much time; what lies under the pointer stays there. */
  zoom(factor: number, pixel: number): void {
    const fixed = this.toSeconds(pixel);
    const whole = Math.max(this.durationS, MIN_SPAN_S);
    const span = Math.min(Math.max(this.spanS * factor, MIN_SPAN_S), whole);
    this.startS = fixed - ((fixed - this.startS) * span) / this.spanS;
    this.spanS = span;
    this.pan(0);
  }

  pan(seconds: number): void {
    const whole = Math.max(this.durationS, MIN_SPAN_S);
    this.startS = Math.min(Math.max(this.startS + seconds, 0), whole - this.spanS);
  }

  /** Distance of the ruler's marks [s]: 1, 2 or 5 times a power of ten, at least 60 pixels apart. */
  markStep(): number {
    const least = (60 / Math.max(1, this.widthPx - LABEL_PX)) * this.spanS;
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= least * 0.999) ?? 10 * power;
  }
}

/** The first of sorted, disjoint intervals that ends after a time: where drawing begins. */
export function firstVisible(runs: readonly { stop: number }[], timeS: number): number {
  let [low, high] = [0, runs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (runs[middle].stop <= timeS) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Row {
  label: string;
  runs: { start: number; stop: number; colour: string; text: string }[];
}

export interface TimelineEvents {
  seek(timeS: number): void;
}

export class Timeline {
  readonly axis: TimeAxis;
  range: [number, number] | null = null;
  private readonly rows: Row[];
  private readonly context: CanvasRenderingContext2D;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly tip: HTMLElement,
    clips: Clip[],
    durationS: number,
    events: TimelineEvents,
  ) {
    this.context = canvas.getContext("2d")!;
    this.axis = new TimeAxis(durationS, 1);
    this.rows = clips.flatMap((clip) => clipRows(clip, clips.length > 1));
    canvas.style.height = `${this.heightPx()}px`;
    this.listen(events);
  }

  heightPx(): number {
    return RULER_PX + this.rows.length * (ROW_PX + GAP_PX) + GAP_PX;
  }

  draw(timeS: number): void {
    const { canvas, context, axis } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    axis.widthPx = width;
    const style = getComputedStyle(canvas);
    const [ink, faint] = [style.color, style.getPropertyValue("--line")];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.drawRuler(ink, faint, height);
    this.rows.forEach((row, index) => this.drawRow(row, index, ink, faint));
    if (this.range !== null) {
      // What lies outside the range that is played is dimmed
      const [from, to] = this.range.map((limit) => axis.toPixels(limit));
      context.fillStyle = "rgba(127, 127, 127, 0.35)";
      context.fillRect(LABEL_PX, 0, Math.max(0, from - LABEL_PX), height);
      context.fillRect(to, 0, Math.max(0, width - to), height);
    }
    const head = axis.toPixels(timeS);
    if (head >= LABEL_PX - 1) {
      context.fillStyle = LEVELS.red;
      context.fillRect(head - 0.75, 0, 1.5, height);
    }
  }

  private drawRuler(ink: string, faint: string, height: number): void {
    const { context, axis } = this;
    const step = axis.markStep();
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let mark = Math.ceil(axis.startS / step); mark * step <= axis.startS + axis.spanS; mark++) {
      const x = axis.toPixels(mark * step);
      context.fillStyle = faint;
      context.fillRect(x, 0, 1, height);
      context.fillStyle = ink;
      context.fillText(`${(mark * step).toFixed(decimals)} s`, x + 4, RULER_PX / 2);
    }
  }

  private drawRow(row: Row, index: number, ink: string, faint: string): void {
    const { context, axis } = this;
    const y = RULER_PX + index * (ROW_PX + GAP_PX);
    context.fillStyle = ink;
    context.fillText(row.label, 6, y + ROW_PX / 2, LABEL_PX - 10);
    context.fillStyle = faint;
    context.fillRect(LABEL_PX, y + ROW_PX, axis.widthPx - LABEL_PX, 1);
    for (let i = firstVisible(row.runs, axis.startS); i < row.runs.length; i++) {
      const run = row.runs[i];
      if (run.start > axis.startS + axis.spanS) break;
      const from = Math.max(LABEL_PX, axis.toPixels(run.start));
      context.fillStyle = run.colour;
      context.fillRect(from, y + 1, Math.max(1, axis.toPixels(run.stop) - from), ROW_PX - 2);
    }
  }

  private listen(events: TimelineEvents): void {
    const { canvas, axis, tip } = this;
    const seek = (event: PointerEvent) =>
      events.seek(Math.min(Math.max(axis.toSeconds(event.offsetX), 0), axis.durationS));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      seek(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) seek(event);
      // The text of what lies under the pointer
      const row = this.rows[Math.floor((event.offsetY - RULER_PX) / (ROW_PX + GAP_PX))];
      const time = axis.toSeconds(event.offsetX);
      const run = row?.runs[firstVisible(row.runs, time)];
      const text = run !== undefined && run.start <= time ? run.text : "";
      tip.textContent = text;
      tip.hidden = text === "";
      tip.style.left = `${Math.min(event.offsetX, canvas.clientWidth - 260)}px`;
    });
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        if (event.shiftKey) axis.pan(((event.deltaY || event.deltaX) / 500) * axis.spanS);
        else axis.zoom(Math.exp(event.deltaY / 400), event.offsetX);
      },
      { passive: false },
    );
  }
}

/** Rows of one clip: its bands, then its contacts. */
function clipRows(clip: Clip, isOneOfSeveral: boolean): Row[] {
  const prefix = isOneOfSeveral ? `${clip.name}: ` : "";
  const bands = clip.bands.map((band) => ({
    label: prefix + band.name,
    runs: band.spans.map((span) => ({
      start: span.start_s,
      stop: span.stop_s,
      colour: LEVELS[span.level],
      text: `${span.start_s.toFixed(2)} to ${span.stop_s.toFixed(2)} s: ${span.text}`,
    })),
  }));
  const contacts = clip.contacts.filter((track) => track.runs.length > 0).map((track) => ({
    label: prefix + track.name.replace("_", " "),
    runs: track.runs.map(([start, stop]) => ({
      start,
      stop,
      colour: track.name.startsWith("left") ? "#6d9bc8" : "#e0a76f",
      text: `${track.name.replace("_", " ")} touches from ${start.toFixed(2)} to ${stop.toFixed(2)} s`,
    })),
  }));
  return [...bands, ...contacts];
}
