package dev.statekeep;

import java.time.Duration;
import java.util.Map;
import statekeep.v1.MemoryOuterClass.MemorySetRequest;

/**
 * A value to set under a key, and what goes with it. It is immutable: each {@code with…} makes a
 * new one.
 */
public final class Write {
  private final MemorySetRequest message;

  private Write(MemorySetRequest message) {
    this.message = message;
  }

  /**
   * A value to set under a key.
   *
   * @param key the key: letters, digits and {@code ._-/}, 1 to 512 characters once trimmed
   * @param value the value
   * @return the write
   */
  public static Write of(String key, Value value) {
    return new Write(
        MemorySetRequest.newBuilder().setKey(key).setValue(Messages.message(value)).build());
  }

  /**
   * Expires the version.
   *
   * @param ttl after how long
   * @return a new write
   */
  public Write withTtl(Duration ttl) {
    return new Write(message.toBuilder().setTtl(Messages.message(ttl)).build());
  }

  /**
   * Writes only where the key is at this version.
   *
   * @param version its current version; 0 where it has no value
   * @return a new write
   */
  public Write withExpectedVersion(long version) {
    return new Write(message.toBuilder().setExpectedVersion(version).build());
  }

  /**
   * Keeps labels with the version.
   *
   * @param labels the labels, added to those it has
   * @return a new write
   */
  public Write withLabels(Map<String, String> labels) {
    return new Write(message.toBuilder().putAllLabels(labels).build());
  }

  /**
   * Says who writes.
   *
   * @param id the execution's id
   * @return a new write
   */
  public Write withExecutionId(String id) {
    return new Write(message.toBuilder().setExecutionId(id).build());
  }

  /**
   * Says which flow writes.
   *
   * @param id the flow's id
   * @return a new write
   */
  public Write withFlowId(String id) {
    return new Write(message.toBuilder().setFlowId(id).build());
  }

  /**
   * Says the name of the flow that writes.
   *
   * @param name the flow's name
   * @return a new write
   */
  public Write withFlowName(String name) {
    return new Write(message.toBuilder().setFlowName(name).build());
  }

  MemorySetRequest in(Scope scope) {
    return message.toBuilder().setScope(Messages.message(scope)).build();
  }
}
