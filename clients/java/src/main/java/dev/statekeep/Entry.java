package dev.statekeep;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * One version of a key.
 *
 * @param scope where the key lives
 * @param key the key
 * @param version counts from 1 for each key, tombstones included; never used twice
 * @param value empty on a tombstone, and where the read asked for no values
 * @param valueType object, array, string, number, boolean, null, text, or the media type
 * @param deleted whether it is a tombstone
 * @param createTime when it was written
 * @param expireTime when it expires; empty: never
 * @param entryId names this version among all versions of all keys
 * @param executionId who wrote it
 * @param flowId the flow that wrote it
 * @param flowName that flow's name
 * @param labels labels, by name
 * @param revision what {@link Memory#watch} counts in
 */
public record Entry(
    Scope scope,
    String key,
    long version,
    Optional<Value> value,
    String valueType,
    boolean deleted,
    Instant createTime,
    Optional<Instant> expireTime,
    String entryId,
    Optional<String> executionId,
    Optional<String> flowId,
    Optional<String> flowName,
    Map<String, String> labels,
    long revision) {}
