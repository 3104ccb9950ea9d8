/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor in memory of the caller with any strides, also 0 and negative ones: its elements are
 * gathered into dense memory, or scattered from it. Private to the loader.
 */
#ifndef TSR_LOADER_CALLS_STRIDED_H
#define TSR_LOADER_CALLS_STRIDED_H

#include "runtime/base/result.h"
#include "tessera/trainer.h"

struct tsr_dlpack_managed;

typedef struct tsr_strided {
    const char *name; /* NULL: by its number, if `by_index` */
    bool by_index;
    tsr_dtype dtype;
    tsr_shape shape;
    int64_t strides[TSR_RANK_MAX]; /* bytes */
    char *data;                    /* of element [0, …, 0]; borrowed */
    tsr_location location;
    bool is_dense; /* row-major without gaps */
    /* For an output that the call allocates: where the tensor goes. Else NULL. */
    struct tsr_dlpack_managed **allocated;
} tsr_strided;

/* Dense memory. */
void tsr_strided_init(tsr_strided *self, const char *name, tsr_dtype dtype, const tsr_shape *shape,
                      void *data);
/* Takes strides in elements, NULL for dense ones, and sets is_dense. Strides of dims of size 1 are
 * ignored. Returns false if an offset exceeds 63 bits. */
bool tsr_strided_set(tsr_strided *self, const int64_t *strides);

/* Bytes from `data` to the lowest byte of an element, and to the end of the highest. Both 0 if
 * there are no elements. */
void tsr_strided_range(const tsr_strided *self, int64_t *out_low, int64_t *out_high);
/* True if two elements may share bytes: false only if that is certain. */
bool tsr_strided_folds(const tsr_strided *self);
/* True if bytes of the ranges of two tensors are the same. */
bool tsr_strided_meets(const tsr_strided *a, const tsr_strided *b);

/* Why a call copies the tensor; NULL: its memory can be lent to the call. Indices stay what they
 * were when they were checked only in a copy. */
const char *tsr_strided_why_copied(const tsr_strided *self, bool is_written);

/* Copy `count` rows of dim 0 from row `first` on; all of a scalar. Only memory of the host. */
void tsr_strided_gather(const tsr_strided *from, uint64_t first, uint64_t count, void *to);
void tsr_strided_scatter(const tsr_strided *to, uint64_t first, uint64_t count, const void *from);

/* TSR_DATA if one of the elements of a boolean input, which begin at element `first` of it, is
 * neither 0 nor 1. */
TSR_RESULT tsr_truths_check(tsr_ctx *ctx, const char *input, const void *elements, uint64_t first,
                            uint64_t count);

#endif
