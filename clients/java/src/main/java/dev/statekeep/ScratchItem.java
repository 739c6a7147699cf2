package dev.statekeep;

/**
 * A value of a scratch instance.
 *
 * @param key the key as kept: trimmed
 * @param value the value
 */
public record ScratchItem(String key, Value value) {}
