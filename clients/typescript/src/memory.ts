/** Memory as a client sees it: versioned values under keys, in scopes. */

import { randomUUID } from "node:crypto";

import { create, type MessageInitShape } from "@bufbuild/protobuf";

import type { CallOptions, Connection } from "./connection.js";
import { defined, duration, int64, labelsOf, needed, scopeOf, type Integer, type ScopeName } from "./fields.js";
import {
  Memory as Service,
  MemoryHistoryRequestSchema,
  MemorySetRequestSchema,
  MemoryWatchRequestSchema,
  type MemoryBatchGetResponse,
  type MemoryEntry,
  type MemoryPurgeRecord,
  type MemoryPurgeResponse,
  type MemoryScopeInfo,
} from "./gen/statekeep/v1/memory_pb.js";
import { VersionsPlace, WatchPlace } from "./places.js";
import { following, pages, reading, type FollowOptions, type Reading } from "./reading.js";
import { toValue } from "./values.js";

/** Who writes, where the writer says. */
export interface Writer {
  readonly executionId?: string;
  readonly flowId?: string;
  readonly flowName?: string;
}

/** How a key is written. */
export interface WriteOptions extends Writer {
  /** The version that the key must have now; 0: it must have no value. */
  readonly expectedVersion?: Integer;
  /** Milliseconds after which the version expires. */
  readonly ttlMs?: number;
  readonly labels?: Readonly<Record<string, string>>;
}

/** One write of a batch. */
export interface Write extends WriteOptions {
  readonly key: string;
  readonly value: unknown;
}

/** A write with an id that was used already gets the first answer, and writes nothing. One is made up by default. */
export interface Repeatable {
  readonly requestId?: string;
}

/** How pages are fetched. */
export interface PageOptions extends CallOptions {
  /** How many items to fetch at a time; the server's default of 100 by default, 1000 at most. */
  readonly pageSize?: number;
}

/** Versioned values under keys. Every call may throw a `StatekeepError`. */
export class Memory {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Writes a new version of a key, and returns it without its value.
   *
   * @param value - As `toValue` takes it: a string is kept as text, a `Uint8Array` as data, all else as JSON.
   * @throws StatekeepError `VERSION_MISMATCH`, where the key's version is not the expected one.
   */
  async set(
    scope: ScopeName,
    key: string,
    value: unknown,
    options: WriteOptions & Repeatable & CallOptions = {},
  ): Promise<MemoryEntry> {
    const write = { ...setRequest(scope, { ...options, key, value }), requestId: options.requestId || randomUUID() };
    return needed((await this.#connection.unary(Service.method.set, write, options)).entry);
  }

  /** Writes several keys of one scope, all or none. Returns the versions in the order of the writes. */
  async batchSet(
    scope: ScopeName,
    writes: readonly Write[],
    options: Repeatable & CallOptions = {},
  ): Promise<MemoryEntry[]> {
    const request = {
      sets: writes.map((write, place) => setRequest(scope, write, `sets[${place}].`)),
      requestId: options.requestId || randomUUID(),
    };
    return (await this.#connection.unary(Service.method.batchSet, request, options)).entries;
  }

  /** Reads the newest version of a key, or one of them; undefined where there is none, or it is deleted or expired. */
  async get(
    scope: ScopeName,
    key: string,
    options: { readonly version?: Integer; readonly includeDeleted?: boolean } & CallOptions = {},
  ): Promise<MemoryEntry | undefined> {
    const { includeDeleted } = options;
    const request = { scope: scopeOf(scope), key, includeDeleted, version: int64(options.version, "version") };
    return (await this.#connection.unary(Service.method.get, defined(request), options)).entry;
  }

  /** Reads several keys of one scope from one point in time. */
  async batchGet(
    scope: ScopeName,
    keys: readonly string[],
    options: CallOptions = {},
  ): Promise<MemoryBatchGetResponse> {
    const request = { scope: scopeOf(scope), keys: [...keys] };
    return await this.#connection.unary(Service.method.batchGet, request, options);
  }

  /** Iterates over the keys that have a value, sorted by key. Prefixes are literal. */
  list(
    scope: ScopeName,
    options: {
      readonly prefix?: string;
      readonly includeValues?: boolean;
      readonly includeDeleted?: boolean;
    } & PageOptions = {},
  ): AsyncGenerator<MemoryEntry, void> {
    const { prefix, includeValues, includeDeleted, pageSize } = options;
    const asked = defined({ scope: scopeOf(scope), prefix, includeValues, includeDeleted, pageSize });
    return pages(async (pageToken) => {
      const { entries, nextPageToken } = await this.#connection.unary(
        Service.method.list,
        { ...asked, pageToken },
        options,
      );
      return { items: entries, nextPageToken };
    });
  }

  /** Streams the versions of a key, tombstones too, newest first. A `limit` of 0 is none. */
  history(
    scope: ScopeName,
    key: string,
    options: {
      readonly oldestFirst?: boolean;
      readonly includeValues?: boolean;
      readonly limit?: Integer;
    } & CallOptions = {},
  ): Reading<MemoryEntry> {
    const { oldestFirst, includeValues } = options;
    const asked = { scope: scopeOf(scope), key, oldestFirst, includeValues, limit: int64(options.limit, "limit") };
    return reading(this.#connection, new VersionsPlace(create(MemoryHistoryRequestSchema, defined(asked))), options);
  }

  /** Hides a key behind a tombstone, which is returned; undefined where the key never had a value. */
  async delete(
    scope: ScopeName,
    key: string,
    options: { readonly expectedVersion?: Integer } & Writer & Repeatable & CallOptions = {},
  ): Promise<MemoryEntry | undefined> {
    const { executionId, flowId, flowName } = options;
    const request = {
      scope: scopeOf(scope),
      key,
      expectedVersion: int64(options.expectedVersion, "expected_version"),
      requestId: options.requestId || randomUUID(),
      executionId,
      flowId,
      flowName,
    };
    return (await this.#connection.unary(Service.method.delete, defined(request), options)).entry;
  }

  /**
   * Removes all but the `keep` newest versions, of one key or of all, for good. With `includeDeleted`, deleted keys are
   * removed whole; otherwise `allKeys` passes them over. A lost connection is not tried again: the answer would be wrong.
   */
  async purge(
    scope: ScopeName,
    selector: { readonly key: string } | { readonly allKeys: true },
    options: { readonly keep: number; readonly includeDeleted?: boolean } & CallOptions,
  ): Promise<MemoryPurgeResponse> {
    const { keep, includeDeleted } = options;
    const request = defined({ ...selector, scope: scopeOf(scope), keep, includeDeleted });
    return await this.#connection.unary(Service.method.purge, request, options);
  }

  /** Iterates over what was purged in a scope, newest first. */
  listPurges(scope: ScopeName, options: PageOptions = {}): AsyncGenerator<MemoryPurgeRecord, void> {
    const asked = defined({ scope: scopeOf(scope), pageSize: options.pageSize });
    return pages(async (pageToken) => {
      const { purges, nextPageToken } = await this.#connection.unary(
        Service.method.listPurges,
        { ...asked, pageToken },
        options,
      );
      return { items: purges, nextPageToken };
    });
  }

  /** Iterates over the scopes that hold a key with a value, sorted by name, then namespace, flow, execution. */
  listScopes(options: PageOptions = {}): AsyncGenerator<MemoryScopeInfo, void> {
    const asked = defined({ pageSize: options.pageSize });
    return pages(async (pageToken) => {
      const { scopes, nextPageToken } = await this.#connection.unary(
        Service.method.listScopes,
        { ...asked, pageToken },
        options,
      );
      return { items: scopes, nextPageToken };
    });
  }

  /**
   * Follows the writes of a scope: after a revision (0: all there is), or, without one, from when `started()` returns.
   *
   * @throws StatekeepError `REVISION_GONE` and `REVISION_AHEAD`, where the watch cannot go on after that revision.
   */
  watch(
    scope: ScopeName,
    options: {
      readonly prefix?: string;
      readonly afterRevision?: Integer;
      readonly includeValues?: boolean;
      /** Milliseconds, from 100 on: how often an idle server says up to where everything was sent. */
      readonly heartbeatMs?: number;
    } & FollowOptions = {},
  ): Reading<MemoryEntry> {
    const { prefix, includeValues } = options;
    const asked = {
      scope: scopeOf(scope),
      prefix,
      includeValues,
      afterRevision: int64(options.afterRevision, "after_revision"),
      heartbeat: duration(options.heartbeatMs, "heartbeat"),
    };
    return following(this.#connection, new WatchPlace(create(MemoryWatchRequestSchema, defined(asked))), options);
  }
}

function setRequest(scope: ScopeName, write: Write, path = ""): MessageInitShape<typeof MemorySetRequestSchema> {
  const { key, executionId, flowId, flowName, labels } = write;
  return defined({
    scope: scopeOf(scope),
    key,
    value: toValue(write.value, `${path}value`),
    expectedVersion: int64(write.expectedVersion, `${path}expected_version`),
    ttl: duration(write.ttlMs, `${path}ttl`),
    executionId,
    flowId,
    flowName,
    labels: labelsOf(labels, path),
  });
}
