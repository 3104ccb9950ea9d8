/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's side of the protocol: it writes its segments of a generation, and verifies its part of
 * one. A state machine like the coordinator, with no clock and no thread; a request that comes
 * again is answered again, not done again.
 */
#ifndef TSR_RUNTIME_COMMIT_RANK_H
#define TSR_RUNTIME_COMMIT_RANK_H

#include "runtime/commit/outside.h"
#include "runtime/state/event.h"
#include "runtime/state/message.h"

/* The rank's own bytes. */
typedef struct tsr_rank_data {
    void *user; /* borrowed; passed to every function */
    /* The step of what may be written now; a PREPARE of another is refused. */
    uint64_t (*step)(void *user);
    /* The bytes of a segment of the plan, from a multiple of TSR_DIRECT_ALIGN; they stay as they
     * are until the generation is committed or aborted. */
    const uint8_t *(*segment)(void *user, uint32_t segment);
    /* The digests of these chunks of the plan are computed from the source, beside the writing if
     * there are threads; the end waits for them. */
    void (*hash_begin)(void *user, tsr_part part);
    void (*hash_end)(void *user);
    /* Reads these chunks of a generation and compares them. TSR_STATE: they are damaged. May keep
     * what it read, when the purpose is TSR_PURPOSE_RECOVER. */
    TSR_RESULT(*verify)
    (tsr_ctx *ctx, void *user, const tsr_manifest *manifest, tsr_part part, tsr_purpose purpose);
} tsr_rank_data;

typedef struct tsr_rank_options {
    size_t size_bytes; /* sizeof(tsr_rank_options) */
    uint32_t rank, rank_count;
    int root, gens; /* borrowed descriptors of the store's directory and its gen/ */
    tsr_rank_data data;
    /* The `examined` of a coordinator in this process, so that it is not read again. NULL: none. */
    const tsr_manifest *candidate;
    tsr_outside outside;
} tsr_rank_options;

typedef struct tsr_rank {
    /* To be read by the caller. */
    uint64_t epoch;     /* highest seen; 0: none */
    bool agreed;        /* all go on from `base`, and it may be loaded */
    tsr_link base;      /* all zero: nothing there */
    tsr_link committed; /* the last generation the coordinator acknowledged */

    /* Its own. */
    tsr_rank_options options;
    tsr_events events;
    tsr_manifest *plan; /* borrowed; NULL: not yet */
    tsr_digest layout;
    uint64_t ended;       /* generations up to this one were prepared, aborted or committed */
    tsr_link proposed;    /* the candidate verified last */
    tsr_message answered; /* the last request that was; its texts and digests are not kept */
    uint8_t *reply;       /* owned; what was answered */
    size_t reply_size;    /* 0: nothing yet */
    uint8_t *digests;     /* owned; of its part */
} tsr_rank;

TSR_RESULT tsr_rank_create(tsr_ctx *ctx, const tsr_rank_options *options, tsr_rank **out_rank);
/* What all saves look like: the coordinator's plan, or one made from the same tensors. The rank
 * fills in the digests of its part. Borrowed until destroyed. */
TSR_RESULT tsr_rank_plan(tsr_ctx *ctx, tsr_rank *rank, tsr_manifest *plan);
/* One message. What fails is told to the coordinator. What is damaged, repeated or of an older
 * epoch does nothing. */
void tsr_rank_receive(tsr_ctx *ctx, tsr_rank *rank, const uint8_t *bytes, size_t size_bytes);
void tsr_rank_destroy(tsr_rank *rank); /* accepts NULL */

#endif
