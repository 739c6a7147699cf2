package dev.statekeep;

import java.time.Instant;
import java.util.Map;
import statekeep.v1.StateStoreOuterClass;

/**
 * A snapshot of state to save. Its id is made here; saving an id again replaces what was saved
 * under it. It is immutable: each {@code with…} makes a new one.
 */
public final class NewCheckpoint {
  private final StateStoreOuterClass.Checkpoint message;

  private NewCheckpoint(StateStoreOuterClass.Checkpoint message) {
    this.message = message;
  }

  /**
   * A snapshot taken at an event.
   *
   * @param eventId the event
   * @param sequence that event's number
   * @param state the state
   * @return the checkpoint
   */
  public static NewCheckpoint of(String eventId, long sequence, Value state) {
    return new NewCheckpoint(
        StateStoreOuterClass.Checkpoint.newBuilder()
            .setId(Calls.newId())
            .setEventId(eventId)
            .setSequence(sequence)
            .setState(Messages.message(state))
            .build());
  }

  /**
   * The checkpoint's id.
   *
   * @return the id
   */
  public String id() {
    return message.getId();
  }

  /**
   * Takes this id in place of the one that was made up.
   *
   * @param id unique on its branch; empty, one is made up again
   * @return a new checkpoint
   */
  public NewCheckpoint withId(String id) {
    return new NewCheckpoint(message.toBuilder().setId(Calls.idOr(id)).build());
  }

  /**
   * Says which tasks are still to run.
   *
   * @param active a JSON list
   * @return a new checkpoint
   */
  public NewCheckpoint withActive(Value active) {
    return new NewCheckpoint(message.toBuilder().setActive(Messages.message(active)).build());
  }

  /**
   * Gives its status, in place of {@code running}.
   *
   * @param status completed, forked, …
   * @return a new checkpoint
   */
  public NewCheckpoint withStatus(String status) {
    return new NewCheckpoint(message.toBuilder().setStatus(status).build());
  }

  /**
   * Says which checkpoint was before it.
   *
   * @param id that checkpoint's id
   * @return a new checkpoint
   */
  public NewCheckpoint withParentId(String id) {
    return new NewCheckpoint(message.toBuilder().setParentId(id).build());
  }

  /**
   * Keeps whatever else with it.
   *
   * @param metadata the value
   * @return a new checkpoint
   */
  public NewCheckpoint withMetadata(Value metadata) {
    return new NewCheckpoint(message.toBuilder().setMetadata(Messages.message(metadata)).build());
  }

  /**
   * Says when it was taken, in place of the server's clock.
   *
   * @param time when
   * @return a new checkpoint
   */
  public NewCheckpoint withCreateTime(Instant time) {
    return new NewCheckpoint(message.toBuilder().setCreateTime(Messages.message(time)).build());
  }

  /**
   * Keeps labels with it.
   *
   * @param labels the labels, added to those it has
   * @return a new checkpoint
   */
  public NewCheckpoint withLabels(Map<String, String> labels) {
    return new NewCheckpoint(message.toBuilder().putAllLabels(labels).build());
  }

  StateStoreOuterClass.Checkpoint message() {
    return message;
  }

  StateStoreOuterClass.Checkpoint on(BranchId branch) {
    return message.toBuilder()
        .setThreadId(branch.threadId())
        .setBranchId(branch.branchId())
        .build();
  }
}
