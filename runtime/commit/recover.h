/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery: which generations the newest run reaches, and which of them goes on. Changes nothing on
 * disk. What is damaged is logged as an error.
 */
#ifndef TSR_RUNTIME_COMMIT_RECOVER_H
#define TSR_RUNTIME_COMMIT_RECOVER_H

#include "runtime/state/disk.h"
#include "runtime/state/event.h"

typedef struct tsr_survey {
    int root, gens;     /* borrowed; gens may be -1: there is none */
    tsr_arena *arena;   /* borrowed */
    tsr_events *events; /* borrowed; NULL: none */

    tsr_listing names, generations; /* of the root and of gen/, sorted */
    tsr_listing lost;               /* generations marked COMMITTED whose manifest is missing */
    tsr_listing unfinished;         /* others without a manifest that hold something */
    tsr_name *candidates;           /* reachable manifests, highest first */
    size_t candidate_count;
    tsr_link *bases; /* what the runs on the way went on from */
    size_t base_count;
    uint64_t highest_generation; /* of any manifest, reachable or not */
    /* What a run went on from in this epoch is gone, and newer ones are there: it was collected,
     * and all that is older. A removal whose sync failed may come undone when power is cut: then a
     * manifest is there again, without its BASE or its data, which is no damage. 0: none. */
    uint64_t removed_epoch;
    bool committed; /* something was committed once, even if it is gone */
    uint32_t damaged_count;
} tsr_survey;

/* root, gens, arena and events are set by the caller. */
TSR_RESULT tsr_survey_take(tsr_ctx *ctx, tsr_survey *survey);

/* TSR_STATE: it is damaged, or not the one that a later run went on from, if one did. */
TSR_RESULT tsr_survey_read_candidate(tsr_ctx *ctx, const tsr_survey *survey, const tsr_name *name,
                                     tsr_manifest *out_manifest);
/* A MANIFEST or BASE that was listed and cannot be read now. out_collected: it is gone, and a newer
 * manifest is there, so a run that is being replaced, or that is only looked at, has collected it
 * meanwhile; or it was collected before, and has come back: no damage. TSR_LOCKED: another run took
 * the store over, and may have removed it. */
TSR_RESULT tsr_survey_look_again(tsr_ctx *ctx, const tsr_survey *survey, const tsr_name *lost,
                                 bool *out_collected);
/* The context's error is why. Logged and counted, unless it was collected. TSR_LOCKED as above. */
TSR_RESULT tsr_survey_damaged(tsr_ctx *ctx, tsr_survey *survey, const tsr_name *name);

typedef struct tsr_choice {
    tsr_resume_mode mode;
    uint64_t generation;           /* for TSR_RESUME_EXACT */
    const tsr_digest *bundle_hash; /* NULL: any */
    const char *numerics;          /* NULL: any */
    bool allow_inexact;
    bool refuse_damage; /* TSR_STATE, and nothing changed, if any was met on the way */
} tsr_choice;

/* The first candidate from *index on that can be decoded and belongs; the caller then verifies its
 * data, and asks again from the next index on when it is damaged. candidate_count: nothing there,
 * start fresh. TSR_STATE: something was there, and nothing is left. If the newest run does
 * not reach the generation that was asked for by its number, the candidates become this generation
 * and those that it reaches, with a warning. */
TSR_RESULT tsr_survey_next(tsr_ctx *ctx, tsr_survey *survey, const tsr_choice *choice,
                           size_t *index, tsr_manifest *out_manifest);

#endif
