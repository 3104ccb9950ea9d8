/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long fuzz_fail_read = -1;
bool fuzz_faults;
bool fuzz_armed = true;

void fuzz_require(bool holds, const char *promise) {
    if (holds) return;
    fprintf(stderr, "fuzz: %s: expected %s\n", fuzz_the_target.name, promise);
    abort();
}

void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%u", folder, number);
    FILE *file = fopen(path, "wb");
    fuzz_require(file && fwrite(bytes, 1, size_bytes, file) == size_bytes && fclose(file) == 0,
                 "a folder to write seeds to");
}

void fuzz_put_valid(const char *folder, unsigned count, fuzz_encode *encode) {
    for (unsigned i = 0; i < count; i++) {
        tsr_arena arena = {0};
        const void *bytes = NULL;
        size_t size = encode(i, &arena, &bytes);
        fuzz_put(folder, i, bytes, size);
        tsr_arena_finish(&arena);
    }
}

size_t fuzz_another_valid(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t *state,
                          fuzz_encode *encode) {
    size_t size = size_bytes;
    tsr_arena arena = {0};
    const void *valid = NULL;
    if (!fuzz_one_in(state, 16)) return size;
    size_t valid_size = encode(fuzz_random(state), &arena, &valid);
    if (valid_size <= size_max) memcpy(bytes, valid, size = valid_size);
    tsr_arena_finish(&arena);
    return size;
}

/* xorshift32: Marsaglia, "Xorshift RNGs", 2003. */
uint32_t fuzz_random(uint32_t *state) {
    uint32_t x = *state ? *state : 0x9e3779b9u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

void fuzz_change_integer(uint8_t *bytes, size_t size_bytes, size_t first, uint32_t *state) {
    static const uint32_t known[] = {0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     7,
                                     8,
                                     9,
                                     63,
                                     64,
                                     255,
                                     256,
                                     257,
                                     1024,
                                     1025,
                                     1 << 20,
                                     (1 << 20) + 1,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff};
    uint32_t value;
    if (size_bytes < first + sizeof value) return;
    size_t at = first + fuzz_random(state) % (size_bytes - first - sizeof value + 1);
    memcpy(&value, bytes + at, sizeof value);
    switch (fuzz_random(state) % 4) {
    case 0:
        value++;
        break;
    case 1:
        value--;
        break;
    case 2:
        value = fuzz_random(state) % 8;
        break;
    default:
        value = known[fuzz_random(state) % (TSR_COUNT(known))];
        break;
    }
    memcpy(bytes + at, &value, sizeof value);
}
