/** Runs one case, step by step. */

import { setTimeout as delay } from "node:timers/promises";

import { StatekeepError, type Client } from "../../src/index.js";
import { difference, shown } from "./comparing.js";
import { kindOf, replaced, type Case, type Step, type Tree, type TreeObject } from "./files.js";
import { CALLS, UNMET, open, type Opened } from "./operations.js";

const PAUSE_MS = 20;
const EVENTUALLY_MS = 10_000;

/** Why the client cannot run a case; undefined where it can. */
export function whySkipped(one: Case): string | undefined {
  const need = one.needs.find((asked) => asked !== "no_value" && asked !== "from_now");
  return need && (UNMET.get(need) ?? `nobody knows the need ${need}`);
}

/** Runs a case under a name of its own. Returns what is wrong with it; undefined where nothing is. */
export async function runCase(one: Case, run: string, connect: () => Client): Promise<string | undefined> {
  const running = new Running(one, run, connect);
  try {
    for (const [place, step] of one.steps.entries()) {
      const problem = await running.take(step);
      const kind = kindOf(step);
      if (problem) return `${one.id}, step ${place + 1} (${kind} ${String(step[kind])}): ${problem}`;
    }
    return undefined;
  } catch (error) {
    return `${one.id}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
  } finally {
    await running.close();
  }
}

/** A case under way: what was saved, and what stays open. */
class Running {
  readonly #client: Client;
  readonly #saved = new Map<string, Tree>();
  readonly #opened = new Map<string, Opened>();

  constructor(
    private readonly one: Case,
    private readonly run: string,
    private readonly connect: () => Client,
  ) {
    this.#client = connect();
  }

  /** Takes a step, and returns what went wrong. */
  async take(step: Step): Promise<string | undefined> {
    if (step.close !== undefined) {
      await this.#opened.get(step.close)?.close();
      this.#opened.delete(step.close);
      return undefined;
    }
    const args = replaced(step.args ?? {}, this.run, this.#saved, this.one.oddity) as TreeObject;
    if (step.at_once) return await this.#atOnce(step, args);
    const giveUp = Date.now() + EVENTUALLY_MS;
    let problem = await this.#try(step, args);
    while (problem && step.eventually && Date.now() < giveUp) {
      await delay(PAUSE_MS);
      problem = await this.#try(step, args);
    }
    return problem;
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#opened.values()].map((opened) => opened.close()));
    this.#client.close();
  }

  async #try(step: Step, args: TreeObject): Promise<string | undefined> {
    let answer: TreeObject;
    try {
      answer = await this.#attempt(step, args);
    } catch (error) {
      if (!(error instanceof StatekeepError)) throw error;
      if (!step.error) return `${error.code} ${error.reason}: ${error.message}`;
      return this.#compared(step.error, errorTree(error, step.error), "error");
    }
    if (step.error) return `no error, but ${shown(answer)}`;
    const problem = this.#compared(step.answer ?? {}, answer, "");
    if (problem === undefined) {
      for (const [name, path] of Object.entries(step.save ?? {})) this.#saved.set(name, at(answer, path));
    }
    return problem;
  }

  async #attempt(step: Step, args: TreeObject): Promise<TreeObject> {
    if (step.call !== undefined) return await called(this.#client, step.call, args);
    if (step.open !== undefined) {
      const opened = await open(this.#client, step.open, args);
      this.#opened.set(step.as ?? "", opened);
      return opened.answer;
    }
    const reading = this.#opened.get(step.read ?? "");
    if (!reading) throw new Error(`nothing was opened as ${String(step.read)}`);
    return await reading.read(step.count ?? 1);
  }

  #compared(right: Tree, got: Tree, path: string): string | undefined {
    const oddity = this.one.oddity && { content_type: "", ...this.one.oddity };
    return difference(replaced(right, this.run, this.#saved, oddity), got, path);
  }

  async #atOnce(step: Step, args: TreeObject): Promise<string | undefined> {
    const { callers = 0, calls = 0, numbers = "", from = 0, to = 0 } = step.at_once ?? {};
    const caller = async (): Promise<number[]> => {
      const client = this.connect();
      const found: number[] = [];
      try {
        for (let call = 0; call < calls; call++) {
          found.push(Number(at(await called(client, step.call ?? "", args), numbers)));
        }
      } finally {
        client.close();
      }
      return found;
    };
    const found = (await Promise.all(Array.from({ length: callers }, caller))).flat().sort((one, other) => one - other);
    const right = Array.from({ length: to - from + 1 }, (_none, place) => from + place);
    return difference(right, found, "the numbers of all answers");
  }
}

async function called(client: Client, operation: string, args: TreeObject): Promise<TreeObject> {
  const call = CALLS.get(operation);
  if (!call) throw new Error(`nobody knows the operation ${operation}`);
  return await call(client, args);
}

function errorTree(error: StatekeepError, right: TreeObject): Tree {
  const asked = right["field"] as string | undefined;
  const field = asked !== undefined && asked in error.fields ? asked : (Object.keys(error.fields)[0] ?? "");
  return { code: error.code, reason: error.reason, metadata: { ...error.metadata }, field, message: error.message };
}

function at(tree: Tree, path: string): Tree {
  let found: Tree | undefined = tree;
  for (const part of path.split(".")) found = (found as TreeObject)[part];
  if (found === undefined) throw new Error(`the answer has no ${path}: ${shown(tree)}`);
  return found;
}
