package dev.statekeep;

import java.time.Instant;
import java.util.Map;
import statekeep.v1.StateStoreOuterClass;

/**
 * An event to append. Its id is made here, so that sending it again changes nothing. It is
 * immutable: each {@code with…} makes a new one.
 */
public final class NewEvent {
  private final StateStoreOuterClass.Event message;

  private NewEvent(StateStoreOuterClass.Event message) {
    this.message = message;
  }

  /**
   * An event without data.
   *
   * @param type what happened: run_started, node_completed, error, …
   * @return the event
   */
  public static NewEvent of(String type) {
    return new NewEvent(
        StateStoreOuterClass.Event.newBuilder().setId(Calls.newId()).setType(type).build());
  }

  /**
   * An event with data.
   *
   * @param type what happened: run_started, node_completed, error, …
   * @param data its details
   * @return the event
   */
  public static NewEvent of(String type, Value data) {
    return new NewEvent(of(type).message.toBuilder().setData(Messages.message(data)).build());
  }

  /**
   * The event's id.
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
   * @return a new event
   */
  public NewEvent withId(String id) {
    return new NewEvent(message.toBuilder().setId(Calls.idOr(id)).build());
  }

  /**
   * Says at which node it happened.
   *
   * @param node the node
   * @return a new event
   */
  public NewEvent withNode(String node) {
    return new NewEvent(message.toBuilder().setNode(node).build());
  }

  /**
   * Says which event it follows from.
   *
   * @param id that event's id
   * @return a new event
   */
  public NewEvent withParentId(String id) {
    return new NewEvent(message.toBuilder().setParentId(id).build());
  }

  /**
   * Says what kind of error it was.
   *
   * @param type the kind
   * @return a new event
   */
  public NewEvent withErrorType(String type) {
    return new NewEvent(message.toBuilder().setErrorType(type).build());
  }

  /**
   * Gives a text for people.
   *
   * @param text the text
   * @return a new event
   */
  public NewEvent withMessage(String text) {
    return new NewEvent(message.toBuilder().setMessage(text).build());
  }

  /**
   * Says when it happened, in place of the server's clock.
   *
   * @param time when; never used for order
   * @return a new event
   */
  public NewEvent withCreateTime(Instant time) {
    return new NewEvent(message.toBuilder().setCreateTime(Messages.message(time)).build());
  }

  /**
   * Keeps labels with it.
   *
   * @param labels the labels, added to those it has
   * @return a new event
   */
  public NewEvent withLabels(Map<String, String> labels) {
    return new NewEvent(message.toBuilder().putAllLabels(labels).build());
  }

  StateStoreOuterClass.Event message() {
    return message;
  }

  StateStoreOuterClass.Event on(BranchId branch) {
    return message.toBuilder()
        .setThreadId(branch.threadId())
        .setBranchId(branch.branchId())
        .build();
  }
}
