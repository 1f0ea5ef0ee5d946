/** Live sessions: one tool at a time runs on the server, is steered from here, and leaves a take where it is kept. */

import { signal } from "@preact/signals";
import type { LiveFrame, Session } from "../project/session";
import type { Viewport } from "../viewport/viewport";

const PATIENCE_MS = 30_000; // for the take of a session that was kept

/** The tool whose session runs. */
export const running = signal<string | null>(null);
let channel: string | null = null;
const isHeld = signal(false);

/** Begin a session unless one runs; tells whether it began. */
export function beginLive(session: Session, tool: string, settings: Record<string, unknown>, show: (frame: LiveFrame) => void): boolean {
  if (channel !== null) return false;
  session.pause();
  channel = session.openChannel(show);
  session.sendDrag(channel, "begin", tool, settings);
  running.value = tool;
  isHeld.value = false;
  return true;
}

export function steer(session: Session, controls: Record<string, unknown>): void {
  if (channel !== null) session.sendDrag(channel, "move", running.peek()!, controls);
}

/** End the session: as a take, which is selected when it comes, or without a trace. */
export function endLive(session: Session, viewport: Viewport, isKept: boolean): void {
  if (channel === null) return;
  session.sendDrag(channel, "end", running.peek()!, isKept ? {} : { cancel: true });
  session.closeChannel(channel);
  channel = null;
  running.value = null;
  viewport.hold(null);
  if (!isKept) return;
  const known = new Set(Object.keys(session.project.peek()?.takes ?? {}));
  const stop = session.project.subscribe((project) => {
    const id = Object.keys(project?.takes ?? {}).find((each) => !known.has(each));
    if (id === undefined) return;
    queueMicrotask(() => stop());
    session.select({ kind: "take", id });
    session.seek(0);
  });
  setTimeout(() => stop(), PATIENCE_MS);
}

/** Hold the time of a session, and let it go on by one frame. */
export function LiveTime({ session }: { session: Session }) {
  return (
    <>
      <button type="button" role="switch" aria-checked={isHeld.value} onClick={() => steer(session, { pause: (isHeld.value = !isHeld.peek()) })}>Hold</button>
      <button type="button" disabled={!isHeld.value} onClick={() => steer(session, { single_step: true })}>One frame</button>
    </>
  );
}

export function LiveEnd({ session, viewport }: { session: Session; viewport: Viewport }) {
  return (
    <div class="pair even">
      <button type="button" class="button main" onClick={() => endLive(session, viewport, true)}>Keep as a take <kbd>↵</kbd></button>
      <button type="button" class="button" onClick={() => endLive(session, viewport, false)}>Discard <kbd>Esc</kbd></button>
    </div>
  );
}

/** Enter keeps what a session recorded, Escape discards it; tells whether the key was one of these. */
export function pressLive(session: Session, viewport: Viewport, event: KeyboardEvent): boolean {
  if (running.peek() === null || (event.key !== "Enter" && event.key !== "Escape")) return false;
  endLive(session, viewport, event.key === "Enter");
  return true;
}
