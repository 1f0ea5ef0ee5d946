/** The panel of the open tool, drawn from the registry's description, and what it gave back; some tools add a part of their own. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { ParameterDescription, ToolDescription } from "../../build/messages";
import type { Job, JobResult } from "../project/session";
import { GROUPS, openTool, type Studio, useStudio } from "../shell/context";
import { Icon } from "../shell/icons";
import { Field, readable, unitOf } from "./fields";
import { extensions } from "./handles";

const ROOM = 7; // settings that are shown at once; a switch takes half the place of another

/** What the button of a tool says, where its name is no verb. */
const VERBS: Record<string, string> = {
  measure: "Measure the motion", hold: "Hold the feet", between: "Make in-betweens", path: "Make the motion", script: "Play the script", physics: "Check again",
  repair: "Repair the range", jump: "Make the jump", problem: "Solve", track: "Simulate", reach: "Find the activations", muscles: "Estimate the activations",
};

/** Settings of a tool as they stand: the defaults, and what was changed. */
export function settingsOf(studio: Studio, tool: ToolDescription): Record<string, unknown> {
  const changed = studio.settings.value[tool.id] ?? {};
  return Object.fromEntries(tool.parameters.map(({ name, default: plain }) => [name, name in changed ? changed[name] : plain]));
}

export function changeSetting(studio: Studio, tool: string, name: string, value: unknown): void {
  const all = studio.settings.peek();
  studio.settings.value = { ...all, [tool]: { ...all[tool], [name]: value } };
}

/** Settings to send: the selected motion stands in where none is named, and what is not given is left out. */
export function settingsToSend(studio: Studio, tool: ToolDescription): Record<string, unknown> {
  const settings = settingsOf(studio, tool);
  const selected = studio.session.selected.peek();
  for (const { name, kind } of tool.parameters) {
    if (name === "motion" && (kind === "clip" || kind === "take") && !settings[name] && selected !== null) settings[name] = selected.id;
  }
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null && value !== undefined && value !== ""));
}

export function ToolPanel() {
  const studio = useStudio();
  const { session } = studio;
  const tool = session.tools.value.find((each) => each.id === session.tool.value);
  if (tool === undefined) return <ToolList />;
  const { View, hides = [] } = extensions.get(tool.id) ?? {};
  const settings = settingsOf(studio, tool);
  const shown = tool.parameters.filter(({ name }) => !hides.includes(name));
  let room = ROOM;
  // The motion is the selected one unless somebody says otherwise: that is for later, and so is data that is typed in
  const isLater = ({ name, kind, columns, shape }: ParameterDescription): boolean => name === "motion" || (kind === "table" && (shape !== "rows" || columns.every((column) => column.name === "*")));
  const first = shown.filter((parameter) => !isLater(parameter) && (room -= parameter.kind === "bool" ? 0.5 : 1) >= 0);
  const later = shown.filter((parameter) => !first.includes(parameter));
  const draw = (list: typeof shown) => list.map((parameter) => (
    <Field key={`${tool.id}.${parameter.name}`} parameter={parameter} value={settings[parameter.name]} onChange={(value) => changeSetting(studio, tool.id, parameter.name, value)} />
  ));
  const { [tool.id]: own, ...others } = studio.settings.value;
  const changed = Object.keys(own ?? {}).length > 0;
  return (
    <div class="tool" data-tool={tool.id}>
      <header>
        <h2>
          <Icon name={tool.id} />
          <span class="grow">{tool.title}</span>
          {changed && <button type="button" class="quiet small" title="Settings as at first" aria-label="Settings as at first" onClick={() => (studio.settings.value = others)}><Icon name="loop" size={14} /></button>}
          <button type="button" class="quiet small" title="Close the tool (Esc)" aria-label="Close the tool" onClick={() => (session.tool.value = null)}><Icon name="close" size={14} /></button>
        </h2>
        <p>{tool.help}</p>
      </header>
      {View !== undefined && <View studio={studio} tool={tool} />}
      <div class="fields">{draw(first)}</div>
      {later.length > 0 && (
        <details class="more">
          <summary><Icon name="chevron" size={14} />More settings ({later.length})</summary>
          <div class="fields">{draw(later)}</div>
        </details>
      )}
      {(tool.kind === "job" || tool.kind === "ask") && shown.length > 0 && <Run tool={tool} />}
    </div>
  );
}

function Run({ tool }: { tool: ToolDescription }) {
  const studio = useStudio();
  const { session } = studio;
  const answer = useSignal<{ tool: string; result: JobResult } | null>(null);
  const isAsking = useSignal(false);
  const jobs = session.jobs.value.filter((job) => job.tool === tool.id);
  const running = jobs.find(isBusy);
  const last = jobs.filter((job) => job.state === "done").at(-1);
  const result = tool.kind === "ask" ? (answer.value?.tool === tool.id ? answer.value.result : undefined) : last?.result;
  const needsMotion = tool.parameters.some(({ name }) => name === "motion");
  const isReady = session.link.value === "open" && (!needsMotion || session.selected.value !== null);
  const run = async (): Promise<void> => {
    const settings = settingsToSend(studio, tool);
    if (tool.kind === "job") {
      // A motion that is made of settings alone has no source
      session.start(tool.id, needsMotion ? String(settings.motion) : "", settings);
      return;
    }
    isAsking.value = true;
    const told = await session.tryAsk(tool.id, settings);
    if (told !== null) answer.value = { tool: tool.id, result: (told.value ?? {}) as JobResult };
    isAsking.value = false;
  };
  return (
    <>
      {result !== undefined && <Results result={result} />}
      <div class="run">
        {running !== undefined && <JobLine job={running} />}
        <button type="button" class="button main wide" disabled={!isReady || running !== undefined || isAsking.value} onClick={() => void run()}>
          {running !== undefined || isAsking.value ? "Working…" : (VERBS[tool.id] ?? tool.title)}
        </button>
        {!isReady && <p class="muted">{session.link.value === "open" ? "Select a motion first." : "The server does not answer."}</p>}
      </div>
    </>
  );
}

export function isBusy(job: Job): boolean {
  return job.state === "running" || job.state === "waiting";
}

/** Progress of one job: how far, how long, and a way to end it. */
export function JobLine({ job }: { job: Job }) {
  const { session } = useStudio();
  const isUnknown = job.fraction <= 0;
  return (
    <div class="job-line">
      <div class="head" style={{ display: "flex", alignItems: "center", gap: "8px", marginBottom: "4px" }}>
        <span class="grow cut">{job.sentence || "Waiting"}</span>
        {job.left_s !== null && <span class="muted num">{job.left_s < 90 ? `${Math.max(1, Math.round(job.left_s))} s left` : `${Math.round(job.left_s / 60)} min left`}</span>}
        <button type="button" class="quiet small" title="Cancel" aria-label="Cancel the job" onClick={() => session.cancel(job.id)}><Icon name="close" size={14} /></button>
      </div>
      <div class={`progress${isUnknown ? " unknown" : ""}`} role="progressbar" aria-label={job.tool} aria-valuenow={Math.round(100 * job.fraction)} aria-valuemin={0} aria-valuemax={100}>
        <i style={{ width: isUnknown ? undefined : `${100 * job.fraction}%` }} />
      </div>
    </div>
  );
}

/** All tools by group, where none is open. */
function ToolList() {
  const studio = useStudio();
  const tools = studio.session.tools.value.filter((tool) => tool.group !== ""); // those without a group are questions
  const groups = [...new Set([...GROUPS, ...tools.map((tool) => tool.group)])].filter((group) => tools.some((tool) => tool.group === group));
  return (
    <div>
      {groups.map((group) => (
        <section key={group}>
          <div class="section"><h3>{group}</h3></div>
          <ul class="rows">
            {tools.filter((tool) => tool.group === group).map((tool) => (
              <li class="row" key={tool.id} title={tool.help}>
                <button type="button" class="pick" onClick={() => openTool(studio, tool.id)}>
                  <Icon name={tool.id} size={17} />
                  <span class="grow cut">{tool.title}</span>
                  {tool.shortcut !== "" && <kbd>Alt {tool.shortcut.toUpperCase()}</kbd>}
                </button>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {tools.length === 0 && <p class="note">The tools come with the server; playing and looking need none.</p>}
    </div>
  );
}

export function Results({ result }: { result: JobResult }) {
  const { text, table, report, files } = result;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.scrollIntoView({ block: "nearest" }), [result]);
  const facts = Object.entries(report ?? {}).filter(([, value]) => typeof value !== "object" || value === null);
  return (
    <div class="result" aria-live="polite" ref={place}>
      {text !== undefined && text !== "" && <p>{text}</p>}
      {table !== undefined && table.length > 0 && <DataTable rows={table} />}
      {facts.length > 0 && (
        <table class="facts">
          <tbody>{facts.map(([name, value]) => <tr key={name}><td>{readable(name)}</td><td class={typeof value === "string" ? "" : "n"}>{show(value)} {unitOf(name)}</td></tr>)}</tbody>
        </table>
      )}
      {files?.map((file) => (
        <a key={file.url} class="file" href={file.url} download={file.name}>
          <Icon name="export" size={16} />
          <span class="grow cut">{file.name}</span>
          <span class="muted num">{file.size < 1e6 ? `${Math.max(1, Math.round(file.size / 1e3))} kB` : `${(file.size / 1e6).toFixed(1)} MB`}</span>
        </a>
      ))}
    </div>
  );
}

function DataTable({ rows }: { rows: Record<string, unknown>[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <div class="scroll-x">
      <table class="facts">
        <thead><tr>{columns.map((column) => <th key={column} class={typeof rows[0][column] === "number" ? "n" : ""}>{readable(column)} <span class="unit">{unitOf(column)}</span></th>)}</tr></thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>{columns.map((column) => <td key={column} class={typeof row[column] === "number" ? "n" : ""}>{column === columns[0] && typeof row[column] === "string" ? readable(row[column]) : show(row[column])}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A value for people: numbers to four digits, rounding as zero, switches in words. */
export function show(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Math.abs(value) < 1e-9 ? "0" : String(Number(value.toPrecision(Number.isInteger(value) ? 15 : 4)));
  return Array.isArray(value) ? value.map(show).join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value);
}
