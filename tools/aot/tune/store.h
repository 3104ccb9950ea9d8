/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of measured plans: one SQLite file, which several processes may use at once. A plan is
 * the sizes of one kernel; its key is
 *
 *     op_kind      the ops of the kernel           } of its signature
 *     shape_sig    its types, and a hash of it     } (compiler/tile/signature.h)
 *     dtype        of its first result             }
 *     mesh_sig     "" for one process
 *     arch         the target: "cpu:x86-64-v3"
 *     policy_hash  numerics and objective: "portable/latency"
 *     machine      the machine that measured, with its number of threads
 *
 * An entry is used only by the versions of the compiler, driver and runtime that measured it.
 */
#ifndef TSR_TOOLS_AOT_TUNE_STORE_H
#define TSR_TOOLS_AOT_TUNE_STORE_H

#include "compiler/schedule/measured.h"
#include "runtime/base/arena.h"
#include "runtime/base/result.h"

typedef struct tsr_store_entry {
    const char *op_kind, *shape_sig, *dtype, *mesh_sig, *arch, *policy_hash, *machine;
    const char *compiler, *driver, *runtime; /* versions */
    tsr_measured plan;
    uint64_t trials;
} tsr_store_entry;

/* Splits a signature; TSR_CORRUPT for a text of another form. The texts are in the arena. */
TSR_RESULT tsr_store_entry_init(tsr_ctx *ctx, const char *target, const char *signature,
                                const char *numerics, tsr_arena *arena, tsr_store_entry *out_entry);

typedef struct tsr_schedule_store tsr_schedule_store;

/* Creates the file if `writes` and it does not exist. TSR_IO for a file that cannot be opened,
 * read or written, or that another process locks for 5 seconds; TSR_CORRUPT for a file that is
 * no store; TSR_VERSION for a store of a newer Tessera. */
TSR_RESULT tsr_schedule_store_open(tsr_ctx *ctx, const char *path, bool writes,
                                   tsr_schedule_store **out_store);
void tsr_schedule_store_close(tsr_schedule_store *store); /* accepts NULL */

/* Adds entries, in one transaction. One of an equal key and equal versions is replaced. */
TSR_RESULT tsr_schedule_store_put(tsr_ctx *ctx, tsr_schedule_store *store,
                                  const tsr_store_entry *entries, size_t count);
/* All entries, ordered by key; in the arena. */
TSR_RESULT tsr_schedule_store_read(tsr_ctx *ctx, tsr_schedule_store *store, tsr_arena *arena,
                                   tsr_store_entry **out_entries, size_t *out_count);
/* Deletes the entries of other versions than these. */
TSR_RESULT tsr_schedule_store_prune(tsr_ctx *ctx, tsr_schedule_store *store, const char *compiler,
                                    const char *runtime, uint64_t *out_deleted);

/* True if the file at `path` begins like a store; false also if it cannot be read. */
bool tsr_schedule_store_is_store(const char *path);

#endif
