/** What can go wrong: one error class, told apart by the contract's reasons. */

import { fromBinary, type Message } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { status, type ServiceError } from "@grpc/grpc-js";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema, type Status } from "./gen/google/rpc/status_pb.js";

/** The name of a gRPC status code. */
export type Code = Exclude<keyof typeof status, "OK">;

/** The server's stable names for what went wrong. */
export type Reason =
  | "INVALID_FIELD"
  | "VALUE_TOO_LARGE"
  | "REQUEST_ID_REUSED"
  | "VERSION_MISMATCH"
  | "SEQUENCE_MISMATCH"
  | "EVENT_EXISTS"
  | "BRANCH_EXISTS"
  | "EVENT_NOT_FOUND"
  | "THREAD_NOT_FOUND"
  | "BRANCH_NOT_FOUND"
  | "REVISION_GONE"
  | "REVISION_AHEAD"
  | "HISTORY_TOO_LARGE"
  | "LIMIT_REACHED"
  | "STREAM_AGE_REACHED"
  | "SHUTTING_DOWN"
  | "STORE_UNAVAILABLE"
  | "INSTANCE_ATTACHED"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED";

/** What an error is made of. */
export interface ErrorParts {
  readonly code: Code;
  readonly reason?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly fields?: Readonly<Record<string, string>> | undefined;
  readonly retryDelayMs?: number | undefined;
  readonly cause?: unknown;
}

/** The error of every call that failed. A call that its own `signal` ended fails with that signal's reason instead. */
export class StatekeepError extends Error {
  override readonly name = "StatekeepError";
  /** The gRPC status code's name, such as `ABORTED`. */
  readonly code: Code;
  /** The server's reason; empty where gRPC or this client says so. A newer server may know reasons not in `Reason`. */
  readonly reason: Reason | "" | (string & {});
  /** The variable parts of the message, by name: `expected` and `actual` of a `VERSION_MISMATCH`. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What is wrong with each field at fault, by the field's path in the request: `event.thread_id`. */
  readonly fields: Readonly<Record<string, string>>;
  /** Milliseconds after which the server suggests to try again. */
  readonly retryDelayMs: number | undefined;

  constructor(message: string, parts: ErrorParts) {
    super(message, { cause: parts.cause });
    this.code = parts.code;
    this.reason = parts.reason ?? "";
    this.metadata = parts.metadata ?? {};
    this.fields = parts.fields ?? {};
    this.retryDelayMs = parts.retryDelayMs;
  }
}

/** The error for an argument that this client refuses before it asks the server. */
export function invalidField(field: string, description: string, cause?: unknown): StatekeepError {
  return new StatekeepError(`${field} ${description}`, {
    code: "INVALID_ARGUMENT",
    reason: "INVALID_FIELD",
    metadata: { field },
    fields: { [field]: description },
    cause,
  });
}

/** The typed error for what gRPC raised. */
export function fromServiceError(failure: ServiceError): StatekeepError {
  const details = detailsOf(failure);
  const info = detail(details, ErrorInfoSchema);
  const delay = detail(details, RetryInfoSchema)?.retryDelay;
  const violations = detail(details, BadRequestSchema)?.fieldViolations ?? [];
  const code = (status[failure.code] as Code | undefined) ?? "UNKNOWN";
  return new StatekeepError(failure.details || code, {
    code,
    reason: info?.reason,
    metadata: info?.metadata,
    fields: Object.fromEntries(violations.map((violation) => [violation.field, violation.description])),
    retryDelayMs: delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6,
    cause: failure,
  });
}

/** Details that cannot be read are no reason to hide the status code that came with them. */
function detailsOf(failure: ServiceError): Status | undefined {
  const [bytes] = failure.metadata.get("grpc-status-details-bin");
  try {
    return bytes instanceof Uint8Array ? fromBinary(StatusSchema, bytes) : undefined;
  } catch {
    return undefined;
  }
}

function detail<T extends Message>(details: Status | undefined, schema: GenMessage<T>): T | undefined {
  for (const any of details?.details ?? []) {
    const message = anyUnpack(any, schema);
    if (message) return message;
  }
  return undefined;
}
