/** Arguments as the messages' fields have them. */

import { create } from "@bufbuild/protobuf";
import { DurationSchema, timestampFromDate, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";

import { StatekeepError, invalidField } from "./errors.js";
import { ScopeSchema, ScopeType, type Scope } from "./gen/statekeep/v1/memory_pb.js";

/** A whole number: versions, revisions and sequences come as `bigint`, and are taken as either. */
export type Integer = number | bigint;

/** What a scope belongs to. */
export type ScopeKind = "namespace" | "flow" | "execution";

/** A scope of memory: the name of a namespace, or a name with its type. One name under two types is two scopes. */
export type ScopeName = string | { readonly name: string; readonly type?: ScopeKind } | Scope;

const SCOPE_TYPES: Readonly<Record<ScopeKind, ScopeType>> = {
  namespace: ScopeType.NAMESPACE,
  flow: ScopeType.FLOW,
  execution: ScopeType.EXECUTION,
};

export function scopeOf(scope: ScopeName): Scope {
  const { name, type = "namespace" } = typeof scope === "string" ? { name: scope } : scope;
  // The types bind no caller in JavaScript.
  const number: ScopeType | undefined = typeof type === "number" ? type : SCOPE_TYPES[type];
  // eslint-disable-next-line @typescript-eslint/no-unnecessary-condition -- see above
  if (number === undefined) throw invalidField("scope.type", `is "namespace", "flow" or "execution", not "${type}"`);
  return create(ScopeSchema, { name, type: number });
}

/** A `number` beyond 2^53 may have lost digits already, so it is refused. */
export function int64(number: Integer, field: string): bigint;
export function int64(number: Integer | undefined, field: string): bigint | undefined;
export function int64(number: Integer | undefined, field: string): bigint | undefined {
  if (number === undefined || typeof number === "bigint") return number;
  if (!Number.isSafeInteger(number)) {
    throw invalidField(field, `is a bigint, or a whole number up to 2^53-1, not ${number}`);
  }
  return BigInt(number);
}

export function duration(milliseconds: number | undefined, field: string): Duration | undefined {
  if (milliseconds === undefined) return undefined;
  if (!Number.isFinite(milliseconds))
    throw invalidField(field, `is a finite number of milliseconds, not ${milliseconds}`);
  const seconds = Math.trunc(milliseconds / 1000);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round((milliseconds - seconds * 1000) * 1e6) });
}

export function timestamp(time: Date | Timestamp | undefined, field: string): Timestamp | undefined {
  if (!(time instanceof Date)) return time;
  if (Number.isNaN(time.getTime())) throw invalidField(field, "is an invalid Date");
  return timestampFromDate(time);
}

/** Labels as they were given. The types bind no caller in JavaScript, where undefined would become a text. */
export function labelsOf(labels: Readonly<Record<string, string>> | undefined, path: string) {
  for (const [name, text] of Object.entries(labels ?? {})) {
    if (typeof text !== "string") throw invalidField(`${path}labels`, `has no text for "${name}", but ${typeof text}`);
  }
  return labels;
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** The members that are there: an optional argument that was left out is a field that is not set. */
export function defined<T extends object>(members: T): Partial<Defined<T>> {
  return Object.fromEntries(Object.entries(members).filter(([, member]) => member !== undefined)) as Partial<
    Defined<T>
  >;
}

/** What a server always answers with. */
export function needed<T>(answered: T | undefined): T {
  if (answered === undefined) throw new StatekeepError("the server left out what it must answer", { code: "INTERNAL" });
  return answered;
}
