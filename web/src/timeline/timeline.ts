/** The timeline on one canvas: pointer and keys become events, rows are shown as they are told. What has no event is read-only. */

import { lowerBound, valueAt } from "../curves/channel";
import { TimeAxis } from "./axis";
import { type Drag, Drags, dragStrip, type DragView } from "./drags";
import { drawOverlay, drawPicture, type Picture, TextCache, type Theme } from "./draw";
import { BAR_PX, fitValues, type Hit, hitTest, Layout, RULER_PX, type ValueAxis } from "./layout";
import { type CurveRow, describeRow, type KeyRow, NOTHING, type Row, rowTimes, runAt, stripStop, type TimelineEvents, type TimelineModel } from "./model";

const PLAIN: TimelineModel = {
  durationS: 1, rateHz: 60, playheadS: 0, rangeS: null, rows: [], selection: NOTHING, labelPx: 96,
};

export class Timeline implements DragView {
  readonly canvas = document.createElement("canvas");
  readonly axis = new TimeAxis(1, 1, PLAIN.labelPx, 8);
  model: Readonly<TimelineModel> = PLAIN; // what is shown now, previews of a drag among it
  layout = new Layout([]);
  private readonly front = this.canvas.getContext("2d")!;
  private readonly back = document.createElement("canvas").getContext("2d")!; // all that does not move with the playhead
  private readonly drags = new Drags(this);
  private readonly tip = document.createElement("div");
  private readonly summary = document.createElement("ul"); // the text alternative
  private readonly texts = new TextCache();
  private readonly values = new WeakMap<CurveRow, ValueAxis>();
  private readonly observer = new ResizeObserver(() => this.resize());
  private drag: Drag | null = null;
  private waiting: readonly Row[] | null = null; // rows that came during a drag
  private focusedRow = -1;
  private isStale = true;
  private isAsked = 0;
  private spokenAt = 0;
  /** Work of the last drawing [ms], for budgets. */
  drawnMs = 0;

  constructor(
    private readonly host: HTMLElement,
    readonly events: TimelineEvents,
    private readonly theme: () => Theme,
  ) {
    const { canvas, tip, summary } = this;
    Object.assign(canvas, { tabIndex: 0, role: "slider", ariaLabel: "Time", ariaValueMin: "0" });
    Object.assign(canvas.style, { display: "block", width: "100%", height: "100%", touchAction: "none" });
    Object.assign(tip, { role: "status", className: "timeline-tip", hidden: true });
    Object.assign(tip.style, {
      position: "absolute", maxWidth: "280px", padding: "3px 7px", borderRadius: "4px", border: "1px solid", pointerEvents: "none", font: "12px/1.4 system-ui, sans-serif",
    });
    summary.id = `timeline-summary-${Math.random().toString(36).slice(2)}`;
    Object.assign(summary.style, { position: "absolute", width: "1px", height: "1px", overflow: "hidden", clipPath: "inset(50%)", margin: "0" });
    canvas.setAttribute("aria-describedby", summary.id);
    if (getComputedStyle(host).position === "static") host.style.position = "relative";
    host.append(canvas, tip, summary);
    this.listen();
    this.observer.observe(host);
    this.resize();
  }

  set(change: Partial<TimelineModel>): void {
    const { axis } = this;
    const { playheadS } = this.model;
    const wasSeen = playheadS >= axis.startS && playheadS <= axis.stopS;
    const { rows, ...rest } = change;
    if (rows !== undefined && this.drag !== null) this.waiting = rows;
    this.change(this.drag === null ? change : rest);
    if (change.rateHz !== undefined || change.durationS !== undefined) {
      axis.leastSpanS = Math.min(0.05, 4 / this.model.rateHz);
      axis.resize(this.model.durationS, axis.widthPx);
    }
    axis.leftPx = this.model.labelPx;
    const headS = this.model.playheadS;
    // The view turns a page when the playhead runs out of it
    if (wasSeen && this.drag === null && headS !== playheadS && (headS < axis.startS || headS > axis.stopS)) {
      axis.pan(headS - 0.05 * axis.spanS - axis.startS);
      this.redraw();
    }
  }

  /** Show something else at once: what `set` does, and what a drag previews. */
  change(change: Partial<TimelineModel>): void {
    this.model = { ...this.model, ...change };
    if (change.rows !== undefined) this.takeRows(change.rows);
    // A change of the playhead or the range alone leaves the picture as it is
    const names = Object.keys(change);
    if (names.length === 0 || names.some((name) => name !== "playheadS" && name !== "rangeS")) this.isStale = true;
    this.ask();
  }

  redraw(): void {
    this.change({});
  }

  resize(): void {
    this.axis.resize(this.model.durationS, Math.max(1, this.host.clientWidth));
    this.layout.heightPx = Math.max(RULER_PX + BAR_PX, this.host.clientHeight);
    this.layout.scroll(0);
    this.redraw();
  }

  /** Show a stretch of time; all of it without arguments. */
  show(fromS = 0, toS = this.model.durationS): void {
    this.axis.show(fromS, toS);
    this.redraw();
  }

  /** Scroll until a row is seen. */
  revealRow(id: string): void {
    const row = this.model.rows.findIndex((each) => each.id === id);
    if (row >= 0) this.layout.reveal(row);
    this.redraw();
  }

  dispose(): void {
    cancelAnimationFrame(this.isAsked);
    this.observer.disconnect();
    this.host.replaceChildren();
  }

  /** Draw now; the time that takes is `drawnMs`. */
  draw(): void {
    const began = performance.now();
    cancelAnimationFrame(this.isAsked);
    this.isAsked = 0;
    const { axis, layout } = this;
    const [front, back] = [this.front, this.back];
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(axis.widthPx * ratio), Math.round(layout.heightPx * ratio)];
    const state = this.state();
    if (front.canvas.width !== width || front.canvas.height !== height) {
      for (const { canvas } of [front, back]) Object.assign(canvas, { width, height });
      this.isStale = true;
    }
    if (this.isStale) {
      back.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawPicture(back, state);
      this.isStale = false;
    }
    front.setTransform(1, 0, 0, 1, 0, 0);
    front.drawImage(back.canvas, 0, 0);
    front.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawOverlay(front, state, this.drags.box, this.drags.snapS);
    if (began - this.spokenAt > 200 || this.model.playheadS === 0) this.speak(began);
    else if (document.activeElement === this.canvas) setTimeout(() => performance.now() - this.spokenAt > 200 && this.speak(performance.now()), 250);
    this.drawnMs = performance.now() - began;
  }

  state(): Picture {
    const { axis, layout, model, texts, focusedRow } = this;
    return {
      axis, layout, model, texts, focusedRow, theme: this.theme(), rangeS: model.rangeS, selection: model.selection,
      values: (row) => this.valueAxis(row),
    };
  }

  valueAxis(row: CurveRow): ValueAxis {
    let axis = this.values.get(row);
    if (axis === undefined) this.values.set(row, (axis = fitValues(row, this.model.durationS)));
    return axis;
  }

  private takeRows(rows: readonly Row[]): void {
    const { scrollPx, heightPx } = this.layout;
    this.layout = new Layout(rows, heightPx);
    this.layout.scroll(scrollPx);
    this.focusedRow = Math.min(this.focusedRow, rows.length - 1);
    this.tip.hidden = true;
    // The text alternative names each row; long lists are cut
    this.summary.replaceChildren(
      ...rows.slice(0, 60).map((row) => {
        const item = document.createElement("li");
        item.textContent = describeRow(row);
        return item;
      }),
    );
    this.isStale = true;
  }

  keepValues(row: CurveRow, like: CurveRow): void {
    this.values.set(row, this.valueAxis(like));
  }

  private ask(): void {
    if (this.isAsked === 0) this.isAsked = requestAnimationFrame(() => this.draw());
  }

  /** What a screen reader is told of the playhead. */
  private speak(nowMs: number): void {
    this.spokenAt = nowMs;
    const { playheadS, rateHz, durationS, rows } = this.model;
    this.canvas.setAttribute("aria-valuenow", playheadS.toFixed(2));
    this.canvas.setAttribute("aria-valuemax", durationS.toFixed(2));
    const row = rows[this.focusedRow];
    const here = row === undefined ? "" : `; ${row.label}: ${textAt(row, playheadS) || "nothing here"}`;
    this.canvas.setAttribute("aria-valuetext", `${playheadS.toFixed(2)} seconds, frame ${Math.round(playheadS * rateHz)}${here}`);
  }

  // ------------------------------------------------------------------ pointer

  private listen(): void {
    const { canvas, axis } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (this.drag !== null) return;
      const isPan = event.button === 1 || (event.button === 0 && event.altKey);
      if (event.button !== 0 && !isPan) return;
      canvas.setPointerCapture(event.pointerId);
      canvas.focus({ preventScroll: true });
      const hit = hitTest(this.state(), event.offsetX, event.offsetY, event.pointerType === "touch" ? 14 : 5);
      this.drag = isPan ? this.drags.dragView(event) : this.drags.begin(hit, event);
      if (isPan) event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag?.pointer === event.pointerId) this.drag.move(event.offsetX, event.offsetY, event.altKey);
      else if (this.drag === null) this.hover(event);
    });
    const finish = (event: PointerEvent, isLost: boolean): void => {
      if (this.drag?.pointer !== event.pointerId) return;
      if (isLost) this.drag.cancel();
      else this.drag.end();
      this.finish();
    };
    canvas.addEventListener("pointerup", (event) => finish(event, false));
    canvas.addEventListener("pointercancel", (event) => finish(event, true));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("dblclick", (event) => this.open(hitTest(this.state(), event.offsetX, event.offsetY), axis.toSeconds(event.offsetX)));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const isLabel = event.offsetX < axis.leftPx;
        const turn = event.deltaMode === 1 ? 16 : 1;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
          axis.pan((((event.deltaX || event.deltaY) * turn) / 500) * axis.spanS);
        } else if (isLabel || event.ctrlKey) this.layout.scroll(event.deltaY * turn);
        else axis.zoom(Math.exp((event.deltaY * turn) / 400), event.offsetX);
        this.redraw();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.press(event));
    canvas.addEventListener("blur", () => this.focusRow(-1));
  }

  private finish(): void {
    this.drag = null;
    this.drags.box = this.drags.snapS = null;
    this.change(this.waiting === null ? {} : { rows: this.waiting });
    this.waiting = null;
  }

  private hover(event: PointerEvent): void {
    const { canvas, tip } = this;
    const hit = hitTest(this.state(), event.offsetX, event.offsetY);
    const text = this.describe(hit, this.axis.toSeconds(event.offsetX));
    canvas.style.cursor = this.cursor(hit);
    tip.textContent = text;
    tip.hidden = text === "";
    if (text !== "") {
      const theme = this.theme();
      Object.assign(tip.style, { color: theme.ink, background: theme.panel, borderColor: theme.line });
      tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, canvas.clientWidth - 290))}px`;
      // Above the pointer where there is room, else below
      tip.style.top = event.offsetY > canvas.clientHeight / 2 ? "" : `${event.offsetY + 18}px`;
      tip.style.bottom = event.offsetY > canvas.clientHeight / 2 ? `${canvas.clientHeight - event.offsetY + 10}px` : "";
    }
  }

  private cursor(hit: Hit): string {
    const { events } = this;
    if (hit.part === "range" && events.onRange) return "ew-resize";
    if (hit.part === "key") return "pointer";
    if (hit.part === "slope" && events.onCurveSlope) return "grab";
    if (hit.part === "blend" || hit.part === "loop") return events.onStrip ? "ew-resize" : "default";
    if (hit.part === "item") {
      const { kind } = this.model.rows[hit.row];
      if (kind === "contacts" && hit.edge !== null && events.onContactEdge) return "ew-resize";
      if (kind === "strips" && events.onStrip) return hit.edge === null ? "grab" : "ew-resize";
    }
    return hit.part === "label" || hit.part === "bar" ? "default" : "col-resize";
  }

  private describe(hit: Hit, timeS: number): string {
    if (!("row" in hit)) return "";
    const row = this.model.rows[hit.row];
    if (hit.part === "label") return describeRow(row);
    if (hit.part === "blend") return "drag: length of the cross-fade with the strip before";
    if (hit.part === "loop") return "drag: how often the strip repeats";
    if (hit.part === "slope") return "drag: slope of the curve at this key; click: as its neighbours tell";
    if (hit.part === "key" && row.kind === "curve") {
      const keys = row.channels[hit.channel].keys!;
      return `${row.label} ${row.channels[hit.channel].name}: ${keys.values[hit.index].toPrecision(4)} ${row.unit} at ${keys.times[hit.index].toFixed(3)} s`;
    }
    if (hit.part === "key") return `${row.label}: key at ${(row as KeyRow).times[hit.index].toFixed(3)} s, frame ${Math.round((row as KeyRow).times[hit.index] * this.model.rateHz)}`;
    if (hit.part === "item" && row.kind === "events") return `${row.texts[hit.index]} at ${row.times[hit.index].toFixed(2)} s`;
    if (hit.part === "item" && (row.kind === "bands" || row.kind === "contacts")) return textOf(row, hit.index);
    return textAt(row, timeS);
  }

  /** A double click: a stretch becomes the range, a row gets a key, the ruler shows all. */
  private open(hit: Hit, timeS: number): void {
    if (hit.part === "ruler") this.show();
    if (hit.part === "item") {
      const row = this.model.rows[hit.row];
      if (row.kind === "bands" || row.kind === "contacts") this.setRange([row.starts[hit.index], row.stops[hit.index]]);
    }
    if (hit.part === "empty") this.addKey(this.model.rows[hit.row], timeS);
  }

  private addKey(row: Row | undefined, timeS: number): void {
    if (row?.kind === "keys" || row?.kind === "curve" || row?.kind === "events") this.events.onAddKey?.(row, this.toFrame(timeS));
  }

  private toFrame(timeS: number): number {
    const { rateHz, durationS } = this.model;
    return Math.min(Math.max(Math.round(timeS * rateHz) / rateHz, 0), durationS);
  }

  setRange(range: [number, number] | null): void {
    const isSome = range !== null && range[1] > range[0];
    this.change({ rangeS: isSome ? range : null });
    this.events.onRange?.(this.model.rangeS);
  }

  // ------------------------------------------------------------------ keys

  focusRow(row: number): void {
    if (row === this.focusedRow) return;
    this.focusedRow = row;
    if (row >= 0) this.layout.reveal(row);
    this.spokenAt = 0;
    this.redraw();
  }

  private seek(timeS: number): void {
    this.change({ playheadS: Math.min(Math.max(timeS, 0), this.model.durationS) });
    this.axis.reveal(this.model.playheadS);
    this.spokenAt = 0;
    this.redraw();
    this.events.onScrub?.(this.model.playheadS, "end");
  }

  /** Do what a key says. */
  press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey) return;
    const { model, axis } = this;
    const { playheadS, durationS, rateHz, rangeS } = model;
    const step = (way: number): void => {
      const frames = way * (event.shiftKey ? 10 : 1);
      if (event.altKey) this.nudge(frames / rateHz);
      else this.seek((Math.round(playheadS * rateHz) + frames) / rateHz);
    };
    const zoom = (factor: number): void => {
      axis.zoom(factor, axis.toPixels(Math.min(Math.max(playheadS, axis.startS), axis.stopS)));
      this.redraw();
    };
    const keys: Record<string, () => void> = {
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      ArrowUp: () => this.focusRow(Math.max(0, this.focusedRow - 1)),
      ArrowDown: () => this.focusRow(Math.min(model.rows.length - 1, this.focusedRow + 1)),
      Home: () => this.seek(rangeS?.[0] ?? 0),
      End: () => this.seek(rangeS?.[1] ?? durationS),
      "[": () => this.jump(-1),
      "]": () => this.jump(1),
      i: () => this.setRange([playheadS, rangeS?.[1] ?? durationS]),
      o: () => this.setRange([rangeS?.[0] ?? 0, playheadS]),
      x: () => this.setRange(null),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1 / 0.7),
      a: () => this.show(),
      Enter: () => this.addKey(model.rows[this.focusedRow], playheadS),
      Delete: () => this.events.onDelete?.(model.selection),
      Backspace: () => this.events.onDelete?.(model.selection),
      Escape: () => {
        if (this.drag !== null) {
          this.drag.cancel();
          this.finish();
        } else this.change({ selection: NOTHING });
      },
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    // What this timeline cannot do belongs to the page
    const isMine = act !== undefined && (!"iox".includes(event.key.toLowerCase()) || this.events.onRange !== undefined);
    if (!isMine) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** Select the next or previous thing of the focused row: a contact's end, a key, a stretch, a strip, an event. */
  private jump(way: 1 | -1): void {
    const row = this.model.rows[this.focusedRow];
    if (row === undefined) return;
    const times = rowTimes(row);
    const { playheadS, rateHz } = this.model;
    const spare = 0.25 / rateHz;
    const at = way > 0 ? lowerBound(times, playheadS + spare) : lowerBound(times, playheadS - spare) - 1;
    if (at < 0 || at >= times.length) return;
    if (row.kind === "contacts") this.change({ selection: { keys: new Map(), item: { row: row.id, index: at >> 1, edge: at % 2 === 0 ? "start" : "stop" } } });
    else if (row.kind === "keys") this.change({ selection: { keys: new Map([[row.id, Int32Array.of(at)]]), item: null } });
    else if (row.kind === "strips") {
      const index = row.strips.findIndex((strip) => strip.start_s === times[at] || stripStop(strip) === times[at]);
      this.change({ selection: { keys: new Map(), item: { row: row.id, index, edge: null } } });
    }
    this.seek(times[at]);
  }

  /** Move what is selected by frames, as a drag of one step. */
  private nudge(dtS: number): void {
    const { rows, selection } = this.model;
    const index = rows.findIndex((row) => row.id === selection.item?.row);
    const [row, item] = [rows[index], selection.item];
    for (const phase of ["begin", "end"] as const) {
      if (selection.keys.size > 0) this.drags.shift(rows, selection, dtS, 0, phase);
      else if (row?.kind === "contacts" && item !== null && item.edge !== null && this.events.onContactEdge) {
        const timeS = this.toFrame((item.edge === "start" ? row.starts : row.stops)[item.index] + dtS);
        this.drags.setEdge(index, row, item.index, item.edge, timeS, phase);
      } else if (row?.kind === "strips" && item !== null && this.events.onStrip) {
        const change = dragStrip(row.strips, item.index, "move", row.strips[item.index].start_s + dtS, 1 / this.model.rateHz);
        this.drags.setStrip(index, row, item.index, change, phase);
      }
    }
  }
}

/** What a row says of one of its stretches. */
function textOf(row: Row, index: number): string {
  if (row.kind === "bands") return `${row.starts[index].toFixed(2)} to ${row.stops[index].toFixed(2)} s: ${row.texts[index]}${index === row.worst ? " (worst)" : ""}`;
  if (row.kind === "contacts") return `${row.label} touches from ${row.starts[index].toFixed(2)} to ${row.stops[index].toFixed(2)} s`;
  return "";
}

/** What a row says of a moment. */
function textAt(row: Row, timeS: number): string {
  if (row.kind === "bands" || row.kind === "contacts") {
    const run = runAt(row.starts, row.stops, timeS);
    return run < 0 ? "" : textOf(row, run);
  }
  if (row.kind === "strips") {
    const strip = row.strips.filter((each) => each.start_s <= timeS && timeS < stripStop(each)).at(-1);
    return strip === undefined ? "" : `${strip.name}: ${strip.in_s.toFixed(2)} to ${strip.out_s.toFixed(2)} s of the take, from ${strip.start_s.toFixed(2)} s on`;
  }
  if (row.kind !== "curve") return "";
  return `${row.channels.map((channel) => `${channel.name} ${valueAt(channel, timeS).toPrecision(3)}`).join(", ")} ${row.unit}`;
}
