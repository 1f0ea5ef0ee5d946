/** What the timeline tells the page that holds it. */

import type { ContactRow, CurveRow, Edge, EventRow, KeyRow, Selection, Strip, StripRow } from "./model";

export type Phase = "begin" | "move" | "end" | "cancel";

/** What the timeline tells. Every member may be absent: then that thing cannot be changed by the pointer or by keys. */
export interface TimelineEvents {
  onScrub?(timeS: number, phase: Phase): void;
  onRange?(range: [number, number] | null): void;
  onContactEdge?(row: ContactRow, run: number, edge: Edge, timeS: number, phase: Phase): void;
  onKeyMove?(moves: { row: KeyRow; keys: Int32Array }[], dtS: number, phase: Phase): void;
  onStrip?(row: StripRow, strip: string, change: Partial<Strip>, phase: Phase): void;
  onCurveKey?(row: CurveRow, channel: number, keys: Int32Array, dtS: number, dv: number, phase: Phase): void;
  /** A slope by its tangent; NaN leaves it to the neighbours again. */
  onCurveSlope?(row: CurveRow, channel: number, key: number, slope: number, phase: Phase): void;
  /** A sampled curve pulled up or down at one time, by so much of its unit. */
  onCurvePull?(row: CurveRow, channel: number, timeS: number, dv: number, phase: Phase): void;
  onEvent?(row: EventRow, index: number, timeS: number, phase: Phase): void;
  onAddKey?(row: KeyRow | CurveRow | EventRow, timeS: number): void;
  onDelete?(selection: Selection): void;
  onSelect?(selection: Selection): void;
  onHover?(text: string): void;
}
