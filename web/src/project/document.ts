/** The document of a project: applying its patches, and what an item of it shows. */

import type { DocumentPatch, ProjectDocument } from "../../build/messages";

type Key = string | number;

/** The tree after the patches. Branches that no patch touches stay the same objects, so signals of them stay silent. */
export function applyPatches<T extends object>(tree: T, patches: readonly DocumentPatch[]): T {
  const fresh = new Set<object>(); // nodes that this call has copied, and may change
  const copy = <N extends object>(node: N): N => {
    const twin = (Array.isArray(node) ? [...node] : { ...node }) as N;
    fresh.add(twin);
    return twin;
  };
  const root = copy(tree);
  for (const { path, ...change } of patches) {
    let node = root as Record<Key, unknown>;
    for (const key of path.slice(0, -1)) {
      let child = node[key];
      if (typeof child !== "object" || child === null) throw new Error(`the document has nothing at ${path.join("/")}`);
      if (!fresh.has(child)) node[key] = child = copy(child);
      node = child as Record<Key, unknown>;
    }
    const key = path[path.length - 1];
    if ("insert" in change && Array.isArray(node)) node.splice(Number(key), 0, change.insert);
    else if (change.remove === true && Array.isArray(node)) node.splice(Number(key), 1);
    else if (change.remove === true) delete node[key];
    else node[key] = change.value;
  }
  return root;
}

/** A motion of the project that can be shown: a take, or a clip as it was read. */
export interface Item {
  kind: "take" | "clip";
  id: string;
}

/** Content hash of what an item shows now: a take's result, or its base clip where there is none. */
export function shownHash(project: ProjectDocument, item: Item): string | null {
  if (item.kind === "clip") return project.clips[item.id]?.hash ?? null;
  const take = project.takes[item.id];
  if (take === undefined) return null;
  return take.result ?? take.base ?? project.clips[take.clip]?.hash ?? null;
}

/** Content hash of what an item was made from, where that differs from what it shows. */
export function sourceHash(project: ProjectDocument, item: Item): string | null {
  if (item.kind === "clip") return null;
  const take = project.takes[item.id];
  const base = take === undefined ? undefined : project.clips[take.clip]?.hash;
  return base !== undefined && shownHash(project, item) !== base ? base : null;
}

export function itemName(project: ProjectDocument, item: Item): string {
  return (item.kind === "clip" ? project.clips[item.id] : project.takes[item.id])?.name ?? "";
}
