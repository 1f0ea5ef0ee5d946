/** Every command of the shell once: the palette lists them, the sheet shows their keys, the keyboard runs them. */

import type { Overlays } from "../project/session";
import type { View } from "../viewer/stage";
import { type Area, areaOf, changeArea, movePanel, openTool, type PanelId, PLAIN_LAYOUT, showPanel, type Studio, toolKeys } from "./context";
import { chooseFiles } from "./files";
import { isDark, themeChoice } from "./theme";

export interface Command {
  id: string;
  title: string;
  group: "Play" | "Project" | "Tools" | "View" | "Panels" | "Help";
  icon?: string;
  /** Keys as people read them, such as "Ctrl+Z" or "Space"; several by comma. */
  keys?: string;
  isEnabled?: () => boolean;
  run: () => void;
}

export const OVERLAYS: [keyof Overlays, title: string, icon: string, keys?: string][] = [
  ["joints", "Joints", "joints", "Shift+J"],
  ["trails", "Trails", "trails", "Shift+T"],
  ["onion", "Onion skins", "onion", "Shift+O"],
  ["ghost", "Ghost of the source", "ghost", "Shift+G"],
  ["com", "Centre of mass and support", "com", "Shift+M"],
  ["forces", "Forces", "forces", "Shift+F"],
  ["world", "World", "world", "Shift+W"],
  ["skin", "Skinned character", "skin", "Shift+S"],
];

export const VIEWS: [View, title: string, key: string][] = [["front", "Front", "1"], ["side", "Side", "3"], ["top", "Top", "7"], ["free", "Free", "0"]];

const PANEL_TITLES: Record<PanelId, string> = { project: "Project", tool: "Tool", details: "Details", jobs: "Jobs", timeline: "Timeline" };

export function toggleOverlay(studio: Studio, name: keyof Overlays): void {
  const overlays = studio.session.overlays;
  overlays.value = { ...overlays.peek(), [name]: !overlays.peek()[name] };
}

export function listCommands(studio: Studio): Command[] {
  const { session } = studio;
  const view = studio.viewport.peek();
  const hasMotion = (): boolean => session.main.peek() !== null;
  const item = session.selected.peek();
  return [
    { id: "play", title: "Play or pause", group: "Play", icon: "play", keys: "Space", isEnabled: hasMotion, run: () => (session.isPlaying.peek() ? session.pause() : session.play()) },
    { id: "backwards", title: "Play backwards", group: "Play", keys: "J", isEnabled: hasMotion, run: () => session.play(-1) },
    { id: "stop", title: "Pause", group: "Play", keys: "K", run: () => session.pause() },
    { id: "forwards", title: "Play forwards", group: "Play", keys: "L", isEnabled: hasMotion, run: () => session.play(session.isPlaying.peek() && session.speed.peek() === 1 ? 2 : 1) },
    { id: "previous", title: "One frame back", group: "Play", keys: "ArrowLeft", run: () => session.step(-1) },
    { id: "next", title: "One frame on", group: "Play", keys: "ArrowRight", run: () => session.step(1) },
    { id: "previous-ten", title: "Ten frames back", group: "Play", keys: "Shift+ArrowLeft", run: () => session.step(-10) },
    { id: "next-ten", title: "Ten frames on", group: "Play", keys: "Shift+ArrowRight", run: () => session.step(10) },
    { id: "start", title: "To the start", group: "Play", keys: "Home", run: () => session.seek(session.rangeS.peek()?.[0] ?? 0) },
    { id: "end", title: "To the end", group: "Play", keys: "End", run: () => session.seek(session.rangeS.peek()?.[1] ?? session.durationS.peek()) },
    { id: "in", title: "Range begins here", group: "Play", icon: "range", keys: "I", run: () => session.mark("in") },
    { id: "out", title: "Range ends here", group: "Play", icon: "range", keys: "O", run: () => session.mark("out") },
    { id: "no-range", title: "No range", group: "Play", keys: "X", run: () => (session.rangeS.value = null) },
    { id: "loop", title: "Loop", group: "Play", icon: "loop", run: () => (session.isLooping.value = !session.isLooping.peek()) },

    { id: "undo", title: session.undoLabel.peek() === null ? "Undo" : `Undo: ${session.undoLabel.peek()}`, group: "Project", icon: "undo", keys: "Ctrl+Z", isEnabled: () => session.undoLabel.peek() !== null, run: () => session.undo() },
    { id: "redo", title: session.redoLabel.peek() === null ? "Redo" : `Redo: ${session.redoLabel.peek()}`, group: "Project", icon: "redo", keys: "Ctrl+Y, Ctrl+Shift+Z", isEnabled: () => session.redoLabel.peek() !== null, run: () => session.redo() },
    { id: "open-files", title: "Import files…", group: "Project", icon: "import", keys: "Ctrl+O", run: () => chooseFiles(session) },
    { id: "new-take", title: "New take of the selection", group: "Project", icon: "take", keys: "Ctrl+D", isEnabled: () => item !== null, run: () => newTake(studio) },
    { id: "add-strip", title: "Put the selected take onto the timeline", group: "Project", icon: "take", isEnabled: () => item?.kind === "take", run: () => addStrip(studio) },
    { id: "marker", title: "Marker at the playhead", group: "Project", icon: "pin", keys: "M", isEnabled: () => session.project.peek() !== null, run: () => addMarker(studio) },

    { id: "palette", title: "Search commands", group: "Help", icon: "search", keys: "Ctrl+K", run: () => (studio.dialog.value = "palette") },
    { id: "shortcuts", title: "Keys", group: "Help", icon: "help", keys: "?", run: () => (studio.dialog.value = "shortcuts") },
    { id: "tour", title: "Guided tour", group: "Help", icon: "info", run: () => (studio.dialog.value = "tour") },

    ...VIEWS.map(([name, title, keys]): Command => ({ id: name, title: `${title} view`, group: "View", icon: "camera", keys, run: () => view?.look(name) })),
    { id: "follow", title: "Camera follows the body", group: "View", icon: "follow", keys: "F", run: () => view && (view.isFollowing.value = !view.isFollowing.peek()) },
    { id: "parallel", title: "Orthographic view", group: "View", icon: "cube", keys: "5", run: () => view && (view.isParallel.value = !view.isParallel.peek()) },
    { id: "apart", title: "Compared motions side by side", group: "View", icon: "apart", run: () => view && (view.isApart.value = !view.isApart.peek()) },
    ...OVERLAYS.map(([name, title, icon, keys]): Command => ({ id: `overlay-${name}`, title: `Show or hide: ${title.toLowerCase()}`, group: "View", icon, keys, run: () => toggleOverlay(studio, name) })),
    { id: "theme", title: isDark.peek() ? "Light theme" : "Dark theme", group: "View", icon: isDark.peek() ? "sun" : "moon", run: () => (themeChoice.value = isDark.peek() ? "light" : "dark") },
    { id: "theme-system", title: "Theme of the system", group: "View", icon: "moon", run: () => (themeChoice.value = "system") },

    ...(["left", "right", "bottom"] as Area[]).map((area): Command => ({
      id: `area-${area}`, title: `Show or hide the ${area} area`, group: "Panels", icon: { left: "sidebar", right: "details", bottom: "bottom" }[area],
      keys: { left: "Ctrl+1", right: "Ctrl+2", bottom: "Ctrl+3" }[area], run: () => changeArea(studio, area, { isOpen: !studio.layout.peek()[area].isOpen }),
    })),
    ...(Object.keys(PANEL_TITLES) as PanelId[]).flatMap((panel): Command[] => [
      { id: `panel-${panel}`, title: `Show ${PANEL_TITLES[panel]}`, group: "Panels", icon: "details", run: () => showPanel(studio, panel) },
      ...(["left", "right", "bottom"] as Area[])
        .filter((area) => area !== areaOf(studio.layout.peek(), panel))
        .map((area): Command => ({ id: `move-${panel}-${area}`, title: `Move ${PANEL_TITLES[panel]} to the ${area}`, group: "Panels", icon: "details", run: () => movePanel(studio, panel, area) })),
    ]),
    { id: "reset-layout", title: "Panels as at first", group: "Panels", icon: "details", run: () => (studio.layout.value = PLAIN_LAYOUT) },

    ...session.tools.peek().filter((tool) => tool.group !== "").map((tool): Command => ({ id: `tool-${tool.id}`, title: tool.title, group: "Tools", icon: tool.id, keys: toolKeys(tool.shortcut), run: () => openTool(studio, tool.id) })),
    { id: "no-tool", title: "Close the tool", group: "Tools", icon: "close", keys: "Escape", isEnabled: () => session.tool.peek() !== null, run: () => (session.tool.value = null) },
  ];
}

/** Run the command that belongs to a key event; tells whether there was one. */
export function runKey(studio: Studio, event: KeyboardEvent): boolean {
  const name = keyName(event);
  const commands = listCommands(studio).filter((each) => each.keys?.split(", ").some((keys) => keys.toLowerCase() === name.toLowerCase()));
  // A tool's key may not take one of the shell's
  const command = commands.find((each) => each.group !== "Tools") ?? commands[0];
  if (command === undefined) return false;
  if (command.isEnabled?.() !== false) command.run();
  return true;
}

/** "Ctrl+Shift+Z", "Space", "?": as commands write their keys. */
export function keyName(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">): string {
  const key = event.key === " " ? "Space" : event.key.length === 1 ? event.key.toUpperCase() : event.key;
  const isSign = event.key.length === 1 && !/[a-z0-9 ]/i.test(event.key); // Shift made the sign: it is not said again
  return [event.ctrlKey || event.metaKey ? "Ctrl" : "", event.altKey ? "Alt" : "", event.shiftKey && !isSign ? "Shift" : "", key].filter((part) => part !== "").join("+");
}

export function freshId(prefix: string): string {
  return `${prefix}-${Date.now().toString(36)}${Math.random().toString(36).slice(2, 5)}`;
}

/** A take of the selected clip, or a copy of the selected take; it is selected. */
export async function newTake(studio: Studio): Promise<string | null> {
  const { session } = studio;
  const [item, project] = [session.selected.peek(), session.project.peek()];
  if (item === null || project === null) return null;
  const id = freshId("take");
  const name = (item.kind === "clip" ? project.clips : project.takes)[item.id].name;
  const from = item.kind === "clip" ? { clip: item.id, name } : { copy: item.id, name: `${name} copy` };
  if (!(await session.change("add_take", { id, ...from }))) return null;
  session.select({ kind: "take", id });
  return id;
}

/** The selected take, to be changed; where a clip is selected, a take of it is offered, and there is none. */
export function takeToChange(studio: Studio, fix = "Change a take of it"): string | null {
  const item = studio.session.selected.peek();
  if (item?.kind === "take") return item.id;
  studio.session.toast("info", "A clip stays as it was captured", fix, { label: "New take", run: () => void newTake(studio) });
  return null;
}

function addStrip(studio: Studio): void {
  const { session } = studio;
  const item = session.selected.peek();
  if (item?.kind !== "take") return;
  const [from, to] = session.rangeS.peek() ?? [0, session.durationS.peek()];
  const strips = session.project.peek()?.timeline.strips ?? [];
  const start = Math.max(0, ...strips.map((strip) => strip.start_s + strip.out_s - strip.in_s));
  void session.change("set_strip", { strip: { id: freshId("strip"), take: item.id, start_s: start, in_s: from, out_s: to, blend_s: 0, loop: 1 } });
}

function addMarker(studio: Studio): void {
  const { session } = studio;
  const markers = session.project.peek()?.timeline.markers ?? [];
  const time_s = session.playheadS.peek();
  void session.change("set_timeline", { markers: [...markers, { time_s, text: `Marker ${markers.length + 1}` }] });
}
