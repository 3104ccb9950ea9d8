/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/arena.h"
#include "tests/base/random.h"

#include <criterion/criterion.h>
#include <string.h>

Test(arena, memory_is_zeroed_aligned_apart_and_stays) {
    enum { COUNT = 3000 };
    static struct {
        unsigned char *at;
        size_t size;
        unsigned char mark;
    } items[COUNT];
    tsr_arena arena = {0};
    uint64_t seed = 1;
    size_t total = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t align = (size_t)1 << random_below(&seed, 13);
        items[i].size = random_below(&seed, i % 100 ? 300 : 200000);
        items[i].at = tsr_arena_alloc(&arena, items[i].size, 1, align);
        items[i].mark = (unsigned char)(1 + random_below(&seed, 255));
        cr_assert_not_null(items[i].at);
        cr_assert_eq((uintptr_t)items[i].at % align, 0);
        for (size_t j = 0; j < items[i].size; j++) cr_assert_eq(items[i].at[j], 0);
        memset(items[i].at, items[i].mark, items[i].size);
        total += items[i].size;
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < items[i].size; j++)
            cr_assert_eq(items[i].at[j], items[i].mark, "item %zu was overwritten", i);
    cr_assert_eq(arena.used_bytes, total);
    tsr_arena_finish(&arena);
    cr_assert_null(arena.head);
    cr_assert_eq(arena.used_bytes, 0);
}

Test(arena, sizes_that_overflow_are_refused) {
    tsr_arena arena = {0};
    cr_assert_null(tsr_arena_alloc(&arena, SIZE_MAX / 2, 3, 8));
    cr_assert_null(tsr_arena_alloc(&arena, SIZE_MAX, 1, 1));
    cr_assert_null(tsr_arena_alloc(&arena, SIZE_MAX - 8, 1, 64));
    cr_assert_null(tsr_arena_alloc(&arena, SIZE_MAX / 4, 1, 64), "more than any machine has");
    cr_assert_null(tsr_arena_strndup(&arena, "x", SIZE_MAX));
    cr_assert_eq(arena.used_bytes, 0, "a refusal is not counted");
    cr_assert_not_null(tsr_arena_alloc(&arena, 1, 1, 1), "and the arena continues");
    tsr_arena_finish(&arena);
}

Test(arena, copies) {
    tsr_arena arena = {0};
    const char bytes[] = {1, 0, 2};
    cr_assert_str_eq(tsr_arena_strdup(&arena, ""), "");
    cr_assert_str_eq(tsr_arena_strndup(&arena, "abcdef", 3), "abc");
    cr_assert_arr_eq(tsr_arena_memdup(&arena, bytes, sizeof bytes), bytes, sizeof bytes);
    cr_assert_not_null(tsr_arena_memdup(&arena, NULL, 0));
    cr_assert_str_eq(tsr_arena_printf(&arena, "%s-%d", "x", 42), "x-42");
    uint64_t *numbers = TSR_NEW(&arena, uint64_t, 5);
    cr_assert_eq((uintptr_t)numbers % _Alignof(uint64_t), 0);
    tsr_arena_finish(&arena);
    tsr_arena_finish(NULL);
}

Test(arena, alignment_is_a_power_of_two, .signal = 6) {
    tsr_arena arena = {0};
    tsr_arena_alloc(&arena, 1, 1, 3);
}
