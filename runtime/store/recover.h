/* SPDX-License-Identifier: Apache-2.0
 *
 * Which generation goes on: what is reachable from the newest BASE, and the highest of it that
 * verifies. Changes nothing on disk. What is damaged is logged as an error.
 */
#ifndef TSR_RUNTIME_STORE_RECOVER_H
#define TSR_RUNTIME_STORE_RECOVER_H

#include "runtime/store/read.h"

typedef struct tsr_survey {
    int root, gens; /* borrowed; gens may be -1: there is none */
    tsr_arena *arena;
    tsr_reader *reader;             /* borrowed */
    bool verify;                    /* for reports: the data is read, too */
    tsr_listing names, generations; /* of the root and of gen/ */
    tsr_name *candidates;           /* reachable manifests, highest first */
    size_t candidate_count;
    uint64_t highest_generation; /* of any manifest, reachable or not */
    bool committed;              /* something was committed once, even if it is gone */
    uint32_t damaged_count, uncommitted_count;
} tsr_survey;

/* root, gens, arena and reader are set by the caller. */
TSR_RESULT tsr_survey_take(tsr_ctx *ctx, tsr_survey *survey);

TSR_RESULT tsr_survey_read_manifest(tsr_ctx *ctx, const tsr_survey *survey, const tsr_name *name,
                                    tsr_manifest *out_manifest);
/* Manifest and all chunks; true if good. Damage is logged and counted, other failures are
 * results. */
TSR_RESULT tsr_survey_verify(tsr_ctx *ctx, tsr_survey *survey, const tsr_name *name, bool *out_good,
                             tsr_manifest *out_manifest);

typedef struct tsr_choice {
    tsr_resume_mode mode;
    uint64_t generation;           /* for TSR_RESUME_EXACT */
    const tsr_digest *bundle_hash; /* NULL: any */
    const char *numerics;          /* NULL: any */
    bool allow_inexact;
    /* Where the bytes of a generation go while they are verified, so that they are read once: one
     * place for each tensor, or NULL to verify only. NULL: verify only. */
    TSR_RESULT(*land)
    (tsr_ctx *ctx, void *user, const tsr_manifest *manifest, void ***out_destinations);
    void *land_user;
} tsr_choice;

/* out_index is that of the chosen candidate; candidate_count: nothing there, start fresh. */
TSR_RESULT tsr_survey_choose(tsr_ctx *ctx, tsr_survey *survey, const tsr_choice *choice,
                             size_t *out_index, tsr_manifest *out_manifest);

#endif
