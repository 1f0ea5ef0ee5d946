/** The dock: three areas of tabs around the viewport, resized by pointer or arrows, their tabs dragged between them. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { type Area, changeArea, movePanel, type PanelId, useStudio } from "./context";
import { Icon } from "./icons";

const LIMITS: Record<Area, [least: number, most: number]> = { left: [180, 460], right: [250, 560], bottom: [120, 620] };

export interface PanelInfo {
  title: string;
  render: () => JSX.Element;
  badge?: () => number;
}

export function Dock({ panels, children }: { panels: Record<PanelId, PanelInfo>; children: ComponentChildren }) {
  const { layout } = useStudio();
  const { left, right, bottom } = layout.value;
  const isSeen = (area: typeof left): boolean => area.isOpen && area.panels.length > 0;
  const columns = [isSeen(left) ? `${left.sizePx}px` : null, "minmax(0, 1fr)", isSeen(right) ? `${right.sizePx}px` : null].filter((c) => c !== null);
  const rows = isSeen(bottom) ? `minmax(0, 1fr) ${bottom.sizePx}px` : "minmax(0, 1fr)";
  return (
    <div class="dock" style={{ gridTemplateColumns: columns.join(" "), gridTemplateRows: rows }}>
      {isSeen(left) && <AreaView area="left" panels={panels} />}
      <div class="area center">{children}</div>
      {isSeen(right) && <AreaView area="right" panels={panels} />}
      {isSeen(bottom) && <AreaView area="bottom" panels={panels} />}
    </div>
  );
}

function AreaView({ area, panels }: { area: Area; panels: Record<PanelId, PanelInfo> }) {
  const studio = useStudio();
  const state = studio.layout.value[area];
  const isTarget = useSignal(false);
  const active = state.active ?? state.panels[0];
  const turn = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = state.panels[(state.panels.indexOf(active) + step + state.panels.length) % state.panels.length];
    changeArea(studio, area, { active: next });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <section
      class={`area ${area}${isTarget.value ? " drop" : ""}`}
      data-tour={area}
      style={area === "bottom" ? { gridColumn: "1 / -1" } : undefined}
      aria-label={panels[active]?.title}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes("text/marey-panel")) return;
        event.preventDefault();
        isTarget.value = true;
      }}
      onDragLeave={() => (isTarget.value = false)}
      onDrop={(event) => {
        isTarget.value = false;
        const panel = event.dataTransfer?.getData("text/marey-panel");
        if (panel) movePanel(studio, panel as PanelId, area);
      }}
    >
      <Splitter area={area} />
      {(area !== "bottom" || state.panels.length > 1) && (
        <div class="tabs">
          <div role="tablist" class="grow" onKeyDown={turn}>
            {state.panels.map((panel) => (
              <button
                type="button" key={panel} id={`tab-${panel}`} role="tab" draggable aria-selected={panel === active} aria-controls={`panel-${panel}`}
                tabIndex={panel === active ? 0 : -1}
                onClick={() => changeArea(studio, area, { active: panel })}
                onDragStart={(event) => event.dataTransfer?.setData("text/marey-panel", panel)}
              >
                {panels[panel].title}
                {(panels[panel].badge?.() ?? 0) > 0 && <span class="badge">{panels[panel].badge?.()}</span>}
              </button>
            ))}
          </div>
          <button type="button" class="quiet small" title="Hide this area" aria-label={`Hide the ${area} area`} onClick={() => changeArea(studio, area, { isOpen: false })}>
            <Icon name="close" size={14} />
          </button>
        </div>
      )}
      <div class="panel" role="tabpanel" id={`panel-${active}`} aria-labelledby={`tab-${active}`} style={active === "timeline" ? { display: "flex", flexDirection: "column", overflow: "hidden" } : undefined}>
        {panels[active]?.render()}
      </div>
    </section>
  );
}

function Splitter({ area }: { area: Area }) {
  const studio = useStudio();
  const isOn = useSignal(false);
  const sizePx = studio.layout.value[area].sizePx;
  const [least, most] = LIMITS[area];
  const resize = (px: number): void => {
    const room = area === "bottom" ? window.innerHeight - 300 : window.innerWidth - 620;
    changeArea(studio, area, { sizePx: Math.round(Math.min(Math.max(px, least), most, Math.max(least, room))) });
  };
  const drag = (event: PointerEvent): void => {
    const target = event.currentTarget as HTMLElement;
    target.setPointerCapture(event.pointerId);
    isOn.value = true;
    const start = area === "bottom" ? event.clientY : event.clientX;
    const sign = area === "left" ? 1 : -1;
    const hearing = new AbortController();
    target.addEventListener("pointermove", (next) => resize(sizePx + sign * ((area === "bottom" ? next.clientY : next.clientX) - start)), hearing);
    target.addEventListener("pointerup", () => {
      isOn.value = false;
      hearing.abort();
    }, hearing);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: area === "left" ? -16 : 16, ArrowRight: area === "left" ? 16 : -16, ArrowUp: 16, ArrowDown: -16 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    resize(sizePx + step);
  };
  return (
    <div
      class={`splitter ${area === "bottom" ? "h" : "v"}${isOn.value ? " on" : ""}`} role="separator" tabIndex={0}
      aria-label={`Size of the ${area} area`} aria-orientation={area === "bottom" ? "horizontal" : "vertical"}
      aria-valuenow={sizePx} aria-valuemin={least} aria-valuemax={most} onPointerDown={drag} onKeyDown={press}
    />
  );
}
