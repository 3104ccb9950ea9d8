/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery: finds the generations that the newest run reaches, and the one to resume. Changes
 * nothing on disk. Damaged records are logged as errors.
 */
#ifndef TSR_RUNTIME_COMMIT_RECOVER_H
#define TSR_RUNTIME_COMMIT_RECOVER_H

#include "runtime/state/disk.h"
#include "runtime/state/event.h"

typedef struct tsr_store_scan {
    int root, gens;     /* borrowed; gens may be -1: no gen/ */
    tsr_arena *arena;   /* borrowed */
    tsr_events *events; /* borrowed; or NULL */

    tsr_listing names, generations; /* names in the root and in gen/, sorted */
    tsr_listing lost;               /* generations marked COMMITTED whose manifest is missing */
    tsr_listing unfinished;         /* other generations without a manifest that contain files */
    tsr_name *candidates;           /* reachable manifests, highest first */
    size_t candidate_count;
    tsr_link *bases; /* generations from which the visited runs resumed */
    size_t base_count;
    uint64_t highest_generation; /* the highest of any manifest, reachable or not */
    /* The generation from which a run resumed in this epoch is missing, and newer ones exist: it
     * was removed with all older ones. If the sync of a removal failed, the removal may be undone
     * by a power failure: then a manifest exists again, without its BASE or its data, which is not
     * damage. 0: no such epoch. */
    uint64_t removed_epoch;
    bool committed; /* a generation was committed once, even if it no longer exists */
    uint32_t damaged_count;
} tsr_store_scan;

/* The caller sets root, gens, arena and events. */
TSR_RESULT tsr_store_scan_run(tsr_ctx *ctx, tsr_store_scan *scan);

/* TSR_STATE: the manifest is damaged, or it is not the one from which a later run resumed. */
TSR_RESULT tsr_store_scan_read_candidate(tsr_ctx *ctx, const tsr_store_scan *scan,
                                         const tsr_name *name, tsr_manifest *out_manifest);
/* Called if a listed MANIFEST or BASE cannot be read now. out_collected: it no longer exists and a
 * newer manifest does, so another run (one that is being replaced, or the owner of a store that is
 * only read) has removed it in between; or it was removed earlier and has come back. Neither is
 * damage. TSR_LOCKED: another run took over the store and may have removed it. */
TSR_RESULT tsr_store_scan_check_again(tsr_ctx *ctx, const tsr_store_scan *scan,
                                      const tsr_name *lost, bool *out_collected);
/* Logs and counts a damaged record, unless it was removed by a run. The context's error is the
 * reason. TSR_LOCKED as above. */
TSR_RESULT tsr_store_scan_note_damaged(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_name *name);

typedef struct tsr_choice {
    tsr_resume_mode mode;
    uint64_t generation;              /* for TSR_RESUME_EXACT */
    const tsr_store_program *program; /* borrowed; NULL: any */
    const char *numerics;             /* NULL: any */
    bool allow_inexact;
    bool refuse_damage; /* fail with TSR_STATE, before any change, if damage was found on the way */
} tsr_choice;

/* Finds the first candidate from *index on that can be decoded and matches. The caller then
 * verifies its data, and if it is damaged, calls again with the next index. candidate_count: the
 * store is empty, start fresh. TSR_STATE: no committed generation is usable. If a generation was
 * requested by number and the newest run does not reach it, the candidates become this generation
 * and those that it reaches, with a warning. */
TSR_RESULT tsr_store_scan_next(tsr_ctx *ctx, tsr_store_scan *scan, const tsr_choice *choice,
                               size_t *index, tsr_manifest *out_manifest);

#endif
