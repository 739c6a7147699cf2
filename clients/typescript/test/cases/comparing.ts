/** Compares an answer with the right one, which names only what matters. */

import type { Tree, TreeObject } from "./files.js";

/** Where and how an answer is not the right one; undefined where it is. */
export function difference(right: Tree, got: Tree | undefined, path = ""): string | undefined {
  if (right === null || got === null || got === undefined) {
    return right === (got ?? null) ? undefined : told(path, right, got);
  }
  if (Array.isArray(right)) return ofList(right, got, path);
  if (typeof right === "object") return ofObject(right, got, path);
  if (typeof right === "boolean" || typeof got === "boolean" || typeof got === "object") {
    return right === got ? undefined : told(path, right, got);
  }
  return String(right) === String(got) ? undefined : told(path, right, got);
}

function ofObject(right: TreeObject, got: Tree, path: string): string | undefined {
  if ("$any" in right) return undefined;
  if ("$count" in right) {
    const count = Array.isArray(got) ? got.length : -1;
    return count === right["$count"] ? undefined : told(`${path}, how many`, right["$count"] ?? null, count);
  }
  if ("$has" in right) return ofPart(right["$has"] as Tree[], got, path);
  if (typeof got !== "object" || got === null || Array.isArray(got)) return told(path, right, got);
  return first(Object.entries(right), ([name, item]) => difference(item, got[name], `${path}.${name}`));
}

function ofList(right: Tree[], got: Tree, path: string): string | undefined {
  if (!Array.isArray(got) || got.length !== right.length) return told(path, right, got);
  return first([...right.entries()], ([place, item]) => difference(item, got[place], `${path}.${place}`));
}

function ofPart(wanted: Tree[], got: Tree, path: string): string | undefined {
  if (!Array.isArray(got)) return told(path, wanted, got);
  let from = 0;
  for (const item of wanted) {
    const at = got.findIndex((one, place) => place >= from && difference(item, one) === undefined);
    if (at < 0) return `${path}: has no ${shown(item)}, or not in this order`;
    from = at + 1;
  }
  return undefined;
}

function first<T>(items: readonly T[], problem: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = problem(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function told(path: string, right: Tree, got: Tree | undefined): string {
  return `${path.replace(/^\./, "") || "answer"}: right is ${shown(right)}, came ${shown(got)}`;
}

export function shown(tree: unknown): string {
  if (tree === undefined) return "nothing";
  const written = JSON.stringify(tree);
  return written.length <= 400 ? written : `${written.slice(0, 400)}… (${written.length} characters)`;
}
