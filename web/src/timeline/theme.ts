/** Colours of the timeline: a page or the studio hands them in, so that both themes come from one place. */

export const COLOURS = ["bg", "panel", "ink", "muted", "line", "accent", "good", "warn", "bad", "left", "right"] as const;
export type Theme = Record<(typeof COLOURS)[number], string> & { font?: string };

export const LIGHT: Theme = {
  bg: "#f4f5f6", panel: "#ffffff", ink: "#22262a", muted: "#5d656d", line: "#d3d8dc", accent: "#1f6fbf",
  good: "#4f9d69", warn: "#d9a441", bad: "#c8452f", left: "#6d9bc8", right: "#e0a76f",
};

export const DARK: Theme = {
  bg: "#22262a", panel: "#2b3036", ink: "#e8eaec", muted: "#a3abb3", line: "#3b4249", accent: "#5aa9f0",
  good: "#5fb37c", warn: "#dfb156", bad: "#e0614b", left: "#7fabd6", right: "#e6b07c",
};
