/** One channel to a server, and what goes with every call through it. */

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  Client as Channel,
  Metadata,
  credentials,
  type CallOptions as ChannelCallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  type ServiceError,
} from "@grpc/grpc-js";

import { StatekeepError, fromServiceError, invalidField } from "./errors.js";
import { Memory } from "./gen/statekeep/v1/memory_pb.js";
import { Scratch } from "./gen/statekeep/v1/scratch_pb.js";
import { StateStore } from "./gen/statekeep/v1/state_store_pb.js";

/** How to reach a server over TLS; all in PEM. */
export interface TlsOptions {
  /** The certificates to trust. Without them: those that Node.js trusts. */
  readonly rootCertificates?: Buffer;
  /** The client's own key and certificates, for a server that asks for them. */
  readonly privateKey?: Buffer;
  readonly certificateChain?: Buffer;
  /** The name that the server's certificate must have, where it is not the address's. */
  readonly serverName?: string;
}

export interface ClientOptions {
  /** `HOST:PORT` or `unix:PATH`. Without it: `STATEKEEP_ADDRESS`, or else `127.0.0.1:50051`. */
  readonly address?: string;
  /** Sent with every call as `authorization: Bearer …`. Without it: `STATEKEEP_TOKEN`, or none. */
  readonly token?: string;
  /** True for the certificates that Node.js trusts. */
  readonly tls?: boolean | TlsOptions;
  /** Milliseconds that a unary call may take, retries included. 30,000 by default; `Infinity` for no limit. */
  readonly timeoutMs?: number;
  /** Whether a unary call waits, up to its timeout, for a server that is not there yet. False by default. */
  readonly waitForReady?: boolean;
  /** Milliseconds between pings while a call is open. 30,000 by default; a server allows 10,000. */
  readonly keepaliveMs?: number;
  /** Further options of the channel of `@grpc/grpc-js`, which go before this client's. */
  readonly channelOptions?: ChannelOptions;
}

export interface CallOptions {
  /** Ends the call, which then fails with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Milliseconds that the call may take, in place of the client's. A stream has no limit without it. */
  readonly timeoutMs?: number;
}

// Their answers say what they removed: repeated after a lost answer they would say "nothing". Every other unary call
// either reads, or carries an id by which the server knows it again.
const NOT_REPEATED = new Set([
  "Memory.Purge",
  "Scratch.Open",
  "Scratch.Clear",
  "Scratch.Close",
  "StateStore.DeleteThread",
]);

// Streams are not among them: they resume by cursor.
const REPEATED = [Memory, Scratch, StateStore].flatMap((service) =>
  service.methods
    .filter((method) => method.methodKind === "unary" && !NOT_REPEATED.has(`${service.name}.${method.name}`))
    .map((method) => ({ service: service.typeName, method: method.name })),
);

const SERVICE_CONFIG = {
  methodConfig: [
    {
      name: REPEATED,
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.1s",
        maxBackoff: "1s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
};

const CHANNEL_OPTIONS: ChannelOptions = {
  "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
  // A call is repeated only where its request was kept, and one record may have close to 4 MiB.
  "grpc.per_rpc_retry_buffer_size": 8 << 20,
  "grpc.retry_buffer_size": 64 << 20,
  "grpc.keepalive_timeout_ms": 10_000,
  // By default it waits up to two minutes before it looks again for a server that came back.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
};

const DEFAULT_TIMEOUT_MS = 30_000;

const HOST_AND_PORT = /^(\[[0-9A-Fa-f:.]+\]|[^:/[\]\s]+):([0-9]{1,5})$/;

interface Call {
  cancel(): void;
}

/** gRPC would dial another port, or wait for a host that is none. */
function checkedAddress(address: string): string {
  const port = HOST_AND_PORT.exec(address)?.[2];
  if ((port !== undefined && Number(port) <= 65535) || /^unix:./.test(address)) return address;
  throw invalidField("address", `is HOST:PORT, [IPv6]:PORT or unix:PATH, not "${address}"`);
}

export class Connection {
  readonly address: string;
  readonly #channel: Channel;
  readonly #unaryMetadata: Metadata;
  // A stream that is opened again fails at once where there is no server: whoever opens it waits, and counts the tries.
  readonly #streamMetadata = new Metadata();
  readonly #timeoutMs: number;
  readonly #calls = new Set<Call>();
  #closed = false;

  constructor(options: ClientOptions) {
    this.address = checkedAddress(options.address ?? (process.env["STATEKEEP_ADDRESS"] || "127.0.0.1:50051"));
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const token = tokenOf(options.token ?? process.env["STATEKEEP_TOKEN"] ?? "");
    if (token) this.#streamMetadata.set("authorization", `Bearer ${token}`);
    this.#unaryMetadata = this.#streamMetadata.clone();
    this.#unaryMetadata.setOptions({ waitForReady: options.waitForReady ?? false });
    this.#channel = new Channel(this.address, channelCredentials(options.tls), {
      ...CHANNEL_OPTIONS,
      "grpc.keepalive_time_ms": options.keepaliveMs ?? 30_000,
      ...serverName(options.tls),
      ...options.channelOptions,
    });
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Makes a call with one answer. Throws a StatekeepError, or the reason of the signal that ended it. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    const bytes = this.#encoded(method.input, request, options);
    return await new Promise((resolve, reject) => {
      const call = this.#channel.makeUnaryRequest(
        pathOf(method),
        asIs,
        (answer: Buffer) => decode(method.output, answer),
        bytes,
        this.#unaryMetadata,
        deadlineIn(options.timeoutMs ?? this.#timeoutMs),
        (failure: ServiceError | null, answer?: MessageShape<O>) => {
          release();
          if (answer) resolve(answer);
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the reason of an AbortSignal may be anything
          else reject(this.errorOf(failure, options.signal));
        },
      );
      const release = this.#hold(call, options.signal);
    });
  }

  /** Opens a stream of answers. It ends with the generator, with the signal and with the connection. */
  async *messages<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): AsyncGenerator<MessageShape<O>, void> {
    const bytes = this.#encoded(method.input, request, options);
    const call = this.#channel.makeServerStreamRequest(
      pathOf(method),
      asIs,
      (answer: Buffer) => decode(method.output, answer),
      bytes,
      this.#streamMetadata,
      deadlineIn(options.timeoutMs),
    );
    // The cancellation below would be an error that nobody listens to any more.
    call.on("error", () => undefined);
    const release = this.#hold(call, options.signal);
    try {
      yield* call as AsyncIterable<MessageShape<O>>;
    } catch (failure) {
      throw this.errorOf(failure, options.signal);
    } finally {
      release();
      call.cancel();
    }
  }

  /** The error for a failed call. */
  errorOf(failure: unknown, signal?: AbortSignal): unknown {
    if (signal?.aborted) return signal.reason;
    if (this.#closed) return closedError();
    return isServiceError(failure) ? fromServiceError(failure) : failure;
  }

  /** Ends every call. */
  close(): void {
    this.#closed = true;
    for (const call of [...this.#calls]) call.cancel();
    this.#channel.close();
  }

  #encoded<I extends DescMessage>(schema: I, request: MessageInitShape<I>, options: CallOptions): Buffer {
    if (this.#closed) throw closedError();
    options.signal?.throwIfAborted();
    return encode(schema, request);
  }

  /** Ties a call to what may end it. Returns how to let go of it. */
  #hold(call: Call, signal: AbortSignal | undefined): () => void {
    const cancel = () => {
      call.cancel();
    };
    this.#calls.add(call);
    signal?.addEventListener("abort", cancel, { once: true });
    return () => {
      this.#calls.delete(call);
      signal?.removeEventListener("abort", cancel);
    };
  }
}

function channelCredentials(tls: boolean | TlsOptions | undefined): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  const given = tls === true ? {} : tls;
  return credentials.createSsl(given.rootCertificates, given.privateKey, given.certificateChain);
}

function serverName(tls: boolean | TlsOptions | undefined): ChannelOptions {
  const name = typeof tls === "object" ? tls.serverName : undefined;
  return name === undefined ? {} : { "grpc.ssl_target_name_override": name, "grpc.default_authority": name };
}

/** The token without the white space around it: a file that it is read from ends with a newline. */
function tokenOf(given: string): string {
  const token = given.trim();
  if (!/^[\x21-\x7e]*$/.test(token)) throw invalidField("token", "is printable ASCII without blanks");
  return token;
}

function encode<I extends DescMessage>(schema: I, request: MessageInitShape<I>): Buffer {
  let bytes: Uint8Array;
  const message = create(schema, request);
  const field = illFormed(message, "");
  if (field !== undefined) throw invalidField(field, "holds a lone surrogate, which UTF-8 cannot say");
  try {
    bytes = toBinary(schema, message);
  } catch (error) {
    const told = error instanceof Error ? error.message : String(error);
    throw new StatekeepError(told, { code: "INVALID_ARGUMENT", reason: "INVALID_FIELD", cause: error });
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A Buffer's bytes fields would be Buffers, which are Uint8Arrays of other habits. */
function decode<O extends DescMessage>(schema: O, answer: Buffer): MessageShape<O> {
  return fromBinary(schema, new Uint8Array(answer.buffer, answer.byteOffset, answer.byteLength));
}

/** The path of a text that is not well-formed: the encoder would put U+FFFD in place of what is wrong. */
function illFormed(node: unknown, path: string): string | undefined {
  if (typeof node === "string") return node.isWellFormed() ? undefined : path;
  if (typeof node !== "object" || node === null || node instanceof Uint8Array) return undefined;
  const isChoice = "case" in node && typeof node.case === "string" && "value" in node;
  const members = isChoice ? [[node.case as string, node.value] as const] : Object.entries(node);
  for (const [name, member] of members) {
    const found = name.isWellFormed() ? illFormed(member, step(path, name, Array.isArray(node))) : path;
    if (found !== undefined) return found;
  }
  return undefined;
}

function step(path: string, name: string, inList: boolean): string {
  if (inList) return `${path}[${name}]`;
  if (name === "kind") return path; // the oneof of Value, which is no part of a path
  const field = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return path ? `${path}.${field}` : field;
}

function pathOf(method: DescMethodUnary | DescMethodServerStreaming): string {
  return `/${method.parent.typeName}/${method.name}`;
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}

function deadlineIn(milliseconds: number | undefined): ChannelCallOptions {
  if (milliseconds === undefined || milliseconds === Infinity) return {};
  if (!(milliseconds >= 0)) throw invalidField("timeoutMs", `is 0 or more milliseconds, not ${milliseconds}`);
  return { deadline: Date.now() + milliseconds };
}

function closedError(): StatekeepError {
  return new StatekeepError("the client is closed", { code: "CANCELLED" });
}

function isServiceError(failure: unknown): failure is ServiceError {
  return failure instanceof Error && "code" in failure && typeof failure.code === "number" && "metadata" in failure;
}
