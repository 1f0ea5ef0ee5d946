/** A guided tour of six steps: each lights up a part of the window and says what it is for. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { store } from "../project/memory";
import { useStudio } from "./context";

const STEPS: [selector: string, title: string, text: string][] = [
  [".viewport", "The viewport", "Your motion plays here, from arrays in this window: no server is needed for that. Drag to turn the camera, use 1, 3, 7 for front, side and top, F to follow."],
  ["[data-tour=left]", "One project", "Clips are motions as they were captured and never change. A take is a motion you work on: it remembers its recipe, its layers and its edits. Drop files anywhere to import them."],
  [".rail", "Tools", "Every engine of the library is a tool here: clean, retarget, pose, path, physics and more. Hover to see the name and its key."],
  ["[data-tour=right]", "Settings and details", "The open tool shows its settings here. Long work runs beside you with its progress, and can be ended; its result is a new take."],
  ["[data-tour=timeline]", "The timeline", "Green, amber and red say where the motion is physically valid. Bars below are contacts: drag the end of one in a take, and the foot follows. Space plays, J K L shuttle, I and O set a range."],
  [".search", "Everything by name", "Ctrl K finds every command, tool and motion. Ctrl Z takes anything back, and nothing is lost when you reload. Press ? for all keys."],
];

export function Tour() {
  const studio = useStudio();
  const step = useSignal(0);
  const box = useSignal<DOMRect | null>(null);
  const next = useRef<HTMLButtonElement>(null);
  const [selector, title, text] = STEPS[step.value];
  useEffect(() => {
    const place = (): void => {
      box.value = document.querySelector(selector)?.getBoundingClientRect() ?? null;
    };
    place();
    next.current?.focus();
    window.addEventListener("resize", place);
    return () => window.removeEventListener("resize", place);
  }, [selector]);
  const close = (): void => {
    store("toured", true);
    studio.dialog.value = null;
  };
  const go = (to: number): void => {
    if (to >= STEPS.length) close();
    else step.value = Math.max(0, to);
  };
  const rect = box.value;
  return (
    <>
      {rect !== null && <div class="tour-hole" style={{ left: `${rect.left + 2}px`, top: `${rect.top + 2}px`, width: `${rect.width - 4}px`, height: `${rect.height - 4}px` }} />}
      <div
        class="tour" role="dialog" aria-modal="true" aria-label={title} style={rect === null ? { left: "40%", top: "40%" } : placeCard(rect)}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Escape") close();
          if (event.key === "ArrowRight") go(step.value + 1);
          if (event.key === "ArrowLeft") go(step.value - 1);
        }}
      >
        <h2>{title}</h2>
        <p class="muted">{text}</p>
        <div class="foot">
          <span class="dots" role="img" aria-label={`Step ${step.value + 1} of ${STEPS.length}`}>{STEPS.map((_, index) => <i key={index} class={index === step.value ? "on" : ""} />)}</span>
          <button type="button" class="button" onClick={step.value === 0 ? close : () => go(step.value - 1)}>{step.value === 0 ? "Skip" : "Back"}</button>
          <button type="button" class="button main" ref={next} onClick={() => go(step.value + 1)}>{step.value === STEPS.length - 1 ? "Start" : "Next"}</button>
        </div>
      </div>
    </>
  );
}

/** Beside the lit part where there is room, else in the middle of it. */
function placeCard(rect: DOMRect): Record<string, string> {
  const [width, height] = [320, 210];
  const fits = (left: number, top: number): boolean => left >= 8 && top >= 8 && left + width <= window.innerWidth - 8 && top + height <= window.innerHeight - 8;
  const places: [number, number][] = [
    [rect.right + 12, rect.top + 12], [rect.left - width - 12, rect.top + 12], [rect.left + 24, rect.top - height - 12], [rect.left + rect.width / 2 - width / 2, rect.bottom + 12],
  ];
  const [left, top] = places.find(([x, y]) => fits(x, y)) ?? [rect.left + rect.width / 2 - width / 2, rect.top + rect.height / 2 - height / 2];
  return { left: `${left}px`, top: `${top}px` };
}
