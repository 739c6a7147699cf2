/** The files of cases: what is in them, and what is replaced before a step is run. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** What JSON can say. */
export type Tree = null | boolean | number | string | Tree[] | TreeObject;
export interface TreeObject {
  [name: string]: Tree;
}

export interface Step {
  call?: string;
  open?: string;
  read?: string;
  close?: string;
  args?: TreeObject;
  as?: string;
  count?: number;
  answer?: TreeObject;
  error?: TreeObject;
  save?: Record<string, string>;
  eventually?: boolean;
  at_once?: { callers: number; calls: number; numbers: string; from: number; to: number };
}

export interface Case {
  id: string;
  steps: Step[];
  needs: string[];
  oddity?: TreeObject;
}

export interface Oddity {
  name: string;
  value: TreeObject;
}

const ODDITIES = "oddities.json";
const STEPS = new Map<string, string[]>([
  ["call", ["args", "eventually", "at_once", "answer", "error", "save"]],
  ["open", ["args", "as", "eventually", "answer", "error", "save"]],
  ["read", ["count", "eventually", "answer", "error", "save"]],
  ["close", []],
]);

export function oddities(folder: string): Oddity[] {
  const entries = parsed(folder, ODDITIES) as unknown as Oddity[];
  return entries.map(({ name, value }) => ({ name, value: replaced(value, "", new Map()) as TreeObject }));
}

/** Every case of a folder. Throws where there are none, or where one has what this runner would not look at. */
export function cases(folder: string): Case[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== ODDITIES);
  const found = files.sort().flatMap((file) => {
    const { name, cases } = parsed(folder, file) as unknown as { name: string; cases: Written[] };
    return cases.flatMap((one) => casesOf(one, `${name}/${one.name}`, folder));
  });
  if (found.length === 0) throw new Error(`there are no cases in ${folder}`);
  return found;
}

interface Written {
  name: string;
  steps: Step[];
  needs?: string[];
  each?: string;
}

function casesOf(written: Written, id: string, folder: string): Case[] {
  written.steps.forEach((step, place) => {
    const kind = kindOf(step);
    const unknown = Object.keys(step).filter((name) => name !== kind && !STEPS.get(kind)?.includes(name));
    if (unknown.length) throw new Error(`${id}, step ${place + 1} has ${unknown.join()}, which nobody looks at`);
  });
  const { steps, needs = [], each } = written;
  if (each === undefined) return [{ id, steps, needs }];
  if (each !== "oddity") throw new Error(`${id} is run for each ${each}, which nobody knows`);
  return oddities(folder).map(({ name, value }) => ({ id: `${id}/${name}`, steps, needs, oddity: value }));
}

export function kindOf(step: Step): "call" | "open" | "read" | "close" {
  const kind = (["call", "open", "read", "close"] as const).find((one) => one in step);
  if (!kind) throw new Error(`a step does nothing: ${JSON.stringify(step)}`);
  return kind;
}

/** A tree in which `$run`, `$repeat`, `$saved` and `$oddity` are replaced by what they stand for. */
export function replaced(tree: Tree, run: string, saved: ReadonlyMap<string, Tree>, oddity?: Tree): Tree {
  if (typeof tree === "string") return tree.replaceAll("$run", run);
  if (Array.isArray(tree)) return tree.map((item) => replaced(item, run, saved, oddity));
  if (typeof tree !== "object" || tree === null) return tree;
  if ("$repeat" in tree) return (tree["$repeat"] as string).repeat(tree["times"] as number);
  if ("$oddity" in tree) return oddity ?? null;
  if ("$saved" in tree) {
    const name = tree["$saved"] as string;
    const kept = saved.get(name);
    if (kept === undefined) throw new Error(`nothing was saved as ${name}`);
    return "plus" in tree ? String(BigInt(kept as string) + BigInt(tree["plus"] as number)) : kept;
  }
  return Object.fromEntries(Object.entries(tree).map(([name, item]) => [name, replaced(item, run, saved, oddity)]));
}

function parsed(folder: string, file: string): Tree {
  return JSON.parse(readFileSync(join(folder, file), "utf8")) as Tree;
}
