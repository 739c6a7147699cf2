package dev.statekeep;

/** A record of a branch: an event or a checkpoint. */
public sealed interface StateRecord permits Event, Checkpoint {
  /**
   * The record's place among all writes of its thread.
   *
   * @return the revision
   */
  long revision();
}
