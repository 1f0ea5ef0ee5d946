export { TimeAxis } from "./axis";
export { DARK, LIGHT, type Theme } from "./draw";
export { type BandRow, type ContactRow, type CurveRow, type Edge, type EventRow, type KeyRow, type Level, NOTHING, type Phase, type Row, type Selection, type Strip, type StripRow, stripStop, type TimelineEvents, type TimelineModel } from "./model";
export { bandRow, clipRows, eventRow, keyedChannels, keyRow, sampledChannels, stripRow, type TimedClip } from "./rows";
export { Timeline } from "./timeline";
