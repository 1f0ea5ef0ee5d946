/** The project panel: takes, clips and characters; and the details of the selected one: facts, recipe, layers and edits. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { LayerEntry, TakeEntry } from "../../build/messages";
import type { Item } from "../project/document";
import { freshId, newTake } from "./commands";
import { openTool, useStudio } from "./context";
import { chooseFiles } from "./files";
import { Icon } from "./icons";
import { readable } from "../tools/fields";
import { show } from "../tools/panel";

const KINDS = { take: "takes", clip: "clips" } as const;

export function ProjectPanel() {
  const studio = useStudio();
  const { session } = studio;
  const project = session.project.value;
  if (project === null) return <p class="note">Waiting for the project…</p>;
  const hasMesh = Object.values(project.characters).some((character) => character.mesh !== null);
  return (
    <div data-tour="project">
      <Section title="Takes" act={{ icon: "plus", label: "New take of the selection", run: () => void newTake(studio), isDisabled: session.selected.value === null }} />
      <ul class="rows">
        {Object.entries(project.takes).map(([id, take]) => (
          <ItemRow key={id} item={{ kind: "take", id }} name={take.name} meta={take.recipe?.tool ?? (take.layers.length > 0 ? take.layers.length === 1 ? "1 layer" : `${take.layers.length} layers` : "")} state={take.state} message={take.message} />
        ))}
        {Object.keys(project.takes).length === 0 && <li class="note">A take is a motion you may change. Select a clip and press +.</li>}
      </ul>
      <Section title="Clips" act={{ icon: "import", label: "Import files", run: () => chooseFiles(session) }} />
      <ul class="rows">
        {Object.entries(project.clips).map(([id, clip]) => (
          <ItemRow key={id} item={{ kind: "clip", id }} name={clip.name} meta={`${(clip.frames / clip.rate_hz).toFixed(1)} s`} message={clip.notes.join("\n")} />
        ))}
      </ul>
      {Object.keys(project.characters).length > 0 && (
        <>
          <Section title="Characters" />
          <ul class="rows">
            {Object.entries(project.characters).map(([id, character]) => (
              <li class="row" key={id}>
                <span class="pick"><Icon name="person" size={16} /><span class="grow cut">{character.name}</span></span>
                <span class="meta">{character.joints.length} joints</span>
                <span class="acts"><button type="button" class="quiet small" title="Put the selected motion on it" aria-label={`Put the selected motion on ${character.name}`} onClick={() => openTool(studio, "retarget")}><Icon name="retarget" size={14} /></button></span>
              </li>
            ))}
          </ul>
        </>
      )}
      {!hasMesh && Object.keys(project.clips).length > 0 && <p class="note">Drop an FBX or GLB with a skin to see your own character move.</p>}
    </div>
  );
}

function Section({ title, act }: { title: string; act?: { icon: string; label: string; run: () => void; isDisabled?: boolean } }) {
  return (
    <div class="section">
      <h3 class="grow">{title}</h3>
      {act !== undefined && <button type="button" class="quiet small" title={act.label} aria-label={act.label} disabled={act.isDisabled} onClick={act.run}><Icon name={act.icon} size={15} /></button>}
    </div>
  );
}

function ItemRow({ item, name, meta, state, message }: { item: Item; name: string; meta: string; state?: string; message?: string }) {
  const studio = useStudio();
  const { session } = studio;
  const isRenaming = useSignal(false);
  const isOn = session.selected.value?.id === item.id;
  const isPinned = session.pinned.value.some((other) => other.id === item.id);
  const pin = (): void => {
    session.pinned.value = isPinned ? session.pinned.peek().filter((other) => other.id !== item.id) : [...session.pinned.peek(), item];
  };
  const remove = (): void => void session.change("remove", { kind: KINDS[item.kind], id: item.id });
  const press = (event: KeyboardEvent): void => {
    if (event.key === "F2") isRenaming.value = true;
    else if (event.key === "Delete") remove();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  if (isRenaming.value) {
    return (
      <li class="row on">
        <NameField
          name={name} label={`Name of ${name}`}
          done={(next) => {
            isRenaming.value = false;
            if (next !== name && next !== "") void session.change("rename", { kind: KINDS[item.kind], id: item.id, name: next });
          }}
        />
      </li>
    );
  }
  return (
    <li class={`row${isOn ? " on" : ""}`} title={message || undefined}>
      <button type="button" class="pick" aria-current={isOn} onClick={() => session.select(item)} onDblClick={() => (isRenaming.value = true)} onKeyDown={press}>
        <Icon name={item.kind} size={16} />
        <span class="grow cut">{name}</span>
        {state !== undefined && state !== "fresh" && <span class={`state ${state}`} title={state} />}
      </button>
      <span class="meta">{meta}</span>
      <span class={`acts${isPinned ? " kept" : ""}`}>
        <button type="button" class="quiet small" aria-pressed={isPinned} title="Compare: show beside the selection" aria-label={`Compare ${name}`} onClick={pin}><Icon name="pin" size={14} /></button>
        <button type="button" class="quiet small" title="Rename (F2)" aria-label={`Rename ${name}`} onClick={() => (isRenaming.value = true)}><Icon name="edit" size={14} /></button>
        <button type="button" class="quiet small" title="Remove (Delete)" aria-label={`Remove ${name}`} onClick={remove}><Icon name="trash" size={14} /></button>
      </span>
    </li>
  );
}

function NameField({ name, label, done }: { name: string; label: string; done: (name: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  return (
    <input
      ref={field} class="control" aria-label={label} defaultValue={name} onBlur={(event) => done(event.currentTarget.value.trim())}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Enter") event.currentTarget.blur();
        if (event.key === "Escape") {
          event.currentTarget.value = name;
          event.currentTarget.blur();
        }
      }}
    />
  );
}

export function DetailsPanel() {
  const { session } = useStudio();
  const [project, item, motion] = [session.project.value, session.selected.value, session.main.value];
  if (project === null || item === null) return <p class="note">Select a motion to see what is known of it.</p>;
  const take = item.kind === "take" ? project.takes[item.id] : undefined;
  const clip = project.clips[take?.clip ?? item.id];
  return (
    <div>
      <div class="tool"><header><h2><Icon name={item.kind} /><span class="grow cut">{take?.name ?? clip?.name}</span></h2></header></div>
      {take !== undefined && take.state !== "fresh" && <p class="note">{take.message || (take.state === "stale" ? "Its result is older than its recipe." : "Its last run failed.")}</p>}
      <div class="fields">
        <table class="facts">
          <tbody>
            {(motion?.facts ?? []).map(([name, value], index) => <tr key={index}><td>{name}</td><td>{value}</td></tr>)}
            {clip !== undefined && <tr><td>source</td><td>{clip.source || clip.name}</td></tr>}
          </tbody>
        </table>
      </div>
      {clip !== undefined && clip.notes.length > 0 && (
        <>
          <div class="section"><h3>What the reader decided</h3></div>
          <ul>{clip.notes.map((note) => <li class="note" key={note}>{note}</li>)}</ul>
        </>
      )}
      {take !== undefined && <TakeDetails id={item.id} take={take} />}
    </div>
  );
}

/** Joints that a layer may move; all where none is chosen. */
function LayerMask({ take, layer: { id, name, mask } }: { take: string; layer: LayerEntry }) {
  const { session } = useStudio();
  const flip = (joint: string): void => {
    const chosen = mask.includes(joint) ? mask.filter((each) => each !== joint) : [...mask, joint];
    void session.change("set_layer", { take, layer: id, mask: chosen });
  };
  return (
    <details class="more mask">
      <summary><Icon name="chevron" size={14} />Moves {mask.length === 0 ? "all joints" : `${mask.length} joint${mask.length === 1 ? "" : "s"}`}</summary>
      <div class="segments" role="group" aria-label={`Mask of ${name}`}>
        {(session.main.value?.joints ?? []).map((joint) => <button type="button" key={joint} aria-pressed={mask.includes(joint)} onClick={() => flip(joint)}>{joint.replaceAll("_", " ")}</button>)}
      </div>
    </details>
  );
}

function TakeDetails({ id, take }: { id: string; take: TakeEntry }) {
  const studio = useStudio();
  const { session } = studio;
  const { recipe } = take;
  return (
    <>
      {recipe !== null && (
        <>
          <div class="section">
            <h3 class="grow">Recipe</h3>
            <button type="button" class="quiet small" title="Open these settings in the tool" aria-label="Open these settings in the tool" onClick={() => {
              studio.settings.value = { ...studio.settings.peek(), [recipe.tool]: { ...recipe.settings, ...recipe.inputs } };
              openTool(studio, recipe.tool);
            }}><Icon name="edit" size={14} /></button>
            <button type="button" class="quiet small" title="Run again" aria-label="Run the recipe again" onClick={() => session.start(recipe.tool, id, { ...recipe.settings, ...recipe.inputs }, id)}><Icon name="loop" size={14} /></button>
          </div>
          <div class="fields">
            <table class="facts">
              <tbody>
                <tr><td>tool</td><td>{recipe.tool}</td></tr>
                {Object.entries(recipe.inputs).map(([name, value]) => <tr key={name}><td>{readable(name)}</td><td>{session.project.value?.takes[value]?.name ?? session.project.value?.clips[value]?.name ?? value}</td></tr>)}
                {Object.entries(recipe.settings).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => <tr key={name}><td>{readable(name)}</td><td>{show(value).slice(0, 80)}</td></tr>)}
              </tbody>
            </table>
          </div>
        </>
      )}
      <div class="section">
        <h3 class="grow">Layers</h3>
        <button type="button" class="quiet small" title="New layer" aria-label="New layer" onClick={() => void session.change("add_layer", { take: id, layer: { id: freshId("layer"), name: `Layer ${take.layers.length + 1}`, weight: 1, mask: [], keys: [] } })}><Icon name="plus" size={15} /></button>
      </div>
      <ul class="rows">
        {take.layers.map((layer) => (
          <li class="row" key={layer.id}>
            <Icon name="layers" size={16} />
            <span class="cut" style={{ flex: 1 }}>{layer.name}</span>
            <span class="muted num">{layer.keys.length} keys</span>
            <input type="range" style={{ width: "74px" }} aria-label={`Weight of ${layer.name}`} title={`Weight ${layer.weight.toFixed(2)}`} min={0} max={1} step={0.05} value={layer.weight} onChange={(event) => void session.change("set_layer", { take: id, layer: layer.id, weight: Number(event.currentTarget.value) })} />
            <button type="button" class="quiet small" title="Remove" aria-label={`Remove ${layer.name}`} onClick={() => void session.change("remove_layer", { take: id, layer: layer.id })}><Icon name="trash" size={14} /></button>
            <LayerMask take={id} layer={layer} />
          </li>
        ))}
        {take.layers.length === 0 && <li class="note">Keys of the pose tool go into a layer on top of the capture.</li>}
      </ul>
      {take.edits.length > 0 && (
        <>
          <div class="section"><h3>Edits</h3></div>
          <ul class="rows">
            {take.edits.map((edit, index) => (
              <li class="row" key={index}>
                <Icon name={edit.kind === "contact" ? "contacts" : "edit"} size={16} />
                <span class="grow cut">{readable(String(edit.kind))} {String(edit.point ?? "").replaceAll("_", " ")}</span>
                <button type="button" class="quiet small" title="Remove" aria-label={`Remove edit ${index + 1}`} onClick={() => void session.change("set_edit", { take: id, index, edit: null })}><Icon name="trash" size={14} /></button>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
