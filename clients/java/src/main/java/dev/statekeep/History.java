package dev.statekeep;

import java.util.List;

/**
 * A whole branch.
 *
 * @param branch the branch
 * @param events its events in the order they were stored
 * @param checkpoints its checkpoints in the order they were saved
 */
public record History(BranchId branch, List<Event> events, List<Checkpoint> checkpoints) {}
