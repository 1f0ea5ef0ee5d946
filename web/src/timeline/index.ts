export { TimeAxis } from "./axis";
export type { Phase, TimelineEvents } from "./events";
export { type BandRow, type ContactRow, type CurveRow, type Edge, type EventRow, type KeyRow, type Level, NOTHING, type Row, type Selection, type Strip, type StripRow, stripStop, type TimelineModel } from "./model";
export { bandRow, clipRows, eventRow, keyedChannels, keyRow, sampledChannels, stripRow, type TimedClip } from "./rows";
export { DARK, LIGHT, type Theme } from "./theme";
export { Timeline } from "./timeline";
