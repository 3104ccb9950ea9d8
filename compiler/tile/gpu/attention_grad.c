/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/gpu/attention_grad.h"

#include "compiler/shim/shim.h"
#include "compiler/tile/attention/attention.h"
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/heads.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/gpu/ring.h"
#include "runtime/base/array.h"

#include <string.h>

enum {
    WGMMA_ARCH = 90,
    WARPS = 8,
    LANES = 32,
    TILE_KEYS = 128,
    STEP_ELEMENTS = 64 * 128, /* elements of the queries of a step */
    STAGES = 2,
    CAST_LANES = 1024,
    TILES_MAX = 1 << 24,
};

/* Operands of tessera.attention_grad. */
enum { QUERY, KEY, VALUE, RESULT, LOGARITHM, DRESULT, MASK };
enum { DQUERY, DKEY, DVALUE, GRADIENTS };

/* Buffers of tile.attend "backward". */
enum {
    OPERANDS = 4,
    SUM = 7,
    DKEY_BUFFER,
    BUFFERS = 10,
    BUFFERS_MAX = BUFFERS + TSR_ATTENTION_SAMPLES,
};

/* mma.sync: the number of buffers of tile.attend before the gradients; the number of resident
 * operands, which is also the number of streamed ones. */
enum { SYNC_OPERANDS = 6, SYNC_SIDES = 2 };
enum { OF_KEYS, OF_QUERIES, OF };

typedef struct tile {
    int64_t warps, rows, step, stages, registers; /* rows: rows of a warp */
    bool halved;                                  /* each half of the warps has all rows */
} tile;

static const struct {
    int64_t d;
    tile of[OF];
} sync_tiles[] = {
#define X(numbers, ...) {numbers, __VA_ARGS__},
#include "compiler/tile/gpu/gradients.def"
#undef X
};

typedef struct plan {
    bool sync; /* mma.sync: two kernels compute the gradients, without a cast */
    tile tiles[OF];
    int64_t batch, heads, key_heads, size, d, step;
    double scale;
    double left; /* 1 - dropout */
    bool causal;
    tsr_attention of;                                      /* as read from the group */
    uint32_t samples[TSR_ATTENTION_SAMPLES], sample_count; /* arguments of the group */
    tsr_dtype storage;
    tsr_gpu_heads read[DRESULT + 1], given[GRADIENTS]; /* arguments of the group */
    tsr_gpu_heads sum;                                 /* the sum of the gradient of queries */
    bool joined;                                       /* all gradients are in one argument */
} plan;

static MlirValue view(tsr_tile_group *step, uint32_t argument, int64_t heads, int64_t rows) {
    int64_t dims[] = {heads, rows};
    return tsr_gpu_view(&step->b, step->buffers[argument], 2, dims);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static MlirValue load_wide(tsr_tile_group *step, uint32_t argument, MlirValue at) {
    return tsr_tile_load(&step->b, step->types[argument].dtype, step->buffers[argument], at,
                         TSR_BLOCKED_ELEMENTS, tsr_tile_null);
}

/* Multiplies results and their gradients, 256 elements from `at` on, as loads are blocked: a lane
 * has eight consecutive elements. Returns the sums over rows, each in all lanes of its row. */
static MlirValue sum_rows(tsr_tile_group *step, const plan *p, MlirValue at) {
    enum { RESULT_ARGUMENT = 0, DRESULT_ARGUMENT = 2 };
    tsr_tile_builder *b = &step->b;
    MlirValue x = load_wide(step, RESULT_ARGUMENT, at), y = load_wide(step, DRESULT_ARGUMENT, at);
    MlirValue product = tsr_tile_2(b, "arith.mulf", x, y), parts[TSR_BLOCKED_RUN];
    for (int64_t i = 0; i < TSR_BLOCKED_RUN; i++)
        parts[i] = tsr_tile_slice(b, product, i * LANES, LANES);
    for (int64_t count = TSR_BLOCKED_RUN; count > 1; count /= 2)
        for (int64_t i = 0; i < count / 2; i++)
            parts[i] = tsr_tile_2(b, "arith.addf", parts[i], parts[i + count / 2]);
    for (int64_t distance = 1; distance < p->d / TSR_BLOCKED_RUN; distance *= 2) {
        tsr_attr attrs[] = {{"distance", tsr_attr_make_i64(b->at.context, distance)}, {0}};
        MlirValue other =
            tsr_build_value(&b->at, "tile.butterfly", parts, 1, mlirValueGetType(parts[0]), attrs);
        parts[0] = tsr_tile_2(b, "arith.addf", parts[0], other);
    }
    return parts[0];
}

/* The sums of 32 rows from element `at` on, one in each lane. */
static MlirValue sum_32_rows(tsr_tile_group *step, const plan *p, MlirValue at) {
    tsr_tile_builder *b = &step->b;
    MlirType i32 = mlirIntegerTypeGet(b->at.context, 32), type = tsr_tile_vector_type(i32, LANES);
    int64_t rows = TSR_BLOCKED_ELEMENTS / p->d; /* rows of one load */
    MlirValue lane = tsr_tile_iota(b, i32, LANES), unit = tsr_tile_int(b, type, rows);
    MlirValue part = tsr_tile_2(b, "arith.divui", lane, unit);
    MlirValue from = tsr_tile_2(b, "arith.muli", tsr_tile_2(b, "arith.remui", lane, unit),
                                tsr_tile_int(b, type, p->d / TSR_BLOCKED_RUN));
    MlirValue sums = tsr_tile_null;
    for (int64_t i = 0; i < LANES / rows; i++) {
        MlirValue sum = sum_rows(step, p, tsr_tile_offset(b, at, i * TSR_BLOCKED_ELEMENTS));
        MlirValue operands[] = {sum, from};
        sum = tsr_build_value(&b->at, "tile.shuffle", operands, 2, mlirValueGetType(sum), NULL);
        MlirValue mine = tsr_tile_icompare(b, TSR_ICMP_EQ, part, tsr_tile_int(b, type, i));
        sums = i ? tsr_tile_select(b, mine, sum, sums) : sum;
    }
    return sums;
}

/* The offset of the first element of `row`, a row of all heads counted together. */
static MlirValue row_offset(tsr_tile_builder *b, const plan *p, const tsr_gpu_heads *heads,
                            MlirValue row) {
    if (heads->sides.first < 0) return tsr_tile_mul(b, row, p->d);
    MlirValue head = tsr_tile_div(b, row, p->size), number = tsr_tile_rem(b, row, p->size);
    MlirValue batch = tsr_tile_div(b, head, p->heads);
    number = tsr_tile_add(b, tsr_tile_mul(b, batch, p->size), number);
    MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, head, p->heads), p->d);
    column = tsr_tile_offset(b, column, heads->sides.first);
    return tsr_tile_add(b, tsr_tile_mul(b, number, heads->width), column);
}

/* The partial sums of the products of a row, one in each lane. */
static MlirValue multiply_row(tsr_tile_group *step, const plan *p, const MlirValue *at,
                              int64_t number) {
    static const uint32_t arguments[] = {0, 2}, operands[] = {RESULT, DRESULT};
    tsr_tile_builder *b = &step->b;
    MlirValue x[2], sum = tsr_tile_null;
    for (int i = 0; i < 2; i++) {
        const tsr_gpu_heads *heads = &p->read[operands[i]];
        int64_t pitch = heads->sides.first < 0 ? p->d : heads->width;
        uint32_t argument = arguments[i];
        x[i] =
            tsr_tile_load(b, step->types[argument].dtype, step->buffers[argument],
                          tsr_tile_offset(b, at[i], number * pitch), (uint32_t)p->d, tsr_tile_null);
    }
    MlirValue product = tsr_tile_2(b, "arith.mulf", x[0], x[1]);
    for (int64_t i = 0; i < p->d; i += LANES) {
        MlirValue part = tsr_tile_slice(b, product, i, LANES);
        sum = i ? tsr_tile_2(b, "arith.addf", sum, part) : part;
    }
    return sum;
}

/* Combines the partial sums of two rows: lanes without the bit get sums of x, lanes with it sums of
 * y. */
static MlirValue fold_rows(tsr_tile_group *step, MlirValue x, MlirValue y, int64_t bit) {
    tsr_tile_builder *b = &step->b;
    MlirType i32 = mlirIntegerTypeGet(b->at.context, 32), type = tsr_tile_vector_type(i32, LANES);
    MlirValue lane = tsr_tile_iota(b, i32, LANES), zero = tsr_tile_int(b, type, 0);
    MlirValue mine = tsr_tile_2(b, "arith.andi", lane, tsr_tile_int(b, type, bit));
    MlirValue second = tsr_tile_icompare(b, TSR_ICMP_NE, mine, zero);
    MlirValue own = tsr_tile_select(b, second, y, x), sent = tsr_tile_select(b, second, x, y);
    tsr_attr attrs[] = {{"distance", tsr_attr_make_i64(b->at.context, bit)}, {0}};
    MlirValue other =
        tsr_build_value(&b->at, "tile.butterfly", &sent, 1, mlirValueGetType(sent), attrs);
    return tsr_tile_2(b, "arith.addf", own, other);
}

/* The same sums for rows that are not contiguous. */
static MlirValue sum_32_rows_apart(tsr_tile_group *step, const plan *p, MlirValue row) {
    MlirValue parts[LANES], at[] = {row_offset(&step->b, p, &p->read[RESULT], row),
                                    row_offset(&step->b, p, &p->read[DRESULT], row)};
    for (int64_t i = 0; i < LANES; i++) parts[i] = multiply_row(step, p, at, i);
    for (int64_t bit = 1; bit < LANES; bit *= 2)
        for (int64_t i = 0; i < LANES / bit / 2; i++)
            parts[i] = fold_rows(step, parts[2 * i], parts[2 * i + 1], bit);
    return parts[0];
}

/* A program computes the queries of a step. */
static tsr_result lower_rows(tsr_tile_group *step, const void *user) {
    enum { LOGARITHM_ARGUMENT = 1, LOGARITHMS = 3, TOTALS, COUNTS };
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    MlirType f32 = tsr_tile_value_type(b, TSR_DTYPE_F32, LANES);
    MlirType i32 = tsr_tile_value_type(b, TSR_DTYPE_I32, 0);
    MlirValue pid = tsr_tile_program_id(b), first = tsr_tile_mul(b, pid, p->step);
    step->grid = p->batch * p->heads * p->size / p->step;
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, p->step), LANES) {
        MlirValue row = tsr_tile_add(b, first, loop.index);
        bool apart = p->read[RESULT].sides.first >= 0 || p->read[DRESULT].sides.first >= 0;
        MlirValue sums = apart ? sum_32_rows_apart(step, p, row)
                               : sum_32_rows(step, p, tsr_tile_mul(b, row, p->d));
        sums = tsr_tile_1(b, "arith.negf", sums);
        if (p->sample_count)
            sums = tsr_tile_2(b, "arith.mulf", sums, tsr_tile_float(b, f32, p->left));
        tsr_tile_store(b, TSR_DTYPE_F32, sums, step->buffers[TOTALS], row, tsr_tile_null);
        MlirValue logarithm = tsr_tile_load(b, TSR_DTYPE_F32, step->buffers[LOGARITHM_ARGUMENT],
                                            row, LANES, tsr_tile_null);
        logarithm = tsr_tile_2(b, "arith.mulf", logarithm, tsr_tile_float(b, f32, -1 / p->scale));
        tsr_tile_store(b, TSR_DTYPE_F32, logarithm, step->buffers[LOGARITHMS], row, tsr_tile_null);
    }
    if (!p->sync)
        tsr_tile_store(b, TSR_DTYPE_I32, tsr_tile_int(b, i32, 0), step->buffers[COUNTS], pid,
                       tsr_tile_null);
    tsr_tile_set_blocked(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static size_t add_rings(tsr_tile_group *step, const plan *p, MlirValue *out_rings) {
    tsr_tile_builder *b = &step->b;
    int64_t dims[] = {STAGES, 2, p->step};
    MlirType rows = tsr_shim_tile_shared_make(dims, tsr_tile_storage_type(b, TSR_DTYPE_F32));
    tsr_attr attrs[] = {{"swizzle", tsr_attr_make_string(b->at.context, "none")}, {0}};
    size_t count = 0;
    out_rings[count++] = tsr_gpu_ring(b, 1, TILE_KEYS, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, 1, TILE_KEYS, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, TILE_KEYS, p->step, p->storage);
    out_rings[count++] = tsr_gpu_ring(b, STAGES, p->step, p->d, TSR_DTYPE_F32);
    out_rings[count++] = tsr_build_value(&b->at, "tile.alloc_shared", NULL, 0, rows, attrs);
    return count;
}

/* Writes the buffers of tile.attend and the first column of heads of each. */
static void add_buffers(tsr_tile_group *step, const plan *p, MlirValue *out_buffers,
                        int64_t *out_firsts) {
    int64_t heads = p->batch * p->heads, groups = p->batch * p->key_heads;
    const tsr_gpu_heads *layouts[BUFFERS] = {
        &p->read[QUERY], &p->read[KEY],   &p->read[VALUE],  &p->read[DRESULT], NULL, NULL, NULL,
        &p->sum,         &p->given[DKEY], &p->given[DVALUE]};
    const int64_t counts[BUFFERS] = {heads, groups, groups, heads, 0, 0, 0, heads, groups, groups};
    for (uint32_t i = 0; i < BUFFERS; i++) {
        uint32_t argument = p->joined && i > DKEY_BUFFER ? DKEY_BUFFER : i;
        if (i >= SUM) argument += p->sample_count; /* inputs come first */
        out_firsts[i] = layouts[i] ? layouts[i]->sides.first : -1;
        if (layouts[i])
            out_buffers[i] = tsr_gpu_heads_view(&step->b, step->buffers[argument], layouts[i],
                                                counts[i], p->size, p->d);
    }
    out_buffers[OPERANDS] = view(step, OPERANDS, heads, p->size);
    out_buffers[OPERANDS + 1] = view(step, OPERANDS + 1, heads, p->size);
    out_buffers[OPERANDS + 2] = view(step, OPERANDS + 2, heads, p->size / p->step);
    for (uint32_t i = 0; i < p->sample_count; i++) {
        out_firsts[BUFFERS + i] = -1;
        out_buffers[BUFFERS + i] = step->buffers[SUM + i];
    }
}

/* `sizes`: the numbers of buffers, indices and rings among the operands. */
static void build_attend(tsr_tile_group *step, const plan *p, const char *how, MlirValue *operands,
                         const int32_t sizes[3], const int64_t *firsts) {
    tsr_tile_builder *b = &step->b;
    MlirContext context = b->at.context;
    int64_t counts[] = {p->heads, p->key_heads, p->d};
    tsr_attr attrs[8] = {
        {"how", tsr_attr_make_string(context, how)},
        {"scale", mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), p->scale)},
        {"operandSegmentSizes", mlirDenseI32ArrayGet(context, 3, sizes)}};
    size_t attr_count = 3;
    if (p->causal) attrs[attr_count++] = (tsr_attr){"causal", tsr_attr_make_unit(context)};
    attr_count += tsr_gpu_drop_attributes(context, &p->of, attrs + attr_count);
    attr_count +=
        tsr_gpu_heads_attributes(context, firsts, (size_t)sizes[0], counts, attrs + attr_count);
    tsr_build(&b->at, &(tsr_op_desc){.name = "tile.attend",
                                     .operand_count =
                                         (size_t)sizes[0] + (size_t)sizes[1] + (size_t)sizes[2],
                                     .operands = operands,
                                     .attr_count = attr_count,
                                     .attrs = attrs});
}

enum { INDICES = 3, OPERANDS_MAX = BUFFERS_MAX + INDICES + 8 };

/* A program has 128 keys. The programs of a head are consecutive; with a causal mask they begin
 * with the last keys. */
static tsr_result lower_tiles(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    MlirValue operands[OPERANDS_MAX];
    int64_t tiles = p->size / TILE_KEYS;
    MlirValue pid = tsr_tile_program_id(b), group = tsr_tile_div(b, pid, tiles);
    MlirValue number = tsr_tile_rem(b, pid, tiles);
    if (p->causal) number = tsr_tile_sub(b, tsr_tile_index(b, tiles - 1), number);
    int64_t firsts[BUFFERS_MAX];
    size_t buffers = BUFFERS + p->sample_count, count = buffers;
    add_buffers(step, p, operands, firsts);
    operands[count++] = tsr_tile_mul(b, group, p->heads / p->key_heads);
    operands[count++] = group;
    operands[count++] = tsr_tile_mul(b, number, TILE_KEYS);
    size_t rings = add_rings(step, p, operands + count);
    const int32_t sizes[] = {(int32_t)buffers, INDICES, (int32_t)rings};
    build_attend(step, p, "backward", operands, sizes, firsts);
    step->grid = p->batch * p->key_heads * tiles;
    step->warps = WARPS;
    step->tile[step->tile_count++] = TILE_KEYS;
    step->tile[step->tile_count++] = p->step;
    return TSR_SUCCESS;
}

/* ---- tiles with mma.sync --------------------------------------------------------------------- */

/* Writes the buffers of tile.attend: the operands, the gradients, then the samples of the dropout.
 * In the kernel's arguments the samples come before the gradients. If all gradients share one
 * buffer, this buffer also comes before them, because the kernel of queries overwrites it. */
static size_t add_sync_buffers(tsr_tile_group *step, const plan *p, int of, MlirValue *out_buffers,
                               int64_t *out_firsts) {
    int64_t heads = p->batch * p->heads, groups = p->batch * p->key_heads;
    uint32_t samples = SYNC_OPERANDS, made = samples + p->sample_count;
    const tsr_gpu_heads *layouts[] = {&p->read[QUERY],   &p->read[KEY],   &p->read[VALUE],
                                      &p->read[DRESULT], &p->given[DKEY], &p->given[DVALUE],
                                      &p->given[DQUERY]};
    enum { READ = 4, QUERIES = 6 };
    size_t count = 0, gradients = of == OF_KEYS ? 2 : 1;
    for (size_t i = 0; i < READ; i++) {
        out_firsts[count] = layouts[i]->sides.first;
        out_buffers[count++] =
            tsr_gpu_heads_view(&step->b, step->buffers[i], layouts[i],
                               i == KEY || i == VALUE ? groups : heads, p->size, p->d);
    }
    for (uint32_t i = READ; i < SYNC_OPERANDS; i++) {
        out_firsts[count] = -1;
        out_buffers[count++] = view(step, i, heads, p->size);
    }
    if (of == OF_QUERIES && p->joined) made++;
    for (size_t i = 0; i < gradients; i++) {
        const tsr_gpu_heads *to = layouts[(of == OF_KEYS ? READ : QUERIES) + i];
        out_firsts[count] = to->sides.first;
        out_buffers[count++] =
            tsr_gpu_heads_view(&step->b, step->buffers[made + (p->joined ? 0 : i)], to,
                               of == OF_KEYS ? groups : heads, p->size, p->d);
    }
    for (uint32_t i = 0; i < p->sample_count; i++) {
        out_firsts[count] = -1;
        out_buffers[count++] = step->buffers[samples + i];
    }
    return count;
}

static int64_t tile_rows(const tile *t) { return t->warps * t->rows / (t->halved ? 2 : 1); }

static size_t add_sync_rings(tsr_tile_group *step, const plan *p, int of, MlirValue *out_rings) {
    tsr_tile_builder *b = &step->b;
    const tile *t = &p->tiles[of];
    int64_t dims[] = {t->stages, 2, t->step};
    MlirType rows = tsr_shim_tile_shared_make(dims, tsr_tile_storage_type(b, TSR_DTYPE_F32));
    tsr_attr attrs[] = {{"swizzle", tsr_attr_make_string(b->at.context, "none")}, {0}};
    size_t count = 0;
    for (int i = 0; i < SYNC_SIDES; i++)
        out_rings[count++] = tsr_gpu_ring(b, 1, tile_rows(t), p->d, p->storage);
    for (int i = 0; i < SYNC_SIDES; i++)
        out_rings[count++] = tsr_gpu_ring(b, t->stages, t->step, p->d, p->storage);
    if (of == OF_KEYS)
        out_rings[count++] = tsr_build_value(&b->at, "tile.alloc_shared", NULL, 0, rows, attrs);
    int64_t passed[] = {2, tile_rows(t), t->step};
    MlirType weights = tsr_shim_tile_shared_make(passed, tsr_tile_storage_type(b, TSR_DTYPE_F32));
    if (t->halved)
        out_rings[count++] = tsr_build_value(&b->at, "tile.alloc_shared", NULL, 0, weights, attrs);
    return count;
}

/* A program has a tile of keys or of queries. The programs of a head are consecutive; with a causal
 * mask those with the most work come first. */
static void lower_sync(tsr_tile_group *step, const plan *p, int of) {
    tsr_tile_builder *b = &step->b;
    const tile *t = &p->tiles[of];
    MlirValue operands[OPERANDS_MAX];
    int64_t firsts[BUFFERS_MAX], rows = tile_rows(t), tiles = p->size / rows;
    int64_t shared = p->heads / p->key_heads;
    MlirValue pid = tsr_tile_program_id(b), head = tsr_tile_div(b, pid, tiles);
    MlirValue number = tsr_tile_rem(b, pid, tiles);
    if (p->causal && of == OF_QUERIES)
        number = tsr_tile_sub(b, tsr_tile_index(b, tiles - 1), number);
    size_t buffers = add_sync_buffers(step, p, of, operands, firsts), count = buffers;
    operands[count++] = of == OF_KEYS ? tsr_tile_mul(b, head, shared) : head;
    operands[count++] = of == OF_KEYS ? head : tsr_tile_div(b, head, shared);
    operands[count++] = tsr_tile_mul(b, number, rows);
    size_t rings = add_sync_rings(step, p, of, operands + count);
    const int32_t sizes[] = {(int32_t)buffers, INDICES, (int32_t)rings};
    build_attend(step, p, of == OF_KEYS ? "backward_keys" : "backward_queries", operands, sizes,
                 firsts);
    step->grid = p->batch * (of == OF_KEYS ? p->key_heads : p->heads) * tiles;
    step->warps = t->warps;
    step->registers = t->registers;
    step->tile[step->tile_count++] = rows;
    step->tile[step->tile_count++] = t->step;
    step->tile[step->tile_count++] = t->stages;
}

static tsr_result lower_keys(tsr_tile_group *step, const void *user) {
    lower_sync(step, user, OF_KEYS);
    return TSR_SUCCESS;
}

static tsr_result lower_queries(tsr_tile_group *step, const void *user) {
    lower_sync(step, user, OF_QUERIES);
    return TSR_SUCCESS;
}

/* ---- cast ------------------------------------------------------------------------------------ */

static double cast_scale(const plan *p) { return p->scale / p->left; }

/* Copies rows of the sum to columns of the buffer of all gradients. */
static void cast_joined(tsr_tile_group *step, const plan *p) {
    enum { INPUT, OUTPUT = 2, VECTORS = 4 };
    tsr_tile_builder *b = &step->b;
    const tsr_gpu_heads *to = &p->given[DQUERY];
    int64_t width = p->sum.width, lanes = TSR_BLOCKED_ELEMENTS;
    while (width % lanes) lanes /= 2;
    int64_t vectors = p->batch * p->size * width / lanes, together = VECTORS;
    while (vectors % together) together /= 2;
    step->grid = vectors / together;
    MlirValue first = tsr_tile_mul(b, tsr_tile_program_id(b), together);
    for (int64_t i = 0; i < together; i++) {
        MlirValue vector = tsr_tile_offset(b, first, i);
        MlirValue row = tsr_tile_div(b, vector, width / lanes);
        MlirValue column = tsr_tile_mul(b, tsr_tile_rem(b, vector, width / lanes), lanes);
        MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, row, to->width),
                                    tsr_tile_offset(b, column, to->sides.first));
        MlirValue x = tsr_tile_load(b, TSR_DTYPE_F32, step->buffers[INPUT],
                                    tsr_tile_mul(b, vector, lanes), (uint32_t)lanes, tsr_tile_null);
        x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), cast_scale(p)));
        tsr_tile_store(b, p->storage, x, step->buffers[OUTPUT], at, tsr_tile_null);
    }
    tsr_tile_set_blocked(b, b->at.block, false);
}

static tsr_result lower_cast(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    if (p->joined) {
        cast_joined(step, p);
        return TSR_SUCCESS;
    }
    step->grid = p->batch * p->heads * p->size * p->d / CAST_LANES;
    MlirValue at = tsr_tile_mul(b, tsr_tile_program_id(b), CAST_LANES);
    MlirValue x = tsr_tile_load(b, TSR_DTYPE_F32, step->buffers[0], at, CAST_LANES, tsr_tile_null);
    x = tsr_tile_2(b, "arith.mulf", x, tsr_tile_float(b, mlirValueGetType(x), cast_scale(p)));
    tsr_tile_store(b, p->storage, x, step->buffers[1], at, tsr_tile_null);
    tsr_tile_set_blocked(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- plan ------------------------------------------------------------------------------------ */

/* The first tiles for heads of `d` numbers after skipping `skip`; NULL if no tiles are left. */
static const tile *find_tiles(int64_t d, int64_t skip) {
    for (size_t i = 0; i < TSR_COUNT(sync_tiles); i++)
        if (sync_tiles[i].d == d && skip-- <= 0) return sync_tiles[i].of;
    return NULL;
}

static bool is_taken(const tsr_tile_group *group, const tsr_attention *of) {
    int64_t skip = 0;
    uint32_t arch = group->b.target->arch;
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    bool has_tiles = arch == WGMMA_ARCH ? !skip : find_tiles(of->d, skip) != NULL;
    return arch && has_tiles && (arch == WGMMA_ARCH || tsr_gpu_counts_chunks(group)) &&
           tsr_dtype_is_narrow(of->storage) && tsr_gpu_can_drop(of, MASK) && of->d == of->e &&
           (of->d == 64 || of->d == 128) && of->queries == of->keys && of->queries &&
           of->queries % TILE_KEYS == 0 && of->scale > 0 && of->batch && of->key_heads &&
           of->heads && of->heads % of->key_heads == 0 &&
           of->queries / TILE_KEYS < TILES_MAX / of->batch / of->heads;
}

/* Finds the group's results: the results of the op in any order, or one result that contains them
 * all. False if the group has other results. */
static bool find_results(const tsr_tile_group *group, plan *p) {
    uint32_t found = 0;
    for (uint32_t r = 0; r < GRADIENTS; r++) {
        p->given[r] = tsr_gpu_heads_given(group, r);
        found += p->given[r].argument != UINT32_MAX;
    }
    p->joined = p->given[DQUERY].argument == p->given[DKEY].argument &&
                p->given[DKEY].argument == p->given[DVALUE].argument && found;
    return group->output_count == (p->joined ? 1 : found);
}

/* The type of a gradient with elements of `dtype`. An unused gradient is dense. */
static tsr_type gradient_type(const tsr_tile_group *group, const plan *p, uint32_t which,
                              tsr_dtype dtype) {
    uint32_t argument = p->given[which].argument;
    uint64_t heads = (uint64_t)(which == DQUERY ? p->heads : p->key_heads);
    tsr_type type = {
        dtype, {.rank = 4, .dims = {(uint64_t)p->batch, heads, (uint64_t)p->size, (uint64_t)p->d}}};
    if (argument != UINT32_MAX) type.shape = group->types[argument].shape;
    return type;
}

/* The sum has the layout of the gradient of queries, in a buffer of its own. */
static tsr_type init_sum(const tsr_tile_group *group, plan *p) {
    tsr_type type = gradient_type(group, p, DQUERY, TSR_DTYPE_F32);
    p->sum = p->given[DQUERY];
    if (p->sum.sides.first < 0) return type;
    p->sum.sides.first = 0;
    p->sum.width = p->heads * p->d;
    uint64_t dims[] = {(uint64_t)p->batch, (uint64_t)p->size, (uint64_t)p->sum.width};
    type.shape.rank = 3;
    memcpy(type.shape.dims, dims, sizeof dims);
    return type;
}

/* The kernel of keys and values runs before the kernel of queries. If all gradients share one
 * buffer, the kernel of queries writes the remaining rows and columns. */
static void make_sync_steps(const tsr_tile_group *group, plan *p, tsr_tile_sequence *sequence) {
    enum { ROWS, KEYS, QUERIES, COUNT };
    uint64_t batch = (uint64_t)p->batch, heads = (uint64_t)p->heads, size = (uint64_t)p->size;
    uint32_t made = group->input_count, joined = p->joined;
    const tsr_gpu_heads *read = p->read;
    tsr_type row = {TSR_DTYPE_F32, {.rank = 3, .dims = {batch, heads, size}}};
    tsr_tile_step attend = {.inputs = {read[QUERY].argument, read[KEY].argument,
                                       read[VALUE].argument, read[DRESULT].argument, made,
                                       made + 1},
                            .input_count = SYNC_OPERANDS + p->sample_count};
    memcpy(attend.inputs + SYNC_OPERANDS, p->samples, p->sample_count * sizeof *p->samples);
    sequence->steps[ROWS] = (tsr_tile_step){
        .suffix = "_rows",
        .inputs = {read[RESULT].argument, read[LOGARITHM].argument, read[DRESULT].argument},
        .input_count = 3,
        .outputs = {row, row},
        .output_count = 2,
        .lower = lower_rows};
    tsr_tile_step *keys = &sequence->steps[KEYS], *queries = &sequence->steps[QUERIES];
    *keys = *queries = attend;
    keys->suffix = "";
    keys->is_main = true;
    keys->lower = lower_keys;
    keys->outputs[keys->output_count++] = gradient_type(group, p, DKEY, p->storage);
    if (!joined) keys->outputs[keys->output_count++] = gradient_type(group, p, DVALUE, p->storage);
    queries->suffix = "_queries";
    queries->lower = lower_queries;
    queries->outputs[queries->output_count++] = gradient_type(group, p, DQUERY, p->storage);
    if (joined) {
        queries->inputs[queries->input_count++] = made + 2;
        queries->over = queries->input_count;
    }
    sequence->step_count = COUNT;
    const uint32_t values[GRADIENTS] = {made + (joined ? 3 : 4), made + 2, made + 3};
    for (uint32_t r = GRADIENTS; r-- > 0;)
        if (p->given[r].argument != UINT32_MAX)
            sequence->results[p->given[r].argument - group->input_count] = values[r];
}

static void make_steps(const tsr_tile_group *group, plan *p, tsr_tile_sequence *sequence) {
    enum { ROWS, TILES, CAST, COUNT };
    uint64_t batch = (uint64_t)p->batch, heads = (uint64_t)p->heads, size = (uint64_t)p->size;
    uint32_t made = group->input_count;
    const tsr_gpu_heads *read = p->read;
    tsr_type row = {TSR_DTYPE_F32, {.rank = 3, .dims = {batch, heads, size}}};
    tsr_type count = {TSR_DTYPE_I32, {.rank = 3, .dims = {batch, heads, size / (uint64_t)p->step}}};
    sequence->steps[ROWS] = (tsr_tile_step){
        .suffix = "_rows",
        .inputs = {read[RESULT].argument, read[LOGARITHM].argument, read[DRESULT].argument},
        .input_count = 3,
        .outputs = {row, row, count},
        .output_count = 3,
        .lower = lower_rows};
    sequence->steps[TILES] =
        (tsr_tile_step){.suffix = "",
                        .inputs = {read[QUERY].argument, read[KEY].argument, read[VALUE].argument,
                                   read[DRESULT].argument, made, made + 1, made + 2},
                        .input_count = SUM + p->sample_count,
                        .outputs = {init_sum(group, p), gradient_type(group, p, DKEY, p->storage),
                                    gradient_type(group, p, DVALUE, p->storage)},
                        .output_count = p->joined ? 2 : 3,
                        .is_main = true,
                        .lower = lower_tiles};
    memcpy(sequence->steps[TILES].inputs + SUM, p->samples, p->sample_count * sizeof *p->samples);
    sequence->steps[CAST] =
        (tsr_tile_step){.suffix = "_cast",
                        .inputs = {made + 3, made + 4},
                        .input_count = p->joined ? 2 : 1,
                        .outputs = {gradient_type(group, p, DQUERY, p->storage)},
                        .output_count = 1,
                        .over = p->joined ? 2 : 0,
                        .lower = lower_cast};
    sequence->step_count = COUNT;
    const uint32_t values[GRADIENTS] = {made + (p->joined ? 5 : 6), made + 4, made + 5};
    for (uint32_t r = GRADIENTS; r-- > 0;)
        if (p->given[r].argument != UINT32_MAX)
            sequence->results[p->given[r].argument - group->input_count] = values[r];
}

tsr_result tsr_tile_can_attend_grad(tsr_tile_group *group, bool *out_taken) {
    tsr_attention of = {0};
    TRY(group->ctx, tsr_attention_read(group, MASK, &of));
    *out_taken = is_taken(group, &of);
    return TSR_SUCCESS;
}

tsr_result tsr_tile_plan_attend_grad(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                     bool *out_taken) {
    tsr_attention of = {0};
    *out_taken = false;
    TRY(group->ctx, tsr_attention_read(group, MASK, &of));
    if (!is_taken(group, &of)) return TSR_SUCCESS;
    plan *p = TSR_NEW(group->arena, plan, 1);
    if (!p) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    int64_t skip = 0;
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    *p = (plan){.sync = group->b.target->arch != WGMMA_ARCH,
                .batch = of.batch,
                .heads = of.heads,
                .key_heads = of.key_heads,
                .size = of.queries,
                .d = of.d,
                .step = STEP_ELEMENTS / of.d,
                .scale = of.scale,
                .left = 1 - of.dropout,
                .of = of,
                .causal = of.causal,
                .storage = of.storage};
    for (uint32_t i = 0; i <= DRESULT; i++) p->read[i] = tsr_gpu_heads_read(group, i);
    for (uint32_t i = 0; of.dropout && i < TSR_ATTENTION_SAMPLES; i++)
        p->samples[p->sample_count++] = tsr_gpu_heads_read(group, MASK + i).argument;
    if (!find_results(group, p)) return TSR_SUCCESS;
    if (p->sync) memcpy(p->tiles, find_tiles(p->d, skip), sizeof p->tiles);
    (p->sync ? make_sync_steps : make_steps)(group, p, out_sequence);
    out_sequence->plan = p;
    *out_taken = true;
    return TSR_SUCCESS;
}
