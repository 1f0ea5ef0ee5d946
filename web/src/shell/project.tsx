/** The project panel: takes, clips and characters; pick, rename, compare, copy, remove. */

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Item } from "../project/document";
import { newTake } from "./commands";
import { openTool, useStudio } from "./context";
import { chooseFiles } from "./files";
import { Icon } from "./icons";

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
