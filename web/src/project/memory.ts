/** View state that the browser keeps over a reload: theme, panels, selection. Never part of the document. */

import { effect, type Signal, signal } from "@preact/signals";

const PREFIX = "marey-studio:";

export function recall<T>(key: string, fallback: T): T {
  try {
    const text = globalThis.localStorage?.getItem(PREFIX + key);
    return text == null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback; // a browser without storage, or a value of another version
  }
}

export function store(key: string, value: unknown): void {
  try {
    globalThis.localStorage?.setItem(PREFIX + key, JSON.stringify(value));
  } catch {
    // private windows may refuse; the session goes on without memory
  }
}

/** A signal whose value comes back after a reload. */
export function remembered<T>(key: string, fallback: T): Signal<T> {
  const value = recall(key, fallback);
  const isTable = typeof fallback === "object" && fallback !== null && !Array.isArray(fallback);
  const kept = signal<T>(isTable ? { ...fallback, ...value } : value);
  effect(() => store(key, kept.value));
  return kept;
}
