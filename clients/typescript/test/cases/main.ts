/** The runner of tests/clients/cases, as its README has it. */

import { randomBytes } from "node:crypto";

import { Client } from "../../src/index.js";
import { read, write, type Outcome } from "./crossing.js";
import { cases } from "./files.js";
import { runCase, whySkipped } from "./running.js";

const LANGUAGE = "typescript";

function setting(name: string): string {
  const found = process.env[name];
  if (!found) throw new Error(`${name} is not set: see tests/clients/cases/README.md`);
  return found;
}

async function runAll(connect: () => Client, folder: string): Promise<Outcome> {
  const outcome: Outcome = { passed: 0, failed: 0, skipped: [] };
  const run = randomBytes(4).toString("hex");
  const only = process.env["STATEKEEP_ONLY"] ?? "";
  for (const [number, one] of cases(folder).entries()) {
    if (!one.id.includes(only)) continue;
    const why = whySkipped(one);
    if (why !== undefined) {
      outcome.skipped.push([one.id, why]);
      continue;
    }
    const problem = await runCase(one, `${run}-t-${number}`, connect);
    if (problem === undefined) outcome.passed++;
    else outcome.failed++;
    if (problem !== undefined) console.error(`FAILED ${problem}`.slice(0, 2000));
  }
  return outcome;
}

async function main(): Promise<Outcome> {
  const [address, folder] = [setting("STATEKEEP_ADDRESS"), setting("STATEKEEP_CASES")];
  const connect = () => new Client({ address });
  const crossing = process.env["STATEKEEP_CROSS"];
  if (!crossing) return await runAll(connect, folder);
  const [way, languages = ""] = crossing.split(":");
  using client = connect();
  if (way === "write") return await write(client, folder, setting("STATEKEEP_RUN"), languages);
  if (way === "read") return await read(client, folder, setting("STATEKEEP_RUN"), languages.split(","));
  throw new Error(`STATEKEEP_CROSS is write:LANGUAGE or read:LANGUAGE,…, not ${crossing}`);
}

const outcome = await main();
console.log(JSON.stringify({ language: LANGUAGE, ...outcome }));
process.exitCode = outcome.failed || outcome.passed + outcome.skipped.length === 0 ? 1 : 0;
