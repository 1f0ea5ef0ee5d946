/** The viewport's place in the window: its canvas, camera and overlay buttons, captions, and the empty state. */

import { useEffect, useRef } from "preact/hooks";
import { itemName } from "../project/document";
import { PALETTES } from "../viewer/body";
import type { View } from "../viewer/stage";
import { GHOST_TINT, Viewport } from "../viewport/viewport";
import { OVERLAYS, toggleOverlay } from "./commands";
import { useStudio } from "./context";
import { readableKeys } from "./dialogs";
import { chooseFiles } from "./files";
import { Icon } from "./icons";

const VIEWS: [View, string][] = [["front", "Front (1)"], ["side", "Side (3)"], ["top", "Top (7)"], ["free", "Free (0)"]];

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
            {VIEWS.map(([name, label]) => (
              <button key={name} type="button" class="quiet word" aria-pressed={view.view.value === name} title={label} onClick={() => view.look(name)}>{label.split(" ")[0]}</button>
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
