/* SPDX-License-Identifier: Apache-2.0
 *
 * Extents: the sizes with which kernels are built. An extent is a number, or an open dim of
 * compiler/ir/dims.h, which as an int64_t is below TSR_EXTENT_OPEN. Spaces, views and the builders
 * of index arithmetic take extents: a product of extents is an extent, and where a value is needed,
 * the builder computes it from the sizes that the kernel read.
 */
#ifndef TSR_COMPILER_TILE_OPEN_EXTENT_H
#define TSR_COMPILER_TILE_OPEN_EXTENT_H

#include "compiler/tile/build.h"

#define TSR_EXTENT_OPEN (INT64_MIN / 2)

enum { TSR_OPEN_SYMBOLS_MAX = 4 };

/* The open dims of a kernel. */
typedef struct tsr_open_sizes {
    uint32_t count;
    const char *symbols[TSR_OPEN_SYMBOLS_MAX];
    int64_t high[TSR_OPEN_SYMBOLS_MAX];     /* the largest sizes */
    MlirValue values[TSR_OPEN_SYMBOLS_MAX]; /* the sizes in a call, of type index */
} tsr_open_sizes;

static inline bool tsr_extent_is_open(int64_t extent) { return extent < TSR_EXTENT_OPEN; }
int64_t tsr_extent_times(int64_t a, int64_t b);
int64_t tsr_extent_plus(int64_t a, int64_t b);
/* Its value: a constant for a number. */
MlirValue tsr_extent_value(tsr_tile_builder *b, int64_t extent);
/* Its largest value. */
int64_t tsr_extent_high(const tsr_tile_builder *b, int64_t extent);

#endif
