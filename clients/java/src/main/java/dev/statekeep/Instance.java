package dev.statekeep;

import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * A scratch instance that was opened.
 *
 * @param instanceId its id
 * @param cleared the keys that were there before and are gone, sorted
 * @param expireTime when it ends unless it is used; empty: never
 */
public record Instance(String instanceId, List<String> cleared, Optional<Instant> expireTime) {}
