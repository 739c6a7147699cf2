/** What this client writes for the others, and what it reads of theirs. */

import type { Client, Event } from "../../src/index.js";
import { difference } from "./comparing.js";
import { oddities, type Oddity } from "./files.js";
import { recordTree, valueOf } from "./trees.js";

/** How a run went. */
export interface Outcome {
  passed: number;
  failed: number;
  skipped: [string, string][];
  read?: Record<string, { passed: number; failed: number }>;
}

/** Writes every oddity to its four places, in the name of a language. */
export async function write(client: Client, folder: string, run: string, language: string): Promise<Outcome> {
  const { scope, thread } = names(run, language);
  const odd = oddities(folder);
  for (const [place, { name, value: tree }] of odd.entries()) {
    const value = valueOf(tree);
    await client.memory.set({ name: scope, type: "namespace" }, name, value);
    await client.scratch.put(thread, name, value);
    await client.state.appendNextEvent(thread, { type: "oddity", data: value, id: name });
    await client.state.saveCheckpoint(thread, { eventId: name, sequence: place + 1, state: value, id: name });
  }
  return { passed: odd.length, failed: 0, skipped: [] };
}

/** Looks whether what each language wrote is there as it should be. */
export async function read(client: Client, folder: string, run: string, languages: string[]): Promise<Outcome> {
  const odd = oddities(folder);
  const outcome = { passed: 0, failed: 0, skipped: [], read: {} as Record<string, { passed: number; failed: number }> };
  for (const language of languages) {
    const wrong = await wrongOf(client, run, language, odd);
    for (const problem of wrong.values()) console.error(`FAILED crossing from ${language}: ${problem}`.slice(0, 2000));
    outcome.read[language] = { passed: odd.length - wrong.size, failed: wrong.size };
    outcome.passed += odd.length - wrong.size;
    outcome.failed += wrong.size;
  }
  return outcome;
}

/** What is wrong with each oddity that is not as it was written, by name. */
async function wrongOf(client: Client, run: string, language: string, odd: Oddity[]): Promise<Map<string, string>> {
  const { scope, thread } = names(run, language);
  const events: Event[] = [];
  for await (const event of client.state.streamHistory(thread)) events.push(event);
  const states = new Map<string, unknown>();
  for await (const checkpoint of client.state.listCheckpoints(thread)) states.set(checkpoint.id, checkpoint.state);
  const wrong = new Map<string, string>();
  const isWhole = odd.length === events.length && odd.length === states.size;
  for (const [place, { name, value }] of odd.entries()) {
    const found = {
      memory: (await client.memory.get(scope, name))?.value,
      scratch: (await client.scratch.get(thread, name))?.value,
      event: events[place]?.id === name ? events[place].data : undefined,
      checkpoint: states.get(name) as Event["data"],
    };
    const right = { content_type: "", ...value };
    for (const [where, got] of Object.entries(found)) {
      const problem = difference(right, recordTree(got), `${name} in ${where}`);
      if (problem) wrong.set(name, problem);
    }
    if (!isWhole) wrong.set(name, "the thread does not hold what was written, and nothing else");
  }
  return wrong;
}

function names(run: string, language: string): { scope: string; thread: string } {
  return { scope: `cross/${run}/${language}`, thread: `cross-${run}-${language}` };
}
