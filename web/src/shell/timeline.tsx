/** Transport buttons and the canvas timeline of the selected motion. */

import { useEffect, useRef } from "preact/hooks";
import { SPEEDS } from "../viewer/clock";
import { type Area, changeArea, useStudio } from "./context";
import { Icon } from "./icons";
import { CURVES, mountTimeline, shownCurves } from "./tracks";

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
