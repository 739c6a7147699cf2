package dev.statekeep;

/**
 * A scope that holds a key with a value.
 *
 * @param scope the scope
 * @param entryCount how many of its keys have a value
 */
public record ScopeInfo(Scope scope, long entryCount) {}
