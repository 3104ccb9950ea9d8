/* SPDX-License-Identifier: Apache-2.0
 *
 * Arena: memory that is released all at once. Grows by blocks; the memory that it returns is zeroed
 * and never moves. Only one thread uses an arena at a time.
 */
#ifndef TSR_BASE_ARENA_H
#define TSR_BASE_ARENA_H

#include "runtime/base/result.h"
#include "tessera/arena.h"

/* Returns zeroed memory of count * size bytes, aligned to `align` (a power of two), or NULL if the
 * size overflows or memory runs out. */
void *tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);
/* Return copies; strings are NUL-terminated. NULL when out of memory. */
char *tsr_arena_strdup(tsr_arena *arena, const char *text);
char *tsr_arena_strndup(tsr_arena *arena, const char *text, size_t length);
void *tsr_arena_memdup(tsr_arena *arena, const void *bytes, size_t size_bytes);
char *tsr_arena_printf(tsr_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define TSR_NEW(arena, type, count)                                                                \
    ((type *)tsr_arena_alloc((arena), (count), sizeof(type), _Alignof(type)))

#endif
