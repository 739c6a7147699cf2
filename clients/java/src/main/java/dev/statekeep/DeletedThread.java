package dev.statekeep;

/**
 * What deleting a thread removed.
 *
 * @param eventsDeleted how many events
 * @param checkpointsDeleted how many checkpoints
 */
public record DeletedThread(long eventsDeleted, long checkpointsDeleted) {}
