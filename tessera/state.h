/* SPDX-License-Identifier: Apache-2.0
 *
 * States: positions of runs, the generations of a state directory (docs/state-store.md), what
 * became of saves, and functions on state directories.
 */
#ifndef TSR_TESSERA_STATE_H
#define TSR_TESSERA_STATE_H

#include "tessera/digest.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TSR_METRIC_MAX = 64 };

/* The best generation by a metric, and how the evaluations since went. Everything is zero if the
 * run keeps no best generation. */
typedef struct tsr_best {
    /* "min:evaluate.loss": the least value of output 'loss' of entry 'evaluate' is the best; or
     * "max:…". */
    char metric[TSR_METRIC_MAX];
    uint64_t evaluated_step; /* the last evaluation that counted; 0: none yet */
    uint64_t without_gain;   /* evaluations since the best one */
    /* The best generation; 0: none yet, and then the following fields are zero. */
    uint64_t generation, epoch;
    tsr_digest manifest_hash; /* zero in the token of the best generation itself */
    uint64_t step;
    double value; /* of the metric; finite */
} tsr_best;

/* The seven integers that resume a run, the digest of its training data, and the best generation.
 */
typedef struct tsr_position {
    uint64_t seed;   /* 32 bits used */
    uint64_t step;   /* steps done */
    uint64_t sample; /* global index of the next sample */
    uint64_t virtual_ranks;
    uint64_t shuffle_version;
    /* Epoch `epoch_base` of the data begins at the global index `epoch_base_sample`: both are 0
     * until a run continues with other data. */
    uint64_t epoch_base, epoch_base_sample;
    uint64_t rows;   /* number of rows of the data; 0: not known */
    tsr_digest data; /* digest of the data's bytes (docs/state-store.md); zero: not known */
    tsr_best best;
} tsr_position;

typedef struct tsr_generation {
    uint64_t number, epoch;
    tsr_position position;
    tsr_digest bundle_hash, state_hash, manifest_hash;
    tsr_digest program; /* program digest; zero: not known, as in states of older versions */
} tsr_generation;

typedef enum tsr_resume_mode {
    TSR_RESUME_AUTO,  /* highest generation that verifies; empty store: start fresh */
    TSR_RESUME_NEVER, /* start fresh; a non-empty store is TSR_STATE */
    TSR_RESUME_EXACT, /* this generation if it verifies, even if the newest records do not lead to
                         it; otherwise TSR_STATE, with a list of the existing generations */
} tsr_resume_mode;

typedef struct tsr_recovery {
    bool found;                /* false: the store is empty, start fresh */
    tsr_generation generation; /* the generation that is resumed, when found */
    uint32_t damaged_count; /* committed records that did not verify; each was logged as an error */
    uint32_t uncommitted_count; /* unfinished saves that were set aside: normal after a crash */
} tsr_recovery;

/* The first tensor of a state, by name, that is not finite, and the element in it. */
typedef struct tsr_nonfinite {
    bool found;
    const char *tensor; /* borrowed from the state store */
    uint64_t element, step;
    double value; /* a NaN has no sign */
} tsr_nonfinite;

typedef struct tsr_save_status {
    uint64_t committed_count, failed_count;
    uint32_t failed_in_a_row;
    tsr_generation last_committed; /* valid if committed_count > 0 */
    tsr_best best; /* as in the last generation that was read back, or in the recovered one */
    bool outcome_unknown;    /* directory sync failed after publishing: no further commit, exit */
    bool fenced;             /* another run took the store over: no further commit, exit */
    const char *lost;        /* description of a lost rank: no further commit, exit; else NULL */
    tsr_nonfinite nonfinite; /* why the last state was not saved; valid after it is copied */
    double stall_seconds,
        persist_seconds; /* last save: time that callers waited; time that the thread took */
} tsr_save_status;

/* Which tensors of the state of another bundle are taken (tsr_model_adopt). */
typedef struct tsr_rename {
    const char *from, *to; /* borrowed; a name, or a prefix of names that ends before a dot */
} tsr_rename;
typedef struct tsr_adopt_options {
    const char *directory; /* read without its lock */
    const tsr_rename *renames;
    size_t rename_count;
} tsr_adopt_options;

/* Reads everything, changes nothing. One line per finding goes to `report`. TSR_STATE if no
 * generation is good or a committed one is damaged. */
typedef void (*tsr_fsck_report_fn)(void *user, const char *line);
TSR_API TSR_RESULT tsr_store_fsck(tsr_ctx *ctx, const char *directory, tsr_fsck_report_fn report,
                                  void *user);
/* A line for each generation that can be resumed, newest first: "generation N epoch N step N seed N
 * bytes N state HEX program HEX good" (without "program" where it is not known), or "generation N
 * epoch N damaged: …"; then those that are good but cannot be reached from the newest records ("…,
 * ignored unless …"); then a line with the counts. Reads manifests and the sizes of segments; with
 * `verify`, all data. Changes nothing. TSR_STATE if a committed generation is damaged. */
TSR_API TSR_RESULT tsr_store_list(tsr_ctx *ctx, const char *directory, bool verify,
                                  tsr_fsck_report_fn report, void *user);
/* The same as JSON, one object per line (schemas/token.schema.json): each generation's resilience
 * token, or the damage to it; then the counts. Other messages of tsr_store_list are logged. */
TSR_API TSR_RESULT tsr_store_list_json(tsr_ctx *ctx, const char *directory, bool verify,
                                       tsr_fsck_report_fn report, void *user);
/* Finds the best generation, which the newest good one names. Reads manifests and the sizes of
 * segments, changes nothing. TSR_STATE if there is none, or if it is missing or damaged. */
TSR_API TSR_RESULT tsr_store_find_best(tsr_ctx *ctx, const char *directory, tsr_best *out_best);
/* Exports the tensors of a generation (without TSR_RESUME_NEVER) to a safetensors file. The file is
 * written completely or not at all. Metadata: generation, epoch, the seven integers, bundle, state
 * and manifest hash. Reads the state of any bundle, without its lock; TSR_STATE if nothing was
 * committed yet. */
TSR_API TSR_RESULT tsr_store_export(tsr_ctx *ctx, const char *directory, tsr_resume_mode mode,
                                    uint64_t generation, const char *path,
                                    tsr_recovery *out_recovery);
/* Opens the store like a run (lock, epoch, BASE), with any bundle, and removes all but the `keep`
 * newest generations (2 … 10000) after it has verified that many. Reports one line for each removed
 * generation, then the counts. TSR_STATE if it finds a damaged generation; then nothing is removed.
 * TSR_LOCKED while another process holds the store. */
TSR_API TSR_RESULT tsr_store_prune(tsr_ctx *ctx, const char *directory, uint32_t keep,
                                   bool allow_network_fs, tsr_fsck_report_fn report, void *user);

#ifdef __cplusplus
}
#endif

#endif
