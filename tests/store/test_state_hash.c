/* SPDX-License-Identifier: Apache-2.0
 *
 * The state hash does not depend on the order of the tensors, nor on whether there is memory to
 * sort them. The linker redirects calloc here.
 */
#include "runtime/base/array.h"
#include "runtime/store.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

static bool memory_is_full;
static uint64_t call_count;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size) {
    call_count++;
    return memory_is_full ? NULL : __real_calloc(count, size);
}

enum { TENSORS_MAX = 700 }; /* more than two of the batches that need no memory */

typedef struct sample {
    char names[TENSORS_MAX][8];
    int32_t values[TENSORS_MAX];
    tsr_tensor up[TENSORS_MAX], down[TENSORS_MAX], mixed[TENSORS_MAX];
    tsr_digest digests[TENSORS_MAX]; /* digests of `down` */
} sample;

static void make(sample *s, int count) {
    for (int i = 0; i < count; i++) {
        snprintf(s->names[i], sizeof s->names[i], "t%04d", i);
        s->values[i] = i;
        s->up[i] = (tsr_tensor){s->names[i], TSR_DTYPE_I32, {0, {0}}, &s->values[i]};
        s->down[count - 1 - i] = s->up[i];
        s->digests[count - 1 - i] = tsr_hash_tree(&s->values[i], sizeof s->values[i]);
    }
    for (int i = 0; i < count; i++) /* 11 has no divisor in common with the counts */
        s->mixed[i * 11 % count] = s->up[i];
}

Test(state_hash, does_not_depend_on_order) {
    static sample s;
    static const int counts[] = {2, 3, 255, 256, 257, 512, 513, TENSORS_MAX};
    for (size_t k = 0; k < 2 * TSR_COUNT(counts); k++) {
        size_t count = (size_t)counts[k / 2];
        make(&s, counts[k / 2]);
        memory_is_full = false;
        call_count = 0;
        tsr_digest expected = tsr_state_hash(s.up, count);
        cr_assert_eq(call_count, 0, "sorted tensors need no memory");
        memory_is_full = k % 2;
        tsr_digest found[] = {tsr_state_hash(s.down, count), tsr_state_hash(s.mixed, count),
                              tsr_state_hash_digests(s.down, s.digests, count)};
        cr_assert_eq(call_count, count > 2 ? 3 : 2);
        for (size_t i = 0; i < TSR_COUNT(found); i++)
            cr_assert(tsr_digest_equal(&expected, &found[i]), "%zu tensors, order %zu", count, i);
        s.values[count / 2]++;
        found[0] = tsr_state_hash(s.down, count);
        cr_assert(!tsr_digest_equal(&expected, &found[0]));
    }
}

static void hash_equal_names(bool is_full) {
    static sample s;
    make(&s, 3);
    s.down[0].name = s.down[1].name;
    memory_is_full = is_full;
    tsr_state_hash(s.down, 3);
}

Test(state_hash, equal_names_are_a_programming_error, .signal = SIGABRT) {
    hash_equal_names(false);
}
Test(state_hash, as_they_are_without_memory, .signal = SIGABRT) { hash_equal_names(true); }
