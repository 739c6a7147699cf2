package dev.statekeep;

import java.util.Optional;

/**
 * A new branch, with what was stored in it in the same step.
 *
 * @param branch the branch
 * @param checkpoint its first checkpoint
 * @param event its first event
 */
public record Forked(Branch branch, Optional<Checkpoint> checkpoint, Optional<Event> event) {}
