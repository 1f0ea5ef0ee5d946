/** Controls drawn from a tool's parameters: one for each kind, all with a name, a unit and a check. */

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import type { ParameterDescription } from "../../build/messages";
import { useStudio } from "../shell/context";
import { upload } from "../shell/files";
import { Icon } from "../shell/icons";
import { roundStep } from "../timeline/axis";

interface FieldProps {
  parameter: ParameterDescription;
  value: unknown;
  onChange: (value: unknown) => void;
}

const UNITS: Record<string, string> = { per_s: "1/s", n_m: "N/m", m_s2: "m/s²", mps2: "m/s²", m_s: "m/s", mps: "m/s", s: "s", ms: "ms", m: "m", mm: "mm", cm: "cm", hz: "Hz", kg: "kg", n: "N", deg: "°" };
const UNIT = new RegExp(`_(${Object.keys(UNITS).join("|")})$`);

/** "max_iterations" as people read it: without "is", and without units, which stand beside it. */
export function readable(name: string): string {
  const words = name.replace(UNIT, "").replace(/^(is|has)_/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The unit at the end of a name: "s" of "start_s". */
export function unitOf(name: string): string {
  return UNITS[UNIT.exec(name)?.[1] ?? ""] ?? "";
}

export function Field({ parameter, value, onChange }: FieldProps) {
  const id = useId();
  const Control = CONTROLS[parameter.kind] ?? TextControl;
  const title = parameter.help || undefined;
  if (parameter.kind === "bool") {
    return (
      <div class="field inline" title={title}>
        <label for={id}><span>{readable(parameter.name)}{title !== undefined && <small>{title}</small>}</span></label>
        <input id={id} class="switch" type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />
      </div>
    );
  }
  return (
    <div class="field" title={title}>
      <label for={id}>
        <span>{readable(parameter.name)}</span>
        {parameter.unit !== "" && <span class="unit">{parameter.unit}</span>}
      </label>
      <Control id={id} parameter={parameter} value={value} onChange={onChange} />
      {title !== undefined && <small class={parameter.kind === "table" ? "help shown" : "help"}>{title}</small>}
    </div>
  );
}

type ControlProps = FieldProps & { id: string };

/** The control of each kind; all others are texts. */
const CONTROLS: Partial<Record<ParameterDescription["kind"], (props: ControlProps) => JSX.Element>> = {
  float: NumberControl, int: NumberControl, choice: ChoiceControl, range: RangeControl, joint: JointControl,
  clip: MotionControl, take: MotionControl, file: FileControl, points: NumbersControl, table: TableControl,
};

function isWrong(parameter: ParameterDescription, number: number): boolean {
  const { minimum, maximum } = parameter;
  return !Number.isFinite(number) || (minimum !== null && number < minimum) || (maximum !== null && number > maximum) || (parameter.kind === "int" && !Number.isInteger(number));
}

function NumberControl({ id, parameter, value, onChange }: ControlProps) {
  const draft = useSignal<string | null>(null);
  const { minimum, maximum, kind } = parameter;
  const hasSlider = minimum !== null && maximum !== null && maximum > minimum;
  const step = kind === "int" ? 1 : hasSlider ? roundStep((maximum - minimum) / 100) : "any";
  const shown = draft.value ?? (value === null || value === undefined ? "" : String(Math.round(Number(value) * 1e6) / 1e6));
  const take = (text: string): void => {
    draft.value = null;
    if (text.trim() === "") onChange(null);
    else if (!isWrong(parameter, Number(text))) onChange(Number(text));
  };
  const field = (
    <input
      id={id} class="control num" type="text" inputMode="decimal" value={shown} placeholder={value === null ? "auto" : ""} aria-invalid={draft.value !== null && draft.value.trim() !== "" && isWrong(parameter, Number(draft.value))}
      onInput={(event) => (draft.value = event.currentTarget.value)} onBlur={(event) => take(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") take(event.currentTarget.value);
        const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (way === undefined) return;
        event.preventDefault();
        const next = Number(shown || 0) + way * (step === "any" ? 0.1 : step) * (event.shiftKey ? 10 : 1);
        if (!isWrong(parameter, next)) take(String(Math.round(next * 1e6) / 1e6));
      }}
    />
  );
  if (!hasSlider) return field;
  return (
    <div class="pair">
      <input type="range" class={value == null ? "unset" : ""} aria-label={readable(parameter.name)} min={minimum} max={maximum} step={step} value={Number(value ?? minimum)} onInput={(event) => onChange(Number(event.currentTarget.value))} />
      {field}
    </div>
  );
}

function ChoiceControl({ id, parameter, value, onChange }: ControlProps) {
  const { choices } = parameter;
  if (choices.length > 4 || choices.join("").length > 30) {
    return (
      <select id={id} class="control" value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || null)}>
        {(value === null || value === "") && <option value="">automatic</option>}
        {choices.map((choice) => <option key={choice} value={choice}>{choice.replaceAll("_", " ")}</option>)}
      </select>
    );
  }
  return (
    <div class="segments" id={id} role="radiogroup" aria-label={readable(parameter.name)}>
      {choices.map((choice) => (
        <button key={choice} type="button" role="radio" aria-checked={value === choice} onClick={() => onChange(choice)}>{choice.replaceAll("_", " ")}</button>
      ))}
    </div>
  );
}

function RangeControl({ id, parameter, value, onChange }: ControlProps) {
  const { session } = useStudio();
  const pair = Array.isArray(value) ? (value as [number, number]) : null;
  const set = (index: 0 | 1, text: string): void => {
    const next: [number, number] = pair === null ? [0, session.durationS.peek()] : [...pair];
    next[index] = Number(text);
    if (Number.isFinite(next[index])) onChange(next);
  };
  const range = session.rangeS.value;
  return (
    <div>
      <div class="pair even">
        {([0, 1] as const).map((index) => (
          <input
            key={index} id={index === 0 ? id : undefined} aria-label={`${readable(parameter.name)}, ${index === 0 ? "from" : "to"}`} class="control num" type="text" inputMode="decimal"
            placeholder={index === 0 ? "start" : "end"} value={pair === null ? "" : pair[index].toFixed(2)} onChange={(event) => set(index, event.currentTarget.value)}
          />
        ))}
      </div>
      <div class="segments" style={{ marginTop: "4px" }}>
        <button type="button" disabled={range === null} onClick={() => range !== null && onChange([...range])}>From the timeline</button>
        <button type="button" disabled={pair === null} onClick={() => onChange(null)}>All of it</button>
      </div>
    </div>
  );
}

function JointControl({ id, value, onChange }: ControlProps) {
  const { session } = useStudio();
  const joints = session.main.value?.joints ?? [];
  return (
    <div class="pair go">
      <select id={id} class="control" value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || null)}>
        <option value="">none</option>
        {joints.map((joint) => <option key={joint} value={joint}>{joint}</option>)}
      </select>
      <button type="button" class="button" disabled={session.joint.value === null} title="The joint that is selected in the viewport" onClick={() => onChange(session.joint.peek())}>Picked</button>
    </div>
  );
}

function MotionControl({ id, parameter, value, onChange }: ControlProps) {
  const { session } = useStudio();
  const project = session.project.value;
  const isMain = parameter.name === "motion";
  return (
    <select id={id} class="control" value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || null)}>
      <option value="">{isMain ? "the selected motion" : "none"}</option>
      <optgroup label="Takes">{Object.entries(project?.takes ?? {}).map(([key, take]) => <option key={key} value={key}>{take.name}</option>)}</optgroup>
      <optgroup label="Clips">{Object.entries(project?.clips ?? {}).map(([key, clip]) => <option key={key} value={key}>{clip.name}</option>)}</optgroup>
    </select>
  );
}

function FileControl({ id, value, onChange }: ControlProps) {
  const { session } = useStudio();
  const name = useSignal<string | null>(null);
  const send = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    try {
      const answer = await upload<{ upload: string }>(file, true);
      name.value = file.name;
      onChange(answer.upload);
    } catch (error) {
      session.report(error);
    }
  };
  return (
    <div class="pair go">
      <label class="button" for={id}><Icon name="import" size={15} />{value ? (name.value ?? "A file is chosen") : "Choose a file"}</label>
      <input id={id} class="sr" type="file" onChange={(event) => void send(event.currentTarget.files?.[0])} />
      <button type="button" class="quiet" aria-label="No file" disabled={!value} onClick={() => onChange(null)}><Icon name="close" size={14} /></button>
    </div>
  );
}

/** One card of fields for each row of a table; a new row stands at the playhead. Tables without columns are JSON. */
function TableControl(props: ControlProps) {
  const { parameter, value, onChange } = props;
  const { session } = useStudio();
  const rows = Array.isArray(value) ? (value as Record<string, unknown>[]) : [];
  const columns = parameter.shape === "rows" ? parameter.columns.filter(({ name }) => name !== "*") : [];
  if (parameter.shape === "map" && parameter.choices.length > 0) return <MapControl {...props} />;
  if (columns.length === 0) return <DataControl {...props} />;
  const known: Record<string, unknown> = { time_s: session.playheadS.peek(), at_s: session.playheadS.peek(), start_s: session.playheadS.peek(), motion: session.selected.peek()?.id, joint: session.joint.peek() };
  const change = (at: number, name: string, next: unknown): void => onChange(rows.map((row, i) => (i === at ? Object.fromEntries(Object.entries({ ...row, [name]: next }).filter(([, each]) => each !== null)) : row)));
  return (
    <div class="cards">
      {rows.map((row, at) => (
        <fieldset key={at}>
          <legend>{at + 1} <button type="button" class="quiet small" aria-label={`Remove row ${at + 1}`} onClick={() => onChange(rows.filter((_, i) => i !== at))}><Icon name="trash" size={13} /></button></legend>
          {columns.map((column) => <Field key={column.name} parameter={column} value={row[column.name] ?? column.default} onChange={(next) => change(at, column.name, next)} />)}
        </fieldset>
      ))}
      <button type="button" class="button" onClick={() => onChange([...rows, Object.fromEntries(columns.flatMap(({ name }) => (known[name] == null ? [] : [[name, known[name]]])))])}><Icon name="plus" size={14} />Add</button>
    </div>
  );
}

/** A value for each name that is chosen, such as the joint of a role. */
function MapControl({ parameter, value, onChange }: ControlProps) {
  const given = (value ?? {}) as Record<string, unknown>;
  const put = (name: string, next: unknown): void => {
    const { [name]: _, ...others } = given;
    const all = next === undefined ? others : { ...given, [name]: next };
    onChange(Object.keys(all).length === 0 ? null : all);
  };
  return (
    <div class="cards">
      {Object.entries(given).map(([name, each]) => (
        <div class="pair go" key={name}>
          <Field parameter={{ ...parameter.columns[0], name }} value={each} onChange={(next) => put(name, next)} />
          <button type="button" class="quiet small" aria-label={`Remove ${name}`} onClick={() => put(name, undefined)}><Icon name="trash" size={13} /></button>
        </div>
      ))}
      <select class="control" aria-label={`Add to ${readable(parameter.name).toLowerCase()}`} value="" onChange={(event) => put(event.currentTarget.value, null)}>
        <option value="">Add…</option>
        {parameter.choices.filter((name) => !(name in given)).map((name) => <option key={name} value={name}>{name.replaceAll("_", " ")}</option>)}
      </select>
    </div>
  );
}

/** Numbers with commas between, such as a place; several such rows are JSON. */
function NumbersControl(props: ControlProps) {
  const { id, value, onChange } = props;
  if (Array.isArray(value) && Array.isArray(value[0])) return <DataControl {...props} />;
  return (
    <input
      id={id} class="control num" type="text" placeholder="0, 0, 0" value={Array.isArray(value) ? value.join(", ") : ""}
      onChange={(event) => {
        const numbers = event.currentTarget.value.split(",").map(Number);
        onChange(event.currentTarget.value.trim() === "" || numbers.some(Number.isNaN) ? null : numbers);
      }}
    />
  );
}

/** Lists and tables as JSON; a tool with handles of its own edits them in the viewport instead. */
function DataControl({ id, parameter, value, onChange }: ControlProps) {
  const draft = useSignal<string | null>(null);
  const isBad = useSignal(false);
  const text = draft.value ?? (value === null || value === undefined ? "" : JSON.stringify(value, null, 1));
  return (
    <textarea
      id={id} class="control" spellcheck={false} value={text} placeholder={parameter.shape === "tree" || parameter.shape === "map" ? "{ }" : "[ ]"} aria-invalid={isBad.value}
      onInput={(event) => (draft.value = event.currentTarget.value)}
      onBlur={() => {
        if (draft.value === null) return;
        try {
          onChange(draft.value.trim() === "" ? null : JSON.parse(draft.value));
          draft.value = null;
          isBad.value = false;
        } catch {
          isBad.value = true;
        }
      }}
    />
  );
}

function TextControl({ id, value, onChange }: ControlProps) {
  return <input id={id} class="control" type="text" value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || null)} />;
}
