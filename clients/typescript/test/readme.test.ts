import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client } from "../src/index.js";
import { ServerProcess } from "./server.js";

const run = promisify(execFile);

let server: ServerProcess;

before(async () => {
  server = await ServerProcess.start();
});

after(async () => {
  await server.stop();
});

function file(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
}

function snippets(page: string): string[] {
  return [...page.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
}

/** What an example prints when it is run against the server. */
async function printed(name: string): Promise<string> {
  const path = fileURLToPath(new URL(`../examples/${name}.js`, import.meta.url));
  const environment = { ...process.env, STATEKEEP_ADDRESS: server.address };
  const { stdout, stderr } = await run(process.execPath, [path], { env: environment, timeout: 30_000 });
  assert.equal(stderr, "");
  return stdout;
}

test("the example in the README is the one that is run, and prints what it says", async () => {
  assert.equal(snippets(file("README.md"))[0], file("examples/quickstart.ts"));
  assert.equal(await printed("quickstart"), "{ first: 'Ada', born: 1815 }\n1n message { text: 'hello' }\n");
});

test("the README's way to follow is the one that is run", async () => {
  assert.equal(snippets(file("README.md"))[1], file("examples/follow.ts"));
  using client = new Client({ address: server.address });
  await client.state.appendEvents("chat-ts", [{ type: "message", data: "again" }, { type: "bye" }]);
  assert.match(await printed("follow"), /again\nundefined\nto be continued after revision \d+n?\n$/);
});

test("the call in the repository's README is a part of the example", () => {
  const calls = snippets(file("../../README.md"));
  assert.equal(calls.length, 1);
  assert.ok(file("examples/quickstart.ts").includes(calls[0] ?? "nothing"));
});
