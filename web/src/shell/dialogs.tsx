/** What lies over the window or speaks: the command palette, the sheet of keys, the guided tour, toasts, and the list of jobs. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { type Item, itemName } from "../project/document";
import { store } from "../project/memory";
import type { Toast } from "../project/session";
import { type Command, listCommands } from "./commands";
import { useStudio } from "./context";
import { Icon } from "./icons";
import { isBusy, JobLine, Results } from "../tools/panel";

function Veil({ children, close }: { children: ComponentChildren; close: () => void }) {
  const before = useRef(document.activeElement);
  useEffect(() => () => (before.current as HTMLElement | null)?.focus?.(), []);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a click beside the dialog closes it; keys have Escape
    <div class="veil" onPointerDown={(event) => event.target === event.currentTarget && close()} onKeyDown={(event) => {
      event.stopPropagation();
      if (event.key === "Escape") close();
    }}>
      {children}
    </div>
  );
}

/** Higher is better; 0 where the letters do not occur in order. */
export function matchScore(text: string, query: string): number {
  const [t, q] = [text.toLowerCase(), query.toLowerCase().trim()];
  if (q === "") return 1;
  const at = t.indexOf(q);
  if (at >= 0) return 100 - at + (at === 0 || t[at - 1] === " " ? 50 : 0);
  let [score, from] = [1, 0];
  for (const letter of q) {
    const next = t.indexOf(letter, from);
    if (next < 0) return 0;
    if (next === 0 || t[next - 1] === " ") score += 5;
    from = next + 1;
  }
  return score;
}

export function Palette() {
  const studio = useStudio();
  const { session } = studio;
  const query = useSignal("");
  const chosen = useSignal(0);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const all = useRef<Command[]>([]);
  useLayoutEffect(() => field.current?.focus(), []);
  if (all.current.length === 0) {
    const project = session.project.peek();
    const items: Item[] = [
      ...Object.keys(project?.takes ?? {}).map((id): Item => ({ kind: "take", id })),
      ...Object.keys(project?.clips ?? {}).map((id): Item => ({ kind: "clip", id })),
    ];
    all.current = [
      ...listCommands(studio).filter((command) => command.id !== "palette"),
      ...items.map((item): Command => ({ id: `${item.kind}-${item.id}`, title: `Show ${itemName(project!, item)}`, group: "Project", icon: item.kind, run: () => session.select(item) })),
    ];
  }
  const found = all.current
    .map((command, order) => ({ command, score: Math.max(matchScore(command.title, query.value), 0.6 * matchScore(command.group, query.value)), order }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => (query.value === "" ? a.order - b.order : b.score - a.score))
    .slice(0, 60)
    .map(({ command }) => command);
  const close = (): void => void (studio.dialog.value = null);
  const run = (command: Command | undefined): void => {
    if (command === undefined || command.isEnabled?.() === false) return;
    close();
    command.run();
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      chosen.value = Math.min(Math.max(chosen.value + step, 0), found.length - 1);
      list.current?.children[chosen.value]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[chosen.value]);
    }
  };
  return (
    <Veil close={close}>
      <div class="palette" role="dialog" aria-modal="true" aria-label="Search commands">
        <input
          ref={field} type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={`palette-${chosen.value}`}
          placeholder="Search commands, tools and motions" aria-label="Search commands" value={query.value} onKeyDown={press}
          onInput={(event) => {
            query.value = event.currentTarget.value;
            chosen.value = 0;
          }}
        />
        <div class="list" id="palette-list" role="listbox" ref={list}>
          {found.map((command, index) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field above holds the focus and hears the keys
            <div
              key={command.id} id={`palette-${index}`} role="option" tabIndex={-1} aria-selected={index === chosen.value} aria-disabled={command.isEnabled?.() === false}
              onClick={() => run(command)} onPointerMove={() => (chosen.value = index)}
            >
              <Icon name={command.icon ?? "chevron"} size={16} />
              <span class="grow cut">{command.title}</span>
              <span class="group">{command.group}</span>
              {command.keys !== undefined && <kbd>{readableKeys(command.keys)}</kbd>}
            </div>
          ))}
          {found.length === 0 && <p class="note">Nothing has this name</p>}
        </div>
      </div>
    </Veil>
  );
}

export function readableKeys(keys: string): string {
  const signs: Record<string, string> = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };
  return keys.split(", ")[0].split("+").map((part) => signs[part] ?? part).join(" ");
}

const POINTER: [string, string][] = [
  ["Drag", "turn the camera"],
  ["Right drag", "move the camera"],
  ["Wheel", "nearer, further; on the timeline: zoom"],
  ["Shift wheel", "move along the timeline"],
  ["Drag a contact's end", "the foot is held longer or shorter"],
];

export function Shortcuts() {
  const studio = useStudio();
  const close = (): void => void (studio.dialog.value = null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  const groups = ["Play", "View", "Project", "Tools", "Panels", "Help"] as const;
  const commands = listCommands(studio).filter((command) => command.keys !== undefined);
  return (
    <Veil close={close}>
      <div class="sheet" role="dialog" aria-modal="true" aria-label="Keys">
        <div class="title">
          <h2>Keys</h2>
          <button type="button" class="quiet" ref={button} aria-label="Close" onClick={close}><Icon name="close" /></button>
        </div>
        <div class="columns">
          {groups.map((group) => (
            <section key={group}>
              <h3>{group}</h3>
              <dl>
                {commands.filter((command) => command.group === group).map((command) => (
                  <div key={command.id}><dt>{command.title}</dt><dd><kbd>{readableKeys(command.keys!)}</kbd></dd></div>
                ))}
              </dl>
            </section>
          ))}
          <section>
            <h3>Pointer</h3>
            <dl>{POINTER.map(([what, text]) => <div key={what}><dt>{text}</dt><dd><kbd>{what}</kbd></dd></div>)}</dl>
          </section>
        </div>
      </div>
    </Veil>
  );
}

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

const ICONS = { info: "info", good: "check", warning: "warning", error: "error" } as const;
const STAYS_MS = 7000;

export function Toasts() {
  const { session } = useStudio();
  return <div class="toasts" role="region" aria-label="Messages" aria-live="polite">{session.toasts.value.map((toast) => <ToastCard key={toast.id} toast={toast} />)}</div>;
}

function ToastCard({ toast }: { toast: Toast }) {
  const { session } = useStudio();
  useEffect(() => {
    // Errors and questions wait for the reader
    if (toast.level === "error" || toast.act !== undefined) return;
    const timer = setTimeout(() => session.dropToast(toast.id), STAYS_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`toast ${toast.level}`} role={toast.level === "error" ? "alert" : "status"}>
      <Icon name={ICONS[toast.level]} />
      <div>
        <p>{toast.sentence}</p>
        {toast.fix !== "" && <p class="fix">{toast.fix}</p>}
        {toast.act !== undefined && (
          <button type="button" class="button" onClick={() => {
            session.dropToast(toast.id);
            toast.act?.run();
          }}>{toast.act.label}</button>
        )}
      </div>
      <button type="button" class="quiet small" aria-label="Dismiss" onClick={() => session.dropToast(toast.id)}><Icon name="close" size={14} /></button>
    </div>
  );
}

export function JobsPanel() {
  const { session } = useStudio();
  const jobs = [...session.jobs.value].reverse();
  const titles = new Map(session.tools.value.map((tool) => [tool.id, tool.title]));
  if (jobs.length === 0) return <p class="note">Long work is listed here with its progress, and can be ended. Nothing runs now.</p>;
  return (
    <div>
      {jobs.map((job) => (
        <div key={job.id} class={`job ${job.state}`}>
          <div class="head">
            <span class="lead"><Icon name={job.state === "done" ? "check" : job.state === "failed" ? "error" : job.tool} /></span>
            <h2 class="grow cut">{titles.get(job.tool) ?? job.tool}</h2>
            <span class="muted">{isBusy(job) ? `${Math.round(100 * job.fraction)} %` : job.state}</span>
          </div>
          {isBusy(job) && <JobLine job={job} />}
          {!isBusy(job) && job.sentence !== "" && <p class="muted">{job.sentence}</p>}
          {job.fix !== "" && <p class="muted">{job.fix}</p>}
          {job.result.files !== undefined && <Results result={{ files: job.result.files }} />}
        </div>
      ))}
    </div>
  );
}
