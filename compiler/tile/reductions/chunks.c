/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/reductions/reduce.h"

static void reduce_leaf(void *user, MlirValue index, MlirValue *values) {
    const tsr_reduction_chunks *c = user;
    tsr_tile_builder *b = &c->rules[0]->group->b;
    c->reduce(c->user, tsr_tile_mul(b, index, TSR_SUM_CHUNK), TSR_SUM_CHUNK, values);
}

static MlirValue combine(void *user, uint32_t which, MlirValue x, MlirValue y) {
    const tsr_reduction_chunks *c = user;
    return tsr_reduction_combine(c->rules[which], x, y);
}

void tsr_reduction_in_chunks(const tsr_reduction_chunks *c, MlirValue *out_results) {
    MlirValue empty[TSR_REDUCTIONS_MAX], last[TSR_REDUCTIONS_MAX];
    int64_t rest = c->elements % TSR_SUM_CHUNK;
    TSR_ASSERT(c->count <= TSR_REDUCTIONS_MAX);
    if (!c->count) return;
    tsr_tile_builder *b = &c->rules[0]->group->b;
    if (!tsr_sum_is_long(c->elements)) {
        c->reduce(c->user, tsr_tile_index(b, 0), c->elements, out_results);
        return;
    }
    for (uint32_t i = 0; i < c->count; i++)
        empty[i] = tsr_reduction_identity(c->rules[i], c->lanes);
    if (rest) c->reduce(c->user, tsr_tile_index(b, c->elements - rest), rest, last);
    tsr_tree tree = {.b = b,
                     .leaves = c->elements / TSR_SUM_CHUNK + (rest != 0),
                     .count = c->count,
                     .empty = empty,
                     .last = rest ? last : NULL,
                     .leaf = reduce_leaf,
                     .combine = combine,
                     .user = (void *)c};
    tsr_tree_emit(&tree, out_results);
}

static void reduce_one(void *user, MlirValue first, int64_t elements, MlirValue *out_results) {
    const tsr_reduction_range *range = user;
    out_results[0] = range->reduce(range->user, first, elements);
}

MlirValue tsr_reduction_one_in_chunks(tsr_reduction *r, uint32_t lanes, int64_t elements,
                                      const tsr_reduction_range *range) {
    MlirValue result;
    tsr_reduction *rules[] = {r};
    tsr_reduction_chunks chunks = {.rules = rules,
                                   .count = 1,
                                   .lanes = lanes,
                                   .elements = elements,
                                   .reduce = reduce_one,
                                   .user = (void *)range};
    tsr_reduction_in_chunks(&chunks, &result);
    return result;
}
