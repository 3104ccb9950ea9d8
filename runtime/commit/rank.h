/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's side of the protocol: it writes its segments of a generation, and verifies its part of a
 * generation. A state machine like the coordinator, with no clock and no thread; a repeated request
 * is answered again, but not executed again.
 */
#ifndef TSR_RUNTIME_COMMIT_RANK_H
#define TSR_RUNTIME_COMMIT_RANK_H

#include "runtime/commit/outside.h"
#include "runtime/state/event.h"
#include "runtime/state/message.h"

/* The rank's own bytes. */
typedef struct tsr_rank_data {
    void *user; /* borrowed; passed to every function */
    /* Returns the step of the data that may be written now; a PREPARE for another step is refused.
     */
    uint64_t (*step)(void *user);
    /* Returns the bytes of a segment of the plan, aligned to TSR_DIRECT_ALIGN; they do not change
     * until the generation is committed or aborted. */
    const uint8_t *(*segment)(void *user, uint32_t segment);
    /* Computes the digests of the given chunks of the plan from the source, during the writing if
     * there are threads; hash_end waits for the result. */
    void (*hash_begin)(void *user, tsr_part part);
    void (*hash_end)(void *user);
    /* Reads these chunks of a generation and compares them. TSR_STATE: they are damaged. May keep
     * the data if the purpose is TSR_PURPOSE_RECOVER. */
    TSR_RESULT(*verify)
    (tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part, tsr_purpose purpose);
} tsr_rank_data;

typedef struct tsr_rank_options {
    size_t size_bytes; /* sizeof(tsr_rank_options) */
    uint32_t rank, rank_count;
    int root, gens; /* borrowed descriptors of the store's directory and its gen/ */
    tsr_rank_data data;
    /* The `examined` of a coordinator in this process, so that it is not read again; or NULL. */
    const tsr_manifest *candidate;
    tsr_outside outside;
} tsr_rank_options;

typedef struct tsr_rank {
    /* Public: read by the caller. */
    uint64_t epoch;     /* highest epoch seen; 0: none */
    bool agreed;        /* all ranks resume from `base`, and it may be loaded */
    tsr_link base;      /* all zero: the store is empty */
    tsr_link committed; /* the last generation that the coordinator acknowledged */

    /* Private. */
    tsr_rank_options options;
    tsr_events events;
    tsr_manifest *plan; /* borrowed; NULL: not set yet */
    tsr_digest layout;
    uint64_t ended;       /* generations up to this one were prepared, aborted or committed */
    tsr_link proposed;    /* the last verified candidate */
    tsr_message answered; /* the last answered request; its texts and digests are not kept */
    uint8_t *reply;       /* owned; the answer */
    size_t reply_size;    /* 0: no answer yet */
    uint8_t *digests;     /* owned; digests of its part */
} tsr_rank;

TSR_RESULT tsr_rank_create(tsr_ctx *ctx, const tsr_rank_options *options, tsr_rank **out_rank);
/* Sets the plan of all saves: the coordinator's plan, or one made from the same tensors. The rank
 * fills in the digests of its part. Borrowed until destroyed. */
TSR_RESULT tsr_rank_plan(tsr_ctx *ctx, tsr_rank *rank, tsr_manifest *plan);
/* Handles a message. Failures are reported to the coordinator. Messages that are damaged, repeated
 * or of an older epoch have no effect. */
void tsr_rank_receive(tsr_ctx *ctx, tsr_rank *rank, const uint8_t *bytes, size_t size_bytes);
void tsr_rank_destroy(tsr_rank *rank); /* accepts NULL */

#endif
