/** The two themes: chosen by hand, or as the system says. */

import { computed, effect, signal } from "@preact/signals";
import { remembered } from "../project/memory";
import { COLOURS, type Theme } from "../timeline/draw";

export const themeChoice = remembered<"system" | "dark" | "light">("theme", "dark");
const media = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
const systemIsDark = signal(media?.matches ?? true);
media?.addEventListener("change", () => (systemIsDark.value = media.matches));

export const isDark = computed(() => (themeChoice.value === "system" ? systemIsDark.value : themeChoice.value === "dark"));

if (globalThis.document !== undefined) {
  effect(() => {
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  });
}

let read: { dark: boolean; theme: Theme } | null = null;

/** The colours of canvases, read once for each theme. */
export function readTheme(): Theme {
  const dark = document.documentElement.dataset.theme === "dark";
  if (read?.dark !== dark) read = { dark, theme: Object.fromEntries(COLOURS.map((name) => [name, cssColour(name)])) as unknown as Theme };
  return read.theme;
}

/** A colour of the style sheet, such as `cssColour("accent")`. */
export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
