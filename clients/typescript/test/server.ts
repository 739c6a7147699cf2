/** A server in a process of its own, and one whose answers are scripted. */

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

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
import { anyPack } from "@bufbuild/protobuf/wkt";
import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "../src/gen/google/rpc/status_pb.js";

const FOLDER = fileURLToPath(new URL("../..", import.meta.url));
const COMMAND = (process.env["STATEKEEP_COMMAND"] ?? `${FOLDER}/../../.venv/bin/statekeep`).split(" ");

function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("STATEKEEP_")));
}

/** Whether `statekeep serve --help` speaks of something. */
export function serverKnows(word: string): boolean {
  const [command = "", ...args] = COMMAND;
  const help = spawnSync(command, [...args, "serve", "--help"], { encoding: "utf8", env: environment() });
  return help.stdout.includes(word);
}

/** A running server. `stop` ends it, whatever it does. */
export class ServerProcess {
  private constructor(
    private readonly process: ChildProcess,
    readonly address: string,
  ) {}

  static async start(flags: readonly string[] = [], listen = "127.0.0.1:0"): Promise<ServerProcess> {
    const [command = "", ...args] = COMMAND;
    const child = spawn(command, [...args, "serve", "--listen", listen, ...flags], {
      stdio: ["ignore", "pipe", "inherit"],
      env: environment(),
    });
    for await (const line of createInterface({ input: child.stdout })) {
      const [address] = (JSON.parse(line) as { listen: string[] }).listen;
      if (address) return new ServerProcess(child, address);
    }
    throw new Error(`${COMMAND.join(" ")} serve did not come up`);
  }

  /** Sends a signal, and waits for the end. Returns the exit code; null where the signal ended it. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    const { exitCode, signalCode } = this.process;
    if (exitCode !== null || signalCode !== null) return exitCode;
    const ended = once(this.process, "exit");
    this.process.kill(signal);
    const [code] = (await ended) as [number | null];
    return code;
  }

  async stop(): Promise<void> {
    await this.end("SIGKILL");
  }
}

/** A failure with the details that Statekeep sends. */
export interface Failure {
  code: keyof typeof status;
  reason?: string;
  metadata?: Record<string, string>;
  field?: string;
  retrySeconds?: number;
}

/** What one attempt of a call gets: messages, then a failure, or to be kept waiting. */
export interface Attempt<O extends DescMessage> {
  messages?: MessageInitShape<O>[];
  failure?: Failure;
  stay?: boolean;
}

/** A server that plays one attempt after the other, the last one for ever, and keeps what it was sent. */
export class ScriptedServer<I extends DescMessage, O extends DescMessage> {
  readonly requests: MessageShape<I>[] = [];
  readonly metadata: Metadata[] = [];
  readonly #server = new Server();

  private constructor(
    private readonly method: DescMethodUnary<I, O> | DescMethodServerStreaming<I, O>,
    private readonly attempts: Attempt<O>[],
  ) {
    const definition = {
      path: `/${method.parent.typeName}/${method.name}`,
      requestStream: false,
      responseStream: method.methodKind === "server_streaming",
      requestSerialize: (message: MessageShape<I>) => Buffer.from(toBinary(method.input, message)),
      requestDeserialize: (bytes: Buffer) => fromBinary(method.input, bytes),
      responseSerialize: (message: MessageShape<O>) => Buffer.from(toBinary(method.output, message)),
      responseDeserialize: (bytes: Buffer) => fromBinary(method.output, bytes),
    };
    const handler = method.methodKind === "unary" ? this.#answer.bind(this) : this.#stream.bind(this);
    this.#server.addService({ [method.name]: definition }, { [method.name]: handler });
  }

  static async start<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O> | DescMethodServerStreaming<I, O>,
    attempts: Attempt<O>[],
    credentials = ServerCredentials.createInsecure(),
  ): Promise<{ script: ScriptedServer<I, O>; address: string }> {
    const script = new ScriptedServer(method, attempts);
    const port = await new Promise<number>((resolve, reject) => {
      script.#server.bindAsync("127.0.0.1:0", credentials, (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
    return { script, address: `127.0.0.1:${port}` };
  }

  stop(): void {
    this.#server.forceShutdown();
  }

  #next(call: { request: MessageShape<I>; metadata: Metadata }): Attempt<O> {
    this.requests.push(call.request);
    this.metadata.push(call.metadata);
    return (this.attempts.length > 1 ? this.attempts.shift() : this.attempts[0]) ?? {};
  }

  #answer(
    call: ServerUnaryCall<MessageShape<I>, MessageShape<O>>,
    callback: (error: object | null, answer?: MessageShape<O>) => void,
  ): void {
    const { messages = [], failure, stay } = this.#next(call);
    if (stay) return;
    if (failure) callback(serviceError(failure));
    else callback(null, create(this.method.output, messages[0]));
  }

  #stream(call: ServerWritableStream<MessageShape<I>, MessageShape<O>>): void {
    const { messages = [], failure, stay } = this.#next(call);
    for (const message of messages) call.write(create(this.method.output, message));
    if (failure) call.emit("error", serviceError(failure));
    else if (!stay) call.end();
  }
}

function serviceError({ code, reason, metadata = {}, field, retrySeconds }: Failure): object {
  const details = [
    ...(reason ? [anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason, metadata, domain: "statekeep" }))] : []),
    ...(field
      ? [anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations: [{ field, description: "is wrong" }] }))]
      : []),
    ...(retrySeconds === undefined
      ? []
      : [
          anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: { seconds: 0n, nanos: retrySeconds * 1e9 } })),
        ]),
  ];
  const trailers = new Metadata();
  const told = create(StatusSchema, { code: status[code], message: `told: ${reason ?? code}`, details });
  trailers.set("grpc-status-details-bin", Buffer.from(toBinary(StatusSchema, told)));
  return { code: status[code], details: told.message, metadata: trailers };
}
