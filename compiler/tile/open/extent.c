/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/open/extent.h"

#include "compiler/ir/dims.h"
#include "compiler/process/guard.h"

#include <string.h>

int64_t tsr_extent_times(int64_t a, int64_t b) {
    uint64_t product = 0;
    if (!tsr_extent_is_open(a) && !tsr_extent_is_open(b)) return a * b;
    bool fits = tsr_dim_multiply((uint64_t)a, (uint64_t)b, &product);
    TSR_ASSERT(fits); /* the rule of the op that has the product as a size allows it */
    return (int64_t)product;
}

int64_t tsr_extent_plus(int64_t a, int64_t b) {
    uint64_t sum = 0;
    if (!tsr_extent_is_open(a) && !tsr_extent_is_open(b)) return a + b;
    bool fits = tsr_dim_add((uint64_t)a, (uint64_t)b, &sum);
    TSR_ASSERT(fits);
    return (int64_t)sum;
}

static uint32_t find_symbol(const tsr_open_sizes *open, const char *name) {
    uint32_t i = 0;
    while (open && i < open->count && strcmp(open->symbols[i], name) != 0) i++;
    TSR_ASSERT(open && i < open->count); /* entries.c gives kernels the symbols of their types */
    return i;
}

static MlirValue term_value(tsr_tile_builder *b, const tsr_dim_term *term) {
    MlirValue value = {NULL};
    for (uint32_t k = 0; k < term->degree; k++) {
        MlirValue size = b->open->values[find_symbol(b->open, term->atoms[k])];
        value = k ? tsr_tile_2(b, "arith.muli", value, size) : size;
    }
    return term->degree ? tsr_tile_mul(b, value, term->factor) : tsr_tile_index(b, term->factor);
}

MlirValue tsr_extent_value(tsr_tile_builder *b, int64_t extent) {
    tsr_arena arena = {0};
    tsr_dim_expression e = tsr_dim_to_expression(&arena, (uint64_t)extent);
    MlirValue sum = {NULL};
    for (uint32_t i = 0; i < e.count; i++) {
        MlirValue term = term_value(b, &e.terms[i]);
        sum = i ? tsr_tile_add(b, sum, term) : term;
    }
    tsr_arena_finish(&arena);
    return e.count ? sum : tsr_tile_index(b, 0);
}

static tsr_dim_range high_of(void *user, const char *name) {
    const tsr_open_sizes *open = user;
    int64_t high = open->high[find_symbol(open, name)];
    return (tsr_dim_range){high, high};
}

int64_t tsr_extent_high(const tsr_tile_builder *b, int64_t extent) {
    uint64_t value = 0;
    if (!tsr_extent_is_open(extent)) return extent;
    bool known = tsr_dim_value((uint64_t)extent, high_of, (void *)(uintptr_t)b->open, &value);
    TSR_ASSERT(known);
    return (int64_t)value;
}
