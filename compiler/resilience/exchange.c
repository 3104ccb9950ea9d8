/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of pass tessera-virtual-ranks: virtual ranks exchange blocks of values, so that another dim
 * is split, or a sum is.
 */
#include "compiler/resilience/split_rules.h"
#include "compiler/resilience/splitter.h"

enum { EXCHANGE_MAX = 256 /* TSR_PROGRAM_ALL_TO_ALL_MAX */ };

static MlirValue permuted(tsr_builder *b, MlirValue x, const int64_t *permutation) {
    bool same = true;
    for (uint32_t i = 0; i < tsr_type_of(x).shape.rank; i++) same = same && permutation[i] == i;
    return same ? x : tsr_emit_transpose(b, x, permutation);
}

/* [.., C, ..] -> [V, .., C / V, ..]: the blocks of dim `dim`, one for each virtual rank. */
static MlirValue blocks_of(tsr_splitter *s, tsr_builder *b, MlirValue x, int dim) {
    tsr_shape shape = tsr_type_of(x).shape;
    int64_t there[TSR_RANK_MAX];
    for (int i = (int)shape.rank++; i > dim; i--) shape.dims[i] = shape.dims[i - 1];
    shape.dims[dim] = s->parts;
    shape.dims[dim + 1] /= s->parts;
    for (int i = 0; i < (int)shape.rank; i++) there[i] = i == 0 ? dim : i <= dim ? i - 1 : i;
    return permuted(b, tsr_emit_reshape(b, x, &shape), there);
}

/* [V, .., C, ..] -> [.., V C, ..]: the blocks of all virtual ranks along `dim`. */
static MlirValue join_blocks(tsr_builder *b, MlirValue x, int dim) {
    int64_t back[TSR_RANK_MAX];
    tsr_shape shape = tsr_type_of(x).shape;
    for (int i = 0; i < (int)shape.rank; i++) back[i] = i < dim ? i + 1 : i == dim ? 0 : i;
    x = permuted(b, x, back);
    shape = tsr_type_of(x).shape;
    shape.dims[dim] *= shape.dims[dim + 1];
    for (uint32_t i = (uint32_t)dim + 1; i + 1 < shape.rank; i++) shape.dims[i] = shape.dims[i + 1];
    shape.rank--;
    return tsr_emit_reshape(b, x, &shape);
}

/* True if the blocks of a value that is split along `from` can be exchanged for those along `to`.
 */
bool tsr_splitter_can_exchange(const tsr_splitter *s, const tsr_sharded_value *of, int to) {
    tsr_type type = tsr_type_of(of->local);
    return of->state >= 0 && mlirValueIsNull(of->whole) && type.shape.rank < TSR_RANK_MAX &&
           type.shape.dims[to] % s->parts == 0 && s->parts <= EXCHANGE_MAX;
}

MlirValue tsr_splitter_exchange(tsr_splitter *s, tsr_builder *b, const tsr_sharded_value *of,
                                int to) {
    MlirValue blocks = blocks_of(s, b, of->local, to);
    MlirValue received = tsr_build_value(b, "tessera_sr.vrank_all_to_all", &blocks, 1,
                                         mlirValueGetType(blocks), NULL);
    return join_blocks(b, received, of->state);
}

static MlirValue tree_of_blocks(tsr_builder *b, MlirValue blocks, uint64_t first, uint64_t count) {
    tsr_shape shape = tsr_type_of(blocks).shape;
    int64_t start[TSR_RANK_MAX] = {(int64_t)first}, size[TSR_RANK_MAX];
    uint64_t half = 1;
    if (count > 1) {
        while (2 * half < count) half *= 2;
        MlirValue left = tree_of_blocks(b, blocks, first, half);
        return tsr_emit_add(b, left, tree_of_blocks(b, blocks, first + half, count - half));
    }
    for (uint32_t i = 0; i < shape.rank; i++) size[i] = i ? (int64_t)shape.dims[i] : 1;
    MlirValue one = tsr_emit_slice(b, blocks, start, size, NULL);
    for (uint32_t i = 0; i + 1 < shape.rank; i++) shape.dims[i] = shape.dims[i + 1];
    shape.rank--;
    return tsr_emit_reshape(b, one, &shape);
}

/* A virtual rank's part of a sum: it gets the blocks of all, and adds them by the tree. */
bool tsr_splitter_can_scatter(const tsr_splitter *s, const tsr_sharded_value *of, int to) {
    tsr_type type = tsr_type_of(of->local);
    return s->stays && of->state == TSR_SPLIT_PARTIAL && mlirValueIsNull(of->whole) &&
           type.shape.rank < TSR_RANK_MAX && type.shape.dims[to] % s->parts == 0 &&
           s->parts <= EXCHANGE_MAX;
}

MlirValue tsr_splitter_scatter(tsr_splitter *s, tsr_builder *b, const tsr_sharded_value *of,
                               int to) {
    MlirValue blocks = blocks_of(s, b, of->local, to);
    MlirValue received = tsr_build_value(b, "tessera_sr.vrank_all_to_all", &blocks, 1,
                                         mlirValueGetType(blocks), NULL);
    return tree_of_blocks(b, received, 0, s->parts);
}
