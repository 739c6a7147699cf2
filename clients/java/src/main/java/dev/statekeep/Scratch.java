package dev.statekeep;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import statekeep.v1.ScratchGrpc;
import statekeep.v1.ScratchOuterClass.ScratchClearRequest;
import statekeep.v1.ScratchOuterClass.ScratchCloseRequest;
import statekeep.v1.ScratchOuterClass.ScratchGetRequest;
import statekeep.v1.ScratchOuterClass.ScratchGetResponse;
import statekeep.v1.ScratchOuterClass.ScratchListRequest;
import statekeep.v1.ScratchOuterClass.ScratchOpenRequest;
import statekeep.v1.ScratchOuterClass.ScratchOpenResponse;
import statekeep.v1.ScratchOuterClass.ScratchPutRequest;

/**
 * Values under keys, for as long as one instance of a program lives. Nothing of it reaches a disk.
 *
 * <p>What tells which keys it removed ({@code open}, {@code clear}, {@code close}) is not tried
 * again after a lost connection: the answer would be wrong.
 */
public final class Scratch {
  private final Calls calls;

  Scratch(Calls calls) {
    this.calls = calls;
  }

  /**
   * Begins an instance, or empties it where it was used before.
   *
   * @param instanceId its id; empty: the server makes one up
   * @return the instance
   */
  public Instance open(String instanceId) {
    return open(ScratchOpenRequest.newBuilder().setInstanceId(instanceId));
  }

  /**
   * Begins an instance, or empties it where it was used before.
   *
   * @param instanceId its id; empty: the server makes one up
   * @param idleTtl ends it when it was not used for so long; zero: never
   * @return the instance
   */
  public Instance open(String instanceId, Duration idleTtl) {
    return open(
        ScratchOpenRequest.newBuilder()
            .setInstanceId(instanceId)
            .setIdleTtl(Messages.message(idleTtl)));
  }

  private Instance open(ScratchOpenRequest.Builder request) {
    ScratchOpenResponse answer = calls.answer(ScratchGrpc.getOpenMethod(), request.build());
    return new Instance(
        answer.getInstanceId(),
        List.copyOf(answer.getClearedList()),
        Messages.optional(answer.hasExpireTime(), Messages.time(answer.getExpireTime())));
  }

  /**
   * Keeps a value under a key. Begins the instance where it has not been.
   *
   * @param instanceId the instance
   * @param key the key
   * @param value the value
   * @return the key as kept: trimmed
   */
  public String put(String instanceId, String key, Value value) {
    ScratchPutRequest request =
        ScratchPutRequest.newBuilder()
            .setInstanceId(instanceId)
            .setKey(key)
            .setValue(Messages.message(value))
            .build();
    return calls.answer(ScratchGrpc.getPutMethod(), request).getKey();
  }

  /**
   * Reads a value.
   *
   * @param instanceId the instance
   * @param key the key
   * @return the value under its key; empty where there is none
   */
  public Optional<ScratchItem> get(String instanceId, String key) {
    ScratchGetRequest request =
        ScratchGetRequest.newBuilder().setInstanceId(instanceId).setKey(key).build();
    ScratchGetResponse answer = calls.answer(ScratchGrpc.getGetMethod(), request);
    return Messages.value(answer.getValue()).map(value -> new ScratchItem(answer.getKey(), value));
  }

  /**
   * Lists the keys.
   *
   * @param instanceId the instance
   * @return its keys, sorted; none for an instance that is not there
   */
  public List<String> list(String instanceId) {
    ScratchListRequest request = ScratchListRequest.newBuilder().setInstanceId(instanceId).build();
    return List.copyOf(calls.answer(ScratchGrpc.getListMethod(), request).getKeysList());
  }

  /**
   * Removes every key.
   *
   * @param instanceId the instance
   * @return the keys removed, sorted
   */
  public List<String> clear(String instanceId) {
    return clear(ScratchClearRequest.newBuilder().setInstanceId(instanceId));
  }

  /**
   * Removes one key.
   *
   * @param instanceId the instance
   * @param key the key; empty or blank: every key
   * @return the keys removed, sorted
   */
  public List<String> clear(String instanceId, String key) {
    return clear(ScratchClearRequest.newBuilder().setInstanceId(instanceId).setKey(key));
  }

  private List<String> clear(ScratchClearRequest.Builder request) {
    return List.copyOf(
        calls.answer(ScratchGrpc.getClearMethod(), request.build()).getClearedList());
  }

  /**
   * Ends an instance.
   *
   * @param instanceId the instance
   * @return the keys that were there, sorted
   */
  public List<String> close(String instanceId) {
    ScratchCloseRequest request =
        ScratchCloseRequest.newBuilder().setInstanceId(instanceId).build();
    return List.copyOf(calls.answer(ScratchGrpc.getCloseMethod(), request).getClearedList());
  }

  /**
   * Opens an instance that lives until what this returns is closed. It ends too where the program
   * dies or its connection is lost; what is put into it after that is in a new instance, which
   * nobody is attached to.
   *
   * @param instanceId its id, which it is emptied under; empty: the server makes one up
   * @return the attached instance, to be closed
   * @throws StatekeepException.FailedPrecondition someone else has the instance
   */
  public Attachment attach(String instanceId) {
    return Attachment.open(calls, instanceId);
  }
}
