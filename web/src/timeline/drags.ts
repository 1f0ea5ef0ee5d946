/** Drags on the timeline: each shows an edit of its row and tells the page of it; Escape gives the old row back. */

import { keyCurve, lowerBound, moveCurveKeys, moveTimes, setSlope, valueAt } from "../curves/channel";
import type { TimeAxis } from "./axis";
import { boxSelect, type Hit, keyList, type Layout, nearest, type Scene, type ValueAxis } from "./layout";
import {
  type ContactRow, type CurveRow, type Edge, type EventRow, type KeyRow, NOTHING, type Phase, type Row, rowTimes, type Selection, type Strip, type StripRow,
  stripStop, type TimelineEvents, type TimelineModel,
} from "./model";

const SNAP_PX = 7;
const CLICK_PX = 3; // a pointer that moves less is a click

/** A drag under way: what the pointer's moves and its end do. */
export interface Drag {
  pointer: number;
  move(x: number, y: number, isFree: boolean): void;
  end(): void;
  cancel(): void;
}

/** What drags need of the timeline they belong to. */
export interface DragView {
  readonly axis: TimeAxis;
  readonly layout: Layout;
  readonly model: Readonly<TimelineModel>;
  readonly events: TimelineEvents;
  state(): Scene;
  valueAxis(row: CurveRow): ValueAxis;
  keepValues(row: CurveRow, like: CurveRow): void;
  change(change: Partial<TimelineModel>): void;
  redraw(): void;
  setRange(range: [number, number] | null): void;
  focusRow(row: number): void;
}

export class Drags {
  box: [number, number, number, number] | null = null; // of a selection [px]
  snapS: number | null = null; // what the pointer snapped to

  constructor(private readonly view: DragView) {}

  begin(hit: Hit, event: PointerEvent): Drag {
    const { events, model } = this.view;
    const row = "row" in hit ? model.rows[hit.row] : null;
    const canSelect = events.onKeyMove ?? events.onCurveKey ?? events.onDelete;
    if (hit.part === "range" && events.onRange) return this.dragRange(hit.edge, event);
    if (hit.part === "bar") return this.dragBar(event);
    if (hit.part === "label") {
      this.view.focusRow(hit.row);
      return this.dragView(event);
    }
    if (hit.part === "slope" && events.onCurveSlope) return this.dragSlope(hit, event);
    if (hit.part === "key" && canSelect) return this.dragKeys(hit, event);
    if (hit.part === "item" && row?.kind === "contacts") {
      if (hit.edge !== null && events.onContactEdge) return this.dragEdge(hit.row, row, hit.index, hit.edge, event);
      this.view.change({ selection: { keys: new Map(), item: { row: row.id, index: hit.index, edge: null } } });
    }
    if (hit.part === "item" && row?.kind === "events" && events.onEvent) return this.dragEvent(hit.row, row, hit.index, event);
    if ((hit.part === "item" || hit.part === "blend" || hit.part === "loop") && row?.kind === "strips") {
      this.view.change({ selection: { keys: new Map(), item: { row: row.id, index: hit.index, edge: null } } });
      const part: StripDrag = hit.part !== "item" ? hit.part : hit.edge === null ? "move" : `trim-${hit.edge}`;
      if (events.onStrip) return this.dragStrip(hit.row, row, hit.index, part, event);
    }
    if (hit.part === "empty" && row?.kind === "curve" && events.onCurvePull) {
      const pull = this.pullCurve(row, hit.row, event);
      if (pull !== null) return pull;
    }
    if (hit.part === "empty" && canSelect && (row?.kind === "keys" || row?.kind === "curve")) return this.dragBox(event);
    return this.scrub(event);
  }

  /** A drag whose first move sends "begin"; a click that does not move sends nothing. */
  private track(event: PointerEvent, tell: (x: number, y: number, isFree: boolean, phase: Phase) => void, undo: () => void, click = (): void => {}): Drag {
    const [x0, y0] = [event.offsetX, event.offsetY];
    let [x, y, isFree, isMoving] = [x0, y0, false, false];
    return {
      pointer: event.pointerId,
      move: (toX, toY, free) => {
        [x, y, isFree] = [toX, toY, free];
        if (!isMoving && Math.hypot(x - x0, y - y0) < CLICK_PX) return;
        tell(x, y, isFree, isMoving ? "move" : "begin");
        isMoving = true;
      },
      end: () => (isMoving ? tell(x, y, isFree, "end") : click()),
      cancel: () => {
        if (!isMoving) return;
        undo();
        tell(x0, y0, true, "cancel");
      },
    };
  }

  private snapper(isDragged: (row: Row, timeS: number) => boolean = () => false): (timeS: number, isFree: boolean) => number {
    const { axis, model } = this.view;
    const spare = axis.spanS;
    const extra = [model.playheadS, ...(model.rangeS ?? [])];
    const candidates = snapCandidates(model.rows, extra, axis.startS - spare, axis.stopS + spare, isDragged);
    return (timeS, isFree) => {
      if (isFree) return timeS;
      const to = snapTime(timeS, candidates, SNAP_PX / axis.pixelsPerSecond, model.rateHz);
      this.snapS = candidates[lowerBound(candidates, to)] === to ? to : null;
      return to;
    };
  }

  private scrub(event: PointerEvent): Drag {
    const seek = (x: number, phase: Phase): void => {
      const { axis, model } = this.view;
      const timeS = Math.min(Math.max(axis.toSeconds(x), 0), model.durationS);
      // A drag beyond the edge moves the view
      if (axis.reveal(timeS)) this.view.redraw();
      this.view.change({ playheadS: timeS });
      this.view.events.onScrub?.(timeS, phase);
    };
    let last = event.offsetX;
    if (this.view.model.selection.keys.size > 0 || this.view.model.selection.item !== null) this.view.change({ selection: NOTHING });
    seek(last, "begin");
    return { pointer: event.pointerId, move: (x) => seek((last = x), "move"), end: () => seek(last, "end"), cancel: () => seek(last, "end") };
  }

  dragView(event: PointerEvent): Drag {
    const { axis } = this.view;
    let [x0, y0] = [event.offsetX, event.offsetY];
    const move = (x: number, y: number): void => {
      axis.pan((x0 - x) / axis.pixelsPerSecond);
      this.view.layout.scroll(y0 - y);
      [x0, y0] = [x, y];
      this.view.redraw();
    };
    return { pointer: event.pointerId, move, end: () => {}, cancel: () => {} };
  }

  private dragBar(event: PointerEvent): Drag {
    const { axis } = this.view;
    const move = (x: number): void => {
      const centre = ((x - axis.leftPx) / Math.max(1, axis.widthPx - axis.leftPx)) * axis.wholeS;
      axis.pan(centre - 0.5 * axis.spanS - axis.startS);
      this.view.redraw();
    };
    move(event.offsetX);
    return { pointer: event.pointerId, move, end: () => {}, cancel: () => {} };
  }

  private dragRange(edge: Edge, event: PointerEvent): Drag {
    const old = this.view.model.rangeS!;
    const snap = this.snapper((_, timeS) => timeS === old[edge === "start" ? 0 : 1]);
    return this.track(
      event,
      (x, _, isFree) => {
        const timeS = Math.min(Math.max(snap(this.view.axis.toSeconds(x), isFree), 0), this.view.model.durationS);
        this.view.setRange(edge === "start" ? [Math.min(timeS, old[1] - 1 / this.view.model.rateHz), old[1]] : [old[0], Math.max(timeS, old[0] + 1 / this.view.model.rateHz)]);
      },
      () => this.view.setRange(old),
    );
  }

  private dragEdge(index: number, old: ContactRow, run: number, edge: Edge, event: PointerEvent): Drag {
    const was = (edge === "start" ? old.starts : old.stops)[run];
    const snap = this.snapper((row, timeS) => row.id === old.id && timeS === was);
    this.view.change({ selection: { keys: new Map(), item: { row: old.id, index: run, edge } } });
    const grabS = this.view.axis.toSeconds(event.offsetX) - was;
    return this.track(
      event,
      (x, _, isFree, phase) => {
        if (phase === "cancel") return this.view.events.onContactEdge!(old, run, edge, was, phase);
        this.setEdge(index, old, run, edge, snap(this.view.axis.toSeconds(x) - grabS, isFree), phase);
      },
      () => this.preview(index, old),
    );
  }

  setEdge(index: number, old: ContactRow, run: number, edge: Edge, timeS: number, phase: Phase): void {
    const row = moveEdge(old, run, edge, timeS, 1 / this.view.model.rateHz, this.view.model.durationS);
    this.preview(index, row);
    this.view.events.onContactEdge!(old, run, edge, (edge === "start" ? row.starts : row.stops)[run], phase);
  }

  private dragEvent(index: number, old: EventRow, which: number, event: PointerEvent): Drag {
    const snap = this.snapper((row, timeS) => row.id === old.id && timeS === old.times[which]);
    this.view.change({ selection: { keys: new Map(), item: { row: old.id, index: which, edge: null } } });
    return this.track(
      event,
      (x, _, isFree, phase) => {
        const timeS = phase === "cancel" ? old.times[which] : Math.min(Math.max(snap(this.view.axis.toSeconds(x), isFree), 0), this.view.model.durationS);
        if (phase !== "cancel") {
          const pairs = old.texts.map((text, i) => [i === which ? timeS : old.times[i], text] as const).sort((a, b) => a[0] - b[0]);
          this.preview(index, { ...old, times: Float64Array.from(pairs, (p) => p[0]), texts: pairs.map((p) => p[1]) });
        }
        this.view.events.onEvent!(old, which, timeS, phase);
      },
      () => this.preview(index, old),
      () => this.view.events.onScrub?.(old.times[which], "end"),
    );
  }

  private dragStrip(index: number, old: StripRow, which: number, part: StripDrag, event: PointerEvent): Drag {
    const strip = old.strips[which];
    const own = [strip.start_s, stripStop(strip)];
    const snap = this.snapper((row, timeS) => row.id === old.id && own.includes(timeS));
    // Where the held part lies: the start, the end, or the end of the blend
    const heldS = part === "move" || part === "trim-start" ? own[0] : part === "blend" ? strip.start_s + strip.blend_s : own[1];
    const grabS = this.view.axis.toSeconds(event.offsetX) - heldS;
    return this.track(
      event,
      (x, _, isFree, phase) => {
        if (phase === "cancel") return this.view.events.onStrip!(old, strip.id, {}, phase);
        let timeS = snap(this.view.axis.toSeconds(x) - grabS, isFree);
        if (part === "move" && !isFree && this.snapS === null) {
          // The end may snap as well as the start
          const lengthS = own[1] - own[0];
          const stop = snap(timeS + lengthS, isFree);
          if (this.snapS !== null) timeS = stop - lengthS;
        }
        this.setStrip(index, old, which, dragStrip(old.strips, which, part, timeS, 1 / this.view.model.rateHz), phase);
      },
      () => this.preview(index, old),
    );
  }

  setStrip(index: number, old: StripRow, which: number, change: Partial<Strip>, phase: Phase): void {
    this.preview(index, { ...old, strips: old.strips.map((each, i) => (i === which ? { ...each, ...change } : each)) });
    this.view.events.onStrip!(old, old.strips[which].id, change, phase);
  }

  private dragKeys(hit: Extract<Hit, { part: "key" }>, event: PointerEvent): Drag {
    const row = this.view.model.rows[hit.row] as KeyRow | CurveRow;
    const list = keyList(row, hit.channel);
    const before = this.view.model.selection;
    const chosen = new Set(before.keys.get(list));
    const isAdding = event.shiftKey || event.ctrlKey || event.metaKey;
    const wasChosen = chosen.has(hit.index);
    if (isAdding && wasChosen) chosen.delete(hit.index);
    else chosen.add(hit.index);
    if (isAdding || !wasChosen) {
      const keys = new Map(isAdding ? before.keys : []);
      keys.set(list, Int32Array.from(isAdding ? chosen : [hit.index]).sort());
      this.view.change({ selection: { keys, item: null } });
    }
    const only = { keys: new Map([[list, Int32Array.of(hit.index)]]), item: null };
    const click = (): void => {
      if (wasChosen && !isAdding) this.view.change({ selection: only });
    };
    const { rows, selection } = this.view.model;
    const times = row.kind === "keys" ? row.times : row.channels[hit.channel].keys!.times;
    const isMovable = row.kind === "keys" ? this.view.events.onKeyMove : this.view.events.onCurveKey;
    if (!isMovable) return this.track(event, () => {}, () => {}, click);
    const snap = this.snapper((r, timeS) => timeS === times[hit.index] && r.id === row.id);
    const values = row.kind === "curve" ? this.view.valueAxis(row) : null;
    const [x0, y0] = [event.offsetX, event.offsetY];
    return this.track(
      event,
      (x, y, isFree, phase) => {
        const grabbed = times[hit.index];
        const free = grabbed + (x - x0) / this.view.axis.pixelsPerSecond;
        const dtS = phase === "cancel" ? 0 : snap(free, isFree) - grabbed;
        // Shift holds a curve's key to its time
        const dv = values === null || phase === "cancel" ? 0 : (y0 - y) / values.pixelsPerUnit;
        this.shift(rows, selection, dtS, dv, phase);
      },
      () => {
        this.view.change({ rows, selection });
      },
      click,
    );
  }

  /** Turn the tangent of a key; a click on its end leaves the slope to the neighbours again. */
  private dragSlope({ row: at, channel, index, side }: Extract<Hit, { part: "slope" }>, event: PointerEvent): Drag {
    const { axis, layout, model } = this.view;
    const row = model.rows[at] as CurveRow;
    const keys = row.channels[channel].keys!;
    const values = this.view.valueAxis(row).at(layout.top(at));
    const tell = (slope: number, phase: Phase): void => {
      const channels = row.channels.map((each, i) => (i === channel && phase !== "cancel" ? { ...each, keys: setSlope(keys, index, slope) } : each));
      this.preview(at, { ...row, channels });
      this.view.events.onCurveSlope!(row, channel, index, slope, phase);
    };
    return this.track(
      event,
      (x, y, _, phase) => {
        // An end stays on its side of the key
        const dtS = Math.max(side * (x - axis.toPixels(keys.times[index])), 3) / axis.pixelsPerSecond;
        tell((side * (values.toPixels(keys.values[index]) - y)) / values.pixelsPerUnit / dtS, phase);
      },
      () => {},
      () => tell(Number.NaN, "end"),
    );
  }

  /** Pull a sampled curve at the pointer's time; the playhead goes there, and the page shows what follows. */
  private pullCurve(row: CurveRow, at: number, event: PointerEvent): Drag | null {
    const { axis, layout, model, events } = this.view;
    const values = this.view.valueAxis(row).at(layout.top(at));
    const timeS = Math.min(Math.max(Math.round(axis.toSeconds(event.offsetX) * model.rateHz) / model.rateHz, 0), model.durationS);
    const gaps = row.channels.map((channel) => (channel.samples === null ? Infinity : Math.abs(values.toPixels(valueAt(channel, timeS)) - event.offsetY)));
    const channel = gaps.indexOf(Math.min(...gaps));
    if (!(gaps[channel] <= SNAP_PX)) return null;
    this.view.change({ playheadS: timeS });
    events.onScrub?.(timeS, "end");
    const tell = (dv: number, phase: Phase): void => {
      const own = row.channels[channel];
      const held = valueAt(own, timeS) + dv;
      // Where the curve will go through, until the motion has been made
      const mark = { ...own, samples: null, keys: keyCurve(Float64Array.of(timeS), Float64Array.of(held)) };
      this.preview(at, phase === "cancel" ? row : { ...row, channels: [...row.channels, mark] });
      events.onCurvePull!(row, channel, timeS, dv, phase);
    };
    return this.track(event, (_x, y, _isFree, phase) => tell(phase === "cancel" ? 0 : (event.offsetY - y) / values.pixelsPerUnit, phase), () => this.preview(at, row));
  }

  /** Move the selected keys of all rows from what they were, and tell of it. */
  shift(rows: readonly Row[], selection: Selection, dtS: number, dv: number, phase: Phase): void {
    const { durationS } = this.view.model;
    const moves: { row: KeyRow; keys: Int32Array }[] = [];
    let dt = dtS;
    const listsOf = (row: Row): [Int32Array, Float64Array, number][] => {
      const all = row.kind === "keys" ? [row.times] : row.kind === "curve" ? row.channels.map((channel) => channel.keys?.times) : [];
      return all.flatMap((times, i) => {
        const channel = row.kind === "curve" ? i : -1;
        const keys = selection.keys.get(keyList(row, channel));
        return keys === undefined || times === undefined ? [] : [[keys, times, channel] as [Int32Array, Float64Array, number]];
      });
    };
    for (const row of rows) for (const [keys, times] of listsOf(row)) dt = limitShift(times, keys, dt, durationS);
    const kept = new Map<string, Int32Array>();
    const shown = rows.map((row) => {
      let now = row;
      for (const [keys, times, channel] of listsOf(row)) {
        if (row.kind === "keys") {
          moves.push({ row, keys });
          const moved = moveTimes(times, keys, dt);
          kept.set(keyList(row), moved.selected);
          now = { ...row, times: moved.times };
        } else if (now.kind === "curve") {
          const moved = moveCurveKeys(now.channels[channel].keys!, keys, dt, dv);
          kept.set(keyList(row, channel), moved.selected);
          now = { ...now, channels: now.channels.map((each, i) => (i === channel ? { ...each, keys: moved.keys } : each)) };
          this.view.keepValues(now, row as CurveRow);
          this.view.events.onCurveKey?.(row as CurveRow, channel, keys, dt, dv, phase);
        }
      }
      return now;
    });
    this.view.change({ rows: shown, selection: { keys: kept, item: null } });
    if (moves.length > 0) this.view.events.onKeyMove?.(moves, dt, phase);
  }

  private dragBox(event: PointerEvent): Drag {
    const base = event.shiftKey ? this.view.model.selection.keys : new Map<string, Int32Array>();
    const { selection } = this.view.model;
    const [x0, y0] = [event.offsetX, event.offsetY];
    return this.track(
      event,
      (x, y, _, phase) => {
        this.box = [x0, y0, x, y];
        const found = boxSelect(this.view.state(), x0, y0, x, y);
        const keys = new Map(base);
        for (const [list, indices] of found) keys.set(list, Int32Array.from(new Set([...(base.get(list) ?? []), ...indices])).sort());
        if (phase === "end") return this.view.change({ selection: { keys, item: null } });
        // The selection is told once, at the end
        this.view.change({ selection: { keys, item: null } });
      },
      () => this.view.change({ selection }),
      () => {
        this.view.change({ selection: NOTHING });
        this.scrub(event).end();
      },
    );
  }

  /** Show one row as it would be. */
  private preview(index: number, row: Row): void {
    const { rows } = this.view.model;
    if (row.kind === "curve") this.view.keepValues(row, rows[index] as CurveRow); // a drag does not zoom
    this.view.change({ rows: rows.map((old, i) => (i === index ? row : old)) });
  }
}

/** Nearest of sorted candidates within a reach, else the nearest frame. */
export function snapTime(timeS: number, candidates: Float64Array, reachS: number, rateHz: number): number {
  const near = nearest(candidates, timeS, reachS);
  return near < 0 ? Math.round(timeS * rateHz) / rateHz : candidates[near];
}

/** Times worth snapping to: the playhead, the range, and what is visible of every row except what is dragged. */
export function snapCandidates(rows: readonly Row[], extra: number[], fromS: number, toS: number, isDragged: (row: Row, timeS: number) => boolean): Float64Array {
  const found = [...extra];
  for (const row of rows) {
    const times = rowTimes(row);
    const [first, last] = [lowerBound(times, fromS), lowerBound(times, toS)];
    // Where hundreds are visible, a snap to each would be a snap to none
    if (last - first > 400) continue;
    for (let i = first; i < last; i++) if (!isDragged(row, times[i])) found.push(times[i]);
  }
  return Float64Array.from(found).sort();
}

/** Another end of a contact: at least a frame long, and at least a frame away from the next contact. */
export function moveEdge(row: ContactRow, run: number, edge: Edge, timeS: number, frameS: number, durationS: number): ContactRow {
  const { starts, stops } = row;
  const moved = edge === "start" ? starts.slice() : stops.slice();
  const [least, most] =
    edge === "start"
      ? [run > 0 ? stops[run - 1] + frameS : 0, stops[run] - frameS]
      : [starts[run] + frameS, run + 1 < starts.length ? starts[run + 1] - frameS : durationS];
  // An end that already breaks the limits (touching runs of a file) may stay where it is
  moved[run] = Math.min(Math.max(timeS, Math.min(least, moved[run])), Math.max(most, moved[run]));
  return edge === "start" ? { ...row, starts: moved } : { ...row, stops: moved };
}

/** The part of a shift that keeps keys on the timeline. */
export function limitShift(times: Float64Array, selected: Int32Array, dtS: number, durationS: number): number {
  if (selected.length === 0) return dtS;
  const [first, last] = [times[selected[0]], times[selected[selected.length - 1]]];
  return Math.min(Math.max(dtS, -first), Math.max(0, durationS - last));
}

type StripDrag = "move" | "trim-start" | "trim-stop" | "loop" | "blend";

/** What a drag of a strip to a time changes: `timeS` is where the held part (start, end or tab) should lie. */
export function dragStrip(strips: readonly Strip[], index: number, drag: StripDrag, timeS: number, frameS: number): Partial<Strip> {
  const strip = strips[index];
  const length = strip.out_s - strip.in_s;
  const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), Math.max(low, high));
  if (drag === "move") {
    const start_s = Math.max(0, timeS);
    // Where the strip now overlaps the one before, the overlap is the cross-fade
    const before = strips.filter((other, i) => i !== index && other.start_s <= start_s).map(stripStop);
    const overlap = Math.max(0, ...before) - start_s;
    return overlap > 0 ? { start_s, blend_s: Math.min(overlap, length * strip.loop) } : { start_s };
  }
  if (drag === "trim-start") {
    const shift = clamp(timeS - strip.start_s, Math.max(-strip.in_s, -strip.start_s), length - frameS);
    return { start_s: strip.start_s + shift, in_s: strip.in_s + shift };
  }
  if (drag === "trim-stop") return { out_s: clamp(strip.in_s + (timeS - strip.start_s) / strip.loop, strip.in_s + frameS, strip.take_s ?? Infinity) };
  if (drag === "blend") return { blend_s: clamp(timeS - strip.start_s, 0, length * strip.loop) };
  const loop = Math.max(1, (timeS - strip.start_s) / length);
  // Whole turns hold
  return { loop: Math.abs(loop - Math.round(loop)) < 0.08 ? Math.round(loop) : loop };
}
