/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator: one for a store, whatever the number of ranks. It holds the directory, publishes
 * EPOCH, BASE and manifests, decides which generation all go on from, and removes what is no longer
 * needed (docs/state-store.md). It is a state machine: it runs inside the calls below, never waits,
 * reads no clock and starts no thread. Files go through the context's io table, messages and time
 * through tsr_outside, so that a simulation can be all of it.
 *
 *     tsr_coordinator_open(ctx, &options, &c);       ranks are asked to verify a generation
 *     while (c->phase != TSR_PHASE_IDLE)             whatever comes from the network
 *         tsr_coordinator_receive(ctx, c, bytes, size);
 *     tsr_coordinator_plan(ctx, c, &plan);
 *     tsr_coordinator_save(ctx, c, &position);       ranks are asked to write their segments
 *     while (c->phase != TSR_PHASE_IDLE) …           committed, read back, collected
 *
 * A call that fails has ended what was under way: an opening for good, a save with its generation;
 * `phase` tells whether it may go on. Calls come from one thread at a time.
 */
#ifndef TSR_RUNTIME_COMMIT_COORDINATOR_H
#define TSR_RUNTIME_COMMIT_COORDINATOR_H

#include "runtime/commit/directory.h"
#include "runtime/commit/outside.h"
#include "runtime/commit/recover.h"
#include "runtime/state/message.h"

enum { TSR_KEEP_MAX = 10000, TSR_SCRATCH_NAMES = 1024 };

typedef enum tsr_phase {
    TSR_PHASE_RECOVERING,   /* ranks verify a candidate */
    TSR_PHASE_COUNTING,     /* ranks verify older ones, so that the rest can be removed */
    TSR_PHASE_AGREEING,     /* BASE is durable; ranks are told what they may load */
    TSR_PHASE_IDLE,         /* a save may begin */
    TSR_PHASE_PREPARING,    /* ranks write */
    TSR_PHASE_READING_BACK, /* committed and acknowledged; ranks read it back */
    TSR_PHASE_STOPPED,      /* opening failed, fenced, or outcome unknown: close it */
} tsr_phase;

typedef struct tsr_coordinator_options {
    size_t size_bytes;     /* sizeof(tsr_coordinator_options) */
    const char *directory; /* created if absent, with its parents */
    uint32_t rank_count;   /* 1 … TSR_RANKS_MAX */
    uint32_t keep;         /* good generations that stay, 2 … TSR_KEEP_MAX */
    bool allow_network_fs;
    tsr_choice choice;    /* borrowed until it is idle */
    uint64_t resend_ns;   /* an unanswered request is sent again after so long; 0: never */
    uint64_t deadline_ns; /* one that stays unanswered has failed after so long; 0: never */
    tsr_outside outside;
} tsr_coordinator_options;

typedef struct tsr_coordinator {
    /* To be read by the caller. */
    tsr_phase phase;
    uint64_t epoch;
    tsr_recovery recovery; /* valid from IDLE on */
    tsr_manifest
        recovered;        /* valid while RECOVERING: the candidate; later: what goes on, if found */
    bool fenced;          /* another run took the store over */
    bool outcome_unknown; /* a record may or may not be there for good */
    uint64_t committed_count;
    tsr_generation committed; /* the last one; valid if committed_count > 0 */

    /* Its own. */
    tsr_coordinator_options options;
    tsr_arena arena;
    tsr_directory directory;
    tsr_events events;
    uint64_t next_generation, temp_count;
    uint64_t ready;    /* generation whose directory is durable already; 0: none */
    tsr_link previous; /* what the next generation goes on from */
    tsr_digest previous_token;

    tsr_survey survey;     /* while opening */
    size_t candidate;      /* index of the one being verified */
    tsr_manifest examined; /* the one being verified */
    tsr_name *found;       /* while COUNTING: those that are good, and how many are wanted */
    size_t found_count, wanted;

    tsr_name *good; /* known to be good, each verified from the medium; oldest first */
    uint32_t good_count;
    bool root_suspect; /* a sync after removing failed: what seems removed may come back, so nothing
                          more is removed by this run */
    tsr_listing root_names, gen_names, segment_names; /* scratch of fixed capacity */

    tsr_manifest *plan; /* borrowed */
    tsr_digest layout;
    uint8_t *encoded; /* owned; the manifest */

    tsr_message request;   /* what the ranks were asked last */
    uint32_t asked_chunks; /* of the manifest it is about */
    bool *answered;        /* by rank */
    uint32_t answered_count;
    tsr_verdict failed_verdict; /* the worst; what the first such rank told */
    tsr_code failed_code;
    int failed_native;
    uint32_t failed_rank;
    char failed_text[TSR_MESSAGE_TEXT_MAX + 1];
    uint64_t asked_ns, sent_ns; /* when first, when last */
} tsr_coordinator;

/* Takes LOCK (TSR_LOCKED: another process holds it), publishes EPOCH, looks for what goes on and
 * asks the ranks to verify it; with nothing there, to agree on that. */
TSR_RESULT tsr_coordinator_open(tsr_ctx *ctx, const tsr_coordinator_options *options,
                                tsr_coordinator **out_coordinator);
/* One message. What is damaged, repeated, late or of another epoch is ignored. */
TSR_RESULT tsr_coordinator_receive(tsr_ctx *ctx, tsr_coordinator *c, const uint8_t *bytes,
                                   size_t size_bytes);
/* Time has passed: requests are sent again or given up. Needs no certain rhythm. */
TSR_RESULT tsr_coordinator_tick(tsr_ctx *ctx, tsr_coordinator *c);
/* What all saves look like (tsr_manifest_plan, with rank_count writers), its token filled in but
 * for the numbers of a generation. Borrowed until closed; the coordinator fills in the digests.
 * Once, when IDLE. */
TSR_RESULT tsr_coordinator_plan(tsr_ctx *ctx, tsr_coordinator *c, tsr_manifest *plan);
/* When IDLE. Nothing is allocated from here on. */
TSR_RESULT tsr_coordinator_save(tsr_ctx *ctx, tsr_coordinator *c, const tsr_position *position);
/* When PREPARING: the generation is given up, as if a rank had told `reason`. */
TSR_RESULT tsr_coordinator_abort(tsr_ctx *ctx, tsr_coordinator *c, const char *reason);
/* When IDLE: removes all but the `keep` newest good generations, if so many are known. */
TSR_RESULT tsr_coordinator_remove_old(tsr_ctx *ctx, tsr_coordinator *c);
void tsr_coordinator_close(tsr_ctx *ctx, tsr_coordinator *c); /* accepts NULL */

const char *tsr_phase_name(tsr_phase phase); /* "preparing" */

#endif
