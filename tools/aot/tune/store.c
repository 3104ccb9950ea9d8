/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/aot/tune/store.h"

#include "runtime/base/array.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* APPLICATION identifies the file as a store, in the header of the SQLite format. */
enum { APPLICATION = 0x54535250, VERSION = 1, BUSY_MS = 5000, ENTRIES_MAX = 1 << 20 };

struct tsr_schedule_store {
    sqlite3 *db; /* owned */
    const char *path;
    char *path_owned;
};

static const char table_sql[] =
    "CREATE TABLE IF NOT EXISTS plans("
    "op_kind TEXT NOT NULL, shape_sig TEXT NOT NULL, dtype TEXT NOT NULL, mesh_sig TEXT NOT NULL,"
    "arch TEXT NOT NULL, policy_hash TEXT NOT NULL, machine TEXT NOT NULL,"
    "compiler TEXT NOT NULL, driver TEXT NOT NULL, runtime TEXT NOT NULL,"
    "sizes TEXT NOT NULL, safe_ns INTEGER NOT NULL, measured_ns INTEGER NOT NULL,"
    "trials INTEGER NOT NULL,"
    "PRIMARY KEY(op_kind, shape_sig, dtype, mesh_sig, arch, policy_hash, machine, compiler, driver,"
    "runtime)) WITHOUT ROWID;";
static const char columns[] = "op_kind, shape_sig, dtype, mesh_sig, arch, policy_hash, machine, "
                              "compiler, driver, runtime, sizes, safe_ns, measured_ns, trials";
enum {
    TEXT_COLUMNS = 10,
    COLUMN_SIZES = TEXT_COLUMNS,
    COLUMN_SAFE,
    COLUMN_MEASURED,
    COLUMN_TRIALS
};

tsr_result tsr_store_entry_init(tsr_ctx *ctx, const char *target, const char *signature,
                                const char *numerics, tsr_arena *arena,
                                tsr_store_entry *out_entry) {
    const char *types = strchr(signature, ' ');
    const char *arrow = types ? strstr(types, "->") : NULL;
    const char *hash = arrow ? strchr(arrow, ' ') : NULL;
    if (!hash || types == signature)
        FAIL(ctx, TSR_CORRUPT, "'%s' is no signature of a kernel", signature);
    const char *result = arrow + strlen("->"), *end = result + strcspn(result, ", ");
    const char *dtype = end;
    while (dtype > result && dtype[-1] != 'x') dtype--;
    *out_entry = (tsr_store_entry){
        .op_kind = tsr_arena_strndup(arena, signature, (size_t)(types - signature)),
        .shape_sig = tsr_arena_strdup(arena, types + 1),
        .dtype = tsr_arena_strndup(arena, dtype, (size_t)(end - dtype)),
        .mesh_sig = "",
        .arch = target,
        .policy_hash = tsr_arena_printf(arena, "%s/latency", numerics),
        .machine = "",
        .compiler = "",
        .driver = "",
        .runtime = "",
        .plan = {.target = target, .signature = signature}};
    if (!out_entry->op_kind || !out_entry->shape_sig || !out_entry->dtype ||
        !out_entry->policy_hash)
        FAIL(ctx, TSR_MEMORY, "no memory for a signature");
    return TSR_SUCCESS;
}

/* ---- the file -------------------------------------------------------------------------------- */

static tsr_code code_of(int error) {
    switch (error & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return TSR_CORRUPT;
    case SQLITE_NOMEM:
        return TSR_MEMORY;
    default:
        return TSR_IO;
    }
}

static tsr_result fail(tsr_ctx *ctx, const tsr_schedule_store *store, const char *what) {
    int error = sqlite3_extended_errcode(store->db);
    return tsr_fail_(ctx, code_of(error), 0, __FILE__, __LINE__,
                     "schedule store '%s': cannot %s: %s", store->path, what,
                     sqlite3_errmsg(store->db));
}

static tsr_result execute(tsr_ctx *ctx, tsr_schedule_store *store, const char *sql,
                          const char *what) {
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? TSR_SUCCESS
                                                                       : fail(ctx, store, what);
}

static tsr_result read_number(tsr_ctx *ctx, tsr_schedule_store *store, const char *sql,
                              int64_t *out_value) {
    sqlite3_stmt *statement = NULL;
    bool good = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (good) *out_value = sqlite3_column_int64(statement, 0);
    tsr_result result = good ? TSR_SUCCESS : fail(ctx, store, "read it");
    sqlite3_finalize(statement);
    return result;
}

static tsr_result check(tsr_ctx *ctx, tsr_schedule_store *store, bool writes) {
    int64_t application = 0, version = 0, tables = 0;
    TRY(ctx, read_number(ctx, store, "PRAGMA application_id;", &application));
    TRY(ctx, read_number(ctx, store, "PRAGMA user_version;", &version));
    TRY(ctx, read_number(ctx, store, "SELECT count(*) FROM sqlite_master;", &tables));
    if (application != APPLICATION && (tables || !writes))
        FAIL(ctx, TSR_CORRUPT, "'%s' is an SQLite file, but no schedule store", store->path);
    if (version > VERSION)
        FAIL(ctx, TSR_VERSION, "schedule store '%s' has version %" PRId64 "; this is version %d",
             store->path, version, VERSION);
    return TSR_SUCCESS;
}

/* Makes the table of an empty file in one transaction, or checks the version of another. A file
 * that is no store of this version is not changed; another process may make the table meanwhile. */
static tsr_result prepare(tsr_ctx *ctx, tsr_schedule_store *store, bool writes) {
    char sql[sizeof table_sql + 100];
    TRY(ctx, check(ctx, store, writes));
    if (!writes) return TSR_SUCCESS;
    TRY(ctx, execute(ctx, store, "PRAGMA journal_mode=WAL;", "write it"));
    TRY(ctx, execute(ctx, store, "BEGIN IMMEDIATE;", "write it"));
    TRY(ctx, check(ctx, store, writes));
    snprintf(sql, sizeof sql, "%s PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT;",
             table_sql, APPLICATION, VERSION);
    return execute(ctx, store, sql, "write it");
}

tsr_result tsr_schedule_store_open(tsr_ctx *ctx, const char *path, bool writes,
                                   tsr_schedule_store **out_store) {
    tsr_schedule_store *store = calloc(1, sizeof *store);
    if (store) store->path = store->path_owned = strdup(path);
    if (!store || !store->path) {
        free(store);
        FAIL(ctx, TSR_MEMORY, "no memory to open '%s'", path);
    }
    int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    tsr_result result = TSR_SUCCESS;
    if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK)
        result = store->db ? fail(ctx, store, "open it")
                           : tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__,
                                       "no memory to open '%s'", path);
    if (!result.code) {
        sqlite3_busy_timeout(store->db, BUSY_MS);
        result = prepare(ctx, store, writes);
    }
    if (result.code)
        tsr_schedule_store_close(store);
    else
        *out_store = store;
    return result;
}

void tsr_schedule_store_close(tsr_schedule_store *store) {
    if (!store) return;
    sqlite3_close(store->db);
    free(store->path_owned);
    free(store);
}

bool tsr_schedule_store_is_store(const char *path) {
    char bytes[16];
    FILE *file = fopen(path, "rbe");
    bool is = file && fread(bytes, 1, sizeof bytes, file) == sizeof bytes &&
              memcmp(bytes, "SQLite format 3", sizeof bytes) == 0;
    if (file) fclose(file);
    return is;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void list_texts(const tsr_store_entry *entry, const char *out_texts[TEXT_COLUMNS]) {
    const char *texts[TEXT_COLUMNS] = {
        entry->op_kind,     entry->shape_sig, entry->dtype,    entry->mesh_sig, entry->arch,
        entry->policy_hash, entry->machine,   entry->compiler, entry->driver,   entry->runtime};
    memcpy(out_texts, texts, sizeof texts);
}

static bool bind(sqlite3_stmt *statement, const tsr_store_entry *entry) {
    const char *texts[TEXT_COLUMNS];
    char sizes[TSR_MEASURED_SIZES_MAX * 21 + 1] = "";
    size_t used = 0;
    list_texts(entry, texts);
    for (size_t i = 0; i < entry->plan.count; i++)
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%" PRId64, i ? " " : "",
                                 entry->plan.sizes[i]);
    bool good = true;
    for (int i = 0; i < TEXT_COLUMNS; i++)
        good = good &&
               sqlite3_bind_text(statement, i + 1, texts[i], -1, SQLITE_TRANSIENT) == SQLITE_OK;
    return good &&
           sqlite3_bind_text(statement, COLUMN_SIZES + 1, sizes, -1, SQLITE_TRANSIENT) ==
               SQLITE_OK &&
           sqlite3_bind_int64(statement, COLUMN_SAFE + 1, (int64_t)entry->plan.safe_ns) ==
               SQLITE_OK &&
           sqlite3_bind_int64(statement, COLUMN_MEASURED + 1, (int64_t)entry->plan.measured_ns) ==
               SQLITE_OK &&
           sqlite3_bind_int64(statement, COLUMN_TRIALS + 1, (int64_t)entry->trials) == SQLITE_OK;
}

static tsr_result insert(tsr_ctx *ctx, tsr_schedule_store *store, const tsr_store_entry *entries,
                         size_t count) {
    sqlite3_stmt *statement = NULL;
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT OR REPLACE INTO plans(%s) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?);", columns);
    bool good = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK;
    for (size_t i = 0; i < count && good; i++)
        good = bind(statement, &entries[i]) && sqlite3_step(statement) == SQLITE_DONE &&
               sqlite3_reset(statement) == SQLITE_OK;
    tsr_result result = good ? TSR_SUCCESS : fail(ctx, store, "write an entry");
    sqlite3_finalize(statement);
    return result;
}

tsr_result tsr_schedule_store_put(tsr_ctx *ctx, tsr_schedule_store *store,
                                  const tsr_store_entry *entries, size_t count) {
    TRY(ctx, execute(ctx, store, "BEGIN IMMEDIATE;", "write it"));
    tsr_result result = insert(ctx, store, entries, count);
    if (!result.code) result = execute(ctx, store, "COMMIT;", "write it");
    if (result.code) sqlite3_exec(store->db, "ROLLBACK;", NULL, NULL, NULL);
    return result;
}

/* Reads "4 16 96"; false for another text. */
static bool parse_sizes(const char *text, tsr_measured *out_plan) {
    char *end = NULL;
    for (const char *at = text; *at; at = end + (*end == ' ')) {
        if (out_plan->count == TSR_MEASURED_SIZES_MAX || *at < '0' || *at > '9') return false;
        out_plan->sizes[out_plan->count++] = strtoll(at, &end, 10);
        if (*end && *end != ' ') return false;
    }
    return out_plan->count > 0;
}

static bool read_row(sqlite3_stmt *statement, tsr_arena *arena, tsr_store_entry *out_entry) {
    const char *texts[TEXT_COLUMNS];
    for (int i = 0; i < TEXT_COLUMNS; i++) {
        const unsigned char *text = sqlite3_column_text(statement, i);
        texts[i] = text ? tsr_arena_strdup(arena, (const char *)text) : NULL;
        if (!texts[i]) return false;
    }
    const char *signature = tsr_arena_printf(arena, "%s %s", texts[0], texts[1]);
    const unsigned char *sizes = sqlite3_column_text(statement, COLUMN_SIZES);
    *out_entry = (tsr_store_entry){
        .op_kind = texts[0],
        .shape_sig = texts[1],
        .dtype = texts[2],
        .mesh_sig = texts[3],
        .arch = texts[4],
        .policy_hash = texts[5],
        .machine = texts[6],
        .compiler = texts[7],
        .driver = texts[8],
        .runtime = texts[9],
        .plan = {.target = texts[4],
                 .signature = signature,
                 .safe_ns = (uint64_t)sqlite3_column_int64(statement, COLUMN_SAFE),
                 .measured_ns = (uint64_t)sqlite3_column_int64(statement, COLUMN_MEASURED)},
        .trials = (uint64_t)sqlite3_column_int64(statement, COLUMN_TRIALS)};
    return signature && sizes && parse_sizes((const char *)sizes, &out_entry->plan);
}

static tsr_result read_rows(tsr_ctx *ctx, tsr_schedule_store *store, sqlite3_stmt *statement,
                            tsr_arena *arena, tsr_store_entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (sqlite3_step(statement) != SQLITE_ROW) return fail(ctx, store, "read its entries");
        if (!read_row(statement, arena, &entries[i]))
            FAIL(ctx, TSR_CORRUPT, "schedule store '%s': entry %zu cannot be read", store->path, i);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_schedule_store_read(tsr_ctx *ctx, tsr_schedule_store *store, tsr_arena *arena,
                                   tsr_store_entry **out_entries, size_t *out_count) {
    sqlite3_stmt *statement = NULL;
    int64_t count = 0;
    char sql[512];
    /* One view of the file for both reads. */
    TRY(ctx, execute(ctx, store, "BEGIN;", "read it"));
    tsr_result result = read_number(ctx, store, "SELECT count(*) FROM plans;", &count);
    if (!result.code && count > ENTRIES_MAX)
        result = tsr_fail_(ctx, TSR_USAGE, 0, __FILE__, __LINE__,
                           "schedule store '%s' has %" PRId64 " entries; expected at most %d",
                           store->path, count, ENTRIES_MAX);
    tsr_store_entry *entries =
        result.code ? NULL : TSR_NEW(arena, tsr_store_entry, (size_t)count + 1);
    snprintf(sql, sizeof sql, "SELECT %s FROM plans ORDER BY %s;", columns, columns);
    if (!result.code && !entries)
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__,
                           "no memory for %" PRId64 " entries", count);
    if (!result.code && sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        result = fail(ctx, store, "read it");
    if (!result.code) result = read_rows(ctx, store, statement, arena, entries, (size_t)count);
    sqlite3_finalize(statement);
    sqlite3_exec(store->db, "COMMIT;", NULL, NULL, NULL);
    if (result.code) return result;
    *out_entries = entries;
    *out_count = (size_t)count;
    return TSR_SUCCESS;
}

tsr_result tsr_schedule_store_prune(tsr_ctx *ctx, tsr_schedule_store *store, const char *compiler,
                                    const char *runtime, uint64_t *out_deleted) {
    sqlite3_stmt *statement = NULL;
    static const char sql[] = "DELETE FROM plans WHERE compiler <> ? OR runtime <> ?;";
    bool good = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_bind_text(statement, 1, compiler, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
                sqlite3_bind_text(statement, 2, runtime, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_DONE;
    tsr_result result = good ? TSR_SUCCESS : fail(ctx, store, "delete entries");
    sqlite3_finalize(statement);
    if (good) *out_deleted = (uint64_t)sqlite3_changes(store->db);
    return result;
}
