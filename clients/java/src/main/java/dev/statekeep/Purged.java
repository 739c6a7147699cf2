package dev.statekeep;

/**
 * What one purge removed.
 *
 * @param versionsDeleted how many versions
 * @param keysAffected of how many keys
 */
public record Purged(long versionsDeleted, long keysAffected) {}
