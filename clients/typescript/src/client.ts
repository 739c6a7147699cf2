/** The client of a Statekeep server. */

import { Connection, type ClientOptions } from "./connection.js";
import { Memory } from "./memory.js";
import { Scratch } from "./scratch.js";
import { State } from "./state.js";

/**
 * A client of one server. It connects with its first call, serves any number of calls at once, and keeps the program
 * running only while a call is open. `using` closes it at the end of the block.
 *
 * Calls that fail with UNAVAILABLE are tried again, apart from those whose answers say what they removed; writes carry
 * an id, so that none is done twice.
 */
export class Client implements Disposable {
  /** Versioned values under keys. */
  readonly memory: Memory;
  /** Values that live as long as an instance. */
  readonly scratch: Scratch;
  /** Threads of events, checkpoints and branches. */
  readonly state: State;
  readonly #connection: Connection;

  constructor(options: ClientOptions = {}) {
    this.#connection = new Connection(options);
    this.memory = new Memory(this.#connection);
    this.scratch = new Scratch(this.#connection);
    this.state = new State(this.#connection);
  }

  /** The address of the server. */
  get address(): string {
    return this.#connection.address;
  }

  /** Ends every call and stream: those that wait fail with CANCELLED, as does every call from then on. */
  close(): void {
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
