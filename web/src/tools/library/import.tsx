/** Import: what an uploaded file holds, so that clips are picked and joints are named before it is read. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Field } from "../fields";
import { extensions, type ToolPartProps } from "../handles";
import { changeSetting, settingsOf } from "../panel";

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
