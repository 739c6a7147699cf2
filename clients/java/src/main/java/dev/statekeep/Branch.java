package dev.statekeep;

import java.time.Instant;
import java.util.Optional;

/**
 * A branch of a thread.
 *
 * @param id its id
 * @param threadId its thread
 * @param parentBranchId the branch it was forked from; empty where it was not
 * @param fromEventId the event it was forked at; empty where it was not
 * @param createTime when it was forked; empty where it was not
 * @param revision grows with every write of the thread
 */
public record Branch(
    String id,
    String threadId,
    String parentBranchId,
    String fromEventId,
    Optional<Instant> createTime,
    long revision) {}
