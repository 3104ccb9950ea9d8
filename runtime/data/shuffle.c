/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/data/shuffle.h"

#include "runtime/base/random/philox.h"
#include "runtime/base/result.h"

enum { SMALL_COUNT = 1024, ROUNDS_SMALL = 12, ROUNDS = 8, TABLE_SIDE_MAX = 65536 };

static const uint32_t stream = 0x73687566; /* "shuf" */

/* The smallest a with a * a >= count, by Newton's method from above. */
static uint64_t ceil_sqrt(uint64_t count) {
    uint64_t bits = 64 - (uint64_t)__builtin_clzll(count);
    uint64_t root = (uint64_t)1 << (bits + 1) / 2;
    for (uint64_t next; (next = (root + count / root) / 2) < root;) root = next;
    return root * root < count ? root + 1 : root;
}

/* The value that a round adds to the left half: below `side`, which is at most 2^32. */
static uint32_t round_value(const tsr_shuffler *shuffler, uint32_t round, uint64_t right) {
    const uint32_t key[2] = {shuffler->seed, stream};
    const uint32_t counter[4] = {(uint32_t)right, round, (uint32_t)shuffler->epoch,
                                 (uint32_t)(shuffler->epoch >> 32)};
    tsr_philox_words words = tsr_philox(key, counter);
    return (uint32_t)((shuffler->side * words.words[0] + (shuffler->side * words.words[1] >> 32)) >>
                      32);
}

static uint64_t permute(const tsr_shuffler *shuffler, uint64_t at) {
    const uint64_t side = shuffler->side;
    do {
        uint64_t left = at / side, right = at % side;
        const uint32_t *row = shuffler->table;
        for (uint32_t round = 0; round < shuffler->rounds; round++) {
            uint64_t next = left + (row ? row[right] : round_value(shuffler, round, right));
            if (row) row += side;
            left = right;
            right = next < side ? next : next - side;
        }
        at = left * side + right;
    } while (at >= shuffler->count);
    return at;
}

size_t tsr_shuffler_table_count(uint64_t count) {
    uint64_t side = ceil_sqrt(count);
    if (side > TABLE_SIDE_MAX) return 0;
    return (size_t)side * (count < SMALL_COUNT ? ROUNDS_SMALL : ROUNDS);
}

void tsr_shuffler_init(tsr_shuffler *shuffler, uint64_t count, uint32_t *table) {
    TSR_ASSERT(count > 0 && count <= INT64_MAX);
    *shuffler = (tsr_shuffler){.count = count,
                               .side = ceil_sqrt(count),
                               .rounds = count < SMALL_COUNT ? ROUNDS_SMALL : ROUNDS,
                               .table = table};
}

uint64_t tsr_shuffler_index(tsr_shuffler *shuffler, uint32_t seed, uint64_t sample) {
    const uint64_t epoch = sample / shuffler->count;
    if (!shuffler->filled || shuffler->epoch != epoch || shuffler->seed != seed) {
        shuffler->epoch = epoch;
        shuffler->seed = seed;
        shuffler->filled = true;
        uint32_t *value = shuffler->table;
        for (uint32_t round = 0; value && round < shuffler->rounds; round++)
            for (uint64_t right = 0; right < shuffler->side; right++)
                *value++ = round_value(shuffler, round, right);
    }
    return permute(shuffler, sample % shuffler->count);
}

uint64_t tsr_shuffle_index(uint32_t seed, uint64_t count, uint64_t sample) {
    tsr_shuffler shuffler;
    tsr_shuffler_init(&shuffler, count, NULL);
    return tsr_shuffler_index(&shuffler, seed, sample);
}
