package dev.statekeep;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * A whole snapshot of a thread's state, as stored.
 *
 * @param id unique on its branch
 * @param threadId its thread
 * @param branchId its branch
 * @param eventId the event it was taken at
 * @param sequence that event's number
 * @param state the state
 * @param active the tasks still to run at that point, a JSON list
 * @param status running, completed, forked, …
 * @param createTime when it was saved
 * @param parentId the checkpoint before it
 * @param metadata whatever else
 * @param labels labels, by name
 * @param revision grows with every write of the thread
 */
public record Checkpoint(
    String id,
    String threadId,
    String branchId,
    String eventId,
    long sequence,
    Value state,
    Value active,
    String status,
    Instant createTime,
    Optional<String> parentId,
    Optional<Value> metadata,
    Map<String, String> labels,
    long revision)
    implements StateRecord {}
