package dev.statekeep;

import java.util.Objects;

/**
 * Where a key lives. One name under two types is two scopes.
 *
 * @param type whose scope it is
 * @param name its name: letters, digits and {@code ._-/}, 1 to 256 characters once trimmed
 */
public record Scope(Type type, String name) {
  /** Whose scope it is. */
  public enum Type {
    /** Shared by many runs. */
    NAMESPACE,
    /** Belongs to one flow. */
    FLOW,
    /** Belongs to one execution of a flow. */
    EXECUTION
  }

  /**
   * Checks that nothing is null.
   *
   * @param type whose scope it is
   * @param name its name
   */
  public Scope {
    Objects.requireNonNull(type, "type");
    Objects.requireNonNull(name, "name");
  }

  /**
   * A scope shared by many runs.
   *
   * @param name its name
   * @return the scope
   */
  public static Scope namespace(String name) {
    return new Scope(Type.NAMESPACE, name);
  }

  /**
   * A flow's scope.
   *
   * @param name its name
   * @return the scope
   */
  public static Scope flow(String name) {
    return new Scope(Type.FLOW, name);
  }

  /**
   * The scope of one execution of a flow.
   *
   * @param name its name
   * @return the scope
   */
  public static Scope execution(String name) {
    return new Scope(Type.EXECUTION, name);
  }
}
