/** Values as JavaScript has them, and as they are kept. */

import { create, isMessage } from "@bufbuild/protobuf";
import { LosslessNumber, isInteger, isSafeNumber, parse, stringify } from "lossless-json";

import { invalidField } from "./errors.js";
import { ValueSchema, type Value } from "./gen/statekeep/v1/value_pb.js";

/** The digits of a number that no `number` or `bigint` holds, such as `1e999`. */
export { LosslessNumber };

/**
 * What JSON reads as: whole numbers beyond 2^53 as `bigint`, and numbers that a `number` does not hold to the last
 * digit as `LosslessNumber`.
 */
export type Json = null | boolean | number | bigint | LosslessNumber | string | Json[] | { [key: string]: Json };

/** One JSON text (RFC 8259), kept byte for byte. */
export function jsonText(text: string, contentType = ""): Value {
  return create(ValueSchema, { kind: { case: "json", value: text }, contentType });
}

/** Plain text. */
export function text(content: string, contentType = ""): Value {
  return create(ValueSchema, { kind: { case: "text", value: content }, contentType });
}

/** Bytes. They are copied: what becomes of the array later changes nothing. */
export function data(bytes: Uint8Array, contentType = ""): Value {
  return create(ValueSchema, { kind: { case: "data", value: Uint8Array.from(bytes) }, contentType });
}

/** Anything that JSON can say, as JSON. Throws a `StatekeepError` where JSON would lose or change something. */
export function json(content: unknown, contentType = ""): Value {
  return jsonText(stringifyJson(content), contentType);
}

/**
 * The value that is kept for a JavaScript one: a `Value` as it is, a string as text, a `Uint8Array` as data, and all
 * else as JSON. `json("a")` keeps a string as JSON.
 *
 * @param field - The name of the argument, for the error's `fields`.
 * @throws StatekeepError `INVALID_FIELD`, where JSON cannot say it, or would change it.
 */
export function toValue(content: unknown, field = "value"): Value {
  if (isMessage(content, ValueSchema)) return content;
  if (typeof content === "string") return text(content);
  if (content instanceof Uint8Array) return data(content);
  return jsonText(stringifyJson(content, field));
}

/**
 * What a kept value is in JavaScript: text a string, data a `Uint8Array`, JSON what `parseJson` reads; undefined where
 * there is no value.
 */
export function fromValue(value: Value | undefined): Json | Uint8Array | undefined {
  return value?.kind.case === "json" ? parseJson(value.kind.value) : value?.kind.value;
}

/** Reads JSON without losing a digit. Of a key that stands twice, the last one counts, as with `JSON.parse`. */
export function parseJson(content: string): Json {
  return parse(content, null, { parseNumber: exactNumber, onDuplicateKey: ({ newValue }) => newValue }) as Json;
}

/**
 * Writes JSON without losing a digit: `bigint` and `LosslessNumber` as numbers, -0 as `-0`. As with `JSON.stringify`,
 * `toJSON` is called, and members that are undefined or functions are left out.
 *
 * @throws StatekeepError `INVALID_FIELD`, for NaN, Infinity, undefined, what JSON makes an empty object of (Map, Set, Error),
 *   bytes within, and what is circular or nested too deep.
 */
export function stringifyJson(content: unknown, field = "value"): string {
  let written: string | undefined;
  try {
    written = stringify(content, (_key, item) => refuseLossy(item, field), undefined, [
      { test: (item) => typeof item === "number", stringify: (item) => numberText(item as number, field) },
    ]);
  } catch (error) {
    if (error instanceof RangeError) throw invalidField(field, "is circular, or nested too deep", error);
    throw error;
  }
  if (written === undefined) throw invalidField(field, `is ${typeof content}, which JSON cannot say; null is a value`);
  return written;
}

function exactNumber(digits: string): number | bigint | LosslessNumber {
  if (isSafeNumber(digits)) return Number(digits);
  if (isInteger(digits)) return BigInt(digits);
  // No number has as many digits, and to look through millions of them would keep others waiting.
  if (digits.length > 400) return new LosslessNumber(digits);
  const number = Number(digits);
  // 1e21 is not safe in the sense of the library, but no digit is lost.
  const exact = Number.isFinite(number) && significant(digits) === significant(String(number));
  return exact ? number : new LosslessNumber(digits);
}

function significant(digits: string): string {
  return digits
    .replace(/e.*/i, "")
    .replace(/[-.]/g, "")
    .replace(/^0+|0+$/g, "");
}

function numberText(number: number, field: string): string {
  if (!Number.isFinite(number)) throw invalidField(field, `holds ${number}, which JSON cannot say`);
  return Object.is(number, -0) ? "-0" : String(number);
}

// Of these JSON makes an empty object.
const LOST = [Map, Set, WeakMap, WeakSet, ArrayBuffer, Error, RegExp, Promise] as const;

function refuseLossy(item: unknown, field: string): unknown {
  const kind = LOST.find((one) => item instanceof one) ?? (ArrayBuffer.isView(item) ? item.constructor : undefined);
  if (kind) throw invalidField(field, `holds a ${kind.name}, which JSON would lose`);
  return item;
}
