/** The library: clips that ship and clips of the user's own, found as one types, added to the project by a click. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../../project/session";
import { Icon } from "../../shell/icons";
import { cssColour } from "../../shell/theme";
import { extensions, type ToolPartProps } from "../handles";

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
