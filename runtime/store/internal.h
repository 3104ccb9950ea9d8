/* SPDX-License-Identifier: Apache-2.0
 *
 * The open store, shared by the files of this folder (and by its tests): a rank, its coordinator
 * (on all ranks but the first: the connection to it), and two queues between them.
 */
#ifndef TSR_RUNTIME_STORE_INTERNAL_H
#define TSR_RUNTIME_STORE_INTERNAL_H

#include "runtime/base/trace/trace.h"
#include "runtime/commit/coordinator.h"
#include "runtime/commit/rank.h"
#include "runtime/store/read.h"
#include "runtime/store/reshard.h"
#include "runtime/transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TSR_LETTER_TEXT_MAX = 256 };

/* A queue of messages within this process. */
typedef struct tsr_mailbox {
    uint8_t *bytes; /* owned; each message follows its size */
    size_t capacity, used;
} tsr_mailbox;

/* The state of the store, as the coordinator knows it. */
typedef struct tsr_store_outcome {
    uint64_t committed_count;
    tsr_generation committed; /* the last committed one */
    tsr_best best;            /* as tsr_save_status */
    bool fenced, outcome_unknown;
    tsr_code code; /* code of the first failure in this conversation; TSR_OK: no failure */
    char text[TSR_LETTER_TEXT_MAX];
} tsr_store_outcome;

/* Header of the messages from rank to rank. */
typedef struct tsr_letter {
    uint64_t size_bytes; /* size of the messages after it */
    uint64_t epoch;
    uint64_t device, file;     /* st_dev and st_ino of the epoch's file, as rank 0 sees it */
    tsr_store_outcome outcome; /* sent by rank 0 */
    bool is_last;
} tsr_letter;

enum { TSR_COPY_TASKS_MAX = 256 };

/* A chunk that is copied to staging. */
typedef struct tsr_copy {
    uint32_t chunk, row; /* indices in the plan; the row of the chunk's tensor */
    bool is_own;         /* false: another rank's chunk, which is only checked */
} tsr_copy;

/* A value that is not finite, and its position: a tensor of the plan. */
typedef struct tsr_finding {
    uint32_t row;
    uint64_t element;
    double value;
} tsr_finding;

/* A tensor that is completely copied when `tasks` tasks are done. */
typedef struct tsr_copied {
    const void *data;
    uint64_t tasks;
} tsr_copied;

/* A list of hyper-parameters whose values can change. */
typedef struct tsr_values {
    tsr_hyperparameter list[TSR_HYPERPARAMETERS_MAX];
    char texts[TSR_HYPERPARAMETERS_MAX][TSR_HYPERPARAMETER_VALUE_MAX + 1];
} tsr_values;

struct tsr_store {
    tsr_ctx ctx;      /* used by the writer thread; by no thread between saves */
    tsr_ctx rank_ctx; /* used by the rank: its failures are reported in a message */
    tsr_arena arena;
    char *directory;
    int root, gens;               /* borrowed from the coordinator, or owned if there is no
                                     coordinator */
    tsr_coordinator *coordinator; /* NULL: the coordinator is on rank 0 */
    tsr_rank *rank;
    uint32_t rank_number, rank_count;
    tsr_transport *transport;          /* borrowed; NULL: one rank */
    uint64_t epoch_device, epoch_file; /* on rank 0: for the letters */
    tsr_letter *letters;               /* one per rank; in the arena; only with several ranks */
    tsr_mailbox *posts; /* messages to the other ranks, one mailbox per rank; only on rank 0 */
    tsr_mailbox to_rank, to_coordinator;
    tsr_recovery recovery;
    tsr_store_outcome outcome;
    void (*event)(void *user, const char *line);
    void *event_user;
    tsr_digest bundle_hash;
    tsr_identity identity; /* its names are in the arena; the values are the next two */
    tsr_values values;     /* of the run; of the save that is running */
    tsr_values saved_values;
    uint32_t keep;
    char *region, *numerics;
    bool finite; /* copied from the options, like source */
    tsr_store_source source;
    const tsr_tensor *landing; /* borrowed during opening: tensors given by the caller */
    size_t landing_count;
    void **landed;      /* addresses of the recovered tensors, verified; NULL: only on disk */
    tsr_reader *reader; /* owned; used by the thread that opens, then by the one that saves */

    /* Set by reserve; with several ranks, recovery sets the first few. These fields do not change
     * afterwards. */
    uint64_t segment_bytes_max;
    tsr_manifest plan;
    void **tensor_data;          /* the caller's tensor data, in the order of the plan; NULL: no
                             plan yet */
    const uint32_t *given_parts; /* borrowed, in the order of the caller's tensors */
    uint32_t *parts;             /* parts of each tensor of the plan; NULL: every rank has all */
    tsr_moves to_chunks;         /* if tensors have parts: moves from tensors to chunks in a save */
    const uint8_t **sources;     /* source of each chunk of the plan; borrowed */
    tsr_copy *copies;            /* chunks in the order in which they are copied */
    uint32_t copy_count;
    uint32_t chunks_per_copy; /* chunks of a task */
    tsr_copied *copied;       /* ordered by address */
    size_t copied_count;
    uint8_t *staging;         /* owned; the segments, each aligned to TSR_DIRECT_ALIGN */
    size_t staging_bytes;     /* capacity of staging */
    uint64_t retained_bytes;  /* memory for saves: staging and the reader's buffers */
    uint64_t *segment_starts; /* offsets in staging */
    tsr_position staged;
    double save_start;
    void (*on_committed)(void *store); /* called by the writer thread, before the generation is read
                                          back */
    tsr_part hashing;                  /* chunks of the plan that the thread pool hashes */
    /* Times for the trace: begin and end of hashing, completion of this rank's part. */
    uint64_t hash_began_ns, prepared_ns;
    atomic_uint_least64_t hash_ended_ns;

    pthread_t thread;
    bool thread_started;
    pthread_mutex_t mutex; /* guards the following fields */
    pthread_cond_t changed;
    bool busy, quit;
    bool copying; /* busy, and the tensors are still being read */
    bool task_done[TSR_COPY_TASKS_MAX];
    uint64_t tasks_done; /* number of tasks done without a gap */
    uint32_t nonfinite_row;
    tsr_result copy_result; /* result of the latest copy, and its error */
    tsr_error copy_error;
    tsr_save_status status;
    uint64_t failures_logged;
    char failure_text[TSR_ERROR_TEXT_MAX];
    bool lost; /* a rank is lost; used by the thread that converses */
    char lost_text[TSR_ERROR_TEXT_MAX];
};

/* Delivers messages until no message is pending. Returns the first failure of the coordinator;
 * between ranks also TSR_RANK. */
TSR_RESULT tsr_store_deliver(tsr_ctx *ctx, tsr_store *store);
/* Process the waiting messages: to the rank, and to the coordinator, whose first failure goes to
 * *first. */
void tsr_store_obey(tsr_ctx *ctx, tsr_store *store);
void tsr_store_hear(tsr_ctx *ctx, tsr_store *store, tsr_result *first);
void tsr_store_note_failure(tsr_store *store, const tsr_ctx *ctx, tsr_result result);

/* ranks.c, only with several ranks. */
bool tsr_store_is_first(const tsr_store *store);
/* Sets the region and the step that errors of the store's exchanges name; also with one rank, which
 * has none. The store must not be saving. */
void tsr_store_name_work(const tsr_store *store, const char *region, uint64_t step);
TSR_RESULT tsr_store_converse(tsr_ctx *ctx, tsr_store *store); /* like tsr_store_deliver */
TSR_RESULT tsr_store_share_recovery(tsr_ctx *ctx, tsr_store *store);
/* Sends the plan's chunks that each rank has read to the ranks that need them. */
TSR_RESULT tsr_store_hand_on(tsr_ctx *ctx, tsr_store *store);
/* Gathers the chunks of this rank's part into staging, if ranks have tensors in parts. */
TSR_RESULT tsr_store_gather(tsr_ctx *ctx, tsr_store *store);
/* Reserves memory for all ranks' answers to one request about `chunk_count` chunks. */
TSR_RESULT tsr_store_reserve_answers(tsr_ctx *ctx, tsr_store *store, uint32_t chunk_count);
/* Sends each rank's findings in its part to all ranks. */
TSR_RESULT tsr_store_share_nonfinite(tsr_ctx *ctx, tsr_store *store);
void tsr_store_note_nonfinite(tsr_store *store, const tsr_finding *found);
/* Returns the data callbacks of the rank: staging and the reader. */
tsr_rank_data tsr_store_data(tsr_store *store);
/* Reserves staging memory; its previous contents are lost. */
TSR_RESULT tsr_store_reserve_staging(tsr_ctx *ctx, tsr_store *store, uint64_t size_bytes);
/* The next save records the current values of hyper-parameters; no save is running. */
void tsr_store_stage_hyperparameters(tsr_store *store);
/* Plans the layout of the tensors once; later calls must give the same tensors. */
TSR_RESULT tsr_store_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count);
uint8_t *tsr_store_staged(const tsr_store *store, const tsr_chunk_row *chunk);
/* Plans the copy to staging, in this order of tensors. */
TSR_RESULT tsr_copy_plan(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                         size_t tensor_count);
void tsr_copy_begin(tsr_store *store); /* called with the mutex locked */
/* Run by the thread pool and the caller. If tensors have parts, it only checks the gathered bytes,
 * for a verdict of only this rank; otherwise status.nonfinite is known afterwards. */
void tsr_copy_run(tsr_store *store);
/* Finds the caller's memory, in the order of the manifest; TSR_MISMATCH with both values. */
TSR_RESULT tsr_find_destinations(tsr_ctx *ctx, const tsr_manifest *manifest,
                                 const tsr_tensor *tensors, size_t tensor_count,
                                 void **destinations);
tsr_part tsr_store_own_part(const tsr_store *store, const tsr_manifest *manifest);
uint64_t tsr_row_bytes(const tsr_tensor_row *row);

#endif
