/** Messages as trees that can be compared, and arguments of cases as what the client takes. */

import { create, toJson, type DescMessage, type Message, type MessageShape } from "@bufbuild/protobuf";
import { TimestampSchema, timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";

import { data, jsonText, text, type NewCheckpoint, type NewEvent, type Value } from "../../src/index.js";
import * as v1 from "../../src/v1.js";
import type { Tree, TreeObject } from "./files.js";

const RECORDS = new Map<string, DescMessage>(
  Object.values(v1)
    .filter(
      (one): one is typeof one & DescMessage => typeof one === "object" && "kind" in one && one.kind === "message",
    )
    .map((schema) => [schema.typeName, schema]),
);

/** An optional argument as it stands in a case, or undefined. */
export function taken<T>(args: TreeObject, name: string, as: (tree: Tree) => T): T | undefined {
  const tree = args[name];
  return tree === undefined ? undefined : as(tree);
}

/** The value that a case names; one without a kind where it names none, or null. */
export function valueOf(tree: Tree): Value {
  const { json, text: plain, data: bytes, content_type = "" } = (tree ?? {}) as Record<string, string>;
  if (json !== undefined) return jsonText(json, content_type);
  if (plain !== undefined) return text(plain, content_type);
  if (bytes !== undefined) return data(Buffer.from(bytes, "base64"), content_type);
  return create(v1.ValueSchema, { contentType: content_type });
}

export function bigintOf(tree: Tree): bigint {
  return BigInt(tree as string);
}

export function millisecondsOf(tree: Tree): number {
  return Number((tree as string).replace(/s$/, "")) * 1000;
}

export function timeOf(tree: Tree): Timestamp {
  const [whole = "", fraction = ""] = (tree as string).replace(/Z$/, "").split(".");
  const { seconds } = timestampFromDate(new Date(`${whole}Z`));
  return create(TimestampSchema, { seconds, nanos: Number(fraction.padEnd(9, "0")) });
}

/** How the arguments of an object go by the client's names; one that is not among `known` fails the case. */
const CONVERTED: Record<string, (tree: Tree) => unknown> = {
  value: valueOf,
  data: valueOf,
  state: valueOf,
  active: valueOf,
  metadata: valueOf,
  ttl: millisecondsOf,
  idle_ttl: millisecondsOf,
  heartbeat: millisecondsOf,
  create_time: timeOf,
  version: bigintOf,
  expected_version: bigintOf,
  expected_last_sequence: bigintOf,
  sequence: bigintOf,
  limit: bigintOf,
  last: bigintOf,
  after_revision: bigintOf,
};
const MILLISECONDS = new Set(["ttl", "idle_ttl", "heartbeat"]);

/** Arguments by the client's names and types. Throws for one that the method does not take: none is left out silently. */
export function options(args: TreeObject, known: readonly string[]): Record<string, unknown> {
  const unknown = Object.keys(args).filter((name) => !known.includes(name));
  if (unknown.length) throw new Error(`the method takes no ${unknown.join()}`);
  return Object.fromEntries(
    Object.entries(args).map(([name, tree]) => [
      camel(name) + (MILLISECONDS.has(name) ? "Ms" : ""),
      CONVERTED[name]?.(tree) ?? tree,
    ]),
  );
}

const EVENT = ["id", "type", "data", "node", "parent_id", "error_type", "message", "labels", "create_time"];
const CHECKPOINT = [
  "id",
  "event_id",
  "sequence",
  "state",
  "active",
  "status",
  "metadata",
  "parent_id",
  "labels",
  "create_time",
];

export function newEvent(tree: TreeObject): NewEvent {
  return options(tree, EVENT) as unknown as NewEvent;
}

export function newCheckpoint(tree: TreeObject): NewCheckpoint {
  return { eventId: "", sequence: 0, ...options(tree, CHECKPOINT) } as unknown as NewCheckpoint;
}

/** A record of the contract as the tree of its fields; null where there is none. */
export function recordTree(record: Message | undefined): Tree {
  if (!record) return null;
  const schema = RECORDS.get(record.$typeName);
  if (!schema) throw new Error(`${record.$typeName} is no message of the contract`);
  const tree = toJson(schema, record as MessageShape<DescMessage>, {
    alwaysEmitImplicit: true,
    useProtoFieldName: true,
  });
  return withoutJsonHabits(tree);
}

export function recordTrees(records: readonly Message[]): Tree[] {
  return records.map(recordTree);
}

/** Times have six digits in cases, and scope types no prefix. */
function withoutJsonHabits(tree: Tree, name = ""): Tree {
  if (Array.isArray(tree)) return tree.map((item) => withoutJsonHabits(item));
  if (typeof tree === "string" && name.endsWith("_time")) return sixDigits(tree);
  if (typeof tree === "string" && name === "type")
    return tree.replace(/^SCOPE_TYPE_(.*)$/, (_all, kind: string) => kind.toLowerCase());
  if (typeof tree !== "object" || tree === null) return tree;
  return Object.fromEntries(Object.entries(tree).map(([key, item]) => [key, withoutJsonHabits(item, key)]));
}

function sixDigits(time: string): string {
  const [whole = "", fraction = ""] = time.replace(/Z$/, "").split(".");
  return `${whole}.${fraction.padEnd(6, "0").slice(0, 6)}Z`;
}

function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}
