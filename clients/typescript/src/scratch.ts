/** Scratch as a client sees it: values that live as long as an instance. */

import type { CallOptions, Connection } from "./connection.js";
import { StatekeepError } from "./errors.js";
import { defined, duration } from "./fields.js";
import { Scratch as Service, type ScratchOpenResponse } from "./gen/statekeep/v1/scratch_pb.js";
import type { Value } from "./gen/statekeep/v1/value_pb.js";
import { toValue } from "./values.js";

/** A value of an instance, with its key as it is kept. */
export interface ScratchItem {
  readonly key: string;
  readonly value: Value;
}

/** Values that live as long as an instance. Every call may throw a `StatekeepError`. */
export class Scratch {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Begins an instance, or empties it. Without an id the server makes one up. `idleTtlMs`: milliseconds without use
   * after which it ends. A lost connection is not tried again: the answer would be wrong.
   */
  async open(
    instanceId = "",
    options: { readonly idleTtlMs?: number } & CallOptions = {},
  ): Promise<ScratchOpenResponse> {
    const request = defined({ instanceId, idleTtl: duration(options.idleTtlMs, "idle_ttl") });
    return await this.#connection.unary(Service.method.open, request, options);
  }

  /** Keeps a value (as `toValue` takes it) under a key, and returns the key as kept: trimmed. */
  async put(instanceId: string, key: string, value: unknown, options: CallOptions = {}): Promise<string> {
    const request = { instanceId, key, value: toValue(value) };
    return (await this.#connection.unary(Service.method.put, request, options)).key;
  }

  /** Reads a value; undefined where there is no such key. */
  async get(instanceId: string, key: string, options: CallOptions = {}): Promise<ScratchItem | undefined> {
    const answer = await this.#connection.unary(Service.method.get, { instanceId, key }, options);
    return answer.value && { key: answer.key, value: answer.value };
  }

  /** Lists the keys, sorted. */
  async list(instanceId: string, options: CallOptions = {}): Promise<string[]> {
    return (await this.#connection.unary(Service.method.list, { instanceId }, options)).keys;
  }

  /**
   * Removes one key, or without one (also an empty or blank one) all of them. Returns those removed, sorted. A lost
   * connection is not tried again: the answer would be wrong.
   */
  async clear(instanceId: string, key?: string, options: CallOptions = {}): Promise<string[]> {
    return (await this.#connection.unary(Service.method.clear, defined({ instanceId, key }), options)).cleared;
  }

  /** Ends an instance. Returns the keys it had, sorted. A lost connection is not tried again, as with `clear`. */
  async close(instanceId: string, options: CallOptions = {}): Promise<string[]> {
    return (await this.#connection.unary(Service.method.close, { instanceId }, options)).cleared;
  }

  /**
   * Begins an instance, emptying it, that ends when the attachment is closed, and at the latest with the connection,
   * with the signal, or after `timeoutMs`.
   *
   * @throws StatekeepError `INSTANCE_ATTACHED`, where someone else holds it.
   */
  async attach(instanceId = "", options: CallOptions = {}): Promise<Attachment> {
    const messages = this.#connection.messages(Service.method.attach, { instanceId }, options);
    const first = await messages.next();
    if (first.done) throw new StatekeepError("the server ended the attachment", { code: "UNAVAILABLE" });
    return new Attachment(first.value.instanceId, messages);
  }
}

/** An instance that lives until it is closed; `await using` closes it at the end of the block. */
export class Attachment implements AsyncDisposable {
  readonly #messages: AsyncGenerator<unknown, void>;

  /** @internal */
  constructor(
    readonly instanceId: string,
    messages: AsyncGenerator<unknown, void>,
  ) {
    this.#messages = messages;
  }

  /** Ends the instance, soon after this returns. */
  async close(): Promise<void> {
    await this.#messages.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
