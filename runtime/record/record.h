/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a training run or of calls, and its replay. A log is text: one JSON object per
 * line. The first line describes the run (bundle, numerics, seed, data, begin); each further line
 * has the number of a step and, for every tracked tensor, its digest and its sums (locate.h): the
 * batch, results of collectives, the state, outputs. Line 2 has the values before the first step.
 * The log is the same for any number of ranks. `chain` is the SHA-256 of the chain of the line
 * before (of line 1: the SHA-256 of its text), the step (64 bits, little-endian) and the digests:
 * equal last chains are equal runs.
 *
 *     {"format":"tessera.record.v5","bundle":"<hex>","numerics":"portable+fma.2","entry":"train",
 *      "virtual_ranks":1,"program":"<hex>","hyperparameters":{"lr":"0.001",…},"seed":0,"step":0,"generation":0,"epoch":0,"rows":1438,"epoch_base":0,"epoch_base_sample":0,
 *      "data":{"images":"<hex>",…},
 *      "tensors":["layer1.bias",…,"output loss"]}            (one line)
 *     {"step":1,"digests":["<hex>",…],"sums":["<hex>",…],"chain":"<hex>"}
 *
 * Values of hyper-parameters that the run set, instead of the program, are named in a further
 * member of the first line, `"set":["lr"]`; a replay sets them, too.
 *
 * A log may contain the values of one step, whose number is `values_of` in the first line: the line
 * of that step then also has `"values":["<hex>",…]`, the bytes of every tensor. The values show the
 * first differing element of that step if the sums cannot.
 *
 * A log may contain only every N-th step, counted from the first one: `"every":N` in the first
 * line.
 *
 * Older versions can be read. Version 4, which is still written for a bundle without a program
 * digest, has neither program, hyper-parameters nor virtual ranks. Versions 2 and 3 (with values)
 * have no `rows` and epoch; version 1 has neither sums nor chain, and tracks only state and
 * outputs.
 *
 * A log of calls has a line for each call: its tensors are "input NAME" and "output NAME", its data
 * are "input NAME" for each array that was read, and "parameters", the SHA-256 of the digests of
 * all parameters in the order of their names.
 *
 * A last line without its newline is an unfinished write (the run was killed) and is ignored, with
 * a warning.
 */
#ifndef TSR_RUNTIME_RECORD_H
#define TSR_RUNTIME_RECORD_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/identity.h"
#include "runtime/base/tensor.h"

typedef struct tsr_record_data {
    const char *name;
    tsr_digest digest; /* tsr_hash_tree of the array's bytes */
} tsr_record_data;

typedef struct tsr_record_header {
    tsr_digest bundle_hash;
    tsr_identity identity;  /* of the program; not known before version 5 */
    uint64_t virtual_ranks; /* 0 if the identity is not known */
    const char *numerics, *entry;
    uint64_t seed;       /* 32 bits used */
    uint64_t step;       /* steps done before the first recorded one */
    uint64_t generation; /* the generation from which the run began; 0 with step 0: fresh */
    uint64_t epoch;
    /* Number of rows of the data, and the epoch that begins at a given sample (tsr_position); rows
     * 0: unknown, in a log before version 4. */
    uint64_t rows, epoch_base, epoch_base_sample;
    uint64_t every;  /* the log has each step whose distance from `step` is a multiple; 0: 1 */
    bool has_values; /* the log has the values of step `values_of`, which is not before `step` */
    uint64_t values_of;
    size_t data_count;
    const tsr_record_data *data;
} tsr_record_header;

typedef struct tsr_recorder tsr_recorder;

/* Creates `path` (TSR_USAGE if it exists: a log is never overwritten) and writes the header and the
 * first line; TSR_USAGE also for values of a step that the log does not get; on failure no file
 * remains. `tensors` and their data are borrowed until close. */
TSR_RESULT tsr_recorder_create(tsr_ctx *ctx, const char *path, const tsr_record_header *header,
                               const tsr_tensor *tensors, size_t tensor_count,
                               tsr_recorder **out_recorder);
/* Appends the line of `step` with the digests of the tensors' current values. Allocates nothing. */
TSR_RESULT tsr_recorder_append(tsr_ctx *ctx, tsr_recorder *recorder, uint64_t step);
/* Syncs and closes. Accepts NULL. */
TSR_RESULT tsr_recorder_close(tsr_ctx *ctx, tsr_recorder *recorder);

typedef struct tsr_replay tsr_replay;

/* Reads and checks a log. TSR_DATA when malformed (names the line), TSR_VERSION for another format.
 */
TSR_RESULT tsr_replay_open(tsr_ctx *ctx, const char *path, tsr_replay **out_replay);
void tsr_replay_close(tsr_replay *replay); /* accepts NULL */
const tsr_record_header *tsr_replay_get_header(const tsr_replay *replay);
uint64_t tsr_replay_get_last_step(const tsr_replay *replay); /* last recorded step */
/* True if the log has this step, or would have it if the run had come so far. */
bool tsr_replay_takes(const tsr_replay *replay, uint64_t step);
/* Sets the locations where the tensors are computed (location.h), for messages, in the order of the
 * checked tensors. Borrowed until close. */
void tsr_replay_set_locations(tsr_replay *replay, const char *const *locations);
/* Compares the tensors' values after `step` with the record. TSR_DIVERGED names the step, the first
 * tensor that differs, and the element with both values, or, if several elements in an eighth of
 * the tensor differ, that eighth and both digests; TSR_MISMATCH when the log tracks other tensors;
 * Fails with TSR_DATA if the log does not have this step. */
TSR_RESULT tsr_replay_check(tsr_ctx *ctx, tsr_replay *replay, uint64_t step,
                            const tsr_tensor *tensors, size_t tensor_count);

#endif
