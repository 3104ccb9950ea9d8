/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/tile/order.h"

#include <stdlib.h>

enum {
    PARTIALS = 64,
    SUM_SHORT = 16384,
    SUM_CHUNK = 2048,
    PRODUCT_SHORT = 2048,
    PRODUCT_CHUNK = 256,
    PRODUCT_GROUP = 32,
};

/* A node is split at the largest power of two below its number of leaves. */
static size_t split_of(size_t count) {
    size_t split = 1;
    while (2 * split < count) split *= 2;
    return split;
}

typedef struct reduction {
    const double *values;
    size_t count;
    double identity;
    order_combine *combine;
    const void *user;
} reduction;

static double reduce_chunk(const reduction *r, size_t first, size_t count) {
    double partials[PARTIALS];
    for (size_t i = 0; i < PARTIALS; i++) partials[i] = r->identity;
    for (size_t i = 0; i < count; i++) {
        double *to = &partials[i % PARTIALS];
        *to = r->combine(r->user, *to, r->values[first + i]);
    }
    for (size_t half = PARTIALS / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            partials[i] = r->combine(r->user, partials[i], partials[i + half]);
    return partials[0];
}

static double reduce_chunks(const reduction *r, size_t first, size_t chunks) {
    if (chunks == 1) {
        size_t begin = first * SUM_CHUNK, left = r->count - begin;
        return reduce_chunk(r, begin, left < SUM_CHUNK ? left : SUM_CHUNK);
    }
    size_t split = split_of(chunks);
    double low = reduce_chunks(r, first, split);
    return r->combine(r->user, low, reduce_chunks(r, first + split, chunks - split));
}

double order_reduce(const double *values, size_t count, double identity, order_combine *combine,
                    const void *user) {
    reduction r = {values, count, identity, combine, user};
    if (count <= SUM_SHORT) return reduce_chunk(&r, 0, count);
    return reduce_chunks(&r, 0, (count - 1) / SUM_CHUNK + 1);
}

double order_product(size_t steps, order_chain *chain, order_combine *add, const void *user) {
    size_t count = (steps + PRODUCT_CHUNK - 1) / PRODUCT_CHUNK;
    if (steps <= PRODUCT_SHORT) return chain(user, 0, steps);
    double *sums = malloc(count * sizeof *sums);
    if (!sums) abort();
    for (size_t i = 0; i < count; i++) {
        size_t first = i * PRODUCT_CHUNK, left = steps - first;
        sums[i] = chain(user, first, left < PRODUCT_CHUNK ? left : PRODUCT_CHUNK);
    }
    while (count > 1) {
        size_t groups = (count - 1) / PRODUCT_GROUP + 1;
        for (size_t g = 0; g < groups; g++) {
            double sum = 0;
            for (size_t i = g * PRODUCT_GROUP; i < count && i < (g + 1) * PRODUCT_GROUP; i++)
                sum = add(user, sum, sums[i]);
            sums[g] = sum;
        }
        count = groups;
    }
    double sum = sums[0];
    free(sums);
    return sum;
}
