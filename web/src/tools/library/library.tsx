/** Where motions come from: the library, found as one types; and files, of which clips and joints are picked before they are read. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../../project/session";
import { Icon } from "../../shell/icons";
import { cssColour } from "../../shell/theme";
import { Field } from "../fields";
import { extensions, type ToolPartProps } from "../handles";
import { changeSetting, settingsOf } from "../panel";

type Row = { id: string; name: string; tags?: string[]; duration_s?: number };
type Found = { table?: Row[]; clips?: string[]; takes?: string[] };

/** A figure that moves: places (n, J, 2) [m] in a picture of joints and bones. */
type Figure = { places: Float32Array; parents: number[]; seconds: number };
const figures = new Map<string, Promise<Figure>>();

/** Lines of a figure at a frame, in pixels of a square: from joint to parent. */
export function boneLines({ places, parents }: Figure, frame: number, sizePx: number): [number, number, number, number][] {
  const count = parents.length;
  const at = (j: number): [number, number] => [places[2 * (frame * count + j)], places[2 * (frame * count + j) + 1]];
  const scale = sizePx / 2; // two metres fill it
  const pixel = ([x, y]: [number, number]): [number, number] => [sizePx / 2 + scale * x, sizePx - scale * y];
  return parents.flatMap((parent, j) => (parent < 0 ? [] : [[...pixel(at(j)), ...pixel(at(parent))] as [number, number, number, number]]));
}

const THUMB_PX = 40;

function Thumbnail({ session, clip }: { session: Session; clip: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    let figure: Figure | null = null;
    const watch = new IntersectionObserver(([entry]) => {
      // Only what is seen is asked for, once
      if (!entry.isIntersecting) return;
      if (!figures.has(clip)) figures.set(clip, session.ask("thumbnail", { clip }).then(({ value, arrays }) => ({ places: arrays.places as Float32Array, ...(value as { report: { parents: number[]; seconds: number } }).report })));
      figures.get(clip)!.then((found) => (figure = found), () => {});
    });
    watch.observe(canvas.current!);
    const timer = setInterval(() => {
      const c = canvas.current?.getContext("2d");
      if (c == null || figure === null) return;
      const frames = figure.places.length / (2 * figure.parents.length);
      c.clearRect(0, 0, THUMB_PX, THUMB_PX);
      c.strokeStyle = cssColour("ink");
      c.beginPath();
      for (const [x0, y0, x1, y1] of boneLines(figure, Math.floor((performance.now() / 1000 / figure.seconds) * frames) % frames, THUMB_PX)) {
        c.moveTo(x0, y0);
        c.lineTo(x1, y1);
      }
      c.stroke();
    }, 80);
    return () => {
      watch.disconnect();
      clearInterval(timer);
    };
  }, [clip]);
  return <canvas ref={canvas} width={THUMB_PX} height={THUMB_PX} role="img" aria-label={`${clip} moves`} />;
}

const PAUSE_MS = 200; // after the last letter

function LibraryPart({ studio }: ToolPartProps) {
  const { session } = studio;
  const words = useSignal("");
  const tags = useSignal("");
  const rows = useSignal<Row[] | null>(null);
  const loading = useSignal<string | null>(null);
  const ask = async (args: Record<string, unknown>): Promise<Found> => ((await session.tryAsk("library", args))?.value ?? {}) as Found;
  useEffect(() => {
    const timer = setTimeout(async () => {
      rows.value = (await ask({ action: "search", text: words.value })).table ?? rows.peek();
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words.value]);
  const load = async (row: Row): Promise<void> => {
    loading.value = row.id;
    const found = await ask({ action: "load", clip: row.id });
    session.selectMade(found.takes?.[0], found.clips?.[0]);
    loading.value = null;
  };
  const keep = async (): Promise<void> => {
    const item = session.selected.peek();
    const { table } = await ask({ action: "add", motion: item?.id, tags: tags.value });
    if (table === undefined) return;
    rows.value = table;
    session.toast("good", "The selected motion is in your library");
  };
  return (
    <>
      <div class="fields">
        <div>
          <input class="control" type="search" placeholder="Words, tags" aria-label="Search the library" value={words.value} onInput={(event) => (words.value = event.currentTarget.value)} />
        </div>
        <div class="pair go">
          <input class="control" type="text" placeholder="Tags, with commas between" aria-label="Tags of what is kept" value={tags.value} onInput={(event) => (tags.value = event.currentTarget.value)} />
          <button type="button" class="button" disabled={session.selected.value === null} title="Keep the selected motion in the library" onClick={() => void keep()}>Keep</button>
        </div>
      </div>
      <ul class="rows">
        {(rows.value ?? []).map((row) => (
          <li class="row" key={row.id}>
            <button type="button" class="pick tall" title="Add to the project" disabled={loading.value !== null} onClick={() => void load(row)}>
              {loading.value === row.id ? <Icon name="loop" size={16} /> : <Thumbnail session={session} clip={row.id} />}
              <span class="grow cut">{row.name}</span>
              <span class="muted num cut">{[(row.tags ?? []).join(", "), row.duration_s === undefined ? "" : `${row.duration_s.toFixed(1)} s`].filter(Boolean).join(" · ")}</span>
            </button>
          </li>
        ))}
        {rows.value?.length === 0 && <li class="note">Nothing has these words.</li>}
      </ul>
    </>
  );
}

extensions.set("library", { View: LibraryPart, hides: ["action", "text", "clip", "motion", "tags", "behaviour", "speed_mps"] });

type Contents = { clips: string[]; joints: string[] };

function ImportPart({ studio, tool }: ToolPartProps) {
  const { session } = studio;
  const { file, clips, roles } = settingsOf(studio, tool);
  const found = useSignal<Contents | null>(null);
  useEffect(() => {
    found.value = null;
    if (file) void session.tryAsk("contents", { file }).then((answer) => (found.value = answer === null ? null : (answer.value as { report: Contents }).report));
  }, [file]);
  if (found.value === null) return <p class="note">Drop files anywhere to read all that is in them. Choose one here to pick its clips and to correct what the reader decides.</p>;
  const { clips: all, joints } = found.value;
  const picked = (clips as string[] | null) ?? all;
  const flip = (name: string): void => {
    const next = all.filter((each) => picked.includes(each) !== (each === name));
    changeSetting(studio, tool.id, "clips", next.length === all.length ? null : next);
  };
  const parameter = tool.parameters.find(({ name }) => name === "roles")!;
  return (
    <div class="fields">
      {all.length > 1 && <span class="label">{picked.length} of {all.length} clips</span>}
      {all.length > 1 && (
        <div class="segments" role="group" aria-label="Clips to read">
          {all.map((name) => <button type="button" key={name} aria-pressed={picked.includes(name)} onClick={() => flip(name)}>{name}</button>)}
        </div>
      )}
      {joints.length > 0 && <Field parameter={{ ...parameter, columns: [{ ...parameter.columns[0], kind: "choice", choices: joints }] }} value={roles} onChange={(next) => changeSetting(studio, tool.id, "roles", next)} />}
    </div>
  );
}

extensions.set("import", { View: ImportPart, hides: ["clips", "roles"] });
