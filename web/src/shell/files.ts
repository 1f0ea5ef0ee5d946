/** Files on their way to the server: dropped or chosen, one request each, with what went wrong as a sentence. */

import type { Session } from "../project/session";

/** What the readers of the library take. */
export const ACCEPTED = ".bvh,.fbx,.glb,.gltf,.c3d,.trc,.asf,.amc,.npz,.mvnx,.mot,.osim,.usda,.usd,.csv";

interface Refused {
  sentence?: string;
  fix?: string;
}

/** Send raw bytes: read as motions, or kept as a file for a tool. The server's answer as JSON. */
export async function upload<T>(file: File, isKept: boolean): Promise<T> {
  const response = await fetch(`/api/import?name=${encodeURIComponent(file.name)}${isKept ? "&keep=1" : ""}`, {
    method: "POST", body: file, credentials: "same-origin", headers: { "Content-Type": "application/octet-stream" },
  });
  const answer = (await response.json().catch(() => ({}))) as T & Refused;
  if (!response.ok) throw Object.assign(new Error(answer.sentence ?? `${file.name} was refused (${response.status})`), { fix: answer.fix ?? "" });
  return answer;
}

export async function importFiles(session: Session, files: Iterable<File>): Promise<void> {
  for (const file of files) {
    try {
      const { clips, takes } = await upload<{ clips?: string[]; takes?: string[] }>(file, false);
      const [[clip], [take]] = [clips ?? [], takes ?? []];
      if (take !== undefined && session.project.peek()?.takes[take] !== undefined) session.select({ kind: "take", id: take });
      else if (clip !== undefined && session.project.peek()?.clips[clip] !== undefined) session.select({ kind: "clip", id: clip });
      session.toast("good", `${file.name} is imported`, (clips?.length ?? 0) > 1 ? `It holds ${clips!.length} motions` : "");
    } catch (error) {
      const { message, fix } = error as { message: string; fix?: string };
      session.toast("error", message, fix ?? "Check that the server runs, and drop the file again");
    }
  }
}

/** The browser's own dialog. */
export function chooseFiles(session: Session): void {
  // A browser opens it for a click or a key of the user only, and some keys do not count
  if (navigator.userActivation?.isActive === false) {
    session.toast("info", "Which files?", "Or drop them anywhere", { label: "Choose files", run: () => chooseFiles(session) });
    return;
  }
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.accept = ACCEPTED;
  input.addEventListener("change", () => void importFiles(session, [...(input.files ?? [])]));
  input.click();
}
