/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add and scatter on a GPU. A stable counting sort of the positions of updates by their
 * indices, least significant digits first (Knuth, "The Art of Computer Programming", volume 3,
 * section 5.2.5, algorithm R; ranks within a warp by votes as in Adinets and Merrill, "Onesweep",
 * 2022, section 3.3), then the sums:
 *
 *     for each digit
 *         count   a program counts the occurrences of each digit in its part of the list
 *         move    counts of preceding parts and of lower digits give the destinations
 *     starts      finds the first update of each row by a search
 *     sum         a program sums a row, or a part of its columns: its updates in ascending order
 *                 of their positions, several loads in flight. Rows with many updates are split
 *                 into narrower parts with more updates in flight, and are started first
 *
 * An invalid index sets the fault record and is sorted after all rows; so are the elements that pad
 * the list to whole vectors.
 */
#include "compiler/tile/kernels/scatter.h"

#include "compiler/tile/attributes.h"

#include <string.h>

enum {
    LANES = 32,
    DIGIT_BITS = 8,
    PASSES_MAX = 4,
    PART_MIN = 256,    /* elements of a program that counts */
    PARTS_MAX = 128,   /* parts of a list: each program reads the counts of all parts */
    PARTS_AT_ONCE = 8, /* parts whose counts are read together */
    PROBES = 7,        /* simultaneous probes of a list in the search for the first key of a row */
    FEW_AT_ONCE = 8,   /* updates that are loaded before they are added */
    REST_AT_ONCE = 4,  /* the same for the remainder */
    MANY = 64,         /* updates of a row that several programs sum up */
    MANY_LANES = 32,   /* columns of each such program */
    ROWS_MAX = 32,
    REGISTERS = 128, /* without a limit, the assembler uses 32 registers and waits for each load */
    ELEMENTS_MIN = 1 << 14,
};

typedef struct digit {
    const struct plan *plan;
    uint32_t number;
} digit;

typedef struct plan {
    tsr_gather of;
    uint32_t updates; /* number of the argument */
    int64_t padded;   /* elements of the list, whole vectors */
    int64_t part, parts;
    uint32_t digits, bits; /* bits of a digit */
    digit each[PASSES_MAX];
} plan;

/* ---- digits ---------------------------------------------------------------------------------- */

typedef struct counter {
    tsr_tile_builder *b;
    const plan *plan;
    uint32_t number; /* number of the digit */
    MlirValue local; /* how many elements of each digit there were */
    MlirValue begin, end;
} counter;

static MlirType words(tsr_tile_builder *b, uint32_t lanes) {
    return tsr_tile_value_type(b, TSR_DTYPE_I32, lanes);
}

static int64_t radix_of(const plan *p) { return (int64_t)1 << p->bits; }

/* Counts are stored in vectors of at least a warp. */
static uint32_t count_lanes(const plan *p) {
    return radix_of(p) < LANES ? LANES : (uint32_t)radix_of(p);
}

static void begin_part(tsr_tile_group *step, const digit *of, counter *c) {
    tsr_tile_builder *b = &step->b;
    const plan *p = of->plan;
    *c = (counter){.b = b, .plan = p, .number = of->number};
    step->grid = p->parts;
    step->registers = REGISTERS;
    c->local = tsr_tile_local(b, tsr_tile_storage_type(b, TSR_DTYPE_I32), count_lanes(p));
    c->begin = tsr_tile_mul(b, tsr_tile_program_id(b), p->part);
    c->end = tsr_tile_min(b, tsr_tile_offset(b, c->begin, p->part), tsr_tile_index(b, p->padded));
}

/* The digit of 32 keys. */
static MlirValue take_digit(counter *c, MlirValue keys) {
    tsr_tile_builder *b = c->b;
    MlirType type = words(b, LANES);
    keys = tsr_tile_2(b, "arith.shrui", keys, tsr_tile_int(b, type, c->number * c->plan->bits));
    return tsr_tile_2(b, "arith.andi", keys, tsr_tile_int(b, type, radix_of(c->plan) - 1));
}

/* Bit i of lane j is set if lane i has the same digit. */
static MlirValue match(counter *c, MlirValue digits) {
    tsr_tile_builder *b = c->b;
    MlirType type = words(b, LANES);
    MlirValue same = tsr_tile_int(b, type, -1), zero = tsr_tile_int(b, type, 0);
    tsr_attr attrs[] = {{"how", tsr_attr_make_string(b->at.context, "ballot")}, {0}};
    for (uint32_t bit = 0; bit < c->plan->bits; bit++) {
        MlirValue mine = tsr_tile_2(b, "arith.andi", digits, tsr_tile_int(b, type, 1LL << bit));
        MlirValue is_set = tsr_tile_icompare(b, TSR_ICMP_NE, mine, zero);
        MlirValue votes = tsr_build_value(&b->at, "tile.vote", &is_set, 1, words(b, 0), attrs);
        MlirValue flip = tsr_tile_select(b, is_set, zero, tsr_tile_int(b, type, -1));
        votes = tsr_tile_2(b, "arith.xori", tsr_tile_splat(b, votes, LANES), flip);
        same = tsr_tile_2(b, "arith.andi", same, votes);
    }
    return same;
}

/* Returns the number of elements with the same digit before each one, in list order, and counts the
 * elements. */
static MlirValue count_lanes_before(counter *c, MlirValue digits) {
    tsr_tile_builder *b = c->b;
    MlirType type = words(b, LANES), index = tsr_tile_index_type(b);
    MlirValue same = match(c, digits), one = tsr_tile_int(b, type, 1);
    MlirValue lane = tsr_tile_iota(b, mlirIntegerTypeGet(b->at.context, 32), LANES);
    MlirValue below = tsr_tile_2(b, "arith.subi", tsr_tile_2(b, "arith.shli", one, lane), one);
    MlirValue rank = tsr_tile_1(b, "math.ctpop", tsr_tile_2(b, "arith.andi", same, below));
    MlirValue at = tsr_tile_to(b, "arith.index_cast", digits, tsr_tile_vector_type(index, LANES));
    MlirValue before = tsr_tile_gather(b, c->local, at, LANES);
    MlirValue all = tsr_tile_2(b, "arith.addi", before, tsr_tile_1(b, "math.ctpop", same));
    tsr_tile_scatter(b, all, c->local, at);
    return tsr_tile_2(b, "arith.addi", before, rank);
}

/* ---- count ----------------------------------------------------------------------------------- */

/* Checks the indices one by one for the fault record; only if one of the 32 is invalid. */
static void report(counter *c, tsr_tile_group *step, MlirValue any, MlirValue at) {
    const tsr_gather *g = &c->plan->of;
    tsr_tile_builder *b = c->b;
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, g->count), at);
    MlirValue lanes = tsr_tile_min(b, left, tsr_tile_index(b, LANES));
    TSR_TILE_FOR(b, loop, tsr_tile_index(b, 0),
                 tsr_tile_select(b, any, lanes, tsr_tile_index(b, 0)), 1) {
        MlirValue position = tsr_tile_add(b, at, loop.index);
        MlirValue index =
            tsr_tile_load(b, g->index_dtype, step->buffers[0], position, 0, tsr_tile_null);
        MlirType wide = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
        if (g->index_dtype != TSR_DTYPE_I64) index = tsr_tile_to(b, "arith.extsi", index, wide);
        tsr_tile_check_index(b, index, position, 0, g->axis.size);
    }
}

/* The sort keys of the list: the index, or the number of rows if the index is invalid. */
static MlirValue make_keys(counter *c, tsr_tile_group *step, MlirValue at) {
    const tsr_gather *g = &c->plan->of;
    tsr_tile_builder *b = c->b;
    MlirType type = tsr_tile_value_type(b, g->index_dtype, LANES);
    MlirValue live = tsr_tile_null, none = tsr_tile_int(b, words(b, LANES), g->axis.size);
    if (g->count % LANES)
        live = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, g->count), at), LANES);
    MlirValue index = tsr_tile_load(b, g->index_dtype, step->buffers[0], at, LANES, live);
    MlirValue bad = tsr_tile_icompare(b, TSR_ICMP_UGE, index, tsr_tile_int(b, type, g->axis.size));
    tsr_attr attrs[] = {{"how", tsr_attr_make_string(b->at.context, "any")}, {0}};
    MlirType bit = tsr_tile_value_type(b, TSR_DTYPE_I1, 0);
    report(c, step, tsr_build_value(&b->at, "tile.vote", &bad, 1, bit, attrs), at);
    if (g->index_dtype == TSR_DTYPE_I64)
        index = tsr_tile_to(b, "arith.trunci", index, words(b, LANES));
    MlirValue keys = tsr_tile_select(b, bad, none, index);
    if (!mlirValueIsNull(live)) keys = tsr_tile_select(b, live, keys, none);
    tsr_tile_store(b, TSR_DTYPE_I32, keys, step->buffers[1], at, tsr_tile_null);
    return keys;
}

/* indices -> keys, counts; or keys -> counts. */
static tsr_result lower_count(tsr_tile_group *step, const void *of) {
    counter c;
    tsr_tile_builder *b = &step->b;
    begin_part(step, of, &c);
    MlirValue zero = tsr_tile_index(b, 0);
    uint32_t lanes = count_lanes(c.plan);
    tsr_tile_store(b, TSR_DTYPE_I32, tsr_tile_int(b, words(b, lanes), 0), c.local, zero,
                   tsr_tile_null);
    TSR_TILE_FOR(b, loop, c.begin, c.end, LANES) {
        MlirValue keys = c.number ? tsr_tile_load(b, TSR_DTYPE_I32, step->buffers[0], loop.index,
                                                  LANES, tsr_tile_null)
                                  : make_keys(&c, step, loop.index);
        count_lanes_before(&c, take_digit(&c, keys));
    }
    tsr_tile_store(b, TSR_DTYPE_I32,
                   tsr_tile_load(b, TSR_DTYPE_I32, c.local, zero, lanes, tsr_tile_null),
                   step->buffers[step->input_count + !c.number],
                   tsr_tile_mul(b, tsr_tile_program_id(b), lanes), tsr_tile_null);
    return TSR_SUCCESS;
}

/* ---- move ------------------------------------------------------------------------------------ */

/* Exclusive prefix sums over the lanes. */
static MlirValue scan_warp(tsr_tile_builder *b, MlirValue values) {
    MlirType type = words(b, LANES);
    MlirValue lane = tsr_tile_iota(b, mlirIntegerTypeGet(b->at.context, 32), LANES), sum = values;
    for (int64_t distance = 1; distance < LANES; distance *= 2) {
        MlirValue far = tsr_tile_int(b, type, distance);
        MlirValue operands[] = {sum, tsr_tile_2(b, "arith.subi", lane, far)};
        MlirValue other = tsr_build_value(&b->at, "tile.shuffle", operands, 2, type, NULL);
        MlirValue has = tsr_tile_icompare(b, TSR_ICMP_SGE, lane, far);
        other = tsr_tile_select(b, has, other, tsr_tile_int(b, type, 0));
        sum = tsr_tile_2(b, "arith.addi", sum, other);
    }
    return tsr_tile_2(b, "arith.subi", sum, values);
}

/* Adds the counts of one more part to the counts of all parts, and to the counts of the parts
 * before this program's part. */
static void add_part(counter *c, MlirValue counts, MlirValue part, MlirValue sums[2]) {
    tsr_tile_builder *b = c->b;
    uint32_t lanes = count_lanes(c->plan);
    MlirValue at = tsr_tile_mul(b, part, lanes);
    MlirValue value = tsr_tile_load(b, TSR_DTYPE_I32, counts, at, lanes, tsr_tile_null);
    MlirValue before = tsr_tile_icompare(b, TSR_ICMP_SLT, part, tsr_tile_program_id(b));
    MlirValue none = tsr_tile_int(b, words(b, lanes), 0);
    sums[0] = tsr_tile_2(b, "arith.addi", sums[0], value);
    sums[1] = tsr_tile_2(b, "arith.addi", sums[1], tsr_tile_select(b, before, value, none));
}

/* Finds the destination of this part's first element of each digit. */
static void find_bases(counter *c, MlirValue counts) {
    tsr_tile_builder *b = c->b;
    uint32_t lanes = count_lanes(c->plan);
    MlirValue none = tsr_tile_int(b, words(b, lanes), 0), sums[] = {none, none};
    int64_t parts = c->plan->parts, whole = parts - parts % PARTS_AT_ONCE;
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, whole), PARTS_AT_ONCE, 2,
                         sums) {
        for (int64_t i = 0; i < PARTS_AT_ONCE; i++)
            add_part(c, counts, tsr_tile_offset(b, loop.index, i), sums);
    }
    for (int64_t i = whole; i < parts; i++) add_part(c, counts, tsr_tile_index(b, i), sums);
    MlirValue below = tsr_tile_int(b, words(b, LANES), 0);
    for (uint32_t at = 0; at < lanes; at += LANES) {
        MlirValue all = tsr_tile_slice(b, sums[0], at, LANES), before = scan_warp(b, all);
        MlirValue base = tsr_tile_2(b, "arith.addi", before, below);
        MlirValue mine = tsr_tile_slice(b, sums[1], at, LANES);
        tsr_tile_store(b, TSR_DTYPE_I32, tsr_tile_2(b, "arith.addi", base, mine), c->local,
                       tsr_tile_index(b, at), tsr_tile_null);
        MlirValue last = tsr_tile_2(b, "arith.addi", base, all);
        below = tsr_tile_splat(b, tsr_tile_extract(b, last, LANES - 1), LANES);
    }
}

/* keys, (positions,) counts -> keys, positions */
static tsr_result lower_move(tsr_tile_group *step, const void *of) {
    counter c;
    tsr_tile_builder *b = &step->b;
    begin_part(step, of, &c);
    MlirType type = words(b, LANES), index = tsr_tile_index_type(b);
    uint32_t inputs = step->input_count;
    find_bases(&c, step->buffers[inputs - 1]);
    TSR_TILE_FOR(b, loop, c.begin, c.end, LANES) {
        MlirValue keys =
            tsr_tile_load(b, TSR_DTYPE_I32, step->buffers[0], loop.index, LANES, tsr_tile_null);
        MlirValue positions;
        if (c.number)
            positions =
                tsr_tile_load(b, TSR_DTYPE_I32, step->buffers[1], loop.index, LANES, tsr_tile_null);
        else {
            MlirValue first = tsr_tile_to(b, "arith.index_cast", loop.index, words(b, 0));
            positions = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, first, LANES),
                                   tsr_tile_iota(b, mlirShapedTypeGetElementType(type), LANES));
        }
        MlirValue to = count_lanes_before(&c, take_digit(&c, keys));
        to = tsr_tile_to(b, "arith.index_cast", to, tsr_tile_vector_type(index, LANES));
        tsr_tile_scatter(b, keys, step->buffers[inputs], to);
        tsr_tile_scatter(b, positions, step->buffers[inputs + 1], to);
    }
    return TSR_SUCCESS;
}

/* ---- starts ---------------------------------------------------------------------------------- */

static int64_t starts_of(const plan *p) { return (p->of.axis.size + LANES) / LANES * LANES; }

/* keys -> starts: the number of keys below each row. `below` keys are known to be below; the probes
 * divide the remaining range by eight. */
static tsr_result lower_starts(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    tsr_tile_builder *b = &step->b;
    MlirType type = words(b, LANES), index = tsr_tile_vector_type(tsr_tile_index_type(b), LANES);
    step->grid = starts_of(p) / LANES;
    step->registers = REGISTERS;
    MlirValue first = tsr_tile_mul(b, tsr_tile_program_id(b), LANES);
    MlirValue row = tsr_tile_to(b, "arith.index_cast", first, words(b, 0));
    row = tsr_tile_2(b, "arith.addi", tsr_tile_splat(b, row, LANES),
                     tsr_tile_iota(b, mlirShapedTypeGetElementType(type), LANES));
    MlirValue below = tsr_tile_int(b, type, 0), all = tsr_tile_int(b, type, p->padded);
    int64_t unit = 1;
    while ((PROBES + 1) * unit <= p->padded) unit *= PROBES + 1;
    for (; unit; unit /= PROBES + 1) {
        MlirValue more[PROBES], keys[PROBES];
        for (int64_t i = 0; i < PROBES; i++) {
            more[i] = tsr_tile_2(b, "arith.addi", below, tsr_tile_int(b, type, (i + 1) * unit));
            MlirValue at = tsr_tile_2(b, "arith.minsi", more[i], all);
            at = tsr_tile_2(b, "arith.subi", at, tsr_tile_int(b, type, 1));
            at = tsr_tile_to(b, "arith.index_cast", at, index);
            keys[i] = tsr_tile_gather(b, step->buffers[0], at, LANES);
        }
        for (int64_t i = 0; i < PROBES; i++) {
            MlirValue less = tsr_tile_icompare(b, TSR_ICMP_SLT, keys[i], row);
            MlirValue inside = tsr_tile_icompare(b, TSR_ICMP_SLE, more[i], all);
            less = tsr_tile_2(b, "arith.andi", less, inside);
            below = tsr_tile_select(b, less, more[i], below);
        }
    }
    tsr_tile_store(b, TSR_DTYPE_I32, below, step->buffers[1], first, tsr_tile_null);
    return TSR_SUCCESS;
}

/* ---- sum ------------------------------------------------------------------------------------- */

enum { UPDATES, STARTS, KEYS, POSITIONS, INPUT }; /* arguments of the step */

typedef struct sum {
    tsr_tile_group *step;
    const plan *plan;
    uint32_t lanes;
    MlirValue mask;
    MlirValue outer, row, column; /* position of the program */
    MlirValue begin, end;         /* list range of its row */
} sum;

static MlirValue load_word(sum *s, uint32_t argument, MlirValue at) {
    tsr_tile_builder *b = &s->step->b;
    MlirValue word =
        tsr_tile_load(b, TSR_DTYPE_I32, s->step->buffers[argument], at, 0, tsr_tile_null);
    return tsr_tile_to(b, "arith.index_cast", word, tsr_tile_index_type(b));
}

/* Finds the columns of the program and the list range of its row's updates. */
static void find_list(sum *s, MlirValue part, uint32_t lanes) {
    tsr_tile_builder *b = &s->step->b;
    int64_t inner = s->plan->of.axis.inner;
    s->lanes = lanes;
    s->column = tsr_tile_mul(b, part, lanes);
    if (inner % lanes)
        s->mask = tsr_tile_mask(b, tsr_tile_sub(b, tsr_tile_index(b, inner), s->column), lanes);
    s->begin = load_word(s, STARTS, s->row);
    s->end = load_word(s, STARTS, tsr_tile_offset(b, s->row, 1));
}

/* Begins a loop that runs once if the condition is true, else not at all. */
static void begin_if(tsr_tile_builder *b, tsr_tile_loop *loop, MlirValue condition) {
    MlirValue times = tsr_tile_select(b, condition, tsr_tile_index(b, 1), tsr_tile_index(b, 0));
    tsr_tile_loop_begin(b, loop, tsr_tile_index(b, 0), times, 1, 0, NULL);
}

/* The offset in input and result of the program's row and columns. */
static MlirValue find_offset(sum *s) {
    tsr_tile_builder *b = &s->step->b;
    const tsr_axis *axis = &s->plan->of.axis;
    MlirValue row = tsr_tile_add(b, tsr_tile_mul(b, s->outer, axis->size), s->row);
    return tsr_tile_add(b, tsr_tile_mul(b, row, axis->inner), s->column);
}

static MlirValue load_input(sum *s, MlirValue at) {
    tsr_tile_builder *b = &s->step->b;
    const tsr_gather *g = &s->plan->of;
    if (mlirOperationIsNull(g->fill))
        return tsr_tile_load(b, g->dtype, s->step->buffers[INPUT], at, s->lanes, s->mask);
    return tsr_tile_splat(b, tsr_gather_fill_value(b, g), s->lanes);
}

/* Adds the updates at these positions in this order; live: the updates that count, or NULL for all.
 */
static MlirValue add_updates(sum *s, MlirValue total, uint32_t count, const MlirValue *positions,
                             const MlirValue *live) {
    tsr_tile_builder *b = &s->step->b;
    const tsr_gather *g = &s->plan->of;
    MlirValue values[ROWS_MAX], first = tsr_tile_mul(b, s->outer, g->count);
    for (uint32_t i = 0; i < count; i++) {
        MlirValue row = tsr_tile_add(b, first, positions[i]);
        MlirValue from = tsr_tile_add(b, tsr_tile_mul(b, row, g->axis.inner), s->column);
        values[i] = tsr_tile_load(b, g->dtype, s->step->buffers[UPDATES], from, s->lanes, s->mask);
    }
    for (uint32_t i = 0; i < count; i++) {
        MlirValue more = tsr_scatter_combine(b, g, total, values[i]);
        more = tsr_tile_round(b, g->dtype, more);
        total = live ? tsr_tile_select(b, live[i], more, total) : more;
    }
    return total;
}

/* Loads list elements `at` … `at + count - 1`, then adds their updates; unless `all`, only those
 * before the end of the list. */
static MlirValue add_few(sum *s, MlirValue total, MlirValue at, uint32_t count, bool all) {
    tsr_tile_builder *b = &s->step->b;
    MlirValue positions[FEW_AT_ONCE], live[FEW_AT_ONCE];
    for (uint32_t i = 0; i < count; i++) {
        MlirValue number = tsr_tile_offset(b, at, i);
        live[i] = tsr_tile_icompare(b, TSR_ICMP_SLT, number, s->end);
        if (!all) number = tsr_tile_min(b, number, tsr_tile_offset(b, s->end, -1));
        positions[i] = load_word(s, POSITIONS, number);
    }
    return add_updates(s, total, count, positions, all ? NULL : live);
}

/* Sums a row with few updates, or a part of its columns. */
static void sum_few(sum *s) {
    tsr_tile_builder *b = &s->step->b;
    MlirValue at = find_offset(s), count = tsr_tile_sub(b, s->end, s->begin);
    MlirValue total = load_input(s, at);
    MlirValue whole = tsr_tile_sub(b, s->end, tsr_tile_rem(b, count, FEW_AT_ONCE));
    TSR_TILE_FOR_CARRIED(b, most, s->begin, whole, FEW_AT_ONCE, 1, &total) {
        total = add_few(s, total, most.index, FEW_AT_ONCE, true);
    }
    TSR_TILE_FOR_CARRIED(b, rest, whole, s->end, REST_AT_ONCE, 1, &total) {
        total = add_few(s, total, rest.index, REST_AT_ONCE, false);
    }
    tsr_tile_store(b, s->plan->of.dtype, total, s->step->buffers[s->step->input_count], at,
                   s->mask);
}

static MlirValue load_positions(sum *s, MlirValue at) {
    tsr_tile_builder *b = &s->step->b;
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, s->plan->padded), at);
    return tsr_tile_load(b, TSR_DTYPE_I32, s->step->buffers[POSITIONS], at, LANES,
                         tsr_tile_mask(b, left, LANES));
}

/* Extracts the lanes of `loaded` one by one. */
static void extract_positions(sum *s, MlirValue loaded, MlirValue *positions) {
    tsr_tile_builder *b = &s->step->b;
    for (uint32_t i = 0; i < LANES; i++)
        positions[i] = tsr_tile_to(b, "arith.index_cast", tsr_tile_extract(b, loaded, i),
                                   tsr_tile_index_type(b));
}

/* Sums a part of the columns of a row with many updates: adds 32 updates together while the
 * positions of the next 32 are loaded. */
static void sum_many(sum *s) {
    tsr_tile_builder *b = &s->step->b;
    MlirValue at = find_offset(s), count = tsr_tile_sub(b, s->end, s->begin), positions[LANES];
    MlirValue carried[] = {load_input(s, at), load_positions(s, s->begin)};
    MlirValue whole = tsr_tile_sub(b, s->end, tsr_tile_rem(b, count, LANES));
    TSR_TILE_FOR_CARRIED(b, most, s->begin, whole, LANES, 2, carried) {
        MlirValue loaded = carried[1];
        carried[1] = load_positions(s, tsr_tile_offset(b, most.index, LANES));
        extract_positions(s, loaded, positions);
        carried[0] = add_updates(s, carried[0], LANES, positions, NULL);
    }
    TSR_TILE_FOR_CARRIED(b, rest, whole, s->end, FEW_AT_ONCE, 1, carried) {
        carried[0] = add_few(s, carried[0], rest.index, FEW_AT_ONCE, false);
    }
    tsr_tile_store(b, s->plan->of.dtype, carried[0], s->step->buffers[s->step->input_count], at,
                   s->mask);
}

/* A list of MANY elements or more contains a multiple of MANY / 2: the program of the first such
 * multiple sums the list. */
static void lower_many(sum s, MlirValue number, int64_t parts) {
    tsr_tile_builder *b = &s.step->b;
    int64_t outer = s.plan->of.axis.outer, size = s.plan->of.axis.size;
    MlirValue item = tsr_tile_div(b, number, parts);
    MlirValue position = tsr_tile_mul(b, tsr_tile_div(b, item, outer), MANY / 2);
    MlirValue key = load_word(&s, KEYS, position), limit = tsr_tile_index(b, size);
    s.outer = tsr_tile_rem(b, item, outer);
    s.row = tsr_tile_min(b, key, tsr_tile_index(b, size - 1));
    find_list(&s, tsr_tile_rem(b, number, parts), MANY_LANES);
    MlirValue is_row = tsr_tile_icompare(b, TSR_ICMP_SLT, key, limit);
    MlirValue before = tsr_tile_sub(b, position, s.begin), count = tsr_tile_sub(b, s.end, s.begin);
    MlirValue is_first = tsr_tile_icompare(b, TSR_ICMP_SLT, before, tsr_tile_index(b, MANY / 2));
    MlirValue is_many = tsr_tile_icompare(b, TSR_ICMP_SGE, count, tsr_tile_index(b, MANY));
    MlirValue mine = tsr_tile_2(b, "arith.andi", is_row, is_first);
    tsr_tile_loop run;
    begin_if(b, &run, tsr_tile_2(b, "arith.andi", mine, is_many));
    sum_many(&s);
    tsr_tile_loop_end(b, &run, NULL);
}

static void lower_few(sum s, MlirValue number, uint32_t lanes, int64_t parts) {
    tsr_tile_builder *b = &s.step->b;
    MlirValue item = tsr_tile_div(b, number, parts);
    s.outer = tsr_tile_div(b, item, s.plan->of.axis.size);
    s.row = tsr_tile_rem(b, item, s.plan->of.axis.size);
    find_list(&s, tsr_tile_rem(b, number, parts), lanes);
    MlirValue count = tsr_tile_sub(b, s.end, s.begin);
    tsr_tile_loop run;
    begin_if(b, &run, tsr_tile_icompare(b, TSR_ICMP_SLT, count, tsr_tile_index(b, MANY)));
    sum_few(&s);
    tsr_tile_loop_end(b, &run, NULL);
}

/* updates, starts, keys, positions(, input) -> result. The programs of long lists come first. */
static tsr_result lower_sum(tsr_tile_group *step, const void *user) {
    const plan *p = user;
    const tsr_axis *axis = &p->of.axis;
    tsr_tile_builder *b = &step->b;
    uint32_t lanes = tsr_lanes_fit(TSR_BLOCKED_ELEMENTS, axis->inner);
    if (lanes < LANES) lanes = LANES;
    int64_t few_parts = tsr_divide_up(axis->inner, lanes);
    int64_t many_parts = tsr_divide_up(axis->inner, MANY_LANES);
    int64_t few = axis->outer * axis->size * few_parts;
    int64_t many = p->padded / (MANY / 2) * axis->outer * many_parts;
    sum s = {.step = step, .plan = p, .mask = tsr_tile_null};
    MlirValue pid = tsr_tile_program_id(b), limit = tsr_tile_index(b, many);
    MlirValue is_many = tsr_tile_icompare(b, TSR_ICMP_SLT, pid, limit);
    MlirValue is_few = tsr_tile_icompare(b, TSR_ICMP_SGE, pid, limit);
    tsr_tile_loop run;
    step->grid = many + few;
    step->registers = REGISTERS;
    begin_if(b, &run, is_many);
    lower_many(s, pid, many_parts);
    tsr_tile_loop_end(b, &run, NULL);
    begin_if(b, &run, is_few);
    lower_few(s, tsr_tile_offset(b, pid, -many), lanes, few_parts);
    tsr_tile_loop_end(b, &run, NULL);
    tsr_tile_set_blocked(b, b->at.block, false);
    return TSR_SUCCESS;
}

/* ---- the steps ------------------------------------------------------------------------------- */

static const char *const count_names[PASSES_MAX] = {"_count0", "_count1", "_count2", "_count3"};
static const char *const move_names[PASSES_MAX] = {"_move0", "_move1", "_move2", "_move3"};

static void make_steps(const tsr_tile_group *group, plan *p, tsr_tile_sequence *sequence) {
    tsr_type list = {TSR_DTYPE_I32, {.rank = 1, .dims = {(uint64_t)p->padded}}};
    tsr_type counts = {TSR_DTYPE_I32, {.rank = 2, .dims = {(uint64_t)p->parts, count_lanes(p)}}};
    tsr_type starts = {TSR_DTYPE_I32, {.rank = 1, .dims = {(uint64_t)starts_of(p)}}};
    uint32_t made = group->input_count, keys = made, positions = 0;
    tsr_tile_step *step = sequence->steps;
    for (uint32_t i = 0; i < p->digits; i++) {
        p->each[i] = (digit){p, i};
        *step++ = (tsr_tile_step){.suffix = count_names[i],
                                  .inputs = {i ? keys : p->of.indices},
                                  .input_count = 1,
                                  .outputs = {i ? counts : list, counts},
                                  .output_count = i ? 1 : 2,
                                  .lower = lower_count,
                                  .plan = &p->each[i]};
        made += i ? 1 : 2;
        *step++ = (tsr_tile_step){.suffix = move_names[i],
                                  .inputs = {keys, i ? positions : made - 1, made - 1},
                                  .input_count = i ? 3 : 2,
                                  .outputs = {list, list},
                                  .output_count = 2,
                                  .lower = lower_move,
                                  .plan = &p->each[i]};
        keys = made++;
        positions = made++;
    }
    *step++ = (tsr_tile_step){.suffix = "_starts",
                              .inputs = {keys},
                              .input_count = 1,
                              .outputs = {starts},
                              .output_count = 1,
                              .lower = lower_starts};
    *step++ = (tsr_tile_step){.suffix = "",
                              .inputs = {p->updates, made, keys, positions, p->of.input},
                              .input_count = mlirOperationIsNull(p->of.fill) ? 5 : 4,
                              .outputs = {group->types[group->input_count]},
                              .output_count = 1,
                              .is_main = true,
                              .lower = lower_sum};
    sequence->step_count = (uint32_t)(step - sequence->steps);
    sequence->results[0] = made + 1;
    sequence->plan = p;
}

tsr_result tsr_tile_plan_scatter(tsr_tile_group *group, tsr_tile_sequence *out_sequence,
                                 bool *out_taken) {
    enum { BITS_MAX = 30 };
    tsr_gather of;
    uint32_t updates = 0, bits = 0;
    *out_taken = false;
    TRY(group->ctx, tsr_gather_read(group, &of));
    TRY(group->ctx, tsr_runs_argument(group, 2, &updates));
    if (!group->b.target->arch || !of.count || !of.axis.outer || !of.axis.size || !of.axis.inner ||
        of.count >> BITS_MAX || of.axis.size >> BITS_MAX)
        return TSR_SUCCESS;
    if ((of.axis.size + of.count) * of.axis.inner * of.axis.outer < ELEMENTS_MIN)
        return TSR_SUCCESS;
    while (of.axis.size >> bits) bits++;
    plan *p = TSR_NEW(group->arena, plan, 1);
    if (!p) FAIL(group->ctx, TSR_MEMORY, "no memory to lower '%s'", group->name);
    *p = (plan){.of = of, .updates = updates, .part = PART_MIN};
    p->padded = tsr_round_up(of.count, LANES);
    while (p->part * PARTS_MAX < p->padded) p->part *= 2;
    p->parts = tsr_divide_up(p->padded, p->part);
    p->digits = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    p->bits = (bits + p->digits - 1) / p->digits;
    make_steps(group, p, out_sequence);
    *out_taken = true;
    return TSR_SUCCESS;
}
