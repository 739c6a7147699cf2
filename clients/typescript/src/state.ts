/** StateStore as a client sees it: a thread's events in order, snapshots of its state, and its branches. */

import { randomUUID } from "node:crypto";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";

import type { CallOptions, Connection } from "./connection.js";
import { defined, duration, int64, labelsOf, needed, timestamp, type Integer } from "./fields.js";
import {
  CheckpointSchema,
  EventSchema,
  StateStore as Service,
  StreamHistoryRequestSchema,
  type AppendEventsResponse,
  type Branch,
  type Checkpoint,
  type DeleteThreadResponse,
  type Event,
  type ForkResponse,
  type History,
  type Thread,
} from "./gen/statekeep/v1/state_store_pb.js";
import type { PageOptions, Repeatable } from "./memory.js";
import { HistoryPlace, type StateRecord } from "./places.js";
import { following, pages, reading, type FollowOptions, type Reading } from "./reading.js";
import { toValue } from "./values.js";

/** An event to append. */
export interface NewEvent {
  /** What happened: `message`, `run_started`, … */
  readonly type: string;
  /** Sending an event again changes nothing; so one is made up where none is given. */
  readonly id?: string;
  /** Details, as `toValue` takes them; undefined: none. */
  readonly data?: unknown;
  readonly node?: string;
  readonly parentId?: string;
  readonly errorType?: string;
  readonly message?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** By default the server's clock. Never used for order. */
  readonly createTime?: Date | Timestamp;
}

/** A snapshot to save. */
export interface NewCheckpoint {
  /** The event the snapshot was taken at, and its sequence number. */
  readonly eventId: string;
  readonly sequence: Integer;
  /** The whole state, as `toValue` takes it. */
  readonly state: unknown;
  /** Saving an id again replaces what was saved under it. One is made up where none is given. */
  readonly id?: string;
  /** The tasks still to run, a JSON list. */
  readonly active?: unknown;
  /** `running` by default. */
  readonly status?: string;
  readonly metadata?: unknown;
  readonly parentId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly createTime?: Date | Timestamp;
}

/** Which branch of the thread. `main` by default. */
export interface OnBranch {
  readonly branchId?: string;
}

/** What must be there when something is appended. */
export interface Expecting {
  /** The highest sequence number that the branch must have; 0: none. */
  readonly expectedLastSequence?: Integer;
}

/** What a history is read from. */
export interface HistoryOptions extends OnBranch, FollowOptions {
  /** Only what was stored after this revision. */
  readonly afterRevision?: Integer;
  /** How many events at most; 0: no limit. */
  readonly limit?: Integer;
  /** Begin at the last so many events. Not together with `afterRevision` or `limit`. */
  readonly last?: Integer;
  /** First what the branch inherits: its parents' events, up to where each was forked. */
  readonly includeAncestors?: boolean;
  /** Stay, and go on with what is stored from then on. */
  readonly follow?: boolean;
  /** With `follow`. Milliseconds, from 100 on: how often an idle server says up to where everything was sent. */
  readonly heartbeatMs?: number;
}

/** The history of threads. Ids are never trimmed. Every call may throw a `StatekeepError`. */
export class State {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Stores an event under the sequence number given, and returns it as stored.
   *
   * @throws StatekeepError `EVENT_EXISTS`, where the branch holds an event of this id that says something else.
   */
  async appendEvent(
    threadId: string,
    event: NewEvent & { readonly sequence: Integer },
    options: OnBranch & CallOptions = {},
  ): Promise<Event> {
    // The types bind no caller in JavaScript, where a sequence left out would be 0.
    const sequence = int64(event.sequence ?? NaN, "event.sequence"); // eslint-disable-line @typescript-eslint/no-unnecessary-condition
    const sent = { ...eventOf(event, "event."), ...place(threadId, options), sequence };
    return needed((await this.#connection.unary(Service.method.appendEvent, { event: sent }, options)).event);
  }

  /**
   * Stores an event with the next sequence number of its branch, and returns it as stored.
   *
   * @throws StatekeepError `EVENT_EXISTS`, or `SEQUENCE_MISMATCH`, where the highest number is not the expected one.
   */
  async appendNextEvent(
    threadId: string,
    event: NewEvent,
    options: OnBranch & Expecting & CallOptions = {},
  ): Promise<Event> {
    const request = defined({
      event: { ...eventOf(event, "event."), ...place(threadId, options) },
      expectedLastSequence: int64(options.expectedLastSequence, "expected_last_sequence"),
    });
    return needed((await this.#connection.unary(Service.method.appendNextEvent, request, options)).event);
  }

  /** Stores several events of one branch with the next sequence numbers, all or none. */
  async appendEvents(
    threadId: string,
    events: readonly NewEvent[],
    options: OnBranch & Expecting & CallOptions = {},
  ): Promise<AppendEventsResponse> {
    const request = defined({
      ...place(threadId, options),
      events: events.map((event, index) => eventOf(event, `events[${index}].`)),
      expectedLastSequence: int64(options.expectedLastSequence, "expected_last_sequence"),
    });
    return await this.#connection.unary(Service.method.appendEvents, request, options);
  }

  /** Stores a snapshot of state, in place of what was saved under its id, and returns it as stored. */
  async saveCheckpoint(
    threadId: string,
    checkpoint: NewCheckpoint,
    options: OnBranch & CallOptions = {},
  ): Promise<Checkpoint> {
    const sent = { ...checkpointOf(checkpoint), ...place(threadId, options) };
    const answer = await this.#connection.unary(Service.method.saveCheckpoint, { checkpoint: sent }, options);
    return needed(answer.checkpoint);
  }

  /**
   * Reads the checkpoint with the highest sequence, or the highest up to an event's; undefined where there is none.
   *
   * @throws StatekeepError `EVENT_NOT_FOUND`, where the branch holds no event `atEventId`.
   */
  async latestCheckpoint(
    threadId: string,
    options: { readonly atEventId?: string } & OnBranch & CallOptions = {},
  ): Promise<Checkpoint | undefined> {
    const request = defined({ ...place(threadId, options), atEventId: options.atEventId });
    return (await this.#connection.unary(Service.method.latestCheckpoint, request, options)).checkpoint;
  }

  /** Iterates over a branch's checkpoints that carry all of the labels, the one saved last first. */
  listCheckpoints(
    threadId: string,
    options: { readonly labels?: Readonly<Record<string, string>> } & OnBranch & PageOptions = {},
  ): AsyncGenerator<Checkpoint, void> {
    const asked = defined({ ...place(threadId, options), labels: options.labels, pageSize: options.pageSize });
    return pages(async (pageToken) => {
      const { checkpoints, nextPageToken } = await this.#connection.unary(
        Service.method.listCheckpoints,
        { ...asked, pageToken },
        options,
      );
      return { items: checkpoints, nextPageToken };
    });
  }

  /**
   * Reads a whole branch in one message; `streamHistory` reads one of any size.
   *
   * @throws StatekeepError `HISTORY_TOO_LARGE`, where it does not fit.
   */
  async getHistory(threadId: string, options: OnBranch & CallOptions = {}): Promise<History> {
    const answer = await this.#connection.unary(Service.method.getHistory, place(threadId, options), options);
    return needed(answer.history);
  }

  /**
   * Streams a branch's events in the order they were stored; with `includeCheckpoints` the checkpoints among them; with
   * `follow` on and on.
   *
   * @throws StatekeepError `REVISION_GONE` and `REVISION_AHEAD`, where the read cannot go on after that revision.
   */
  streamHistory(threadId: string, options?: HistoryOptions): Reading<Event>;
  streamHistory(
    threadId: string,
    options: HistoryOptions & { readonly includeCheckpoints: boolean },
  ): Reading<StateRecord>;
  streamHistory(
    threadId: string,
    options: HistoryOptions & { readonly includeCheckpoints?: boolean } = {},
  ): Reading<StateRecord> {
    const { includeCheckpoints, includeAncestors, follow } = options;
    const asked = {
      ...place(threadId, options),
      afterRevision: int64(options.afterRevision, "after_revision"),
      limit: int64(options.limit, "limit"),
      last: int64(options.last, "last"),
      includeCheckpoints,
      includeAncestors,
      follow,
      heartbeat: duration(options.heartbeatMs, "heartbeat"),
    };
    const from = new HistoryPlace(create(StreamHistoryRequestSchema, defined(asked)));
    return follow ? following(this.#connection, from, options) : reading(this.#connection, from, options);
  }

  /**
   * Records a new branch that starts at an event; with its first checkpoint and event, in one step.
   *
   * @param options - `name`: the new branch's id; the server makes one up by default.
   * @throws StatekeepError `BRANCH_EXISTS`, `THREAD_NOT_FOUND`, `BRANCH_NOT_FOUND` or `EVENT_NOT_FOUND`.
   */
  async fork(
    threadId: string,
    fromEventId: string,
    options: {
      readonly name?: string;
      readonly checkpoint?: NewCheckpoint;
      readonly event?: NewEvent;
    } & OnBranch &
      Repeatable &
      CallOptions = {},
  ): Promise<ForkResponse & { branch: Branch }> {
    const request = defined({
      ...place(threadId, options),
      fromEventId,
      name: options.name,
      checkpoint: options.checkpoint && checkpointOf(options.checkpoint),
      event: options.event && eventOf(options.event, "event."),
      requestId: options.requestId || randomUUID(),
    });
    const answer = await this.#connection.unary(Service.method.fork, request, options);
    return { ...answer, branch: needed(answer.branch) };
  }

  /** Iterates over the branches forked in a thread, oldest first; with `includeUnforked` also `main` and such. */
  listBranches(
    threadId: string,
    options: { readonly includeUnforked?: boolean } & PageOptions = {},
  ): AsyncGenerator<Branch, void> {
    const { includeUnforked, pageSize } = options;
    const asked = defined({ threadId, includeUnforked, pageSize });
    return pages(async (pageToken) => {
      const { branches, nextPageToken } = await this.#connection.unary(
        Service.method.listBranches,
        { ...asked, pageToken },
        options,
      );
      return { items: branches, nextPageToken };
    });
  }

  /** Iterates over the threads whose id begins with a prefix, literally, sorted by id. */
  listThreads(options: { readonly prefix?: string } & PageOptions = {}): AsyncGenerator<Thread, void> {
    const asked = defined({ prefix: options.prefix, pageSize: options.pageSize });
    return pages(async (pageToken) => {
      const { threads, nextPageToken } = await this.#connection.unary(
        Service.method.listThreads,
        { ...asked, pageToken },
        options,
      );
      return { items: threads, nextPageToken };
    });
  }

  /**
   * Removes a thread with all its branches; no error where there is none. A lost connection is not tried again: the
   * answer would be wrong.
   */
  async deleteThread(threadId: string, options: CallOptions = {}): Promise<DeleteThreadResponse> {
    return await this.#connection.unary(Service.method.deleteThread, { threadId }, options);
  }
}

function place(threadId: string, options: OnBranch): { threadId: string; branchId: string } {
  return { threadId, branchId: options.branchId ?? "" };
}

function eventOf(event: NewEvent, path: string): MessageInitShape<typeof EventSchema> {
  const { type, node, parentId, errorType, message, labels } = event;
  return defined({
    id: event.id || randomUUID(),
    type,
    node,
    parentId,
    data: optionalValue(event.data, `${path}data`),
    errorType,
    message,
    createTime: timestamp(event.createTime, `${path}create_time`),
    labels: labelsOf(labels, path),
  });
}

function checkpointOf(checkpoint: NewCheckpoint): MessageInitShape<typeof CheckpointSchema> {
  const { eventId, status, parentId, labels } = checkpoint;
  return defined({
    id: checkpoint.id || randomUUID(),
    eventId,
    sequence: int64(checkpoint.sequence, "checkpoint.sequence"),
    state: toValue(checkpoint.state, "checkpoint.state"),
    active: optionalValue(checkpoint.active, "checkpoint.active"),
    status,
    createTime: timestamp(checkpoint.createTime, "checkpoint.create_time"),
    parentId,
    metadata: optionalValue(checkpoint.metadata, "checkpoint.metadata"),
    labels: labelsOf(labels, "checkpoint."),
  });
}

function optionalValue(content: unknown, field: string) {
  return content === undefined ? undefined : toValue(content, field);
}
