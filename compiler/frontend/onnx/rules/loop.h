/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans with a body that a rule emits.
 *
 *     tsr_onnx_loop loop;
 *     if (!tsr_onnx_loop_begin(c, 2, carried, 1, sequences, &loop)) return false;
 *     … loop.arguments: the carried values, then a slice of each sequence …
 *     tsr_onnx_loop_end(c, &loop, reverse, 2, next, 1, slices, results);
 */
#ifndef TSR_COMPILER_ONNX_LOOP_H
#define TSR_COMPILER_ONNX_LOOP_H

#include "compiler/frontend/onnx/rules.h"

enum { TSR_ONNX_LOOP_VALUES_MAX = 64 };

typedef struct tsr_onnx_loop {
    size_t carried_count, sequence_count;
    uint64_t length;
    MlirValue operands[TSR_ONNX_LOOP_VALUES_MAX]; /* carried, then sequences */
    MlirValue arguments[TSR_ONNX_LOOP_VALUES_MAX];
    MlirRegion region;
    tsr_builder outside;
} tsr_onnx_loop;

/* Sequences run along dim 0. Without sequences, `length` says how often. From here on ops go into
 * the body. False after a failure. */
bool tsr_onnx_loop_begin(tsr_onnx_call *c, size_t carried_count, const MlirValue *carried,
                         size_t sequence_count, const MlirValue *sequences, uint64_t length,
                         tsr_onnx_loop *out_loop);
/* Closes the body with the next carried values and a slice of each result. From here on ops go
 * where they went before. The results: the last carried values, then the stacked slices. */
bool tsr_onnx_loop_end(tsr_onnx_call *c, tsr_onnx_loop *loop, bool reverse, const MlirValue *next,
                       size_t slice_count, const MlirValue *slices, MlirValue *out_results);

#endif
