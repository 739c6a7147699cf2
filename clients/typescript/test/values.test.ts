import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import {
  Client,
  LosslessNumber,
  StatekeepError,
  data,
  fromValue,
  json,
  jsonText,
  parseJson,
  stringifyJson,
  text,
  toValue,
} from "../src/index.js";
import { ServerProcess } from "./server.js";

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

test("a JSON text comes back byte for byte", async () => {
  const written = ' {"b": 1.0, "a": [18446744073709551616, -0.0, 1e999], "b": "\\u0000"} ';
  await client.memory.set("values", "exact", jsonText(written, "application/x+json"));
  const value = (await client.memory.get("values", "exact"))?.value;
  assert.equal(value?.kind.value, written);
  assert.equal(value.contentType, "application/x+json");
});

test("numbers of every size come back as they were given", async () => {
  const given = {
    big: 2n ** 64n,
    odd: 2n ** 53n + 1n,
    small: 1,
    half: 0.5,
    minus: -0,
    huge: new LosslessNumber("1e999"),
    large: 1e21,
    larger: Number.MAX_VALUE,
    least: Number.MIN_VALUE,
  };
  await client.memory.set("values", "numbers", given);
  const found = fromValue((await client.memory.get("values", "numbers"))?.value) as typeof given;
  assert.deepEqual({ ...found, huge: String(found.huge) }, { ...given, huge: "1e999" });
  assert.ok(Object.is(found.minus, -0));
});

test("a decimal that no number holds keeps its digits", () => {
  for (const digits of ["9007199254740993.0", "0.12345678901234567890123", "1e-999", "123456789012345678901234e0"]) {
    const parsed = parseJson(digits);
    assert.ok(parsed instanceof LosslessNumber, digits);
    assert.equal(stringifyJson(parsed), digits);
  }
});

test("a number of a million digits is read at once", { timeout: 60_000 }, () => {
  const digits = `1.${"0".repeat(1_000_000)}1`;
  assert.equal(stringifyJson(parseJson(digits)), digits);
});

test("text and bytes come back as text and bytes", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_none, place) => place);
  await client.state.appendNextEvent("values", { type: "text", data: "a\u0000b 👩‍👩‍👧‍👦" });
  await client.state.appendNextEvent("values", { type: "bytes", data: bytes });
  const found: unknown[] = [];
  for await (const event of client.state.streamHistory("values")) found.push(fromValue(event.data));
  assert.deepEqual(found, ["a\u0000b 👩‍👩‍👧‍👦", bytes]);
});

test("a value of three megabytes comes back whole", async () => {
  const large = "x".repeat(3_000_000);
  await client.memory.set("values", "large", large);
  assert.equal(fromValue((await client.memory.get("values", "large"))?.value), large);
});

test("what a number does not hold to the last digit is read without loss", () => {
  const written = "[9007199254740993,0.1000000000000000055511151231257827021181583404541015625,-1E-999,1.10,-0]";
  assert.deepEqual((parseJson(written) as unknown[]).map(String), [
    "9007199254740993",
    "0.1000000000000000055511151231257827021181583404541015625",
    "-1E-999",
    "1.1",
    "0",
  ]);
});

test("reading JSON makes members of whatever the keys are called", () => {
  const read = parseJson('{"__proto__": {"a": 1}, "constructor": 2, "twice": 1, "twice": 2}') as Record<
    string,
    unknown
  >;
  assert.deepEqual(Object.keys(read), ["__proto__", "constructor", "twice"]);
  assert.equal(read["twice"], 2);
  assert.equal(({} as Record<string, unknown>)["a"], undefined);
});

test("a value says how it is kept", () => {
  assert.equal(toValue("1").kind.case, "text");
  assert.equal(toValue(1).kind.case, "json");
  assert.equal(toValue(null).kind.value, "null");
  assert.equal(toValue(Buffer.from("a")).kind.case, "data");
  assert.equal(json("1").kind.value, '"1"');
  assert.equal(text("# a", "text/markdown").contentType, "text/markdown");
});

test("bytes that change after they were given change nothing", () => {
  const bytes = Uint8Array.of(1, 2);
  const value = data(bytes);
  bytes[0] = 9;
  assert.deepEqual(value.kind.value, Uint8Array.of(1, 2));
});

const circular: unknown[] = [];
circular.push(circular);
for (const [name, content, told] of [
  ["NaN", { a: NaN }, /holds NaN, which JSON cannot say/],
  ["Infinity", [Infinity], /holds Infinity/],
  ["undefined", undefined, /is undefined, which JSON cannot say; null is a value/],
  ["a function", () => 1, /is function, which JSON cannot say/],
  ["a Map within", { a: new Map([[1, 2]]) }, /holds a Map, which JSON would lose/],
  ["an Error", new Error("lost"), /holds a Error, which JSON would lose/],
  ["a RegExp within", [/x/], /holds a RegExp, which JSON would lose/],
  ["bytes within", { a: Uint8Array.of(1) }, /holds a Uint8Array, which JSON would lose/],
  ["a circle", circular, /is circular, or nested too deep/],
] as const) {
  test(`${name} is refused, never turned into something else`, () => {
    assert.throws(() => stringifyJson(content), { name: "StatekeepError", reason: "INVALID_FIELD", message: told });
  });
}

test("a lone surrogate is refused, with the field that holds it", async () => {
  const refused = (field: string) => (error: unknown) =>
    error instanceof StatekeepError && error.reason === "INVALID_FIELD" && field in error.fields;
  await assert.rejects(client.memory.set("values", "k", text("a\ud800")), refused("value.text"));
  await assert.rejects(client.memory.set("values", "k\ud800", 1), refused("key"));
  const event = { type: "x", labels: { "\udc00": "a" } };
  await assert.rejects(client.state.appendEvents("values", [{ type: "x" }, event]), refused("events[1].labels"));
});

test("a number that may have lost digits already is refused", async () => {
  await assert.rejects(
    client.memory.get("values", "k", { version: 2 ** 53 }),
    /version is a bigint, or a whole number/,
  );
  await assert.rejects(client.memory.get("values", "k", { version: 1.5 }), { code: "INVALID_ARGUMENT" });
  await assert.rejects(client.memory.get("values", "k", { version: 2n ** 63n }), { code: "INVALID_ARGUMENT" });
  await assert.rejects(client.memory.set("values", "k", 1, { ttlMs: NaN }), /ttl is a finite number of milliseconds/);
});
