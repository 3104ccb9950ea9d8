/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow: contents, capacities, overflow, the n-th allocation failing for every n. The
 * linker redirects realloc and tsr_arena_alloc here.
 */
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static uint64_t call_count, fails_at;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);
void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align);

void *__wrap_realloc(void *old, size_t size) {
    return ++call_count == fails_at ? NULL : __real_realloc(old, size);
}

void *__wrap_tsr_arena_alloc(tsr_arena *arena, size_t count, size_t size, size_t align) {
    return ++call_count == fails_at ? NULL : __real_tsr_arena_alloc(arena, count, size, align);
}

enum { ITEMS = 1000, FIRST = 3 };

typedef struct numbers {
    uint64_t *items;
    size_t count, capacity;
} numbers;

static bool append(numbers *list, tsr_arena *arena, uint64_t number) {
    if (list->count == list->capacity) {
        uint64_t *grown = arena
                              ? TSR_ARENA_GROW(arena, list->items, &list->capacity, FIRST)
                              : tsr_grow(list->items, &list->capacity, FIRST, sizeof *list->items);
        if (!grown) return false;
        list->items = grown;
    }
    list->items[list->count++] = number;
    return true;
}

static void expect_numbers(const numbers *list) {
    for (size_t i = 0; i < list->count; i++) cr_assert_eq(list->items[i], i * i);
}

/* Returns false if no allocation failed. */
static bool fill(tsr_arena *arena, uint64_t at) {
    numbers list = {0};
    call_count = 0;
    fails_at = at;
    bool failed = false;
    for (uint64_t i = 0; i < ITEMS; i++) {
        size_t capacity = list.capacity;
        if (append(&list, arena, i * i)) continue;
        cr_assert(!failed && call_count == at, "only allocation %u fails", (unsigned)at);
        failed = true;
        cr_assert_eq(list.capacity, capacity);
        expect_numbers(&list);
        cr_assert(append(&list, arena, i * i), "the next one does not");
    }
    cr_assert_eq(list.count, ITEMS);
    cr_assert_eq(list.capacity, 3 * 512);
    expect_numbers(&list);
    if (!arena) free(list.items);
    return failed;
}

Test(array, each_allocation_may_fail) {
    uint64_t at = 1;
    while (fill(NULL, at)) at++;
    cr_assert_eq(at, 11, "3 to 1536 are ten allocations");
}

Test(array, each_allocation_of_an_arena_may_fail) {
    uint64_t at = 1;
    for (bool failed = true; failed; at += failed) {
        tsr_arena arena = {0};
        failed = fill(&arena, at);
        tsr_arena_finish(&arena);
    }
    cr_assert_eq(at, 11, "3 to 1536 are ten allocations");
}

Test(array, new_items_of_an_arena_are_zero) {
    tsr_arena arena = {0};
    uint32_t *items = NULL;
    size_t capacity = 0;
    items = TSR_ARENA_GROW(&arena, items, &capacity, 4);
    cr_assert(items);
    items[3] = 7;
    items = TSR_ARENA_GROW(&arena, items, &capacity, 4);
    cr_assert(items);
    cr_assert_eq(capacity, 8);
    cr_assert_eq(items[3], 7);
    for (size_t i = 4; i < capacity; i++) cr_assert_eq(items[i], 0);
    tsr_arena_finish(&arena);
}

Test(array, capacities_double_until_they_suffice) {
    cr_assert_eq(tsr_grow_capacity(0, 1, 64, 8), 64);
    cr_assert_eq(tsr_grow_capacity(0, 65, 64, 8), 128);
    cr_assert_eq(tsr_grow_capacity(64, 65, 16, 8), 128);
    cr_assert_eq(tsr_grow_capacity(5, 80, 16, 8), 80);
    cr_assert_eq(tsr_grow_capacity(128, 65, 64, 8), 128, "there is room");
}

Test(array, sizes_that_overflow_are_refused) {
    size_t capacity = SIZE_MAX / 2 + 1;
    char item = 1;
    cr_assert_eq(tsr_grow_capacity(1, SIZE_MAX, 1, 1), 0, "no power of two is that large");
    cr_assert_eq(tsr_grow_capacity(0, 1, SIZE_MAX / 8 + 1, 8), 0);
    cr_assert_eq(tsr_grow_capacity(0, 1, SIZE_MAX / 8, 8), SIZE_MAX / 8);
    cr_assert_null(tsr_grow(&item, &capacity, 1, 1), "twice as many do not fit");
    capacity = SIZE_MAX;
    cr_assert_null(tsr_grow(&item, &capacity, 1, 1));
    cr_assert_eq(capacity, SIZE_MAX);
    cr_assert_eq(item, 1);
}

Test(array, count_is_constant) {
    static const char *const names[] = {"a", "b", "c"};
    enum { COUNT = TSR_COUNT(names) };
    const double rows[COUNT][7] = {{0}};
    cr_assert_eq(COUNT, 3);
    cr_assert_eq(TSR_COUNT(rows), 3);
    cr_assert_eq(TSR_COUNT(rows[0]), 7);
    cr_assert_eq(TSR_COUNT("four"), 5);
}
