package dev.statekeep;

import java.util.List;

/**
 * Where a batch of events was stored.
 *
 * @param firstSequence the number of its first event
 * @param lastSequence the number of its last event
 * @param ids the ids stored, in order
 * @param revision the revision of the last
 */
public record Appended(long firstSequence, long lastSequence, List<String> ids, long revision) {}
