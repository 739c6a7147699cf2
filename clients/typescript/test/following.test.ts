import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";

import type { MessageInitShape } from "@bufbuild/protobuf";

import { Client, StatekeepError, fromValue, type HistoryOptions, type Reading } from "../src/index.js";
import {
  Memory,
  StateStore,
  type MemoryHistoryResponseSchema,
  type MemoryWatchResponseSchema,
  type StreamHistoryResponseSchema,
} from "../src/v1.js";
import { ScriptedServer, ServerProcess, serverKnows, type Attempt, type Failure } from "./server.js";

const LOST: Failure = { code: "UNAVAILABLE" };
const SHUTTING_DOWN: Failure = { code: "UNAVAILABLE", reason: "SHUTTING_DOWN", retrySeconds: 0.01 };

let server: ServerProcess;
let client: Client;

before(async () => {
  server = await ServerProcess.start();
  client = new Client({ address: server.address });
});

after(async () => {
  client.close();
  await server.stop();
});

/** A message with an event for each revision, whose sequence is that too. */
function events(revisions: bigint[], upTo?: bigint) {
  return {
    events: revisions.map((revision) => ({ id: `e${revision}`, sequence: revision, revision })),
    revision: upTo ?? revisions.at(-1) ?? 0n,
  };
}

/** A client of a server that plays a thread's stream, and what it asked for: after_revision, limit and last. */
async function scripted(t: TestContext, ...attempts: Attempt<typeof StreamHistoryResponseSchema>[]) {
  const { script, address } = await ScriptedServer.start(StateStore.method.streamHistory, attempts);
  const asking = new Client({ address });
  t.after(() => {
    asking.close();
    script.stop();
  });
  return {
    asking,
    asked: () => script.requests.map(({ afterRevision, limit, last }) => [afterRevision, limit, last].map(Number)),
  };
}

async function take<T>(reading: Reading<T>, count: number): Promise<T[]> {
  const items: T[] = [];
  while (items.length < count) {
    const next = await reading.next();
    assert.ok(!next.done, "the stream ended");
    items.push(next.value);
  }
  return items;
}

async function sequences(reading: AsyncIterable<{ sequence: bigint }>): Promise<number[]> {
  const found: number[] = [];
  for await (const record of reading) found.push(Number(record.sequence));
  return found;
}

async function failureOf(call: Promise<unknown>): Promise<StatekeepError> {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof StatekeepError, String(error));
  return error;
}

for (const [name, options, attempts, found, asked] of [
  [
    "a read goes on after the last message",
    {},
    [{ messages: [events([1n, 2n], 4n)], failure: LOST }, { messages: [events([7n])] }],
    [1, 2, 7],
    [
      [0, 0, 0],
      [4, 0, 0],
    ],
  ],
  [
    "a server that shuts down is a lost connection",
    {},
    [{ messages: [events([1n])], failure: SHUTTING_DOWN }, { messages: [events([2n])] }],
    [1, 2],
    [
      [0, 0, 0],
      [1, 0, 0],
    ],
  ],
  [
    "a heartbeat moves the cursor",
    {},
    [{ messages: [events([1n]), { revision: 50n }], failure: LOST }, { messages: [events([60n])] }],
    [1, 60],
    [
      [0, 0, 0],
      [50, 0, 0],
    ],
  ],
  [
    "of a limit, what is left of it is asked for",
    { limit: 3 },
    [{ messages: [events([1n, 2n])], failure: LOST }, { messages: [events([3n])] }],
    [1, 2, 3],
    [
      [0, 3, 0],
      [2, 1, 0],
    ],
  ],
  [
    "a limit that was reached asks for no more",
    { limit: 2 },
    [{ messages: [events([1n, 2n])], failure: LOST }],
    [1, 2],
    [[0, 2, 0]],
  ],
  [
    "the last n stay n",
    { last: 3 },
    [{ messages: [events([8n])], failure: LOST }, { messages: [events([9n, 10n])] }],
    [8, 9, 10],
    [
      [0, 0, 3],
      [8, 2, 0],
    ],
  ],
  [
    "the last n that are followed go on without a limit, and an empty thread from its start",
    { last: 2, follow: true },
    [{ failure: LOST }, { messages: [{ caughtUp: true }], failure: LOST }, { messages: [events([4n, 5n, 6n])] }],
    [4, 5, 6],
    [
      [0, 0, 2],
      [0, 0, 2],
      [0, 0, 0],
    ],
  ],
] satisfies [string, HistoryOptions, Attempt<typeof StreamHistoryResponseSchema>[], number[], number[][]][]) {
  test(name, async (t) => {
    const { asking, asked: requests } = await scripted(t, ...attempts);
    assert.deepEqual(await sequences(asking.state.streamHistory("t", options)), found);
    assert.deepEqual(requests(), asked);
  });
}

test("the cursor is the last event handed out, and the message's end with its last", async (t) => {
  const { asking } = await scripted(t, { messages: [events([3n, 5n, 8n], 20n)], stay: true });
  const tail = asking.state.streamHistory("t", { afterRevision: 2, follow: true });
  const cursors = [tail.revision];
  for (let read = 0; read < 3; read++) {
    await tail.next();
    cursors.push(tail.revision);
  }
  assert.deepEqual(cursors, [2n, 3n, 5n, 20n]);
});

test("checkpoints come among the events, in the order they were stored", async (t) => {
  const chunk = {
    ...events([1n, 4n]),
    checkpoints: [
      { revision: 2n, sequence: 2n },
      { revision: 5n, sequence: 5n },
    ],
    revision: 5n,
  };
  const { asking } = await scripted(t, { messages: [chunk] });
  assert.deepEqual(await sequences(asking.state.streamHistory("t", { includeCheckpoints: true })), [1, 2, 4, 5]);
});

test("what is no lost connection fails the read", async (t) => {
  const gone: Failure = { code: "OUT_OF_RANGE", reason: "REVISION_GONE", metadata: { oldest: "9" } };
  const { asking, asked } = await scripted(t, { messages: [events([1n])], failure: gone });
  const tail = asking.state.streamHistory("t", { follow: true });
  await take(tail, 1);
  const error = await failureOf(tail.next());
  assert.deepEqual([error.code, error.reason, error.metadata["oldest"]], ["OUT_OF_RANGE", "REVISION_GONE", "9"]);
  assert.equal(asked().length, 1);
  assert.deepEqual(await tail.next(), { done: true, value: undefined });
});

test("a read that gets no further is given up", async (t) => {
  const { asking, asked } = await scripted(t, { messages: [events([1n])], failure: LOST }, { failure: LOST });
  const read = asking.state.streamHistory("t");
  await take(read, 1);
  assert.equal((await failureOf(read.next())).code, "UNAVAILABLE");
  assert.equal(asked().length, 5);
});

test("a tail tries no longer than it is told", async (t) => {
  const { asking, asked } = await scripted(t, { messages: [events([1n])], failure: SHUTTING_DOWN });
  const tail = asking.state.streamHistory("t", { follow: true, retryForMs: 0 });
  await take(tail, 1);
  assert.equal((await failureOf(tail.next())).reason, "SHUTTING_DOWN");
  assert.equal(asked().length, 1);
});

test("a tail that began goes on trying", async (t) => {
  const lost = Array.from({ length: 8 }, () => ({ failure: SHUTTING_DOWN }));
  const { asking } = await scripted(t, { messages: [events([1n])], failure: LOST }, ...lost, {
    messages: [events([2n])],
    stay: true,
  });
  const tail = asking.state.streamHistory("t", { follow: true });
  assert.deepEqual(
    (await take(tail, 2)).map((event) => event.id),
    ["e1", "e2"],
  );
});

test("the time limit of a read is for all of its attempts", async (t) => {
  const { asking } = await scripted(t, { messages: [events([1n])], failure: LOST }, { stay: true });
  const read = asking.state.streamHistory("t", { timeoutMs: 400 });
  await take(read, 1);
  assert.equal((await failureOf(read.next())).code, "DEADLINE_EXCEEDED");
});

test("a key's history goes on below the version it was at", async (t) => {
  const versions = (...numbers: bigint[]): MessageInitShape<typeof MemoryHistoryResponseSchema> => ({
    entries: numbers.map((version) => ({ version })),
  });
  const { script, address } = await ScriptedServer.start(Memory.method.history, [
    { messages: [versions(9n, 8n)], failure: LOST },
    { messages: [versions(10n, 9n, 8n, 7n), versions(6n, 5n)] },
  ]);
  const asking = new Client({ address });
  t.after(() => {
    asking.close();
    script.stop();
  });
  const found: bigint[] = [];
  for await (const entry of asking.memory.history("s", "k", { limit: 4 })) found.push(entry.version);
  assert.deepEqual(found, [9n, 8n, 7n, 6n]);
  assert.deepEqual(
    script.requests.map((request) => request.limit),
    [4n, 0n],
  );
});

test("a watch goes on where it was", async (t) => {
  const watched = (...revisions: bigint[]): MessageInitShape<typeof MemoryWatchResponseSchema> => ({
    entries: revisions.map((revision) => ({ revision })),
    revision: revisions.at(-1) ?? 3n,
  });
  const { script, address } = await ScriptedServer.start(Memory.method.watch, [
    { messages: [watched()], failure: LOST },
    { messages: [watched(5n, 6n)], failure: LOST },
    { messages: [watched(7n)], stay: true },
  ]);
  const asking = new Client({ address });
  t.after(() => {
    asking.close();
    script.stop();
  });
  const entries = await take(asking.memory.watch("s"), 3);
  assert.deepEqual(
    entries.map((entry) => entry.revision),
    [5n, 6n, 7n],
  );
  assert.deepEqual(
    script.requests.map((request) => request.afterRevision),
    [undefined, 3n, 6n],
  );
});

test("closing a tail ends a read that waits", async () => {
  const tail = await client.state.streamHistory("closing", { follow: true }).started();
  const waiting = tail.next();
  await tail.close();
  assert.deepEqual(await waiting, { done: true, value: undefined });
});

test("leaving the loop ends the call at the server", async () => {
  await client.state.appendEvents("leaving", [{ type: "a" }, { type: "b" }]);
  const tail = client.state.streamHistory("leaving", { follow: true });
  for await (const event of tail) if (event.type === "b") break;
  assert.deepEqual(await tail.next(), { done: true, value: undefined });
});

test("a signal ends a tail that waits, with its reason", async () => {
  const ending = new AbortController();
  const tail = await client.state.streamHistory("signal", { follow: true, signal: ending.signal }).started();
  const waiting = tail.next();
  ending.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("closing the client ends a tail that waits", async () => {
  const own = new Client({ address: server.address });
  const tail = await own.state.streamHistory("client", { follow: true }).started();
  const waiting = failureOf(tail.next());
  own.close();
  assert.equal((await waiting).message, "the client is closed");
});

test("a tail of a server that ends is told SHUTTING_DOWN", async () => {
  const own = await ServerProcess.start();
  using asking = new Client({ address: own.address });
  const tail = await asking.state.streamHistory("t", { follow: true, retryForMs: 0 }).started();
  const waiting = failureOf(tail.next());
  assert.equal(await own.end("SIGTERM"), 0);
  const error = await waiting;
  assert.deepEqual([error.code, error.reason], ["UNAVAILABLE", "SHUTTING_DOWN"]);
  assert.ok((error.retryDelayMs ?? 0) > 0);
});

const WITHOUT_SQLITE = serverKnows("sqlite") ? false : "this server has no SQLite store, and loses all with kill -9";

test(
  "a tail and a watch survive kill -9 of the server, without a gap and without a repeat",
  { skip: WITHOUT_SQLITE },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "statekeep-"));
    t.after(() => {
      rmSync(folder, { recursive: true });
    });
    const store = ["--store", `sqlite:${join(folder, "state.db")}`];
    let own = await ServerProcess.start(store);
    const asking = new Client({ address: own.address, waitForReady: true });
    const tail = asking.state.streamHistory("t", { follow: true });
    const watch = asking.memory.watch("s", { afterRevision: 0, includeValues: true });
    for (let life = 0; life < 3; life++) {
      for (let turn = 0; turn < 20; turn++) {
        await asking.state.appendNextEvent("t", { type: "turn", data: life * 20 + turn });
        await asking.memory.set("s", `k${life * 20 + turn}`, life * 20 + turn);
      }
      const right = Array.from({ length: 20 }, (_none, turn) => life * 20 + turn);
      assert.deepEqual(
        (await take(tail, 20)).map((event) => fromValue(event.data)),
        right,
      );
      assert.deepEqual(
        (await take(watch, 20)).map((entry) => fromValue(entry.value)),
        right,
      );
      await own.end("SIGKILL");
      own = await ServerProcess.start(store, own.address);
    }
    asking.close();
    await own.stop();
  },
);

// The server takes pings every 5 s and more for a client's, and ends the connection of one that sends more of them.
const SOAKING = process.env["STATEKEEP_SOAK"] === "1";
const [PING_MS, QUIET_S] = SOAKING ? [10_000, 65] : [5_500, 18];

test(`a tail that pings every ${PING_MS / 1000} s is not cut off`, { timeout: 120_000 }, async () => {
  using pinging = new Client({ address: server.address, keepaliveMs: PING_MS });
  const tail = await pinging.state.streamHistory("pings", { follow: true, retryForMs: 0 }).started();
  const waiting = tail.next();
  // Time goes by on another connection, by the messages of a stream there: heartbeats come without being handed out.
  const clock = client.memory.watch("clock", { heartbeatMs: 1000, timeoutMs: QUIET_S * 1000 });
  const ended = failureOf(clock.next());
  assert.equal(
    await Promise.race([waiting.then(() => "cut off"), ended.then((error) => error.code)]),
    "DEADLINE_EXCEEDED",
  );
  await client.state.appendNextEvent("pings", { type: "after" });
  assert.equal(((await waiting).value as { type: string }).type, "after");
  await tail.close();
});
