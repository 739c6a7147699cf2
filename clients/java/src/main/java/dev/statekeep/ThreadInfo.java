package dev.statekeep;

import java.time.Instant;

/**
 * A thread.
 *
 * @param id its id
 * @param uid unlike the id never used twice: tells a thread from one deleted before it
 * @param eventCount how many events it holds
 * @param checkpointCount how many checkpoints it holds
 * @param branchCount how many branches were forked
 * @param createTime when it began
 * @param updateTime when it was last written to
 * @param revision its last revision
 */
public record ThreadInfo(
    String id,
    String uid,
    long eventCount,
    long checkpointCount,
    long branchCount,
    Instant createTime,
    Instant updateTime,
    long revision) {}
