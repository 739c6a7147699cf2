/** Client of Statekeep: versioned memory, scratch values and event histories. */

export { timestampDate } from "@bufbuild/protobuf/wkt";
export type { Timestamp } from "@bufbuild/protobuf/wkt";
export { Client } from "./client.js";
export type { CallOptions, ClientOptions, TlsOptions } from "./connection.js";
export { StatekeepError } from "./errors.js";
export type { Code, Reason } from "./errors.js";
export type { Integer, ScopeKind, ScopeName } from "./fields.js";
export type { Memory, PageOptions, Repeatable, Write, WriteOptions, Writer } from "./memory.js";
export type { StateRecord } from "./places.js";
export type { FollowOptions, Reading } from "./reading.js";
export type { Attachment, Scratch, ScratchItem } from "./scratch.js";
export type { Expecting, HistoryOptions, NewCheckpoint, NewEvent, OnBranch, State } from "./state.js";
export { LosslessNumber, data, fromValue, json, jsonText, parseJson, stringifyJson, text, toValue } from "./values.js";
export type { Json } from "./values.js";
export { ScopeType } from "./gen/statekeep/v1/memory_pb.js";
export type {
  MemoryBatchGetResponse,
  MemoryEntry,
  MemoryPurgeRecord,
  MemoryPurgeResponse,
  MemoryScopeInfo,
  Scope,
} from "./gen/statekeep/v1/memory_pb.js";
export type { ScratchOpenResponse } from "./gen/statekeep/v1/scratch_pb.js";
export type {
  AppendEventsResponse,
  Branch,
  Checkpoint,
  DeleteThreadResponse,
  Event,
  ForkResponse,
  History,
  Thread,
} from "./gen/statekeep/v1/state_store_pb.js";
export type { Value } from "./gen/statekeep/v1/value_pb.js";
