/** The viewport's place in the window, with its camera and overlay buttons, captions and the empty state; and the timeline's, with the transport. */

import { useEffect, useRef } from "preact/hooks";
import { itemName } from "../project/document";
import { OVERLAYS, toggleOverlay, VIEWS } from "./commands";
import { type Area, changeArea, useStudio } from "./context";
import { readableKeys } from "./dialogs";
import { chooseFiles } from "./files";
import { Icon } from "./icons";
import { CURVES, mountTimeline, shownCurves } from "./tracks";
import { PALETTES } from "../viewer/body";
import { SPEEDS } from "../viewer/clock";
import { GHOST_TINT, Viewport } from "../viewport/viewport";

export function ViewportPane() {
  const studio = useStudio();
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const viewport = new Viewport(host.current!, studio.session);
    studio.viewport.value = viewport;
    return () => {
      studio.viewport.value = null;
      viewport.dispose();
    };
  }, []);
  const { session } = studio;
  const view = studio.viewport.value;
  const shown = session.overlays.value;
  const hasSkin = Object.values(session.project.value?.characters ?? {}).some((character) => character.mesh !== null);
  return (
    <main class="viewport" aria-label="Viewport">
      <div class="canvas" ref={host} />
      {view !== null && (
        <>
          <div class="bar cameras" role="toolbar" aria-label="Camera">
            {VIEWS.map(([name, title, key]) => (
              <button key={name} type="button" class="quiet word" aria-pressed={view.view.value === name} title={`${title} (${key})`} onClick={() => view.look(name)}>{title}</button>
            ))}
            <span class="rule" />
            <button type="button" class="quiet" aria-pressed={view.isParallel.value} title="Orthographic (5)" aria-label="Orthographic" onClick={() => (view.isParallel.value = !view.isParallel.peek())}><Icon name="cube" size={17} /></button>
            <button type="button" class="quiet" aria-pressed={view.isFollowing.value} title="Follow the body (F)" aria-label="Follow the body" onClick={() => (view.isFollowing.value = !view.isFollowing.peek())}><Icon name="follow" size={17} /></button>
          </div>
          <div class="bar overlays" role="toolbar" aria-label="Overlays">
            {OVERLAYS.filter(([name]) => name !== "skin" || hasSkin).map(([name, title, icon, keys]) => (
              <button key={name} type="button" class="quiet" aria-pressed={shown[name]} aria-label={title} title={`${title}${keys ? ` (${readableKeys(keys)})` : ""}`} onClick={() => toggleOverlay(studio, name)}><Icon name={icon} size={17} /></button>
            ))}
          </div>
        </>
      )}
      <Captions />
      {session.isEmpty.value && (
        <div class="empty">
          <div class="card">
            <Icon name="import" size={34} />
            <h2>Drop motion files here</h2>
            <p class="muted">BVH, FBX, GLB, C3D, ASF/AMC, TRC, NPZ and more. A file with a skinned character shows that character.</p>
            <button type="button" class="button main" onClick={() => chooseFiles(session)}>Choose files</button>
          </div>
        </div>
      )}
    </main>
  );
}

/** Who is who: names with the colours of the bodies. */
function Captions() {
  const { session } = useStudio();
  const [project, item] = [session.project.value, session.selected.value];
  if (project === null || item === null) return null;
  const others = session.pinned.value.filter((other) => other.id !== item.id);
  const isLoading = session.mainHash.value !== null && session.main.value === null;
  return (
    <div class="caption">
      <span class="chip"><i class="dot" style={{ background: PALETTES[0].sides[1] }} />{isLoading ? "Loading…" : session.sequence.value !== null ? "Sequence" : itemName(project, item)}</span>
      {session.beforeHash.value !== null && session.overlays.value.ghost && <span class="chip"><i class="dot" style={{ background: "#9aa4ae" }} />source</span>}
      {session.preview.value !== null && <span class="chip"><i class="dot" style={{ background: "#4cc38a" }} />preview</span>}
      {Object.keys(session.ghosts.value).map((name) => <span class="chip" key={name}><i class="dot" style={{ background: GHOST_TINT }} />{name}</span>)}
      {others.map((other, index) => <span class="chip" key={other.id}><i class="dot" style={{ background: PALETTES[(index + 1) % PALETTES.length].sides[1] }} />{itemName(project, other)}</span>)}
      {session.joint.value !== null && <span class="chip"><Icon name="joints" size={13} />{session.joint.value}</span>}
    </div>
  );
}

const AREAS: [Area, icon: string, label: string][] = [["right", "details", "Show the right area (Ctrl 2)"], ["left", "sidebar", "Show the left area (Ctrl 1)"]];

export function TimelinePanel() {
  const studio = useStudio();
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => mountTimeline(studio, host.current!), []);
  return (
    <>
      <Transport />
      <div class="timeline" data-tour="timeline"><div class="host" ref={host} /></div>
    </>
  );
}

function Transport() {
  const studio = useStudio();
  const { session } = studio;
  const isPlaying = session.isPlaying.value;
  const button = (icon: string, label: string, act: () => void, extra = "") => (
    <button type="button" class={`quiet ${extra}`} title={label} aria-label={label} disabled={session.main.value === null} onClick={act}><Icon name={icon} /></button>
  );
  return (
    <div class="transport" role="toolbar" aria-label="Playback" data-tour="transport">
      {button("start", "To the start (Home)", () => session.seek(session.rangeS.peek()?.[0] ?? 0))}
      {button("back", "One frame back (←)", () => session.step(-1))}
      {button(isPlaying ? "pause" : "play", isPlaying ? "Pause (Space)" : "Play (Space)", () => (isPlaying ? session.pause() : session.play()), "go")}
      {button("next", "One frame on (→)", () => session.step(1))}
      {button("end", "To the end (End)", () => session.seek(session.rangeS.peek()?.[1] ?? session.durationS.peek()))}
      <button type="button" class="quiet" aria-pressed={session.isLooping.value} title="Loop" aria-label="Loop" onClick={() => (session.isLooping.value = !session.isLooping.peek())}><Icon name="loop" /></button>
      {(session.project.value?.timeline.strips.length ?? 0) > 0 && (
        <button
          type="button" class="quiet word" aria-pressed={session.isSequence.value} title="Play the strips of the timeline one after another"
          onClick={() => {
            session.tool.value = null;
            session.isSequence.value = !session.isSequence.peek();
          }}
        >Sequence</button>
      )}
      <span class="rule" />
      <TimeReadout />
      <select aria-label="Speed" title="Speed" value={String(session.speed.value)} onChange={(event) => (session.speed.value = Number(event.currentTarget.value))}>
        {[...new Set([...SPEEDS, session.speed.value])].sort((a, b) => a - b).map((speed) => <option key={speed} value={speed}>{speed} ×</option>)}
      </select>
      <span class="rule" />
      <button type="button" class="quiet" title="Range begins here (I)" aria-label="Range begins here" onClick={() => session.mark("in")}>I</button>
      <button type="button" class="quiet" title="Range ends here (O)" aria-label="Range ends here" onClick={() => session.mark("out")}>O</button>
      {session.rangeS.value !== null && (
        <button type="button" class="button" style={{ height: "24px" }} title="No range (X)" onClick={() => (session.rangeS.value = null)}>
          <span class="num">{session.rangeS.value.map((end) => end.toFixed(2)).join(" – ")} s</span><Icon name="close" size={12} />
        </button>
      )}
      <select aria-label="Curves" title="Curves below the rows" value={shownCurves.value} onChange={(event) => (shownCurves.value = event.currentTarget.value)}>
        {CURVES.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <span class="grow" />
      {AREAS.filter(([area]) => !studio.layout.value[area].isOpen).map(([area, icon, label]) => (
        <button key={area} type="button" class="quiet" title={label} aria-label={label} onClick={() => changeArea(studio, area, { isOpen: true })}><Icon name={icon} /></button>
      ))}
    </div>
  );
}

function TimeReadout() {
  const { session } = useStudio();
  const [time, rate] = [session.playheadS.value, session.rateHz.value];
  return (
    <output class="time">
      <b>{time.toFixed(2)}</b> <span class="muted">/ {session.durationS.value.toFixed(2)} s · frame {Math.round(time * rate)}</span>
    </output>
  );
}
