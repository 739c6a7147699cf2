/** The messages and services of the contract, as generated. */

export * from "./gen/statekeep/v1/memory_pb.js";
export * from "./gen/statekeep/v1/scratch_pb.js";
export * from "./gen/statekeep/v1/state_store_pb.js";
export * from "./gen/statekeep/v1/value_pb.js";
