/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the files of `tessera-aot diff`: two open bundles, and the list of
 * differences, which is printed while it is found.
 */
#ifndef TSR_TOOLS_AOT_DIFF_DIFF_H
#define TSR_TOOLS_AOT_DIFF_DIFF_H

#include "bundle/bundle.h"
#include "manifests/program.h"
#include "runtime/base/buffer.h"

typedef struct diff_side {
    const char *path;
    tsr_bundle *bundle; /* owned */
    tsr_config config;
} diff_side;

typedef struct diff {
    tsr_ctx *ctx;
    tsr_arena arena;
    diff_side sides[2];
    bool json;
    tsr_buffer out;
    size_t count;
} diff;

typedef enum diff_change { DIFF_CHANGED, DIFF_REMOVED, DIFF_ADDED } diff_change;

/* Numbers about a tensor whose elements differ. */
typedef struct diff_elements {
    uint64_t count, differing, first; /* elements; index of the first that differs, row-major */
    double first_a, first_b, max_abs; /* NaN differs from everything but its own bits */
    uint64_t max_ulp;                 /* floats: steps between neighbours; 0 for others */
    bool has_nan;                     /* left out of the two maxima */
} diff_elements;

/* Reports one difference. `target` or `elements` may be NULL; `text` describes it for readers. */
void diff_note(diff *d, const char *section, const char *target, const char *name,
               diff_change change, const diff_elements *elements, const char *text, ...)
    __attribute__((format(printf, 7, 8)));

/* Compares the config's fields, tensors and entries. */
void diff_config(diff *d);
/* Compares program and kernels of a target that both bundles have. */
TSR_RESULT diff_kernels(diff *d, size_t target_a, size_t target_b);
/* Compares the stored tensors of two safetensors layers. */
TSR_RESULT diff_tensors(diff *d, const tsr_bundle_layer *a, const tsr_bundle_layer *b);

#endif
