/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/calls/strided.h"

#include "runtime/base/kernel.h"

#include <inttypes.h>
#include <string.h>

void tsr_strided_init(tsr_strided *self, const char *name, tsr_dtype dtype, const tsr_shape *shape,
                      void *data) {
    *self = (tsr_strided){
        .name = name, .dtype = dtype, .shape = *shape, .data = data, .is_dense = true};
}

static bool is_empty(const tsr_strided *self) {
    for (uint32_t d = 0; d < self->shape.rank; d++)
        if (self->shape.dims[d] == 0) return true;
    return false;
}

/* Sums up the offsets of the last elements of each dim; false if one exceeds 63 bits. */
static bool find_range(const tsr_strided *self, int64_t *out_low, int64_t *out_high) {
    int64_t low = 0, high = (int64_t)tsr_dtype_size(self->dtype);
    for (uint32_t d = 0; d < self->shape.rank; d++) {
        int64_t last = 0, *end = self->strides[d] < 0 ? &low : &high;
        if (self->shape.dims[d] > INT64_MAX ||
            __builtin_mul_overflow((int64_t)self->shape.dims[d] - 1, self->strides[d], &last) ||
            __builtin_add_overflow(*end, last, end))
            return false;
    }
    *out_low = low;
    *out_high = high;
    return true;
}

bool tsr_strided_set(tsr_strided *self, const int64_t *strides) {
    int64_t low, high, size = (int64_t)tsr_dtype_size(self->dtype), dense = size;
    self->is_dense = true;
    if (is_empty(self)) return true;
    for (uint32_t d = self->shape.rank; d-- > 0;) {
        int64_t dim = (int64_t)self->shape.dims[d];
        self->strides[d] = dense;
        if (strides && dim != 1) {
            if (__builtin_mul_overflow(strides[d], size, &self->strides[d])) return false;
            self->is_dense = self->is_dense && self->strides[d] == dense;
        }
        if (__builtin_mul_overflow(dense, dim, &dense)) return false;
    }
    return find_range(self, &low, &high);
}

void tsr_strided_range(const tsr_strided *self, int64_t *out_low, int64_t *out_high) {
    uint64_t size = 0;
    *out_low = *out_high = 0;
    if (self->is_dense) {
        if (tsr_shape_size(&self->shape, self->dtype, &size)) *out_high = (int64_t)size;
        return;
    }
    bool fits = find_range(self, out_low, out_high);
    TSR_ASSERT(fits); /* tsr_strided_set found the same */
}

/* With the strides in ascending order, each must step over everything that the smaller ones extent.
 */
bool tsr_strided_folds(const tsr_strided *self) {
    uint64_t extent = tsr_dtype_size(self->dtype);
    bool done[TSR_RANK_MAX] = {false};
    if (self->is_dense) return false;
    for (uint32_t n = 0; n < self->shape.rank; n++) {
        uint32_t least = self->shape.rank;
        uint64_t stride = UINT64_MAX;
        for (uint32_t d = 0; d < self->shape.rank; d++) {
            int64_t s = self->strides[d];
            uint64_t size = s < 0 ? -(uint64_t)s : (uint64_t)s;
            if (done[d] || size > stride) continue;
            least = d;
            stride = size;
        }
        done[least] = true;
        if (self->shape.dims[least] == 1) continue;
        if (stride < extent) return true;
        extent += (self->shape.dims[least] - 1) * stride;
    }
    return false;
}

bool tsr_strided_meets(const tsr_strided *a, const tsr_strided *b) {
    int64_t a_low, a_high, b_low, b_high;
    tsr_strided_range(a, &a_low, &a_high);
    tsr_strided_range(b, &b_low, &b_high);
    if (a_low == a_high || b_low == b_high || a->location != b->location) return false;
    uintptr_t a_at = (uintptr_t)a->data, b_at = (uintptr_t)b->data;
    return a_at + (uintptr_t)a_low < b_at + (uintptr_t)b_high &&
           b_at + (uintptr_t)b_low < a_at + (uintptr_t)a_high;
}

const char *tsr_strided_why_copied(const tsr_strided *self, bool is_written) {
    size_t align = is_written ? TSR_BUFFER_ALIGN_BYTES : tsr_dtype_size(self->dtype);
    if (self->location == TSR_LOCATION_DEVICE) return "it is in memory of a GPU";
    if (!self->is_dense) return "it is not dense";
    if (!self->allocated && !tsr_dtype_is_float(self->dtype)) return "its elements are integers";
    if ((uintptr_t)self->data % align) return "its memory is not aligned";
    return NULL;
}

/* ---- copying ---- */

/* One copy between strided and dense memory: the dims of the rows, and the innermost run. */
typedef struct pass {
    const tsr_strided *of;
    char *at; /* in the strided memory: of the first row */
    uint64_t dims[TSR_RANK_MAX];
    uint32_t outer;   /* dims that are walked; the others are one run without gaps */
    size_t run_bytes; /* of that run */
} pass;

static pass begin_pass(const tsr_strided *of, uint64_t first, uint64_t count) {
    pass self = {.of = of, .at = of->data, .outer = of->shape.rank};
    self.run_bytes = tsr_dtype_size(of->dtype);
    for (uint32_t d = 0; d < of->shape.rank; d++) self.dims[d] = of->shape.dims[d];
    if (of->shape.rank) {
        self.dims[0] = count;
        self.at += (int64_t)first * of->strides[0];
    }
    while (self.outer && (self.dims[self.outer - 1] == 1 ||
                          of->strides[self.outer - 1] == (int64_t)self.run_bytes)) {
        self.run_bytes *= self.dims[self.outer - 1];
        self.outer--;
    }
    return self;
}

/* Moves to the next run; false after the last one. */
static bool next_run(pass *self, uint64_t *index) {
    for (uint32_t d = self->outer; d-- > 0;) {
        self->at += self->of->strides[d];
        if (++index[d] < self->dims[d]) return true;
        self->at -= (int64_t)self->dims[d] * self->of->strides[d];
        index[d] = 0;
    }
    return false;
}

/* A size that is known lets the compiler replace the calls of memcpy. */
static void copy_run(void *to, const void *from, size_t bytes) {
    switch (bytes) {
    case 1:
        memcpy(to, from, 1);
        return;
    case 2:
        memcpy(to, from, 2);
        return;
    case 4:
        memcpy(to, from, 4);
        return;
    case 8:
        memcpy(to, from, 8);
        return;
    default:
        memcpy(to, from, bytes);
    }
}

static bool has_rows(const tsr_strided *of, uint64_t count) {
    return !is_empty(of) && (count || !of->shape.rank);
}

static uint64_t dense_row(const tsr_strided *of) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&of->shape, of->dtype, &size);
    TSR_ASSERT(fits); /* the type is that of the config */
    return of->shape.rank ? size / of->shape.dims[0] : size;
}

void tsr_strided_gather(const tsr_strided *from, uint64_t first, uint64_t count, void *to) {
    if (!has_rows(from, count)) return;
    if (!from->shape.rank) count = 1;
    if (from->is_dense) {
        uint64_t row = dense_row(from);
        memcpy(to, from->data + first * row, (size_t)(count * row));
        return;
    }
    uint64_t index[TSR_RANK_MAX] = {0};
    pass self = begin_pass(from, first, count);
    char *at = to;
    do {
        copy_run(at, self.at, self.run_bytes);
        at += self.run_bytes;
    } while (next_run(&self, index));
}

void tsr_strided_scatter(const tsr_strided *to, uint64_t first, uint64_t count, const void *from) {
    if (!has_rows(to, count)) return;
    if (!to->shape.rank) count = 1;
    if (to->is_dense) {
        uint64_t row = dense_row(to);
        memcpy(to->data + first * row, from, (size_t)(count * row));
        return;
    }
    uint64_t index[TSR_RANK_MAX] = {0};
    pass self = begin_pass(to, first, count);
    const char *at = from;
    do {
        copy_run(self.at, at, self.run_bytes);
        at += self.run_bytes;
    } while (next_run(&self, index));
}

tsr_result tsr_truths_check(tsr_ctx *ctx, const char *input, const void *elements, uint64_t first,
                            uint64_t count) {
    const unsigned char *bytes = elements;
    for (uint64_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            FAIL(ctx, TSR_DATA, "element %" PRIu64 " of input '%s' is %u; a boolean is 0 or 1",
                 first + i, input, bytes[i]);
    return TSR_SUCCESS;
}
