/** Streams that go on where they were after a lost connection, without a gap and without a repeat. */

import { setTimeout as delay } from "node:timers/promises";

import type { CallOptions, Connection } from "./connection.js";
import { StatekeepError } from "./errors.js";
import type { Place } from "./places.js";

/** What a read that follows takes besides. */
export interface FollowOptions extends CallOptions {
  /**
   * Milliseconds to go on trying after the connection was lost. 60,000 by default, 0 for no try at all, `Infinity` for
   * ever. A read that had no answer yet tries five times at most.
   */
  readonly retryForMs?: number;
}

const RETRY_FOR_MS = 60_000;
// At least so long before the first try again; each further one waits twice as long, up to the longest.
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_500;
/** How often a read that does not follow, or never had a message, tries without getting any further. */
const TRIES = 5;

/** How long to go on trying while nothing comes. */
class Patience {
  #began = false;
  #tries = 0;
  #lostAt = 0;

  constructor(private readonly retryForMs: number | undefined) {}

  /** A message came. */
  progress(): void {
    this.#began = true;
    this.#tries = 0;
  }

  /** Milliseconds to wait before the next try. Throws the error where there is none. */
  pause(error: StatekeepError): number {
    const now = performance.now();
    if (this.#tries === 0) this.#lostAt = now;
    this.#tries++;
    if (this.#isOver(now)) throw error;
    const own = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#tries - 1, 10), LONGEST_PAUSE_MS);
    // Up to twice as long, or everyone who lost the same server would come back at once.
    return (error.retryDelayMs ?? own) * (1 + Math.random());
  }

  #isOver(now: number): boolean {
    if (this.retryForMs === 0) return true;
    if (this.retryForMs === undefined || !this.#began) return this.#tries >= TRIES;
    return now - this.#lostAt >= this.retryForMs;
  }
}

/**
 * What a stream carries, for one `for await`. A lost connection (UNAVAILABLE) is made again, and the read goes on after
 * the last record it handed out. Leaving the loop, `close()` and the `signal` end the call at the server.
 */
export class Reading<Item> implements AsyncIterableIterator<Item>, AsyncDisposable {
  readonly #connection: Connection;
  readonly #place: Place<Item, unknown>;
  readonly #options: CallOptions;
  readonly #patience: Patience;
  readonly #ended = new AbortController();
  #messages: AsyncGenerator<unknown, void> | undefined;
  #items: Iterator<Item> | undefined;
  #deadline: number | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(connection: Connection, place: Place<Item, unknown>, options: CallOptions, retryForMs?: number) {
    this.#connection = connection;
    this.#place = place;
    this.#options = options;
    this.#patience = new Patience(retryForMs);
  }

  /** The revision up to which everything was handed out: a later read can go on after it. */
  get revision(): bigint {
    return this.#place.revision;
  }

  /** Whether all that was there when the read began was handed out. */
  get caughtUp(): boolean {
    return this.#place.caughtUp;
  }

  /** Waits until the server has answered: whatever is written from then on, a read that follows will see. */
  async started(): Promise<this> {
    await this.#inTurn(async () => {
      if (!this.#items) await this.#fill();
    });
    return this;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    return this.#inTurn(async () => {
      for (;;) {
        const item = this.#items?.next();
        if (item && !item.done) return { done: false, value: item.value };
        if (!(await this.#fill())) return { done: true, value: undefined };
      }
    });
  }

  /** Ends the read and its call; a `next()` that waits is done. */
  async return(): Promise<IteratorResult<Item, undefined>> {
    this.#ended.abort();
    await this.#turn;
    await this.#messages?.return();
    this.#messages = this.#items = undefined;
    return { done: true, value: undefined };
  }

  /** Ends the read and its call. */
  async close(): Promise<void> {
    await this.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Calls that overlap are answered one after the other, in the order they were made. */
  #inTurn<R>(step: () => Promise<R>): Promise<R> {
    const turn = this.#turn.then(step);
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  /** Waits for the next message. Returns false at the end of the stream. */
  async #fill(): Promise<boolean> {
    while (!this.#ended.signal.aborted) {
      try {
        this.#messages ??= this.#open();
        const next = await this.#messages?.next();
        if (!next || next.done) break;
        this.#patience.progress();
        this.#items = this.#place.take(next.value);
        return true;
      } catch (error) {
        await this.#lose(error);
      }
    }
    this.#ended.abort();
    return false;
  }

  #open(): AsyncGenerator<unknown, void> | undefined {
    const given = this.#options.timeoutMs;
    if (given !== undefined) this.#deadline ??= performance.now() + given;
    const left = this.#deadline === undefined ? {} : { timeoutMs: Math.max(this.#deadline - performance.now(), 0) };
    return this.#place.open(this.#connection, { signal: this.#signal(), ...left });
  }

  /** Gives up a call that failed, and waits before the next. Throws where there is to be none. */
  async #lose(error: unknown): Promise<void> {
    this.#messages = undefined;
    if (this.#ended.signal.aborted && !this.#options.signal?.aborted) return;
    try {
      if (!(error instanceof StatekeepError && error.code === "UNAVAILABLE")) throw error;
      await delay(this.#patience.pause(error), undefined, { signal: this.#signal() });
    } catch (reason) {
      const closed = this.#ended.signal.aborted && !this.#options.signal?.aborted;
      this.#ended.abort();
      if (!closed) throw this.#options.signal?.aborted ? this.#options.signal.reason : reason;
    }
  }

  #signal(): AbortSignal {
    const own = this.#ended.signal;
    return this.#options.signal ? AbortSignal.any([own, this.#options.signal]) : own;
  }
}

/** A read that ends by itself. */
export function reading<Item>(
  connection: Connection,
  place: Place<Item, unknown>,
  options: CallOptions,
): Reading<Item> {
  return new Reading(connection, place, options);
}

/** A read that stays, to follow what is written. */
export function following<Item>(
  connection: Connection,
  place: Place<Item, unknown>,
  options: FollowOptions,
): Reading<Item> {
  return new Reading(connection, place, options, options.retryForMs ?? RETRY_FOR_MS);
}

/** The items of all pages, each page fetched when the one before it is used up. */
export async function* pages<Item>(
  fetch: (pageToken: string) => Promise<{ items: readonly Item[]; nextPageToken: string }>,
): AsyncGenerator<Item, void> {
  let token = "";
  do {
    const page = await fetch(token);
    yield* page.items;
    token = page.nextPageToken;
  } while (token);
}
