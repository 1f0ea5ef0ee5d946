/** The window: top bar, tool rail, dock, dialogs; keys and dropped files of the whole page. */

import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { useEffect } from "preact/hooks";
import { recall } from "../project/memory";
import { isBusy, ToolPanel } from "../tools/panel";
import { runKey } from "./commands";
import { openTool, type PanelId, RAIL, showPanel, type Studio, StudioContext, toolKeys, useStudio } from "./context";
import { JobsPanel, Palette, readableKeys, Shortcuts, Toasts, Tour } from "./dialogs";
import { Dock, type PanelInfo } from "./dock";
import { importFiles } from "./files";
import { Icon, Mark } from "./icons";
import { DetailsPanel, ProjectPanel } from "./project";
import { isDark, themeChoice } from "./theme";
import { TimelinePanel, ViewportPane } from "./panes";

export function App({ studio }: { studio: Studio }) {
  const { session, dialog } = studio;
  const panels: Record<PanelId, PanelInfo> = {
    project: { title: "Project", render: () => <ProjectPanel /> },
    tool: { title: "Tool", render: () => <ToolPanel /> },
    details: { title: "Details", render: () => <DetailsPanel /> },
    jobs: { title: "Jobs", render: () => <JobsPanel />, badge: () => session.jobs.value.filter(isBusy).length },
    timeline: { title: "Timeline", render: () => <TimelinePanel /> },
  };
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || isTyping(event) || dialog.peek() !== null) return;
      // A button that has the focus keeps Space and Enter for itself
      if ((event.key === " " || event.key === "Enter") && event.target instanceof HTMLButtonElement) return;
      if (runKey(studio, event)) event.preventDefault();
    };
    window.addEventListener("keydown", press);
    if (!recall("toured", false)) dialog.value = "tour";
    return () => window.removeEventListener("keydown", press);
  }, []);
  return (
    <StudioContext.Provider value={studio}>
      <div class="app">
        <TopBar />
        <div class="body">
          <Rail />
          <Dock panels={panels}><ViewportPane /></Dock>
        </div>
      </div>
      <DropZone />
      <Toasts />
      {dialog.value === "palette" && <Palette />}
      {dialog.value === "shortcuts" && <Shortcuts />}
      {dialog.value === "tour" && <Tour />}
    </StudioContext.Provider>
  );
}

/** Whether a key belongs to a field; of chords with Ctrl a field keeps those of editing. */
function isTyping(event: KeyboardEvent): boolean {
  const { target } = event;
  if (target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) return true;
  if (!(target instanceof HTMLInputElement) || target.type === "checkbox") return false;
  if (target.type === "range") return event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End";
  return !(event.ctrlKey && ["k", "o"].includes(event.key.toLowerCase()));
}

function TopBar() {
  const studio = useStudio();
  const { session } = studio;
  const project = session.project.value;
  const busy = session.jobs.value.filter(isBusy).length;
  const words = { open: "Connected", connecting: "Connecting…", lost: "No server: playing goes on" }[session.link.value];
  return (
    <header class="top">
      <div class="side">
        <Mark />
        <input
          class="project-name" aria-label="Name of the project" value={project?.name ?? ""} disabled={project === null} spellcheck={false}
          onKeyDown={(event) => event.key === "Enter" && event.currentTarget.blur()}
          onChange={(event) => event.currentTarget.value.trim() !== "" && void session.change("rename_project", { name: event.currentTarget.value.trim() })}
        />
        <span class="rule" />
        <button type="button" class="quiet" disabled={session.undoLabel.value === null} title={session.undoLabel.value === null ? "Nothing to undo" : `Undo: ${session.undoLabel.value} (Ctrl Z)`} aria-label="Undo" onClick={() => session.undo()}><Icon name="undo" /></button>
        <button type="button" class="quiet" disabled={session.redoLabel.value === null} title={session.redoLabel.value === null ? "Nothing to redo" : `Redo: ${session.redoLabel.value} (Ctrl Y)`} aria-label="Redo" onClick={() => session.redo()}><Icon name="redo" /></button>
        <span class="saved muted cut" role="status">{session.lastLabel.value === "" ? "" : `${session.lastLabel.value} · saved`}</span>
      </div>
      <button type="button" class="search" onClick={() => (studio.dialog.value = "palette")}>
        <Icon name="search" size={15} />
        <span class="grow" style={{ textAlign: "left" }}>Search commands, tools, motions</span>
        <kbd>Ctrl K</kbd>
      </button>
      <div class="side end">
        <button type="button" class="link" data-link={session.link.value} title={session.link.value === "lost" ? "Try again now" : words} aria-label={words} onClick={() => session.retry()}><span>{words}</span></button>
        <button type="button" class="quiet" title="Jobs" aria-label={`Jobs, ${busy} running`} onClick={() => showPanel(studio, "jobs")}>
          <span style={{ display: "flex", gap: "5px", alignItems: "center" }}><Icon name="jobs" />{busy > 0 && <span class="badge">{busy}</span>}</span>
        </button>
        <button type="button" class="quiet" title={isDark.value ? "Light theme" : "Dark theme"} aria-label={isDark.value ? "Light theme" : "Dark theme"} onClick={() => (themeChoice.value = isDark.peek() ? "light" : "dark")}><Icon name={isDark.value ? "sun" : "moon"} /></button>
        <button type="button" class="quiet" title="Keys (?)" aria-label="Keys" onClick={() => (studio.dialog.value = "shortcuts")}><Icon name="help" /></button>
      </div>
    </header>
  );
}

function Rail() {
  const studio = useStudio();
  const { session } = studio;
  const tip = useSignal<{ text: string; keys: string; x: number; y: number } | null>(null);
  const groups = RAIL.map((ids) => ids.flatMap((id) => session.tools.value.find((tool) => tool.id === id) ?? [])).filter((group) => group.length > 0);
  const button = (name: string, label: string, keys: string, isOn: boolean | undefined, act: () => void) => {
    const show = (event: Event): void => {
      const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
      tip.value = { text: label, keys, x: box.right + 8, y: box.top + 5 };
    };
    const hide = (): void => void (tip.value = null);
    return (
      <button type="button" key={name} aria-label={label} aria-pressed={isOn} onClick={act} onPointerEnter={show} onFocus={show} onPointerLeave={hide} onBlur={hide}>
        <Icon name={name} size={20} />
      </button>
    );
  };
  return (
    <nav class="rail" aria-label="Tools">
      {groups.map((group, index) => (
        <Fragment key={group[0].id}>
          {index > 0 && <hr />}
          {group.map(({ id, title, shortcut }) => button(id, title, toolKeys(shortcut) ?? "", session.tool.value === id, () => {
            if (session.tool.peek() === id) session.tool.value = null;
            else openTool(studio, id);
          }))}
        </Fragment>
      ))}
      {groups.length > 0 && (
        <>
          <hr />
          {button("all", "All tools", "", undefined, () => {
            session.tool.value = null;
            showPanel(studio, "tool");
          })}
        </>
      )}
      {tip.value !== null && <div class="tip" style={{ left: `${tip.value.x}px`, top: `${tip.value.y}px` }}>{tip.value.text}{tip.value.keys !== "" && <kbd>{readableKeys(tip.value.keys)}</kbd>}</div>}
    </nav>
  );
}

/** Files may be dropped anywhere in the window. */
function DropZone() {
  const { session } = useStudio();
  const isOver = useSignal(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") === true;
    const over = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = true;
    };
    const leave = (event: DragEvent): void => {
      if (event.relatedTarget === null) isOver.value = false;
    };
    const drop = (event: DragEvent): void => {
      isOver.value = false;
      if (!hasFiles(event)) return;
      event.preventDefault();
      void importFiles(session, [...event.dataTransfer!.files]);
    };
    const hearing = new AbortController();
    window.addEventListener("dragover", over, hearing);
    window.addEventListener("dragleave", leave, hearing);
    window.addEventListener("drop", drop, hearing);
    return () => hearing.abort();
  }, []);
  return isOver.value ? <div class="dropping"><div>Drop to import</div></div> : null;
}
