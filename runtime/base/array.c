/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"

#include <stdlib.h>
#include <string.h>

size_t tsr_grow_capacity(size_t capacity, size_t need, size_t first, size_t item_bytes) {
    TSR_ASSERT(first && item_bytes);
    size_t larger = capacity ? capacity : first;
    while (larger < need)
        if (__builtin_mul_overflow(larger, 2, &larger)) return 0;
    return larger <= SIZE_MAX / item_bytes ? larger : 0;
}

/* Capacity of an array that has no room for one more item. */
static size_t next_capacity(size_t capacity, size_t first, size_t item_bytes) {
    return capacity < SIZE_MAX ? tsr_grow_capacity(capacity, capacity + 1, first, item_bytes) : 0;
}

void *tsr_grow(void *items, size_t *capacity, size_t first, size_t item_bytes) {
    size_t larger = next_capacity(*capacity, first, item_bytes);
    void *grown = larger ? realloc(items, larger * item_bytes) : NULL;
    if (grown) *capacity = larger;
    return grown;
}

void *tsr_arena_grow(tsr_arena *arena, const void *items, size_t *capacity, size_t first,
                     size_t item_bytes, size_t align) {
    size_t larger = next_capacity(*capacity, first, item_bytes);
    void *grown = larger ? tsr_arena_alloc(arena, larger, item_bytes, align) : NULL;
    if (!grown) return NULL;
    if (*capacity) memcpy(grown, items, *capacity * item_bytes);
    *capacity = larger;
    return grown;
}
