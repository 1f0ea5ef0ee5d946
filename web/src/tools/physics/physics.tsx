/** Physics: the worst stretch becomes a range, its repair a ghost, and the ghost is accepted or refused. */

import { extensions, type ToolPartProps } from "../handles";
import { changeSetting } from "../panel";
import { openTool } from "../../shell/context";
import { shownCurves } from "../../shell/tracks";
import { PLOTS } from "../live";

const LEVELS = { green: "possible", amber: "doubtful", red: "not possible" } as const;

function PhysicsPart({ studio }: ToolPartProps) {
  const { session } = studio;
  const spans = session.bands.value?.[0]?.spans ?? [];
  const total = spans.reduce((sum, span) => sum + span.stop_s - span.start_s, 0);
  const share = (level: keyof typeof LEVELS): number => spans.filter((span) => span.level === level).reduce((sum, span) => sum + span.stop_s - span.start_s, 0) / (total || 1);
  const wrong = spans.filter((span) => span.level === "red").sort((a, b) => b.stop_s - b.start_s - (a.stop_s - a.start_s)).slice(0, 6);
  const repair = (from: number, to: number): void => {
    session.rangeS.value = [from, to];
    changeSetting(studio, "repair", "range_s", [from, to]);
    openTool(studio, "repair");
  };
  if (spans.length === 0) return <p class="note">The motion is being judged…</p>;
  return (
    <div class="fields">
      <div class="verdict" role="img" aria-label={(Object.keys(LEVELS) as (keyof typeof LEVELS)[]).map((level) => `${LEVELS[level]} ${Math.round(100 * share(level))} percent`).join(", ")}>
        {(Object.keys(LEVELS) as (keyof typeof LEVELS)[]).map((level) => <i key={level} class={level} style={{ width: `${100 * share(level)}%` }} />)}
      </div>
      <p class="muted num">{Math.round(100 * share("green"))} % a body could have made, {Math.round(100 * share("red"))} % not</p>
      {wrong.map((span) => (
        <div class="row" key={span.start_s}>
          <button type="button" class="pick" onClick={() => session.seek(span.start_s)}><span class="num">{span.start_s.toFixed(2)} – {span.stop_s.toFixed(2)} s</span><span class="grow cut muted">{span.text}</span></button>
          <button type="button" class="button slim" onClick={() => repair(span.start_s, span.stop_s)}>Repair</button>
        </div>
      ))}
      <span class="label">Plot on the timeline</span>
      <div class="segments" role="radiogroup" aria-label="Plot on the timeline">
        {Object.keys(PLOTS).map((name) => (
          <button type="button" key={name} role="radio" aria-checked={shownCurves.value === name} onClick={() => (shownCurves.value = shownCurves.peek() === name ? "no curves" : name)}>{name}</button>
        ))}
      </div>
    </div>
  );
}

function RepairPart({ studio }: ToolPartProps) {
  const { session } = studio;
  const project = session.project.value;
  const job = session.jobs.value.filter((each) => each.tool === "repair" && each.state === "done").at(-1);
  const ghost = job?.result.take;
  const source = job?.take;
  if (project === null || ghost === undefined || source === undefined || project.takes[ghost] === undefined) {
    return <p class="note">Choose a range on the timeline with I and O. The repair is shown as a green ghost first.</p>;
  }
  const item = project.takes[source] !== undefined ? ({ kind: "take", id: source } as const) : ({ kind: "clip", id: source } as const);
  const isShown = session.preview.value === project.takes[ghost].base;
  const range = session.rangeS.value;
  const accept = (intervals: [number, number][]): void => {
    session.preview.value = null;
    session.start("accept", source, { motion: source, repaired: ghost, intervals });
  };
  return (
    <div class="fields">
      <p class="note plain">A repair waits as “{project.takes[ghost].name}”. Accept it in the range, as a whole, or refuse it.</p>
      <div class="segments">
        <button type="button" aria-checked={isShown} role="switch" onClick={() => {
          session.select(item);
          session.preview.value = isShown ? null : project.takes[ghost].base;
        }}>Ghost</button>
        <button type="button" disabled={range === null} onClick={() => range !== null && accept([range])}>Accept the range</button>
        <button type="button" onClick={() => accept([[0, session.durationS.peek()]])}>Accept all</button>
        <button type="button" onClick={() => {
          session.preview.value = null;
          session.select(item);
          void session.change("remove", { kind: "takes", id: ghost });
        }}>Refuse</button>
      </div>
    </div>
  );
}

extensions.set("physics", { View: PhysicsPart });
extensions.set("repair", { View: RepairPart });
