/* SPDX-License-Identifier: Apache-2.0
 *
 * The open store, shared by the files of this folder (and by its tests): a rank, its coordinator
 * or, on all but the first of several ranks, the way to it, and two queues between them.
 */
#ifndef TSR_RUNTIME_STORE_INTERNAL_H
#define TSR_RUNTIME_STORE_INTERNAL_H

#include "runtime/base/trace.h"
#include "runtime/commit/coordinator.h"
#include "runtime/commit/rank.h"
#include "runtime/store/read.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TSR_LETTER_TEXT_MAX = 256 };

/* Messages on their way within this process. */
typedef struct tsr_mailbox {
    uint8_t *bytes; /* owned; each message after its size */
    size_t room, used;
} tsr_mailbox;

/* What became of the store, as the coordinator knows it. */
typedef struct tsr_store_outcome {
    uint64_t committed_count;
    tsr_generation committed; /* the last one */
    bool fenced, outcome_unknown;
    tsr_code code; /* of the first failure of this conversation; TSR_OK: none */
    char text[TSR_LETTER_TEXT_MAX];
} tsr_store_outcome;

/* What goes before messages from rank to rank. */
typedef struct tsr_letter {
    uint64_t size_bytes; /* of the messages behind it */
    uint64_t epoch;
    tsr_store_outcome outcome; /* from rank 0 */
    bool is_last;
} tsr_letter;

enum { TSR_COPY_TASKS_MAX = 256 };

/* A chunk on its way to staging. */
typedef struct tsr_copy {
    uint32_t chunk, row; /* of the plan; the row is its tensor's */
    bool is_own;         /* another rank's is only looked at */
} tsr_copy;

/* What is not finite, and where: a tensor of the plan. */
typedef struct tsr_finding {
    uint32_t row;
    uint64_t element;
    double value;
} tsr_finding;

/* A tensor that is copied when so many tasks are done. */
typedef struct tsr_copied {
    const void *data;
    uint64_t tasks;
} tsr_copied;

struct tsr_store {
    tsr_ctx ctx;      /* of the writer thread; between saves nobody's */
    tsr_ctx rank_ctx; /* of the rank: what fails there is told by a message */
    tsr_arena arena;
    char *directory;
    int root, gens;               /* borrowed from the coordinator, or owned where there is none */
    tsr_coordinator *coordinator; /* NULL: that of rank 0 */
    tsr_rank *rank;
    uint32_t rank_number, rank_count;
    tsr_transport *transport; /* borrowed; NULL: one rank */
    tsr_letter *letters;      /* by rank; in the arena, where there are several */
    tsr_mailbox *posts;       /* of rank 0, by rank: what goes to the others */
    tsr_mailbox to_rank, to_coordinator;
    tsr_recovery recovery;
    tsr_store_outcome outcome;
    void (*event)(void *user, const char *line);
    void *event_user;
    tsr_digest bundle_hash;
    uint32_t keep;
    char *region, *numerics;
    bool finite; /* as opened, and source */
    tsr_store_source source;
    const tsr_tensor *landing; /* borrowed while it is opened: tensors named by the caller */
    size_t landing_count;
    void **landed; /* where the tensors of what was recovered lie, verified; NULL: only on disk */
    tsr_reader *reader; /* owned; of the thread that opens, then of the one that saves */

    /* Set by reserve, the first few by a recovery of several ranks; never moved afterwards. */
    uint64_t segment_bytes_max;
    tsr_manifest plan;
    void **held;                 /* by tensor of the plan: the caller's; NULL: no plan yet */
    const uint32_t *given_parts; /* borrowed, by tensor as given */
    uint32_t *parts;             /* by tensor of the plan; NULL: every rank has all */
    tsr_moves to_chunks;         /* where there are parts: what a save takes */
    const uint8_t **sources;     /* of each chunk of the plan; borrowed */
    tsr_copy *copies;            /* of chunks, in the order in which they are copied */
    uint32_t copy_count;
    uint32_t chunks_per_copy; /* of a task */
    tsr_copied *copied;       /* by address */
    size_t copied_count;
    uint8_t *staging;         /* owned; the segments, each from a multiple of TSR_DIRECT_ALIGN */
    size_t staging_bytes;     /* its room */
    uint64_t kept_bytes;      /* that saves use: of staging, and what the reader keeps */
    uint64_t *segment_starts; /* in staging */
    tsr_position staged;
    double save_start;
    void (*on_committed)(void *store); /* of the writer thread: before the reading back */
    tsr_part hashing;                  /* chunks of the plan that the crew is at */
    /* For the trace: when hashing began and ended, when this rank's part was whole. */
    uint64_t hash_began_ns, prepared_ns;
    atomic_uint_least64_t hash_ended_ns;

    pthread_t thread;
    bool thread_started;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool busy, quit;
    bool copying; /* busy, and the tensors are still read */
    bool task_done[TSR_COPY_TASKS_MAX];
    uint64_t tasks_done; /* without a gap */
    uint32_t nonfinite_row;
    tsr_result copy_result; /* of the copy that was made last, and its error */
    tsr_error copy_error;
    tsr_save_status status;
    uint64_t failures_logged;
    char failure_text[TSR_ERROR_TEXT_MAX];
    bool lost; /* a rank is; of the thread that converses */
    char lost_text[TSR_ERROR_TEXT_MAX];
};

/* Delivers messages until none is on its way. The first failure of the coordinator is returned;
 * between ranks also TSR_RANK. */
TSR_RESULT tsr_store_deliver(tsr_ctx *ctx, tsr_store *store);
/* Messages that are here: to the rank, and to the coordinator, whose first failure goes to
 * *first. */
void tsr_store_obey(tsr_ctx *ctx, tsr_store *store);
void tsr_store_hear(tsr_ctx *ctx, tsr_store *store, tsr_result *first);
void tsr_store_note_failure(tsr_store *store, const tsr_ctx *ctx, tsr_result result);

/* ranks.c, where there are several. */
bool tsr_store_is_first(const tsr_store *store);
TSR_RESULT tsr_store_converse(tsr_ctx *ctx, tsr_store *store); /* as tsr_store_deliver */
TSR_RESULT tsr_store_share_recovery(tsr_ctx *ctx, tsr_store *store);
/* What each rank has landed of the plan's chunks goes to those that need it. */
TSR_RESULT tsr_store_hand_on(tsr_ctx *ctx, tsr_store *store);
/* The chunks of this rank's part to staging, where ranks have tensors in parts. */
TSR_RESULT tsr_store_gather(tsr_ctx *ctx, tsr_store *store);
/* Room for what all ranks answer to one request about so many chunks. */
TSR_RESULT tsr_store_reserve_answers(tsr_ctx *ctx, tsr_store *store, uint32_t chunk_count);
/* What each has found in its part, to all. */
TSR_RESULT tsr_store_share_nonfinite(tsr_ctx *ctx, tsr_store *store);
void tsr_store_note_nonfinite(tsr_store *store, const tsr_finding *found);
/* The rank's bytes: staging and the reader. */
tsr_rank_data tsr_store_data(tsr_store *store);
/* Room in staging; what was there is lost. */
TSR_RESULT tsr_store_reserve_staging(tsr_ctx *ctx, tsr_store *store, uint64_t size_bytes);
/* Lays the tensors out, once; later calls name the same. */
TSR_RESULT tsr_store_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count);
uint8_t *tsr_store_staged(const tsr_store *store, const tsr_chunk_row *chunk);
/* The copy to staging, of tensors in this order. */
TSR_RESULT tsr_copy_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                         size_t tensor_count);
void tsr_copy_begin(tsr_store *store); /* with the mutex held */
/* Crew and caller. Where tensors have parts it only looks at what was gathered, for a verdict of
 * this rank alone; else status.nonfinite is known then. */
void tsr_copy_run(tsr_store *store);
/* The caller's memory in the order of the manifest; TSR_MISMATCH with both values. */
TSR_RESULT tsr_find_destinations(tsr_ctx *ctx, const tsr_manifest *manifest,
                                 const tsr_tensor *tensors, size_t tensor_count,
                                 void **destinations);
tsr_part tsr_store_own_part(const tsr_store *store, const tsr_manifest *manifest);
uint64_t tsr_row_bytes(const tsr_tensor_row *row);

#endif
