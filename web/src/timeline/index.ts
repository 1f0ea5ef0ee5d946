export { TimeAxis } from "./axis";
export { DARK, LIGHT, type Theme } from "./draw";
export { clipRows, type CurveRow, eventRow, keyedChannels, keyRow, type Phase, type Row, sampledChannels, type Selection, type Strip, stripRow, stripStop, type TimelineEvents } from "./model";
export { Timeline } from "./timeline";
