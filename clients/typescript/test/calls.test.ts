import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { ServerCredentials } from "@grpc/grpc-js";

import { Client, StatekeepError, fromValue, timestampDate } from "../src/index.js";
import { Memory, StateStore } from "../src/v1.js";
import { ScriptedServer, ServerProcess, type Failure } from "./server.js";

let server: ServerProcess;
let client: Client;
const folder = mkdtempSync(join(tmpdir(), "statekeep-"));

before(async () => {
  server = await ServerProcess.start();
  client = new Client({ address: server.address });
});

after(async () => {
  client.close();
  await server.stop();
  rmSync(folder, { recursive: true });
});

async function failureOf(call: Promise<unknown>): Promise<StatekeepError> {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof StatekeepError, String(error));
  return error;
}

test("a conflict is told by its reason, with what was expected and what is there", async () => {
  await client.memory.set("calls", "once", 1);
  const error = await failureOf(client.memory.set("calls", "once", 2, { expectedVersion: 0 }));
  assert.deepEqual([error.code, error.reason], ["ABORTED", "VERSION_MISMATCH"]);
  assert.deepEqual([error.metadata["expected"], error.metadata["actual"]], ["0", "1"]);
});

test("a field at fault is told by its path", async () => {
  const error = await failureOf(client.state.appendNextEvent(" a", { type: "x" }));
  assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", "INVALID_FIELD"]);
  assert.deepEqual(Object.keys(error.fields), ["event.thread_id"]);
});

for (const failure of [
  { code: "UNAVAILABLE", reason: "STORE_UNAVAILABLE", metadata: { store: "x" }, retrySeconds: 0.25 },
  { code: "UNAUTHENTICATED", reason: "UNAUTHENTICATED" },
  { code: "PERMISSION_DENIED", reason: "PERMISSION_DENIED" },
  { code: "INVALID_ARGUMENT", reason: "INVALID_FIELD", field: "scope.name" },
  { code: "RESOURCE_EXHAUSTED", reason: "A_REASON_OF_A_NEWER_SERVER" },
  { code: "INTERNAL" },
] satisfies Failure[]) {
  test(`${failure.reason ?? failure.code} is told as the server says it`, async () => {
    const { script, address } = await ScriptedServer.start(Memory.method.purge, [{ failure }]);
    using asking = new Client({ address });
    const error = await failureOf(asking.memory.purge("s", { key: "k" }, { keep: 0 }));
    script.stop();
    assert.deepEqual([error.code, error.reason], [failure.code, failure.reason ?? ""]);
    assert.equal(error.message, `told: ${failure.reason ?? failure.code}`);
    assert.deepEqual(error.metadata, "metadata" in failure ? failure.metadata : {});
    assert.deepEqual(Object.keys(error.fields), "field" in failure ? [failure.field] : []);
    assert.equal(error.retryDelayMs, "retrySeconds" in failure ? 250 : undefined);
  });
}

const LOST: Failure = { code: "UNAVAILABLE" };

test("a write is tried again with the same id", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.set, [
    { failure: LOST },
    { failure: LOST },
    { messages: [{ entry: { version: 7n } }] },
  ]);
  using asking = new Client({ address });
  assert.equal((await asking.memory.set("s", "k", 1)).version, 7n);
  script.stop();
  assert.equal(script.requests.length, 3);
  assert.equal(new Set(script.requests.map((request) => request.requestId)).size, 1);
  assert.match(script.requests[0]?.requestId ?? "", /^[0-9a-f-]{36}$/);
});

test("an append of close to four megabytes is tried again with the same id", async () => {
  const { script, address } = await ScriptedServer.start(StateStore.method.appendNextEvent, [
    { failure: LOST },
    { messages: [{ event: { sequence: 1n } }] },
  ]);
  using asking = new Client({ address });
  await asking.state.appendNextEvent("t", { type: "x", data: "x".repeat(3_900_000) });
  script.stop();
  assert.equal(new Set(script.requests.map((request) => request.event?.id)).size, 1);
  assert.equal(script.requests.length, 2);
});

test("a call whose answer says what it removed is not tried again", async () => {
  const { script, address } = await ScriptedServer.start(StateStore.method.deleteThread, [{ failure: LOST }]);
  using asking = new Client({ address });
  assert.equal((await failureOf(asking.state.deleteThread("t"))).code, "UNAVAILABLE");
  script.stop();
  assert.equal(script.requests.length, 1);
});

test("what is no lost connection is not tried again", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{ failure: { code: "ABORTED" } }]);
  using asking = new Client({ address });
  assert.equal((await failureOf(asking.memory.get("s", "k"))).code, "ABORTED");
  script.stop();
  assert.equal(script.requests.length, 1);
});

test("the token goes with every call", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{}]);
  using asking = new Client({ address, token: "secret\n" });
  await asking.memory.get("s", "k");
  script.stop();
  assert.deepEqual(script.metadata[0]?.get("authorization"), ["Bearer secret"]);
  assert.throws(() => new Client({ token: "two words" }), /token is printable ASCII without blanks/);
});

test("what is no address is refused, and told what is one", () => {
  for (const address of ["", "nonsense", "host:", ":5", "unix:", "http://host:1", "host:65536", "::1:5"]) {
    assert.throws(() => new Client({ address }), /address is HOST:PORT, \[IPv6\]:PORT or unix:PATH, not/, address);
  }
  new Client({ address: "[::1]:65535" }).close();
});

test("what JavaScript lets through and the types do not is refused", async () => {
  const labels = { given: undefined } as unknown as Record<string, string>;
  const refused = (field: string) => (error: unknown) => error instanceof StatekeepError && field in error.fields;
  await assert.rejects(client.memory.set("s", "k", 1, { labels }), refused("labels"));
  await assert.rejects(client.state.appendNextEvent("t", { type: "x", labels }), refused("event.labels"));
  const event = { type: "x" } as unknown as { type: string; sequence: bigint };
  await assert.rejects(client.state.appendEvent("t", event), refused("event.sequence"));
});

test("address and token come from the environment by default", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{}]);
  process.env["STATEKEEP_ADDRESS"] = address;
  process.env["STATEKEEP_TOKEN"] = "from-outside";
  try {
    using asking = new Client();
    assert.equal(asking.address, address);
    await asking.memory.get("s", "k");
  } finally {
    delete process.env["STATEKEEP_ADDRESS"];
    delete process.env["STATEKEEP_TOKEN"];
    script.stop();
  }
  assert.deepEqual(script.metadata[0]?.get("authorization"), ["Bearer from-outside"]);
});

test("a server over TLS is reached by those who trust its certificate", async () => {
  const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
  const subject = ["-subj", "/CN=state.test", "-addext", "subjectAltName=DNS:state.test"];
  const made = [
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "2",
    "-keyout",
    key,
    "-out",
    certificate,
    ...subject,
  ];
  execFileSync("openssl", ["req", ...made], { stdio: "ignore" });
  const [privateKey, chain] = [readFileSync(key), readFileSync(certificate)];
  const credentials = ServerCredentials.createSsl(null, [{ private_key: privateKey, cert_chain: chain }]);
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{}], credentials);
  using trusting = new Client({ address, tls: { rootCertificates: chain, serverName: "state.test" } });
  assert.equal(await trusting.memory.get("s", "k"), undefined);
  using doubting = new Client({ address: address.replace("127.0.0.1", "localhost"), tls: true });
  assert.equal((await failureOf(doubting.memory.get("s", "k"))).code, "UNAVAILABLE");
  script.stop();
});

test("a server is reached over a Unix socket", async () => {
  const own = await ServerProcess.start([], `unix:${join(folder, "socket")}`);
  using asking = new Client({ address: `unix:${join(folder, "socket")}` });
  await asking.memory.set("s", "k", { over: "a socket" });
  assert.deepEqual(fromValue((await asking.memory.get("s", "k"))?.value), { over: "a socket" });
  asking.close();
  await own.stop();
});

test("a call that takes longer than it may fails with DEADLINE_EXCEEDED", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{ stay: true }]);
  using asking = new Client({ address, timeoutMs: 100 });
  assert.equal((await failureOf(asking.memory.get("s", "k"))).code, "DEADLINE_EXCEEDED");
  assert.equal((await failureOf(asking.memory.get("s", "k", { timeoutMs: 50 }))).code, "DEADLINE_EXCEEDED");
  script.stop();
});

test("a call that waits for its server is answered once there is one", async () => {
  const own = await ServerProcess.start();
  await own.stop();
  using asking = new Client({ address: own.address, waitForReady: true });
  const call = asking.memory.set("s", "k", 1);
  const again = await ServerProcess.start([], own.address);
  assert.equal((await call).version, 1n);
  await again.stop();
});

test("a call that does not wait fails with UNAVAILABLE where there is no server", async () => {
  using asking = new Client({ address: "127.0.0.1:1" });
  assert.equal((await failureOf(asking.memory.get("s", "k"))).code, "UNAVAILABLE");
});

test("a signal ends a call, with its reason", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{ stay: true }]);
  using asking = new Client({ address });
  const ending = new AbortController();
  const call = asking.memory.get("s", "k", { signal: ending.signal });
  ending.abort(new Error("no longer wanted"));
  await assert.rejects(call, /no longer wanted/);
  await assert.rejects(asking.memory.get("s", "k", { signal: AbortSignal.abort() }), { name: "AbortError" });
  script.stop();
});

test("closing the client ends its calls, and every one after it", async () => {
  const { script, address } = await ScriptedServer.start(Memory.method.get, [{ stay: true }]);
  const asking = new Client({ address });
  const call = failureOf(asking.memory.get("s", "k"));
  asking.close();
  assert.equal((await call).message, "the client is closed");
  assert.equal((await failureOf(asking.memory.get("s", "k"))).code, "CANCELLED");
  asking.close();
  script.stop();
});

test("a client that was not closed lets the program end", () => {
  const program = `import { Client } from "statekeep"; await new Client().memory.set("s", "k", 1); console.log("done")`;
  const environment = { ...process.env, STATEKEEP_ADDRESS: server.address };
  const arguments_ = ["--input-type=module", "--eval", program];
  assert.equal(execFileSync(process.execPath, arguments_, { env: environment, timeout: 20_000 }).toString(), "done\n");
});

test("all pages are walked, each item once", async () => {
  const keys = Array.from({ length: 25 }, (_none, place) => `k${String(place).padStart(2, "0")}`);
  await client.memory.batchSet(
    { name: "pages", type: "flow" },
    keys.map((key) => ({ key, value: key })),
  );
  const found: string[] = [];
  for await (const entry of client.memory.list({ name: "pages", type: "flow" }, { pageSize: 7 })) found.push(entry.key);
  assert.deepEqual(found, keys);
});

test("a scope type that is none is refused with those there are", async () => {
  const scope = { name: "s", type: "flows" } as never;
  await assert.rejects(client.memory.get(scope, "k"), /scope.type is "namespace", "flow" or "execution", not "flows"/);
});

test("times come with every digit, and read as a Date", async () => {
  const createTime = new Date("2020-01-02T03:04:05.678Z");
  const event = await client.state.appendNextEvent("times", { type: "x", createTime });
  assert.ok(event.createTime);
  assert.deepEqual(timestampDate(event.createTime), createTime);
});

test("an attached instance ends with its attachment, and is not attached twice", async () => {
  const attached = await client.scratch.attach("mine");
  await client.scratch.put("mine", "k", "v");
  assert.equal((await failureOf(client.scratch.attach("mine"))).reason, "INSTANCE_ATTACHED");
  await attached.close();
  const again = await freed("mine");
  assert.deepEqual(await client.scratch.list("mine"), []);
  await again.close();
});

/** Attaches as soon as the server has noticed that the instance was let go. */
async function freed(instanceId: string) {
  for (let attempt = 0; attempt < 2_000; attempt++) {
    try {
      return await client.scratch.attach(instanceId);
    } catch (error) {
      if (!(error instanceof StatekeepError && error.reason === "INSTANCE_ATTACHED")) throw error;
    }
  }
  throw new Error(`${instanceId} was not let go`);
}
