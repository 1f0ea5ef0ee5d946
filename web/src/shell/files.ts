/** Files on their way to the server: dropped or chosen, one request each, with what went wrong as a sentence. */

import type { Session } from "../project/session";

/** What the readers of the library take. */
const ACCEPTED = ".bvh,.fbx,.glb,.gltf,.c3d,.trc,.asf,.amc,.npz,.mvnx,.mot,.osim,.usda,.usd,.csv";

/** Send raw bytes: read as motions, or kept as a file for a tool. The server's answer as JSON. */
export async function upload<T>(file: File, isKept: boolean): Promise<T> {
  const response = await fetch(`/api/import?name=${encodeURIComponent(file.name)}${isKept ? "&keep=1" : ""}`, {
    method: "POST", body: file, credentials: "same-origin", headers: { "Content-Type": "application/octet-stream" },
  });
  const answer = (await response.json().catch(() => ({}))) as T & { sentence?: string; fix?: string };
  if (!response.ok) throw Object.assign(new Error(answer.sentence ?? `${file.name} was refused (${response.status})`), { fix: answer.fix ?? "" });
  return answer;
}

/** What a dropped text is for, by the tool that is open. */
const TEXTS: Record<string, (session: Session, upload: string) => Promise<unknown>> = {
  walk: async (session, file) => session.start("script", "", { file }),
  script: async (session, file) => session.start("script", "", { file }),
  path: async (session, file) => {
    const { value } = await session.ask("shipped_sketch", { file });
    return session.change("edit_world", { root: "sketch", patches: [{ path: [], value: (value as { report: { sketch: unknown } }).report.sketch }] });
  },
};

/** A script is played where Walk is open, a sketch is drawn where Path is. */
async function openText(session: Session, file: File): Promise<void> {
  const act = TEXTS[session.tool.peek() ?? ""];
  if (act === undefined) session.toast("info", `What is ${file.name}?`, "Open Walk to play it as a script, or Path to draw on it as a sketch, and drop it again");
  else await act(session, (await upload<{ upload: string }>(file, true)).upload);
}

export async function importFiles(session: Session, files: Iterable<File>): Promise<void> {
  for (const file of files) {
    try {
      if (/\.(toml|xml)$/i.test(file.name)) {
        await openText(session, file);
        continue;
      }
      const { clips, takes } = await upload<{ clips?: string[]; takes?: string[] }>(file, false);
      session.selectMade(takes?.[0], clips?.[0]);
      session.toast("good", `${file.name} is imported`, (clips?.length ?? 0) > 1 ? `It holds ${clips!.length} motions` : "");
    } catch (error) {
      const { message, fix } = error as { message: string; fix?: string };
      session.toast("error", message, fix ?? "Check that the server runs, and drop the file again");
    }
  }
}

/** The browser's own dialog. */
export function chooseFiles(session: Session, accepted = ACCEPTED): void {
  // A browser opens it for a click or a key of the user only, and some keys do not count
  if (navigator.userActivation?.isActive === false) {
    session.toast("info", "Which files?", "Or drop them anywhere", { label: "Choose files", run: () => chooseFiles(session, accepted) });
    return;
  }
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.accept = accepted;
  input.addEventListener("change", () => void importFiles(session, [...(input.files ?? [])]));
  input.click();
}
