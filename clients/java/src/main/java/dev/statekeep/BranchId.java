package dev.statekeep;

import java.util.Objects;

/**
 * Names a branch by its two parts.
 *
 * @param threadId the thread
 * @param branchId the branch
 */
public record BranchId(String threadId, String branchId) {
  /** The name of the branch that every thread has. */
  public static final String MAIN = "main";

  /**
   * Checks that nothing is null.
   *
   * @param threadId the thread
   * @param branchId the branch
   */
  public BranchId {
    Objects.requireNonNull(threadId, "threadId");
    Objects.requireNonNull(branchId, "branchId");
  }

  /**
   * The main branch of a thread.
   *
   * @param threadId the thread
   * @return its main branch
   */
  public static BranchId main(String threadId) {
    return new BranchId(threadId, MAIN);
  }
}
