/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays: their length, and room for one more item.
 *
 *     if (list->count == list->capacity) {
 *         row *rows = tsr_grow(list->rows, &list->capacity, 32, sizeof *rows);
 *         if (!rows) FAIL(ctx, TSR_MEMORY, "no memory for row %zu", list->count);
 *         list->rows = rows;
 *     }
 */
#ifndef TSR_BASE_ARRAY_H
#define TSR_BASE_ARRAY_H

#include "runtime/base/arena.h"

/* Number of elements of an array; a pointer does not compile. */
#define TSR_COUNT(array)                                                                           \
    (sizeof(array) / sizeof((array)[0]) +                                                          \
     0 * sizeof(struct {                                                                           \
         static_assert(!__builtin_types_compatible_p(__typeof__(array), __typeof__(&(array)[0])),  \
                       "TSR_COUNT of a pointer");                                                  \
         char unused_;                                                                             \
     }))

/* Returns the first capacity of the sequence capacity, 2 * capacity, 4 * capacity … that is at
 * least `need` items (the sequence starts with `first` after 0); 0 if the size in bytes overflows.
 */
size_t tsr_grow_capacity(size_t capacity, size_t need, size_t first, size_t item_bytes);

/* Doubles an array of the heap (NULL and 0: makes one of `first` items). Returns it at its new
 * address and sets *capacity; NULL if memory runs out or the size overflows: the array is then as
 * it was. The new items are not set. */
void *tsr_grow(void *items, size_t *capacity, size_t first, size_t item_bytes);

/* The same in an arena, which keeps the old array until it is finished; the new items are zero. */
void *tsr_arena_grow(tsr_arena *arena, const void *items, size_t *capacity, size_t first,
                     size_t item_bytes, size_t align);
#define TSR_ARENA_GROW(arena, items, capacity, first)                                              \
    ((__typeof__(items))tsr_arena_grow((arena), (items), (capacity), (first), sizeof *(items),     \
                                       _Alignof(__typeof__(*(items)))))

#endif
