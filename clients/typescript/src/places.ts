/** Where each kind of stream stands, and how it goes on from there after a lost connection. */

import { clone } from "@bufbuild/protobuf";

import type { CallOptions, Connection } from "./connection.js";
import {
  Memory,
  MemoryHistoryRequestSchema,
  MemoryWatchRequestSchema,
  type MemoryEntry,
  type MemoryHistoryRequest,
  type MemoryHistoryResponse,
  type MemoryWatchRequest,
  type MemoryWatchResponse,
} from "./gen/statekeep/v1/memory_pb.js";
import {
  StateStore,
  StreamHistoryRequestSchema,
  type Checkpoint,
  type Event,
  type StreamHistoryRequest,
  type StreamHistoryResponse,
} from "./gen/statekeep/v1/state_store_pb.js";

/** A record that a thread's stream carries. `$typeName` tells the two apart. */
export type StateRecord = Event | Checkpoint;

/** What a read has handed out, and so how it goes on from there. */
export interface Place<Item, Message> {
  /** Everything up to here was handed out. */
  readonly revision: bigint;
  /** All that was there when the read began was handed out. */
  readonly caughtUp: boolean;
  /** Begins the stream that goes on from here; undefined where there is nothing more to ask for. */
  open(connection: Connection, options: CallOptions): AsyncGenerator<Message, void> | undefined;
  /** Hands out what a message brings, and moves on with each item. */
  take(message: Message): Generator<Item, void>;
}

/** A line of records that is counted in revisions. */
class Line {
  caughtUp = false;
  protected began = false;

  constructor(public revision: bigint) {}

  /** Moves on with each record, and with the last one to the end of its message: past what a filter left out. */
  protected *walk<T extends { revision: bigint }>(
    records: readonly T[],
    message: { revision: bigint; caughtUp: boolean },
  ): Generator<T, void> {
    this.began = true;
    if (records.length === 0) this.#move(message);
    for (const [place, record] of records.entries()) {
      if (place === records.length - 1) this.#move(message);
      else this.revision = record.revision;
      yield record;
    }
  }

  #move(message: { revision: bigint; caughtUp: boolean }): void {
    this.revision = message.revision;
    this.caughtUp ||= message.caughtUp;
  }
}

/** A place on a branch: events, and checkpoints among them where the request asks for both. */
export class HistoryPlace extends Line implements Place<StateRecord, StreamHistoryResponse> {
  readonly #request: StreamHistoryRequest;
  // A read of the last n that does not follow is over after n, also where it had to go on.
  readonly #limit: bigint;
  #events = 0n;

  constructor(request: StreamHistoryRequest) {
    super(request.afterRevision);
    this.#request = request;
    this.#limit = request.limit || (request.follow ? 0n : request.last);
  }

  open(connection: Connection, options: CallOptions): AsyncGenerator<StreamHistoryResponse, void> | undefined {
    const request = clone(StreamHistoryRequestSchema, this.#request);
    if (this.began) {
      if (this.#limit && this.#events >= this.#limit) return undefined;
      request.afterRevision = this.revision;
      request.last = 0n;
      request.limit = this.#limit && this.#limit - this.#events;
    }
    return connection.messages(StateStore.method.streamHistory, request, options);
  }

  *take(message: StreamHistoryResponse): Generator<StateRecord, void> {
    for (const record of this.walk(inOrder(message), message)) {
      if (record.$typeName === "statekeep.v1.Event") this.#events++;
      yield record;
    }
  }
}

/** Events come in order already; only checkpoints have to find their place among them. */
function inOrder(message: StreamHistoryResponse): readonly StateRecord[] {
  if (message.checkpoints.length === 0) return message.events;
  const records: StateRecord[] = [...message.events, ...message.checkpoints];
  return records.sort((one, other) => (one.revision < other.revision ? -1 : 1));
}

/** A place among the writes of a scope. */
export class WatchPlace extends Line implements Place<MemoryEntry, MemoryWatchResponse> {
  readonly #request: MemoryWatchRequest;

  constructor(request: MemoryWatchRequest) {
    super(request.afterRevision ?? 0n);
    this.#request = request;
  }

  open(connection: Connection, options: CallOptions): AsyncGenerator<MemoryWatchResponse, void> {
    const request = clone(MemoryWatchRequestSchema, this.#request);
    if (this.began) request.afterRevision = this.revision;
    return connection.messages(Memory.method.watch, request, options);
  }

  take(message: MemoryWatchResponse): Generator<MemoryEntry, void> {
    return this.walk(message.entries, message);
  }
}

/** A place among the versions of a key, counted in versions: this stream has no cursor. */
export class VersionsPlace implements Place<MemoryEntry, MemoryHistoryResponse> {
  revision = 0n;
  readonly caughtUp = false;
  readonly #request: MemoryHistoryRequest;
  #version: bigint | undefined;
  #handedOut = 0n;

  constructor(request: MemoryHistoryRequest) {
    this.#request = request;
  }

  open(connection: Connection, options: CallOptions): AsyncGenerator<MemoryHistoryResponse, void> | undefined {
    if (this.#isOver()) return undefined;
    const request = clone(MemoryHistoryRequestSchema, this.#request);
    // There may be versions on top by now, which would count.
    if (this.#version !== undefined) request.limit = 0n;
    return connection.messages(Memory.method.history, request, options);
  }

  *take(message: MemoryHistoryResponse): Generator<MemoryEntry, void> {
    for (const entry of message.entries) {
      if (!this.#isAhead(entry.version) || this.#isOver()) continue;
      this.#version = entry.version;
      this.#handedOut++;
      this.revision = entry.revision;
      yield entry;
    }
  }

  #isAhead(version: bigint): boolean {
    if (this.#version === undefined) return true;
    return this.#request.oldestFirst ? version > this.#version : version < this.#version;
  }

  #isOver(): boolean {
    return this.#request.limit > 0n && this.#handedOut >= this.#request.limit;
  }
}
