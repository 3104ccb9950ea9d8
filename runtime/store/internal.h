/* SPDX-License-Identifier: Apache-2.0
 *
 * The open store, shared by the files of this folder (and by its tests).
 */
#ifndef TSR_RUNTIME_STORE_INTERNAL_H
#define TSR_RUNTIME_STORE_INTERNAL_H

#include "runtime/commit/directory.h"
#include "runtime/store/recover.h"

#include <pthread.h>

enum { TSR_STORE_SCRATCH_NAMES = 1024, TSR_STORE_KEEP_MAX = 10000 };

struct tsr_store {
    tsr_ctx ctx; /* of the writer thread; between saves nobody's */
    tsr_arena arena;
    char *directory;
    int root, gens, lock; /* owned descriptors, or -1 */
    uint64_t epoch, next_generation;
    tsr_digest bundle_hash;
    char *region, *numerics;
    tsr_link previous; /* what the next generation goes on from */
    tsr_digest previous_token;
    bool found;
    tsr_manifest recovered;    /* when found */
    const tsr_tensor *landing; /* borrowed while it is opened: tensors named by the caller */
    size_t landing_count;
    void **landed;      /* where the tensors of `recovered` lie, verified; NULL: only on the disk */
    tsr_reader *reader; /* owned; of the thread that opens, then of the one that saves */

    /* Good generations, each verified from the medium; oldest first. */
    tsr_name *good;
    uint32_t good_count, keep;
    bool root_suspect; /* a sync after removing failed: what seems removed may come back, so
                          nothing more is removed by this run */
    tsr_listing root_names, gen_names, segment_names; /* scratch of fixed capacity */

    /* Set by reserve, never moved afterwards. */
    uint64_t segment_bytes_max;
    tsr_manifest plan;
    const tsr_tensor *sources; /* descriptors, in the order of plan.tensors; data is borrowed */
    uint8_t *staging;          /* owned; the segments, each from a multiple of TSR_DIRECT_ALIGN */
    size_t staging_bytes;      /* its room */
    uint64_t *segment_starts;  /* in staging */
    uint8_t *encoded;          /* owned; the manifest */

    pthread_t thread;
    bool thread_started;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool busy, quit;
    tsr_save_status status;
    uint64_t failures_logged;
    char failure_text[TSR_ERROR_TEXT_MAX];
};

/* One save: segments, manifest, commit. out_unknown as in tsr_disk_publish; TSR_LOCKED: fenced. */
TSR_RESULT tsr_store_commit(tsr_ctx *ctx, tsr_store *store, bool *out_unknown);
/* TSR_LOCKED when a higher EPOCH exists. */
TSR_RESULT tsr_store_check_fence(tsr_ctx *ctx, tsr_store *store);
/* Reads the newest generation back from the medium (TSR_STATE: it is damaged), then removes. */
TSR_RESULT tsr_store_collect(tsr_ctx *ctx, tsr_store *store);
/* Once `keep` good generations are known: all that is older or unreachable: manifests, root synced,
 * segments. */
TSR_RESULT tsr_store_remove_old(tsr_ctx *ctx, tsr_store *store);
/* Removes what no manifest names. The root was synced since the last manifest was removed. */
TSR_RESULT tsr_store_sweep(tsr_ctx *ctx, tsr_store *store);
/* Room in staging for a state; what was there is lost. */
TSR_RESULT tsr_store_reserve_staging(tsr_ctx *ctx, tsr_store *store, const tsr_manifest *manifest);
void tsr_store_add_good(tsr_store *store, uint64_t epoch, uint64_t generation);

#endif
