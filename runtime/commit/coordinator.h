/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator: one per store, for any number of ranks. The coordinator locks the directory,
 * publishes EPOCH, BASE and manifests, decides which generation all ranks resume, and removes files
 * that are no longer needed (docs/state-store.md). The coordinator is a state machine: it runs
 * inside the calls below, never waits, reads no clock and starts no thread. Files go through the
 * context's io table, messages and time through tsr_outside, so that a simulation can replace them.
 *
 *     tsr_coordinator_open(ctx, &options, &c);       ranks are asked to verify a generation
 *     while (c->phase != TSR_PHASE_IDLE)             messages from the network
 *         tsr_coordinator_receive(ctx, c, bytes, size);
 *     tsr_coordinator_plan(ctx, c, &plan);
 *     tsr_coordinator_save(ctx, c, &position);       ranks are asked to write their segments
 *     while (c->phase != TSR_PHASE_IDLE) …           committed, read back, collected
 *
 * A call that fails ends the running operation: an opening ends finally, a save ends with its
 * generation; `phase` tells whether the coordinator may continue. Calls come from one thread at a
 * time.
 */
#ifndef TSR_RUNTIME_COMMIT_COORDINATOR_H
#define TSR_RUNTIME_COMMIT_COORDINATOR_H

#include "runtime/commit/directory.h"
#include "runtime/commit/outside.h"
#include "runtime/commit/recover.h"
#include "runtime/state/best.h"
#include "runtime/state/message.h"

enum { TSR_KEEP_MAX = 10000, TSR_SCRATCH_NAMES = 1024 };

typedef enum tsr_phase {
    TSR_PHASE_RECOVERING,   /* ranks verify a candidate */
    TSR_PHASE_COUNTING,     /* ranks verify older generations, so that the rest can be removed */
    TSR_PHASE_AGREEING,     /* BASE is durable; ranks are told which generation they may load */
    TSR_PHASE_IDLE,         /* a save may begin */
    TSR_PHASE_PREPARING,    /* ranks write */
    TSR_PHASE_READING_BACK, /* committed and acknowledged; ranks read it back */
    TSR_PHASE_STOPPED,      /* opening failed, fenced, or outcome unknown: close it */
} tsr_phase;

typedef struct tsr_coordinator_options {
    size_t size_bytes;     /* sizeof(tsr_coordinator_options) */
    const char *directory; /* created if absent, with its parents */
    uint32_t rank_count;   /* 1 … TSR_RANKS_MAX */
    uint32_t keep;         /* good generations to keep, 2 … TSR_KEEP_MAX */
    bool allow_network_fs;
    tsr_choice choice;    /* borrowed until the coordinator is idle */
    uint64_t resend_ns;   /* time after which an unanswered request is sent again; 0: never */
    uint64_t deadline_ns; /* time after which an unanswered request has failed; 0: never */
    tsr_outside outside;
} tsr_coordinator_options;

typedef struct tsr_coordinator {
    /* Public: read by the caller. */
    tsr_phase phase;
    uint64_t epoch;
    tsr_recovery recovery;  /* valid from IDLE on */
    tsr_manifest recovered; /* valid while RECOVERING: the candidate; later: the resumed generation,
                                        if found */
    bool fenced;            /* another run took the store over */
    bool outcome_unknown;   /* it is not known if a record is durable */
    uint64_t committed_count;
    tsr_generation committed; /* the last one; valid if committed_count > 0 */
    /* As in the last generation that was read back, or the recovered one; the link is complete. The
     * caller verifies the recovered one, and forgets it if it is damaged or missing. */
    tsr_best best;

    /* Private. */
    tsr_coordinator_options options;
    tsr_arena arena;
    tsr_directory directory;
    tsr_events events;
    uint64_t next_generation, temp_count;
    uint64_t ready;    /* generation whose directory is durable already; 0: none */
    tsr_link previous; /* the generation before the next one */
    tsr_digest previous_token;

    tsr_store_scan scan;   /* used while opening */
    size_t candidate;      /* index of the candidate that is being verified */
    tsr_manifest examined; /* manifest that is being verified */
    tsr_retained *found; /* while COUNTING: the good generations; `wanted` is the required number */
    size_t found_count, wanted;

    tsr_retained *good; /* generations known to be good, each verified from the storage device;
                       oldest first */
    uint32_t good_count;
    bool root_suspect; /* a sync after a removal failed: removed names may come back, so this run
                          removes nothing more */
    tsr_listing root_names, gen_names, segment_names; /* scratch of fixed capacity */

    tsr_manifest *plan; /* borrowed */
    tsr_digest layout;
    uint8_t *encoded; /* owned; the manifest */

    tsr_message request;   /* the last request to the ranks */
    uint32_t asked_chunks; /* number of chunks of its manifest */
    bool *answered;        /* one per rank */
    uint32_t answered_count;
    tsr_verdict failed_verdict; /* the worst verdict; the fields below come from the first rank that
                                   gave it */
    tsr_code failed_code;
    int failed_native;
    uint32_t failed_rank;
    char failed_text[TSR_MESSAGE_TEXT_MAX + 1];
    uint64_t asked_ns, sent_ns; /* time of the first request, and of the last repetition */
} tsr_coordinator;

/* Takes LOCK (TSR_LOCKED: another process holds it), publishes EPOCH, finds the generation to
 * resume and asks the ranks to verify it; if the store is empty, asks them to agree on that. */
TSR_RESULT tsr_coordinator_open(tsr_ctx *ctx, const tsr_coordinator_options *options,
                                tsr_coordinator **out_coordinator);
/* Handles a message. Messages that are damaged, repeated, late or of another epoch are ignored. */
TSR_RESULT tsr_coordinator_receive(tsr_ctx *ctx, tsr_coordinator *c, const uint8_t *bytes,
                                   size_t size_bytes);
/* Called when time has passed: repeats requests or gives up. Calls need not be regular. */
TSR_RESULT tsr_coordinator_tick(tsr_ctx *ctx, tsr_coordinator *c);
/* Sets the plan of all saves (tsr_manifest_plan, with rank_count writers). The token of the state
 * is complete except for the numbers of a generation. Borrowed until closed; the coordinator fills
 * in the digests. Called once, when IDLE. */
TSR_RESULT tsr_coordinator_plan(tsr_ctx *ctx, tsr_coordinator *c, tsr_manifest *plan);
/* Begins a save, when IDLE. Nothing is allocated after this point. position->best.generation is
 * TSR_BEST_ITSELF, or position->best names the generation of `best` (asserted). */
TSR_RESULT tsr_coordinator_save(tsr_ctx *ctx, tsr_coordinator *c, const tsr_position *position);
/* Gives up the generation when PREPARING, as if a rank had failed with `reason`. */
TSR_RESULT tsr_coordinator_abort(tsr_ctx *ctx, tsr_coordinator *c, const char *reason);
/* Removes all but the `keep` newest good generations, if that many are known. Only when IDLE. */
TSR_RESULT tsr_coordinator_remove_old(tsr_ctx *ctx, tsr_coordinator *c);
void tsr_coordinator_close(tsr_ctx *ctx, tsr_coordinator *c); /* accepts NULL */

const char *tsr_phase_name(tsr_phase phase); /* "preparing" */

#endif
