/** What every part of the shell shares: the session, the viewport once it stands, and small state of the shell itself. */

import { signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { remembered } from "../project/memory";
import type { Session } from "../project/session";
import type { Viewport } from "../viewport/viewport";

export type Area = "left" | "right" | "bottom";
export type PanelId = "project" | "tool" | "details" | "jobs" | "timeline";

interface AreaState {
  panels: PanelId[];
  active: PanelId | null;
  sizePx: number;
  isOpen: boolean;
}

export type Layout = Record<Area, AreaState>;

export const PLAIN_LAYOUT: Layout = {
  left: { panels: ["project"], active: "project", sizePx: 250, isOpen: true },
  right: { panels: ["tool", "details", "jobs"], active: "tool", sizePx: 320, isOpen: true },
  bottom: { panels: ["timeline"], active: "timeline", sizePx: 250, isOpen: true },
};

export type Studio = ReturnType<typeof makeStudio>;

export function makeStudio(session: Session) {
  return {
    session,
    viewport: signal<Viewport | null>(null),
    layout: remembered("layout", PLAIN_LAYOUT),
    dialog: signal<"palette" | "shortcuts" | "tour" | null>(null),
    /** Settings of the tools as they stand in the panels. */
    settings: remembered<Record<string, Record<string, unknown>>>("settings", {}),
  };
}

export const StudioContext = createContext<Studio | null>(null);

export function useStudio(): Studio {
  return useContext(StudioContext)!;
}

/** Change one area of the dock. */
export function changeArea(studio: Studio, area: Area, change: Partial<AreaState>): void {
  const layout = studio.layout.peek();
  studio.layout.value = { ...layout, [area]: { ...layout[area], ...change } };
}

export function areaOf(layout: Layout, panel: PanelId): Area {
  return (Object.keys(layout) as Area[]).find((area) => layout[area].panels.includes(panel)) ?? "right";
}

/** Bring a panel to the front. */
export function showPanel(studio: Studio, panel: PanelId): void {
  changeArea(studio, areaOf(studio.layout.peek(), panel), { active: panel, isOpen: true });
}

/** Move a panel into another area, in front. */
export function movePanel(studio: Studio, panel: PanelId, to: Area): void {
  const from = areaOf(studio.layout.peek(), panel);
  if (from === to) return;
  const left = studio.layout.peek()[from].panels.filter((other) => other !== panel);
  changeArea(studio, from, { panels: left, active: left[0] ?? null });
  changeArea(studio, to, { panels: [...studio.layout.peek()[to].panels, panel], active: panel, isOpen: true });
}

export function openTool(studio: Studio, tool: string): void {
  studio.session.tool.value = tool;
  showPanel(studio, "tool");
}

/** Tools of the rail, in the order of a day's work; the others are in the list of all tools and in the palette. */
export const RAIL: string[][] = [
  ["import", "library"],
  ["clean", "retarget"],
  ["pose", "contacts", "edit"],
  ["path", "walk", "jump"],
  ["physics", "repair"],
  ["simulate", "track", "muscle"],
  ["measure", "export"],
];

export const GROUPS = ["File", "Clip", "Pose", "Make", "Physics", "Check", "Simulate", "Muscle", "Timeline"];

/** Letters alone belong to playback: tools open with Alt. */
export function toolKeys(shortcut: string): string | undefined {
  return shortcut === "" ? undefined : `Alt+${shortcut.toUpperCase()}`;
}
