/* statements.h - every SQL statement of the store, in one place. */
#ifndef STORE_SQLITE_STATEMENTS_H
#define STORE_SQLITE_STATEMENTS_H

#define STATEMENT_LIST(X)                                                                          \
    X(SQL_BEGIN, "BEGIN IMMEDIATE")                                                                \
    X(SQL_BEGIN_READ, "BEGIN")                                                                     \
    X(SQL_COMMIT, "COMMIT")                                                                        \
    X(SQL_ROLLBACK, "ROLLBACK")                                                                    \
    X(SQL_SAVEPOINT, "SAVEPOINT unit")                                                             \
    X(SQL_RELEASE, "RELEASE unit")                                                                 \
    X(SQL_ROLLBACK_TO, "ROLLBACK TO unit")                                                         \
    /* everything, for another store: core/copy.h */                                               \
    X(SQL_DUMP_KINDS, "SELECT number, name FROM kinds ORDER BY number")                            \
    X(SQL_DUMP_USERS, "SELECT number, name FROM users")                                            \
    X(SQL_DUMP_HISTORY, "SELECT row, item, CASE WHEN typeof(user)='integer' THEN user END, "       \
                        "CASE WHEN typeof(user)='text' THEN user END, kind, time_ms "              \
                        "FROM history")                                                            \
    X(SQL_DUMP_ENTRIES, "SELECT number, id, type, incarnation, updated_ms, value, counts, "        \
                        "slices, settings, nullif(deadline_ms, 0), first_row FROM entries")        \
    X(SQL_DUMP_MEMBERS, "SELECT number, NULL, members FROM entries WHERE type=1 AND slices=1 AND " \
                        "length(members)>0 UNION ALL "                                             \
                        "SELECT place >> 6, place & 63, members FROM members")                     \
    X(SQL_DUMP_LIVES, "SELECT row, event_id, id, delta, state, retry_count, events, created_ms, "  \
                      "processed_ms, next_ms, reason FROM count_events WHERE state<>2")            \
    X(SQL_DUMP_WAITING, "SELECT row, event_id, id, state, nullif(next_ms, 0), adds_only, raw "     \
                        "FROM waiting")                                                            \
    X(SQL_DUMP_LETTERS, "SELECT row, event_id, id, delta, reason, raw, segment, position, "        \
                        "retry_count, created_ms, failed_ms FROM dead_letters")                    \
    X(SQL_DUMP_KEYS, "SELECT low, high, fingerprint, changed, held, value, time_ms FROM keys "     \
                     "ORDER BY row")                                                               \
    X(SQL_DUMP_BASES, "SELECT id, sum, discarded FROM bases")                                      \
    X(SQL_DUMP_AUDITS, "SELECT time_ms, what, id, text FROM audit_trail ORDER BY row")             \
    /* how far it is */                                                                            \
    X(SQL_PROGRESS, "SELECT segment, position, counters, items, members, next_user, "              \
                    "indexed_users, base_segment, base_position FROM progress")                    \
    X(SQL_PROGRESS_SET, "UPDATE progress SET segment=?1, position=?2, counters=?3, items=?4, "     \
                        "members=?5, next_user=?6, indexed_users=?7, updated_ms=?8")               \
    X(SQL_BASE_SET, "UPDATE progress SET base_segment=?1, base_position=?2")                       \
    X(SQL_ORIGINS, "SELECT origin, sequence, incarnation FROM origins")                            \
    X(SQL_ORIGIN_SET, "INSERT OR REPLACE INTO origins VALUES(?1, ?2, ?3)")                         \
    /* counters and items */                                                                       \
    X(SQL_ENTRY_FIND, "SELECT number FROM entries WHERE id=?1")                                    \
    X(SQL_ENTRY, "SELECT number, id, type, incarnation, updated_ms, value, counts, slices, "       \
                 "settings, deadline_ms, members, sum FROM entries WHERE number=?1")               \
    X(SQL_ENTRY_BY_ID, "SELECT number, id, type, incarnation, updated_ms, value, counts, "         \
                       "slices, settings, deadline_ms, members, sum FROM entries WHERE id=?1")     \
    X(SQL_ENTRY_SCAN, "SELECT number, id, type, incarnation, updated_ms, value, counts, slices, "  \
                      "settings, deadline_ms, members, sum FROM entries WHERE number>?1 "          \
                      "ORDER BY number LIMIT ?2")                                                  \
    X(SQL_ENTRY_IDS, "SELECT number, id FROM entries WHERE number>?1 ORDER BY number LIMIT ?2")    \
    X(SQL_ENTRY_ADD, "INSERT INTO entries(id, type, incarnation, updated_ms, value, counts, "      \
                     "slices, settings, deadline_ms, members, sum) "                               \
                     "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")                       \
    X(SQL_ENTRY_SET, "UPDATE entries SET type=?2, incarnation=?3, updated_ms=?4, value=?5, "       \
                     "counts=?6, slices=?7, settings=?8, deadline_ms=?9, members=?10, sum=?11 "    \
                     "WHERE number=?1")                                                            \
    X(SQL_ENTRY_SUM_SET, "UPDATE entries SET members=?2, sum=?3 WHERE number=?1")                  \
    X(SQL_ENTRY_LIFE, "UPDATE entries SET incarnation=?2 WHERE number=?1")                         \
    X(SQL_ENTRY_REMOVE, "DELETE FROM entries WHERE number=?1")                                     \
    X(SQL_ENTRY_ANEW, "UPDATE entries SET first_row="                                              \
                      "(SELECT ifnull(max(row), 0) + 1 FROM history) WHERE number=?1")             \
    X(SQL_MEMBERS, "SELECT members FROM members WHERE place=?1")                                   \
    X(SQL_MEMBERS_ALL, "SELECT place, members FROM members WHERE place BETWEEN ?1 AND ?2")         \
    X(SQL_MEMBERS_PLACES, "SELECT place FROM members WHERE place BETWEEN ?1 AND ?2")               \
    X(SQL_MEMBERS_SET, "INSERT OR REPLACE INTO members VALUES(?1, ?2)")                            \
    X(SQL_MEMBERS_REMOVE, "DELETE FROM members WHERE place=?1")                                    \
    X(SQL_MEMBERS_REMOVE_ALL, "DELETE FROM members WHERE place BETWEEN ?1 AND ?2")                 \
    X(SQL_KINDS, "SELECT number, name FROM kinds")                                                 \
    X(SQL_KIND_ADD, "INSERT INTO kinds VALUES(?1, ?2)")                                            \
    /* users */                                                                                    \
    X(SQL_USER_ADD, "INSERT INTO users VALUES(?1, ?2)")                                            \
    X(SQL_USER_NAME, "SELECT name FROM users WHERE number=?1")                                     \
    X(SQL_USER_REMOVE, "DELETE FROM users WHERE number=?1")                                        \
    X(SQL_USERS_FROM, "SELECT number, name FROM users WHERE number>=?1 ORDER BY number LIMIT ?2")  \
    X(SQL_USER_HASH, "SELECT number FROM user_index WHERE hash=?1")                                \
    X(SQL_USER_HASH_ADD, "INSERT OR IGNORE INTO user_index VALUES(?1, ?2)")                        \
    X(SQL_USER_HASH_REMOVE, "DELETE FROM user_index WHERE hash=?1 AND number=?2")                  \
    X(SQL_GAPS, "SELECT first, last FROM user_gaps ORDER BY first")                                \
    X(SQL_GAP_ADD, "INSERT OR REPLACE INTO user_gaps VALUES(?1, ?2)")                              \
    X(SQL_GAP_REMOVE, "DELETE FROM user_gaps WHERE first=?1")                                      \
    /* history */                                                                                  \
    X(SQL_HISTORY_ADD, "INSERT INTO history VALUES(NULL, ?1, ?2, ?3, ?4)")                         \
    X(SQL_HISTORY_ENDS, "SELECT (SELECT min(row) FROM history), (SELECT max(row) FROM history)")   \
    X(SQL_HISTORY_BACK, "SELECT row, item, user, kind, time_ms FROM history WHERE row<?1 "         \
                        "ORDER BY row DESC LIMIT ?2")                                              \
    X(SQL_HISTORY_THIN, "DELETE FROM history WHERE row<=(SELECT max(row) FROM (SELECT row FROM "   \
                        "history ORDER BY row LIMIT ?2)) AND time_ms<?1 AND "                      \
                        "row<(SELECT max(row) FROM history)")                                      \
    X(SQL_HISTORY_HELD,                                                                            \
      "SELECT e.number, e.id, e.type, e.incarnation, e.updated_ms, e.value, "                      \
      "e.counts, e.slices, e.settings, e.deadline_ms, e.members, e.sum FROM "                      \
      "(SELECT item, kind, max(row) FROM history WHERE user=?1 GROUP BY item) "                    \
      "h JOIN entries e ON e.number=h.item WHERE h.kind<>0 AND e.counts IS NOT NULL")              \
    X(SQL_HISTORY_STUB, "UPDATE history SET user=?2 WHERE user=?1")                                \
    X(SQL_GONE_THIN, "DELETE FROM entries WHERE type=2 AND value IS NULL AND counts IS NULL AND "  \
                     "updated_ms<?1")                                                              \
    /* lives of units */                                                                           \
    X(SQL_LIFE_ADD,                                                                                \
      "INSERT INTO count_events VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL)")      \
    X(SQL_LIFE_DONE,                                                                               \
      "UPDATE count_events SET state=?2, processed_ms=?3, next_ms=NULL, delta=?4, reason=NULL "    \
      "WHERE row=?1")                                                                              \
    X(SQL_LIFE_WAIT, "UPDATE count_events SET state=?2, retry_count=?3, next_ms=?4, reason=?5 "    \
                     "WHERE row=?1")                                                               \
    X(SQL_LIFE_FAIL, "UPDATE count_events SET state=?2, processed_ms=?3, next_ms=NULL, "           \
                     "reason=?4 WHERE row=?1")                                                     \
    X(SQL_LIFE_REDRIVE, "UPDATE count_events SET state=?2, retry_count=?3, next_ms=?4, "           \
                        "processed_ms=NULL WHERE row=?1")                                          \
    X(SQL_LIFE_DISCARD, "UPDATE count_events SET state=?2, processed_ms=?3 WHERE row=?1")          \
    X(SQL_LIFE_ENDS,                                                                               \
      "SELECT (SELECT min(row) FROM count_events), (SELECT max(row) FROM count_events)")           \
    X(SQL_LIFE_BY_EVENT, "SELECT c.row, c.id, c.delta, c.state, c.retry_count, c.events, "         \
                         "c.created_ms, w.adds_only FROM waiting w JOIN count_events c "           \
                         "ON c.row=w.row WHERE w.event_id=?1")                                     \
    X(SQL_LIFE_BY_ROW, "SELECT c.row, c.event_id, c.id, c.delta, c.reason, w.raw, c.retry_count, " \
                       "c.created_ms FROM waiting w JOIN count_events c ON c.row=w.row "           \
                       "WHERE w.row=?1")                                                           \
    X(SQL_LIVES_BACK, "SELECT row, event_id, id, delta, state, retry_count, events, created_ms, "  \
                      "processed_ms, next_ms, reason FROM count_events WHERE row<?1 "              \
                      "ORDER BY row DESC LIMIT ?2")                                                \
    X(SQL_LIVES_WAITING, "SELECT c.row, c.event_id, c.id, c.delta, c.state, c.retry_count, "       \
                         "c.events, c.created_ms, c.processed_ms, c.next_ms, c.reason "            \
                         "FROM waiting w JOIN count_events c ON c.row=w.row "                      \
                         "WHERE w.row<?1 ORDER BY w.row DESC LIMIT ?2")                            \
    X(SQL_LIVES_THIN, "DELETE FROM count_events WHERE row<=(SELECT max(row) FROM (SELECT row "     \
                      "FROM count_events WHERE state IN (2, 4) ORDER BY row LIMIT ?2)) "           \
                      "AND created_ms<?1 AND row<(SELECT max(row) FROM count_events) AND "         \
                      "state IN (2, 4)")                                                           \
    X(SQL_WAITING_FROM,                                                                            \
      "SELECT w.row, w.event_id, w.id, c.delta, CASE WHEN w.state=3 THEN d.raw ELSE w.raw END, "   \
      "(c.event_id, c.id, c.state) IS (w.event_id, w.id, w.state) AND "                            \
      "(w.state<>3 OR (d.id, d.delta) IS (c.id, c.delta)) FROM waiting w "                         \
      "LEFT JOIN count_events c ON c.row=w.row "                                                   \
      "LEFT JOIN dead_letters d ON w.state=3 AND d.event_id=w.event_id "                           \
      "WHERE w.row>?1 ORDER BY w.row LIMIT ?2")                                                    \
    X(SQL_WAITING_ADD, "INSERT INTO waiting VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")                   \
    X(SQL_WAITING_SET, "UPDATE waiting SET state=?2, next_ms=?3 WHERE row=?1")                     \
    X(SQL_WAITING_REMOVE, "DELETE FROM waiting WHERE row=?1")                                      \
    X(SQL_WAITING_COUNTS, "SELECT state, count(*) FROM waiting GROUP BY state")                    \
    X(SQL_WAITING, "SELECT id, row, state, next_ms, adds_only FROM waiting ORDER BY id, row")      \
    X(SQL_WAITING_IDS, "SELECT DISTINCT id FROM waiting")                                          \
    X(SQL_WAITING_OF, "SELECT row, state, adds_only FROM waiting WHERE id=?1 ORDER BY row")        \
    X(SQL_WAITING_RAW, "SELECT w.row, CASE WHEN w.state=3 THEN d.raw ELSE w.raw END "              \
                       "FROM waiting w LEFT JOIN dead_letters d ON d.event_id=w.event_id "         \
                       "WHERE w.id=?1 ORDER BY w.row")                                             \
    /* dead letters */                                                                             \
    X(SQL_LETTER_ADD, "INSERT INTO dead_letters VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "     \
                      "?9, ?10)")                                                                  \
    X(SQL_LETTER_FROM_LIFE, "INSERT INTO dead_letters SELECT NULL, c.event_id, c.id, c.delta, "    \
                            "?2, w.raw, NULL, NULL, c.retry_count, c.created_ms, ?3 "              \
                            "FROM waiting w JOIN count_events c ON c.row=w.row WHERE w.row=?1")    \
    X(SQL_LETTER_COUNT, "SELECT count(*) FROM dead_letters")                                       \
    X(SQL_LETTER_NEXT, "SELECT row, event_id, id, raw FROM dead_letters WHERE row>?1 "             \
                       "ORDER BY row LIMIT 1")                                                     \
    X(SQL_LETTER_FIND, "SELECT row, event_id, id, raw FROM dead_letters WHERE event_id=?1")        \
    X(SQL_LETTER_REMOVE, "DELETE FROM dead_letters WHERE row=?1")                                  \
    X(SQL_LETTERS_BACK, "SELECT row, event_id, id, delta, reason, raw, segment, position, "        \
                        "retry_count, created_ms, failed_ms FROM dead_letters WHERE row<?1 "       \
                        "ORDER BY row DESC LIMIT ?2")                                              \
    X(SQL_LETTER, "SELECT row, event_id, id, delta, reason, raw, segment, position, "              \
                  "retry_count, created_ms, failed_ms FROM dead_letters WHERE event_id=?1")        \
    /* keys, bases, audit trail */                                                                 \
    X(SQL_KEY_ADD, "INSERT INTO keys VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7)")                    \
    X(SQL_KEY, "SELECT row, low, high, fingerprint, changed, held, value, time_ms FROM keys "      \
               "WHERE row=?1")                                                                     \
    X(SQL_KEY_LOWS, "SELECT row, low FROM keys WHERE row>?1 ORDER BY row")                         \
    X(SQL_KEYS_INDEXED, "SELECT indexed_keys FROM progress")                                       \
    X(SQL_KEYS_INDEXED_SET, "UPDATE progress SET indexed_keys=?1")                                 \
    X(SQL_KEY_INDEX_ADD, "INSERT OR IGNORE INTO key_index VALUES(?1, ?2, ?3)")                     \
    X(SQL_KEY_INDEX_FIND, "SELECT row FROM key_index WHERE generation=?1 AND hash=?2")             \
    X(SQL_KEY_INDEX_ENDS, "SELECT (SELECT min(generation) FROM key_index), "                       \
                          "(SELECT max(generation) FROM key_index)")                               \
    X(SQL_KEY_INDEX_THIN,                                                                          \
      "DELETE FROM key_index WHERE generation<(SELECT min(row) FROM keys)>>?1")                    \
    X(SQL_KEYS_FROM, "SELECT row, low, high, fingerprint, changed, held, value, time_ms "          \
                     "FROM keys WHERE row>?1 ORDER BY row LIMIT ?2")                               \
    X(SQL_KEYS_THIN, "DELETE FROM keys WHERE row<=(SELECT max(row) FROM (SELECT row FROM keys "    \
                     "ORDER BY row LIMIT ?2)) AND time_ms<?1 AND "                                 \
                     "row<(SELECT max(row) FROM keys)")                                            \
    X(SQL_RAWS, "SELECT row, raw FROM waiting WHERE raw NOT NULL")                                 \
    X(SQL_RAW_SET, "UPDATE waiting SET raw=?2 WHERE row=?1")                                       \
    X(SQL_LETTER_RAWS, "SELECT row, raw FROM dead_letters WHERE raw NOT NULL")                     \
    X(SQL_LETTER_RAW_SET, "UPDATE dead_letters SET raw=?2 WHERE row=?1")                           \
    X(SQL_BASES, "SELECT sum, discarded, checksum, id FROM bases")                                 \
    X(SQL_BASE_OF, "SELECT sum, discarded, checksum FROM bases WHERE id=?1")                       \
    X(SQL_BASE_PUT, "INSERT INTO bases VALUES(?1, ?2, ?3, ?4) ON CONFLICT(id) DO UPDATE SET "      \
                    "sum=excluded.sum, discarded=excluded.discarded, checksum=excluded.checksum")  \
    X(SQL_BASE_WITHOUT_SUM, "SELECT id, sum, discarded FROM bases WHERE checksum IS NULL LIMIT 1") \
    X(SQL_BASE_CHECKSUM_SET, "UPDATE bases SET checksum=?2 WHERE id=?1")                           \
    X(SQL_AUDIT_ADD, "INSERT INTO audit_trail VALUES(NULL, ?1, ?2, ?3, ?4)")                       \
    X(SQL_AUDITS_BACK, "SELECT row, time_ms, what, id, text FROM audit_trail WHERE row<?1 "        \
                       "ORDER BY row DESC LIMIT ?2")

enum statement {
#define X(name, sql) name,
    STATEMENT_LIST(X)
#undef X
        STATEMENT_COUNT
};

#endif
