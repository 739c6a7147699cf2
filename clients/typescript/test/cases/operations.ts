/** The table from an operation of a case to the client's method. */

import type { Message } from "@bufbuild/protobuf";

import type { Client, Reading, ScopeName, Write } from "../../src/index.js";
import type * as v1 from "../../src/v1.js";
import type { Tree, TreeObject } from "./files.js";
import { newCheckpoint, newEvent, options, recordTree, recordTrees, valueOf } from "./trees.js";

/** Milliseconds that a call, or a read, may take. */
export const WITHIN_MS = 30_000;

type Operation = (client: Client, args: TreeObject) => Promise<TreeObject>;

const WRITER = ["execution_id", "flow_id", "flow_name"];
const WRITE = [...WRITER, "expected_version", "ttl", "labels"];
const HISTORY = [
  "branch_id",
  "after_revision",
  "limit",
  "last",
  "include_ancestors",
  "include_checkpoints",
  "follow",
  "heartbeat",
];
const WATCH = ["prefix", "after_revision", "include_values", "heartbeat"];

/** The options of a method: what is left of the arguments, which must be among `known`. */
function rest(args: TreeObject, taken: readonly string[], known: readonly string[]): object {
  return { ...options(without(args, ...taken), known), timeoutMs: WITHIN_MS };
}

function without(tree: TreeObject, ...names: readonly string[]): TreeObject {
  return Object.fromEntries(Object.entries(tree).filter(([name]) => !names.includes(name)));
}

function text(args: TreeObject, name: string): string {
  return args[name] as string;
}

function scope(args: TreeObject): ScopeName {
  return args["scope"] as unknown as ScopeName;
}

function place(args: TreeObject): object {
  return "branch_id" in args ? { branch_id: args["branch_id"] } : {};
}

/** What of a record the client takes apart from the place it is stored at. */
function content(record: TreeObject): TreeObject {
  return without(record, "thread_id", "branch_id");
}

async function all<T extends Message>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

function fields(message: Message): TreeObject {
  return recordTree(message) as TreeObject;
}

const memory: Record<string, Operation> = {
  "memory.set": async ({ memory }, args) => {
    const how = rest(args, ["scope", "key", "value"], [...WRITE, "request_id"]);
    const value = valueOf(args["value"] ?? null);
    return { entry: recordTree(await memory.set(scope(args), text(args, "key"), value, how)) };
  },
  "memory.batch_set": async ({ memory }, args) => {
    const sets = args["sets"] as TreeObject[];
    const writes = sets.map((set) => options(without(set, "scope"), [...WRITE, "key", "value"]) as unknown as Write);
    // A batch is of one scope here; a case with another in it has a need that this client does not meet.
    const where = sets[0] ? scope(sets[0]) : "none";
    return { entries: recordTrees(await memory.batchSet(where, writes, rest(args, ["sets"], ["request_id"]))) };
  },
  "memory.get": async ({ memory }, args) => {
    const how = rest(args, ["scope", "key"], ["version", "include_deleted"]);
    return { entry: recordTree(await memory.get(scope(args), text(args, "key"), how)) };
  },
  "memory.batch_get": async ({ memory }, args) =>
    fields(await memory.batchGet(scope(args), args["keys"] as string[], rest(args, ["scope", "keys"], []))),
  "memory.list": async ({ memory }, args) => {
    const how = rest(args, ["scope"], ["prefix", "include_values", "include_deleted", "page_size"]);
    return { entries: recordTrees(await all(memory.list(scope(args), how))) };
  },
  "memory.history": async ({ memory }, args) => {
    const how = rest(args, ["scope", "key"], ["oldest_first", "include_values", "limit"]);
    return { entries: recordTrees(await all(memory.history(scope(args), text(args, "key"), how))) };
  },
  "memory.delete": async ({ memory }, args) => {
    const how = rest(args, ["scope", "key"], [...WRITER, "expected_version", "request_id"]);
    return { entry: recordTree(await memory.delete(scope(args), text(args, "key"), how)) };
  },
  "memory.purge": async ({ memory }, args) => {
    if ("key" in args && args["all_keys"]) throw new Error("a purge names either a key or all of them");
    const selector = "key" in args ? { key: text(args, "key") } : { allKeys: true as const };
    const how = rest(args, ["scope", "key", "all_keys"], ["keep", "include_deleted"]);
    return fields(await memory.purge(scope(args), selector, { keep: 0, ...how }));
  },
  "memory.list_purges": async ({ memory }, args) => ({
    purges: recordTrees(await all(memory.listPurges(scope(args), rest(args, ["scope"], ["page_size"])))),
  }),
  "memory.list_scopes": async ({ memory }, args) => ({
    scopes: recordTrees(await all(memory.listScopes(rest(args, [], ["page_size"])))),
  }),
};

const scratch: Record<string, Operation> = {
  "scratch.open": async ({ scratch }, args) =>
    fields(await scratch.open(args["instance_id"] as string | undefined, rest(args, ["instance_id"], ["idle_ttl"]))),
  "scratch.put": async ({ scratch }, args) => {
    const value = valueOf(args["value"] ?? null);
    const how = rest(args, ["instance_id", "key", "value"], []);
    return { key: await scratch.put(text(args, "instance_id"), text(args, "key"), value, how) };
  },
  "scratch.get": async ({ scratch }, args) => {
    const item = await scratch.get(
      text(args, "instance_id"),
      text(args, "key"),
      rest(args, ["instance_id", "key"], []),
    );
    return item ? { key: item.key, value: recordTree(item.value) } : { value: null };
  },
  "scratch.list": async ({ scratch }, args) => ({
    keys: await scratch.list(text(args, "instance_id"), rest(args, ["instance_id"], [])),
  }),
  "scratch.clear": async ({ scratch }, args) => {
    const how = rest(args, ["instance_id", "key"], []);
    return { cleared: await scratch.clear(text(args, "instance_id"), args["key"] as string | undefined, how) };
  },
  "scratch.close": async ({ scratch }, args) => ({
    cleared: await scratch.close(text(args, "instance_id"), rest(args, ["instance_id"], [])),
  }),
};

const state: Record<string, Operation> = {
  "state.append_event": async ({ state }, args) => {
    const { sequence = 0, ...event } = args["event"] as TreeObject;
    const sent = { ...newEvent(content(event)), sequence: BigInt(sequence as string) };
    const how = { ...rest(args, ["event"], []), ...options(place(event) as TreeObject, ["branch_id"]) };
    return { event: recordTree(await state.appendEvent(text(event, "thread_id"), sent, how)) };
  },
  "state.append_next_event": async ({ state }, args) => {
    const event = args["event"] as TreeObject;
    const how = {
      ...rest(args, ["event"], ["expected_last_sequence"]),
      ...options(place(event) as TreeObject, ["branch_id"]),
    };
    return { event: recordTree(await state.appendNextEvent(text(event, "thread_id"), newEvent(content(event)), how)) };
  },
  "state.append_events": async ({ state }, args) => {
    const events = (args["events"] as TreeObject[]).map(newEvent);
    const how = rest(args, ["thread_id", "events"], ["branch_id", "expected_last_sequence"]);
    return fields(await state.appendEvents(text(args, "thread_id"), events, how));
  },
  "state.save_checkpoint": async ({ state }, args) => {
    const checkpoint = args["checkpoint"] as TreeObject;
    const how = { ...rest(args, ["checkpoint"], []), ...options(place(checkpoint) as TreeObject, ["branch_id"]) };
    const saved = await state.saveCheckpoint(text(checkpoint, "thread_id"), newCheckpoint(content(checkpoint)), how);
    return { checkpoint: recordTree(saved) };
  },
  "state.latest_checkpoint": async ({ state }, args) => {
    const how = rest(args, ["thread_id"], ["branch_id", "at_event_id"]);
    return { checkpoint: recordTree(await state.latestCheckpoint(text(args, "thread_id"), how)) };
  },
  "state.list_checkpoints": async ({ state }, args) => {
    const how = rest(args, ["thread_id"], ["branch_id", "labels", "page_size"]);
    return { checkpoints: recordTrees(await all(state.listCheckpoints(text(args, "thread_id"), how))) };
  },
  "state.get_history": async ({ state }, args) => ({
    history: recordTree(await state.getHistory(text(args, "thread_id"), rest(args, ["thread_id"], ["branch_id"]))),
  }),
  "state.fork": async ({ state }, args) => {
    const how = {
      ...rest(args, ["thread_id", "from_event_id", "checkpoint", "event"], ["branch_id", "name", "request_id"]),
      ...("checkpoint" in args && { checkpoint: newCheckpoint(args["checkpoint"] as TreeObject) }),
      ...("event" in args && { event: newEvent(args["event"] as TreeObject) }),
    };
    const forked = await state.fork(text(args, "thread_id"), text(args, "from_event_id"), how);
    return {
      branch: recordTree(forked.branch),
      checkpoint: recordTree(forked.checkpoint),
      event: recordTree(forked.event),
    };
  },
  "state.list_branches": async ({ state }, args) => {
    const how = rest(args, ["thread_id"], ["include_unforked", "page_size"]);
    return { branches: recordTrees(await all(state.listBranches(text(args, "thread_id"), how))) };
  },
  "state.list_threads": async ({ state }, args) => ({
    threads: recordTrees(await all(state.listThreads(rest(args, [], ["prefix", "page_size"])))),
  }),
  "state.delete_thread": async ({ state }, args) =>
    fields(await state.deleteThread(text(args, "thread_id"), rest(args, ["thread_id"], []))),
  "state.stream_history": async (client, args) => {
    const read = history(client, args);
    const records = await all(read);
    return {
      events: recordTrees(records.filter((record) => record.$typeName === "statekeep.v1.Event")),
      checkpoints: recordTrees(records.filter((record) => record.$typeName === "statekeep.v1.Checkpoint")),
      caught_up: read.caughtUp,
      revision: String(read.revision),
    };
  },
};

export const CALLS = new Map<string, Operation>(Object.entries({ ...memory, ...scratch, ...state }));

/** What stays open until it is closed. */
export interface Opened {
  /** What opening answered. */
  readonly answer: TreeObject;
  /** The next records, as the answer of a read. */
  read(count: number): Promise<TreeObject>;
  close(): Promise<void>;
}

export async function open(client: Client, operation: string, args: TreeObject): Promise<Opened> {
  switch (operation) {
    case "memory.watch":
      return await follower(client.memory.watch(scope(args), rest(args, ["scope"], WATCH)), "entries");
    case "state.stream_history":
      return await follower(history(client, args), "events");
    case "scratch.attach": {
      const attached = await client.scratch.attach(text(args, "instance_id"), rest(args, ["instance_id"], []));
      return {
        answer: { instance_id: attached.instanceId },
        read: () => Promise.reject(new Error("an attachment carries no records")),
        close: () => attached.close(),
      };
    }
  }
  throw new Error(`nothing stays open of ${operation}`);
}

function history(client: Client, args: TreeObject): Reading<(Message & v1.Event) | v1.Checkpoint> {
  const how = rest(args, ["thread_id"], HISTORY) as { includeCheckpoints: boolean };
  return client.state.streamHistory(text(args, "thread_id"), how);
}

async function follower(reading: Reading<Message>, field: string): Promise<Opened> {
  await reading.started();
  return {
    answer: {},
    read: async (count) => {
      const records: Tree[] = [];
      while (records.length < count) {
        const next = await reading.next();
        if (next.done) throw new Error("the stream ended");
        records.push(recordTree(next.value));
      }
      return { [field]: records };
    },
    close: () => reading.close(),
  };
}

/** What this client cannot express, and why. */
export const UNMET = new Map([
  ["batch_parts", "a batch has one scope and one request id"],
  ["purge_selector", "a purge names either a key or all of them"],
]);
