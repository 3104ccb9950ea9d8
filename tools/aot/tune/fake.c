/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that draws its times: sizes get one of a few speeds, so that there are ties, and each
 * sample some noise.
 */
#include "runtime/base/hash/hash.h"
#include "tools/aot/tune/measure.h"

#include <string.h>

static uint64_t draw(const tsr_tune_round *round, const tsr_tune_pair *pair, const int64_t *sizes,
                     uint64_t sample) {
    tsr_hasher hasher;
    tsr_hasher_init(&hasher);
    tsr_hasher_update(&hasher, &round->seed, sizeof round->seed);
    tsr_hasher_update(&hasher, pair->signature, strlen(pair->signature));
    tsr_hasher_update(&hasher, sizes, pair->size_count * sizeof *sizes);
    tsr_hasher_update(&hasher, &sample, sizeof sample);
    tsr_digest digest = tsr_hasher_finish(&hasher);
    uint64_t value;
    memcpy(&value, &digest, sizeof value);
    return value;
}

static double time_of(const tsr_tune_round *round, const tsr_tune_pair *pair, const int64_t *sizes,
                      uint64_t sample) {
    double speed = (double)(1 + draw(round, pair, sizes, 0) % 6);
    return 1e4 * speed + (double)(draw(round, pair, sizes, sample) % 500);
}

static tsr_result measure(tsr_ctx *ctx, const tsr_tune_round *round) {
    (void)ctx;
    for (size_t i = 0; i < round->pair_count; i++) {
        tsr_tune_pair *pair = &round->pairs[i];
        for (uint32_t k = 0; k < round->samples; k++) {
            uint64_t sample = 1 + ((uint64_t)round->round << 32) + k;
            pair->safe_ns[k] = time_of(round, pair, pair->safe_sizes, 2 * sample);
            pair->candidate_ns[k] = time_of(round, pair, pair->candidate_sizes, 2 * sample + 1);
        }
    }
    return TSR_SUCCESS;
}

const tsr_tune_device tsr_tune_fake = {.name = "fake", .measure = measure};
