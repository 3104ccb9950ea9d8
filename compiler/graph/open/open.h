/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with dims that stay open at run time is lowered for several sizes, and what differs
 * between the results is an expression of the sizes. So every pass computes with numbers, and no
 * number that follows from a size is missed: a difference that is no such expression refuses the
 * dim.
 */
#ifndef TSR_COMPILER_GRAPH_OPEN_H
#define TSR_COMPILER_GRAPH_OPEN_H

#include "compiler/graph/graph.h"

enum {
    TSR_SAMPLES = 4,           /* sizes of each symbol for which a program is lowered */
    TSR_SAMPLE_SYMBOLS_MAX = 4 /* dims that stay open */
};

/* The symbols of a program, and their sizes in each sample. Names are borrowed. */
typedef struct tsr_samples {
    MlirContext context;
    size_t symbol_count;
    const char *symbols[TSR_SAMPLE_SYMBOLS_MAX];
    int64_t low[TSR_SAMPLE_SYMBOLS_MAX], high[TSR_SAMPLE_SYMBOLS_MAX];
    int64_t sizes[TSR_SAMPLES][TSR_SAMPLE_SYMBOLS_MAX];
} tsr_samples;

/* Chooses the sizes. */
void tsr_samples_init(tsr_samples *samples);
/* The expression that has these values in the samples: a number, or a * m + b * n + c of products m
 * and n of up to three symbols. False if there is none. */
bool tsr_samples_fit(const tsr_samples *samples, const int64_t values[TSR_SAMPLES],
                     uint64_t *out_dim);
/* The value of an expression for the largest sizes. */
bool tsr_samples_high(const tsr_samples *samples, uint64_t dim, int64_t *out_value);

/* Compares a function of the samples. Functions that differ: funcs[0] gets the largest sizes, and
 * its ops the attributes TSR_OPEN_TYPES_NAME and others; *out_differs is set. False after an
 * error. */
bool tsr_samples_compare(const tsr_samples *samples, const MlirOperation funcs[TSR_SAMPLES],
                         bool *out_differs);

/* tsr_graph_lower for a module with a range of sizes. */
TSR_RESULT tsr_graph_lower_open(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list,
                                const tsr_pass_options *options);
/* True if the module gives a symbol a range of sizes. */
bool tsr_graph_has_range(MlirModule module);

#endif
