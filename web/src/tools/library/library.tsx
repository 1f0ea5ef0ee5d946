/** The library: clips that ship and clips of the user's own, found as one types, added to the project by a click. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Icon } from "../../shell/icons";
import { registerPart, type ToolPartProps } from "../panel";

type Row = { id: string; name: string; tags?: string[]; duration_s?: number };
type Found = { table?: Row[]; clips?: string[]; takes?: string[] };

const PAUSE_MS = 200; // after the last letter

function LibraryPart({ studio }: ToolPartProps) {
  const { session } = studio;
  const words = useSignal("");
  const rows = useSignal<Row[] | null>(null);
  const loading = useSignal<string | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => {
      session.ask("library", { action: "search", text: words.value }).then(({ value }) => (rows.value = (value as Found).table ?? []), (error) => session.report(error));
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words.value]);
  const load = async (row: Row): Promise<void> => {
    loading.value = row.id;
    try {
      const found = (await session.ask("library", { action: "load", clip: row.id })).value as Found;
      session.selectMade(found.takes?.[0], found.clips?.[0]);
    } catch (error) {
      session.report(error);
    }
    loading.value = null;
  };
  const keep = async (): Promise<void> => {
    const item = session.selected.peek();
    if (item === null) return;
    try {
      rows.value = ((await session.ask("library", { action: "add", motion: item.id })).value as Found).table ?? rows.peek();
      session.toast("good", "The selected motion is in your library");
    } catch (error) {
      session.report(error);
    }
  };
  return (
    <>
      <div class="fields">
        <div class="pair go">
          <input class="control" type="search" placeholder="Words, tags" aria-label="Search the library" value={words.value} onInput={(event) => (words.value = event.currentTarget.value)} />
          <button type="button" class="button" disabled={session.selected.value === null} title="Keep the selected motion in the library" onClick={() => void keep()}>Keep</button>
        </div>
      </div>
      <ul class="rows">
        {(rows.value ?? []).map((row) => (
          <li class="row" key={row.id}>
            <button type="button" class="pick" title="Add to the project" disabled={loading.value !== null} onClick={() => void load(row)}>
              <Icon name={loading.value === row.id ? "loop" : "clip"} size={16} />
              <span class="grow cut">{row.name}</span>
              <span class="muted num">{row.duration_s === undefined ? (row.tags ?? []).join(", ") : `${row.duration_s.toFixed(1)} s`}</span>
            </button>
          </li>
        ))}
        {rows.value?.length === 0 && <li class="note">Nothing has these words.</li>}
      </ul>
    </>
  );
}

registerPart("library", LibraryPart, ["action", "text", "clip", "motion", "tags", "behaviour", "speed_mps"]);
