package dev.statekeep;

import java.time.Instant;
import java.util.List;

/**
 * What a scope remembers of a purge.
 *
 * @param scope the scope
 * @param createTime when it was
 * @param keys the keys that lost versions, sorted; of very many, as many as one record holds
 * @param versionsDeleted how many versions were removed
 * @param keep how many of the newest were to stay
 * @param keysAffected how many keys lost versions
 */
public record PurgeRecord(
    Scope scope,
    Instant createTime,
    List<String> keys,
    long versionsDeleted,
    int keep,
    long keysAffected) {}
