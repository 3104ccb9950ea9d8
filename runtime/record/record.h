/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a training run or of calls, and its replay. A log is text: one JSON object a line.
 * The first line says what was run (bundle, numerics, seed, data, where it began); each further one
 * holds a step's number and of every tensor that is tracked its digest and its sums (locate.h): the
 * batch, results of collectives, the state, outputs. Line 2 is what there was before the first
 * step. All of it is the same for any number of ranks. `chain` is the SHA-256 of the chain of the
 * line before (of line 1: the SHA-256 of its text), the step (64 bits, little-endian) and the
 * digests: equal last chains are equal runs.
 *
 *     {"format":"tessera.record.v4","bundle":"<hex>","numerics":"portable+fma.2","entry":"train",
 *      "seed":0,"step":0,"generation":0,"epoch":0,"rows":1438,"epoch_base":0,"epoch_base_sample":0,
 *      "data":{"images":"<hex>",…},
 *      "tensors":["layer1.bias",…,"output loss"]}            (one line)
 *     {"step":1,"digests":["<hex>",…],"sums":["<hex>",…],"chain":"<hex>"}
 *
 * A log may hold the values of one step, whose number is `values_of` in the first line: the line of
 * that step then has `"values":["<hex>",…]` too, the bytes of every tensor. They name the first
 * element that differs there where the few sums cannot.
 *
 * Older versions are read. Versions 2 and 3 (with values) have no `rows` and epoch; version 1 has
 * neither sums nor chain, and tracks state and outputs alone.
 *
 * A log of calls has a line for each call: its tensors are "input NAME" and "output NAME", its data
 * "input NAME" of each array that was read, and "parameters", the SHA-256 of the digests of all
 * parameters in the order of their names.
 *
 * A last line without its newline is an unfinished write (the run was killed) and is ignored, with
 * a warning.
 */
#ifndef TSR_RUNTIME_RECORD_H
#define TSR_RUNTIME_RECORD_H

#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"

typedef struct tsr_record_data {
    const char *name;
    tsr_digest digest; /* of the array's bytes, as tsr_hash_tree */
} tsr_record_data;

typedef struct tsr_record_header {
    tsr_digest bundle_hash;
    const char *numerics, *entry;
    uint64_t seed;       /* 32 bit used */
    uint64_t step;       /* steps done before the first recorded one */
    uint64_t generation; /* the generation begun from; 0 with step 0: fresh */
    uint64_t epoch;
    /* Rows of the data, and the epoch of it that begins at a sample (tsr_position); rows 0: of a
     * log before version 4, which does not say. */
    uint64_t rows, epoch_base, epoch_base_sample;
    bool has_values; /* of step `values_of`, which is none before `step` */
    uint64_t values_of;
    size_t data_count;
    const tsr_record_data *data;
} tsr_record_header;

typedef struct tsr_recorder tsr_recorder;

/* Creates `path` (TSR_USAGE if it exists: a log is never overwritten) and writes header and first
 * line; TSR_USAGE also for values of a step before the first; on failure no file stays. `tensors`
 * and what they point to are borrowed until close. */
TSR_RESULT tsr_recorder_create(tsr_ctx *ctx, const char *path, const tsr_record_header *header,
                               const tsr_tensor *tensors, size_t tensor_count,
                               tsr_recorder **out_recorder);
/* Appends the line of `step` with the digests of what the tensors hold now. Allocates nothing. */
TSR_RESULT tsr_recorder_append(tsr_ctx *ctx, tsr_recorder *recorder, uint64_t step);
/* Syncs and closes. Accepts NULL. */
TSR_RESULT tsr_recorder_close(tsr_ctx *ctx, tsr_recorder *recorder);

typedef struct tsr_replay tsr_replay;

/* Reads and checks a log. TSR_DATA when malformed (names the line), TSR_VERSION for another format.
 */
TSR_RESULT tsr_replay_open(tsr_ctx *ctx, const char *path, tsr_replay **out_replay);
void tsr_replay_close(tsr_replay *replay); /* accepts NULL */
const tsr_record_header *tsr_replay_get_header(const tsr_replay *replay);
uint64_t tsr_replay_get_last_step(const tsr_replay *replay); /* recorded */
/* What messages say of where each tensor is computed (place.h), in the order of the tensors that
 * are checked. Borrowed until close. */
void tsr_replay_set_places(tsr_replay *replay, const char *const *places);
/* Compares what the tensors hold after `step` with the record. TSR_DIVERGED names step, first
 * tensor in which they differ, and the element with both values, or, where several of an eighth of
 * the tensor differ, that eighth and both digests; TSR_MISMATCH when the log tracks other tensors;
 * TSR_DATA when the log has no such step. */
TSR_RESULT tsr_replay_check(tsr_ctx *ctx, tsr_replay *replay, uint64_t step,
                            const tsr_tensor *tensors, size_t tensor_count);

#endif
