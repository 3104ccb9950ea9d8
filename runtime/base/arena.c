/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/arena.h"

#include "runtime/base/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES_MIN = 64 * 1024 };

typedef struct tsr_arena_block {
    struct tsr_arena_block *next;
    size_t size, used; /* bytes of data */
    char data[];
} tsr_arena_block;

void tsr_arena_finish(tsr_arena *arena) {
    if (!arena) return;
    for (tsr_arena_block *block = arena->head; block;) {
        tsr_arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (tsr_arena){0};
}

static void *take_bytes(tsr_arena_block *block, size_t size, size_t align) {
    uintptr_t start = (uintptr_t)block->data + block->used;
    size_t skip = (size_t)(-start & (align - 1));
    if (skip > block->size - block->used || size > block->size - block->used - skip) return NULL;
    block->used += skip + size;
    return memset((void *)(start + skip), 0, size);
}

void *tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align) {
    TSR_ASSERT(align && (align & (align - 1)) == 0);
    size_t total, block_size;
    if (__builtin_mul_overflow(count, size, &total)) return NULL;
    void *memory = arena->head ? take_bytes(arena->head, total, align) : NULL;
    if (!memory) {
        if (__builtin_add_overflow(total, align + sizeof(tsr_arena_block), &block_size))
            return NULL;
        if (block_size < BLOCK_BYTES_MIN) block_size = BLOCK_BYTES_MIN;
        tsr_arena_block *block = malloc(block_size);
        if (!block) return NULL;
        *block = (tsr_arena_block){.next = arena->head, .size = block_size - sizeof *block};
        arena->head = block;
        memory = take_bytes(block, total, align);
    }
    arena->used_bytes += total;
    return memory;
}

char *tsr_arena_strndup(tsr_arena *arena, const char *text, size_t length) {
    char *copy = length < SIZE_MAX ? tsr_arena_alloc(arena, length + 1, 1, 1) : NULL;
    if (copy) memcpy(copy, text, length);
    return copy;
}

char *tsr_arena_strdup(tsr_arena *arena, const char *text) {
    return tsr_arena_strndup(arena, text, strlen(text));
}

void *tsr_arena_memdup(tsr_arena *arena, const void *bytes, size_t size_bytes) {
    void *copy = tsr_arena_alloc(arena, size_bytes, 1, 16);
    if (copy && size_bytes) memcpy(copy, bytes, size_bytes);
    return copy;
}

char *tsr_arena_printf(tsr_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : tsr_arena_alloc(arena, (size_t)length + 1, 1, 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
