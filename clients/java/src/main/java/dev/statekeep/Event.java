package dev.statekeep;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * Something that happened in a thread, as stored.
 *
 * @param id unique on its branch
 * @param threadId its thread
 * @param branchId its branch
 * @param sequence its number on its branch
 * @param type what happened
 * @param node the node it happened at
 * @param parentId the event it follows from
 * @param data details
 * @param errorType the kind of error
 * @param message a text for people
 * @param createTime when it happened; never used for order
 * @param labels labels, by name
 * @param revision grows with every write of the thread; what a cursor counts in
 */
public record Event(
    String id,
    String threadId,
    String branchId,
    long sequence,
    String type,
    Optional<String> node,
    Optional<String> parentId,
    Optional<Value> data,
    Optional<String> errorType,
    Optional<String> message,
    Instant createTime,
    Map<String, String> labels,
    long revision)
    implements StateRecord {}
