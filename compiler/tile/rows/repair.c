/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows`: tessera.repair. All repairs of a row that depend on the same number, its
 * reciprocal size, form a group: a row whose reciprocal size has neither overflowed nor vanished
 * skips the whole group after one comparison. For other rows the elements are read again, one by
 * one and in f64, whose range squares of f32 do not exceed; elements of f64 are scaled. The code
 * therefore uses no vectors and few registers, and does not use the values that lanes hold. Columns
 * in a vector are recomputed only if necessary: one by one on a CPU, together on a GPU.
 *
 * A mean without a group is repaired according to its own magnitude. In a group it waits for the
 * reciprocal size, which is 0 or NaN whenever the mean has to be repaired and the elements are not
 * all equal; until then the mean has its unrepaired value, and no stored or held value may depend
 * on it.
 *
 * Repairs of incoming gradients with the same operands form a group, too: a row whose means are far
 * from the largest number skips it. The others get their means from sums in f64, and all four
 * numbers are scaled (tessera.repair).
 */
#include "compiler/tile/rows/rows.h"

#include <math.h>
#include <string.h>

typedef tsr_row_item item;
typedef tsr_rows rows;

enum { X, PLAIN, CENTRE };                               /* operands */
enum { NORMAL = 1, OF_PRODUCT, OF_SIZE, OF_MEAN };       /* operands of incoming gradients */
enum { MEAN, SIZE, OFFSET, PRODUCT, SCALE, PART_COUNT }; /* parts of a group */
enum { ALL, REST, POWER };                               /* walks */
enum { TOTAL, LEAST, MOST, CARRIED_COUNT };              /* values carried by a walk */

typedef struct group {
    rows *r;
    tsr_tile_builder *b;
    item *parts[PART_COUNT]; /* NULL: not in the group */
    item *x;
    uint32_t stage;
    double eps;
    bool is_wide, centred; /* elements are f64; squares are of differences from the mean */
    bool plain_mean;       /* the mean is repaired without regard to the spread of the elements */
    bool is_power;         /* the size is the mean of squares itself */
    const item *incoming;  /* a repair of an incoming gradient; NULL: of a row */
    MlirType wide, type;   /* f64; type of the items */
    uint32_t lanes;        /* adjacent columns; 0: one row */
    MlirValue odd;         /* i1: the row is recomputed */
    MlirValue root;        /* the unrepaired reciprocal size; null: no group computes the mean */
    MlirValue small;       /* i1: the size has vanished; null: it cannot vanish */
    MlirValue scale;       /* scale of f64 rows; null: not scaled */
    MlirValue high, low;   /* the mean, in f64 and scaled, as the sum of two numbers */
    MlirValue least, most; /* smallest and largest element */
} group;

static bool is_of(const item *it, const char *what) {
    const char *of = it->kind == TSR_ROW_REPAIR ? tsr_op_string(it->node.op, "of") : NULL;
    return of && strcmp(of, what) == 0;
}

static bool is_incoming(const item *it) {
    const char *of = it->kind == TSR_ROW_REPAIR ? tsr_op_string(it->node.op, "of") : NULL;
    return of && strncmp(of, "incoming", strlen("incoming")) == 0;
}

static bool is_size(const item *it) { return is_of(it, "size") || is_of(it, "deviation"); }

/* ---- which repairs are one group ------------------------------------------------------------- */

/* The only later repair of a size of this mean's row; Returns NULL if there is no such repair, or
 * more than one.
 */
static item *find_size(const rows *r, const item *mean) {
    item *found = NULL;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (!is_of(it, "deviation") || it->operands[X] != mean->operands[X]) continue;
        if (found) return NULL;
        found = it;
    }
    return found && found->stage > mean->stage ? found : NULL;
}

static bool is_stored_early(const rows *r, const item *it, uint32_t stage) {
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (r->results[i] == it && r->whole_rows[i] && it->stage < stage) return true;
    return false;
}

/* Marks the values computed from the mean except through reductions; false if the mean cannot wait.
 */
static bool may_wait(rows *r, const item *mean, const item *size) {
    uint32_t reductions = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        bool reduces = it->kind == TSR_ROW_REDUCE || it->kind == TSR_ROW_SUM || is_incoming(it);
        it->waits = it == mean;
        for (uint32_t k = 0; k < it->operand_count && it != mean; k++)
            it->waits |= it->operands[k]->waits;
        if (!it->waits || it == mean) continue;
        if (reduces) {
            reductions += it->stage < size->stage;
            it->waits = false;
        } else if (it->level < 2) {
            if (!is_of(it, "offset") || it->operands[PLAIN] != size->operands[PLAIN]) return false;
        } else if (it->stage < size->stage && (it->cached || it->resident)) {
            return false;
        }
        if (is_stored_early(r, it, size->stage)) return false;
    }
    return reductions == 1;
}

static bool waits(rows *r, const item *it) {
    const item *size = is_of(it, "mean") ? find_size(r, it) : NULL;
    return size && may_wait(r, it, size);
}

/* Finds the repairs of the same incoming gradient. */
static void find_incoming(group *g) {
    static const char *const names[PART_COUNT] = {[MEAN] = "incoming_mean",
                                                  [SIZE] = "incoming_size",
                                                  [PRODUCT] = "incoming_product",
                                                  [SCALE] = "incoming_scale"};
    const size_t size = g->incoming->operand_count * sizeof g->incoming->operands[0];
    for (uint32_t i = 0; i < g->r->item_count; i++) {
        item *it = g->r->items[i];
        if (!is_incoming(it) || it->operand_count != g->incoming->operand_count ||
            memcmp(it->operands, g->incoming->operands, size) != 0)
            continue;
        for (uint32_t k = 0; k < PART_COUNT; k++)
            if (names[k] && is_of(it, names[k])) g->parts[k] = it;
    }
}

/* Finds the parts of the group of repair `first`: all repairs whose operands are available. */
static void find_parts(group *g, item *first) {
    rows *r = g->r;
    if (g->incoming) {
        find_incoming(g);
        return;
    }
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->repaired || it->kind != TSR_ROW_REPAIR || it->operands[X] != g->x) continue;
        if (g->plain_mean || g->is_power) {
            if (it == first) g->parts[g->is_power ? SIZE : MEAN] = it;
            continue;
        }
        if (is_of(it, "mean")) {
            if (it == first ||
                (is_of(first, "deviation") && find_size(r, it) == first && it->later))
                g->parts[MEAN] = it;
            continue;
        }
        bool together = !is_of(first, "mean") && it->operands[PLAIN] == first->operands[PLAIN] &&
                        it->stage == first->stage && is_of(it, "size") == is_of(first, "size");
        if (is_size(it) && together) g->parts[SIZE] = it;
        if (is_of(it, "offset") && together && !mlirValueIsNull(it->operands[CENTRE]->scalar))
            g->parts[OFFSET] = it;
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static MlirValue number(const group *g, double value) {
    return tsr_tile_float(g->b, g->wide, value);
}

static MlirValue own_number(const group *g, double value) {
    return tsr_tile_float(g->b, g->type, value);
}

/* The number of part `i` of a row that is not recomputed. */
static MlirValue plain_of(const group *g, uint32_t i) {
    static const uint32_t of_incoming[PART_COUNT] = {
        [MEAN] = OF_MEAN, [SIZE] = OF_SIZE, [PRODUCT] = OF_PRODUCT};
    if (i == OFFSET) return own_number(g, -0.0);
    if (i == SCALE) return own_number(g, 1);
    return g->parts[i]->operands[g->incoming ? of_incoming[i] : PLAIN]->scalar;
}

static double least_normal(const group *g) { return g->is_wide ? 0x1p-1022 : 0x1p-126; }

static double largest(const group *g) {
    return g->is_wide ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
}

/* 1 / sqrt(eps), as kernels compute it in the type of the items. */
static double root_of_eps(const group *g) {
    return g->is_wide ? 1 / sqrt(g->eps) : (double)(1 / sqrtf((float)g->eps));
}

static MlirValue negate(const group *g, MlirValue condition) {
    MlirType truth = tsr_tile_value_type(g->b, TSR_DTYPE_I1, g->lanes);
    return tsr_tile_2(g->b, "arith.xori", condition, tsr_tile_int(g->b, truth, 1));
}

static MlirValue larger(const group *g, MlirValue x, MlirValue y) {
    return tsr_tile_select(g->b, tsr_tile_fcompare(g->b, TSR_FCMP_OGT, x, y), x, y);
}

static MlirValue smaller(const group *g, MlirValue x, MlirValue y) {
    return tsr_tile_select(g->b, tsr_tile_fcompare(g->b, TSR_FCMP_OLT, x, y), x, y);
}

static MlirValue minus(const group *g, MlirValue x, MlirValue y) {
    return tsr_tile_2(g->b, "arith.subf", x, y);
}

static MlirValue times(const group *g, MlirValue x, MlirValue y) {
    return tsr_tile_2(g->b, "arith.mulf", x, y);
}

/* Converts to f64 and scales. */
static MlirValue widen(const group *g, MlirValue x) {
    return g->is_wide ? times(g, x, g->scale) : tsr_tile_to(g->b, "arith.extf", x, g->wide);
}

static MlirValue narrow(const group *g, MlirValue x) {
    return g->is_wide ? x : tsr_tile_to(g->b, "arith.truncf", x, g->type);
}

/* ---- a row that is computed again ------------------------------------------------------------ */

/* At least the binary logarithm of the root of the number of elements, which no element of a
 * normalized row exceeds. */
static int root_exponent(const group *g) {
    uint64_t count = (uint64_t)g->r->columns;
    int bits = count > 1 ? 64 - __builtin_clzll(count - 1) : 0;
    return (bits + 1) / 2;
}

/* Adding less than half of the largest number's last place does not make that overflow. */
static double far(const group *g) { return g->is_wide ? 0x1p970 : 0x1p103; }

/* Must the means of this row's incoming gradient be recomputed? */
static MlirValue is_incoming_odd(const group *g) {
    tsr_tile_builder *b = g->b;
    MlirValue size = tsr_tile_1(b, "math.absf", g->incoming->operands[OF_PRODUCT]->scalar);
    if (g->incoming->operand_count > OF_MEAN)
        size = tsr_tile_2(b, "arith.addf", size,
                          tsr_tile_1(b, "math.absf", g->incoming->operands[OF_MEAN]->scalar));
    MlirValue safe = own_number(g, ldexp(far(g), -1 - root_exponent(g)));
    return negate(g, tsr_tile_fcompare(b, TSR_FCMP_OLT, size, safe));
}

/* Must this row be recomputed? A mean without a group decides by its magnitude: if that is large,
 * the difference from an element may overflow. Sets `small`. */
static MlirValue is_odd(group *g) {
    tsr_tile_builder *b = g->b;
    if (g->incoming) return is_incoming_odd(g);
    if (mlirValueIsNull(g->root)) {
        const item *alone = g->parts[g->is_power ? SIZE : MEAN];
        MlirValue size = tsr_tile_1(b, "math.absf", alone->operands[PLAIN]->scalar);
        MlirValue safe = own_number(g, g->is_power || g->plain_mean ? (double)INFINITY : far(g));
        return negate(g, tsr_tile_fcompare(b, TSR_FCMP_OLT, size, safe));
    }
    MlirValue odd = negate(g, tsr_tile_fcompare(b, TSR_FCMP_OGT, g->root, own_number(g, 0)));
    if (g->eps >= least_normal(g)) return odd;
    MlirValue most = own_number(g, 1 / sqrt(least_normal(g)));
    g->small = tsr_tile_fcompare(b, TSR_FCMP_OGT, g->root, most);
    return tsr_tile_2(b, "arith.ori", odd, g->small);
}

static void find_scale(group *g) {
    MlirValue down = number(g, 0x1p-600);
    if (!g->is_wide) return;
    g->scale = down;
    if (!mlirValueIsNull(g->small))
        g->scale = tsr_tile_select(g->b, g->small, number(g, 0x1p560), down);
}

/* The number of elements. */
static MlirValue count_of(const group *g) {
    tsr_tile_builder *b = g->b;
    int64_t columns = g->r->columns;
    if (!tsr_extent_is_open(columns)) return number(g, (double)columns);
    MlirType whole = tsr_tile_value_type(b, TSR_DTYPE_I64, 0);
    MlirValue count = tsr_tile_to(b, "arith.index_cast", tsr_tile_index(b, columns), whole);
    return tsr_tile_splat(
        b, tsr_tile_to(b, "arith.sitofp", count, tsr_tile_value_type(b, TSR_DTYPE_F64, 0)),
        g->lanes);
}

/* The mean of all elements, of their differences from `high`, or of squares. */
static MlirValue walk(group *g, int which) {
    tsr_tile_builder *b = g->b;
    rows *r = g->r;
    MlirValue values[CARRIED_COUNT] = {number(g, 0), number(g, (double)INFINITY),
                                       number(g, -(double)INFINITY)};
    uint32_t carried = which == ALL && g->parts[MEAN] ? CARRIED_COUNT : 1;
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, r->columns), 1, carried,
                         values) {
        MlirValue x = widen(g, tsr_rows_value_alone(r, g->x, loop.index, g->stage)), term = x;
        if (which != ALL && g->centred) term = minus(g, x, g->high);
        if (which == POWER && g->centred) term = minus(g, term, g->low);
        if (which == POWER) term = times(g, term, term);
        values[TOTAL] = tsr_tile_2(b, "arith.addf", values[TOTAL], term);
        if (carried > 1) values[LEAST] = smaller(g, x, values[LEAST]);
        if (carried > 1) values[MOST] = larger(g, x, values[MOST]);
        loop.is_rare = true;
    }
    if (carried > 1) g->least = values[LEAST];
    if (carried > 1) g->most = values[MOST];
    return tsr_tile_2(b, "arith.divf", values[TOTAL], count_of(g));
}

/* The unrepaired mean if that is finite, else the recomputed one; 0 if the difference from an
 * element is too large. */
static MlirValue emit_mean(const group *g) {
    tsr_tile_builder *b = g->b;
    MlirValue plain = g->parts[MEAN]->operands[PLAIN]->scalar;
    MlirValue finite = tsr_tile_fcompare(b, TSR_FCMP_OLT, tsr_tile_1(b, "math.absf", plain),
                                         own_number(g, (double)INFINITY));
    MlirValue again = tsr_tile_2(b, "arith.addf", g->high, g->low);
    if (g->is_wide) again = times(g, again, number(g, 0x1p600));
    MlirValue mean = tsr_tile_select(b, finite, plain, narrow(g, again)), at = widen(g, mean);
    if (g->plain_mean) return mean;
    MlirValue far = larger(g, minus(g, g->most, at), minus(g, at, g->least));
    /* Differences above this limit are rounded to infinity. */
    MlirValue end = number(g, g->is_wide ? 0x1.fffffffffffffp423 : 0x1.fffffefffffffp127);
    MlirValue too_far = tsr_tile_fcompare(b, TSR_FCMP_OGT, far, end);
    return tsr_tile_select(b, too_far, own_number(g, 0), mean);
}

/* 1 / sqrt(power + eps) of the unscaled row, clamped to the largest number of its type; *out_root:
 * the root of the scaled row. If all elements are equal it is 1 / sqrt(eps), rounded as usual. */
static MlirValue emit_size(const group *g, MlirValue power, MlirValue *out_root) {
    tsr_tile_builder *b = g->b;
    MlirValue eps = number(g, g->eps), flat_root = number(g, root_of_eps(g));
    for (int round = 0; g->is_wide && round < 2; round++) /* the square of the scale may overflow */
        eps = times(g, eps, g->scale);
    MlirValue flat = tsr_tile_fcompare(b, TSR_FCMP_OEQ, power, number(g, 0));
    power = tsr_tile_2(b, "arith.addf", power, eps);
    MlirValue root = tsr_tile_2(b, "arith.divf", number(g, 1), tsr_tile_1(b, "math.sqrt", power));
    MlirValue size = g->is_wide ? times(g, root, g->scale) : root;
    MlirValue most = number(g, largest(g));
    MlirValue more = tsr_tile_fcompare(b, TSR_FCMP_OGT, size, most);
    size = tsr_tile_select(b, flat, flat_root, tsr_tile_select(b, more, most, size));
    if (g->is_wide) root = tsr_tile_select(b, more, number(g, 0x1.fffffffffffffp463), root);
    *out_root = g->is_wide ? tsr_tile_select(b, flat, flat_root, root) : size;
    return narrow(g, size);
}

/* The mean of squares of the unscaled row. */
static MlirValue emit_power(const group *g, MlirValue power) {
    for (int round = 0; g->is_wide && round < 2; round++)
        power = times(g, power, number(g, 0x1p600));
    return narrow(g, power);
}

/* Minus the means of an incoming gradient, and of its product with the normalized row. */
static void walk_incoming(group *g, MlirValue *out_mean, MlirValue *out_product) {
    tsr_tile_builder *b = g->b;
    rows *r = g->r;
    MlirValue values[] = {number(g, 0), number(g, 0)}, count = number(g, -(double)r->columns);
    TSR_TILE_FOR_CARRIED(b, loop, tsr_tile_index(b, 0), tsr_tile_index(b, r->columns), 1, 2,
                         values) {
        MlirValue x = widen(g, tsr_rows_value_alone(r, g->x, loop.index, g->stage));
        item *row = g->incoming->operands[NORMAL];
        MlirValue normal = tsr_rows_value_alone(r, row, loop.index, g->stage);
        if (!g->is_wide) normal = tsr_tile_to(b, "arith.extf", normal, g->wide);
        values[0] = tsr_tile_2(b, "arith.addf", values[0], x);
        values[1] = tsr_tile_2(b, "arith.addf", values[1], times(g, x, normal));
        loop.is_rare = true;
    }
    *out_mean = tsr_tile_2(b, "arith.divf", values[0], count);
    *out_product = tsr_tile_2(b, "arith.divf", values[1], count);
}

/* The unrepaired mean if that is finite, else `again`; both times the scale of the gradient. */
static MlirValue scale_mean(const group *g, uint32_t part, MlirValue again, double scale) {
    tsr_tile_builder *b = g->b;
    MlirValue plain = plain_of(g, part), own = own_number(g, scale);
    MlirValue finite = tsr_tile_fcompare(b, TSR_FCMP_OLT, tsr_tile_1(b, "math.absf", plain),
                                         own_number(g, (double)INFINITY));
    again = times(g, again, number(g, g->is_wide ? 0x1p600 * scale : scale));
    return tsr_tile_select(b, finite, times(g, plain, own), narrow(g, again));
}

/* The gradient, less both of its means times what they are multiplied by, is at most 2 + the root
 * of the number of elements times as large as its largest element. */
static void emit_incoming(group *g, MlirValue *out_values) {
    tsr_tile_builder *b = g->b;
    double scale = ldexp(1, -2 - root_exponent(g));
    MlirValue mean, product;
    walk_incoming(g, &mean, &product);
    if (g->parts[MEAN]) out_values[MEAN] = scale_mean(g, MEAN, mean, scale);
    if (g->parts[PRODUCT]) out_values[PRODUCT] = scale_mean(g, PRODUCT, product, scale);
    out_values[SCALE] = own_number(g, scale);
    if (!g->parts[SIZE]) return;
    MlirValue most = own_number(g, largest(g));
    MlirValue size = times(g, plain_of(g, SIZE), own_number(g, 1 / scale));
    MlirValue more = tsr_tile_fcompare(b, TSR_FCMP_OGT, size, most);
    out_values[SIZE] = tsr_tile_select(b, more, most, size);
}

static void emit_again(group *g, MlirValue *out_values) {
    MlirValue root = {NULL}, centre = {NULL};
    find_scale(g);
    if (g->incoming) {
        emit_incoming(g, out_values);
        return;
    }
    if (g->centred) {
        g->high = walk(g, ALL);
        g->low = walk(g, REST);
    }
    if (g->parts[MEAN]) out_values[MEAN] = centre = emit_mean(g);
    if (g->is_power) out_values[SIZE] = emit_power(g, walk(g, POWER));
    if (mlirValueIsNull(g->root)) return;
    out_values[SIZE] = emit_size(g, walk(g, POWER), &root);
    if (!g->parts[OFFSET]) return;
    if (!g->parts[MEAN]) centre = g->parts[OFFSET]->operands[CENTRE]->scalar;
    MlirValue apart = minus(g, minus(g, widen(g, centre), g->high), g->low);
    out_values[OFFSET] = narrow(g, times(g, apart, root));
}

/* i1: is at least one column recomputed? */
static MlirValue is_any_odd(const group *g) {
    tsr_tile_builder *b = g->b;
    if (!g->lanes) return g->odd;
    MlirType type = tsr_tile_value_type(b, TSR_DTYPE_F32, g->lanes);
    MlirType one = tsr_tile_value_type(b, TSR_DTYPE_F32, 0);
    MlirValue odd = g->odd, none = tsr_tile_float(b, type, 0);
    tsr_reduction any = {
        .group = g->r->group, .dtype = TSR_DTYPE_F32, .op = &tsr_reduction_max_number};
    if (!mlirValueIsNull(g->r->point.mask))
        odd = tsr_tile_2(b, "arith.andi", odd, g->r->point.mask);
    odd = tsr_tile_select(b, odd, tsr_tile_float(b, type, 1), none);
    return tsr_tile_fcompare(b, TSR_FCMP_OGT, tsr_reduction_tree(&any, odd, g->lanes),
                             tsr_tile_float(b, one, 0));
}

static void emit_group(group *g) {
    tsr_tile_builder *b = g->b;
    MlirValue zero = tsr_tile_index(b, 0), values[PART_COUNT], next[PART_COUNT];
    g->odd = is_odd(g);
    MlirValue count = tsr_tile_select(b, is_any_odd(g), tsr_tile_index(b, 1), zero);
    const tsr_point point = g->r->point;
    uint32_t carried = 0;
    for (uint32_t i = 0; i < PART_COUNT; i++)
        if (g->parts[i]) values[carried++] = plain_of(g, i);
    TSR_TILE_FOR_CARRIED(b, loop, zero, count, 1, carried, values) {
        emit_again(g, next);
        carried = 0;
        for (uint32_t i = 0; i < PART_COUNT; i++) {
            if (!g->parts[i]) continue;
            values[carried] =
                g->lanes ? tsr_tile_select(b, g->odd, next[i], values[carried]) : next[i];
            carried++;
        }
        loop.is_rare = true;
    }
    g->r->point = point;
    carried = 0;
    for (uint32_t i = 0; i < PART_COUNT; i++) {
        if (!g->parts[i]) continue;
        g->parts[i]->scalar = values[carried++];
        g->parts[i]->repaired = true;
    }
}

/* ---- columns, one after the other ------------------------------------------------------------ */

/* Marks the items that are read to recompute `it`; values of a level below 2 are constant along a
 * column. */
static void find_of_columns(item *it) {
    if (it->of_columns) return;
    it->of_columns = true;
    for (uint32_t k = 0; k < it->operand_count && it->level == 2; k++)
        find_of_columns(it->operands[k]);
}

static MlirValue local_of(const group *g, const item *it) {
    tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
    return tsr_tile_local(g->b, tsr_tile_storage_type(g->b, dtype), g->lanes);
}

static void store_copy(const group *g, const item *it, MlirValue value, MlirValue at) {
    tsr_tile_store(g->b, tsr_tile_compute_dtype(it->node.dtype), value, it->copy, at,
                   tsr_tile_null);
}

static MlirValue load_copy(const group *g, const item *it, MlirValue at, uint32_t lanes) {
    return tsr_tile_load(g->b, tsr_tile_compute_dtype(it->node.dtype), it->copy, at, lanes,
                         tsr_tile_null);
}

/* Emits the repairs of one of the adjacent columns. */
static void emit_column(group *g, MlirValue lane, MlirValue first) {
    rows *r = g->r;
    group one = *g;
    one.lanes = 0;
    one.type = tsr_tile_value_type(g->b, g->is_wide ? TSR_DTYPE_F64 : TSR_DTYPE_F32, 0);
    one.wide = tsr_tile_value_type(g->b, TSR_DTYPE_F64, 0);
    r->point.lanes = 0;
    r->point.mask = tsr_tile_null;
    r->point.index[r->space.rank - 1] = tsr_tile_add(g->b, first, lane);
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->of_columns && r->items[i]->level < 2)
            r->items[i]->scalar = load_copy(g, r->items[i], lane, 0);
    for (uint32_t i = 0; i < PART_COUNT; i++)
        if (i != MEAN && g->parts[i] && !mlirValueIsNull(g->root))
            one.root = g->parts[i]->operands[PLAIN]->scalar;
    emit_group(&one);
    for (uint32_t i = 0; i < PART_COUNT; i++)
        if (g->parts[i]) store_copy(g, g->parts[i], g->parts[i]->scalar, lane);
}

/* A CPU recomputes the columns of a vector one by one if one column must be recomputed. The values
 * of the columns are in local buffers during that time: values that the loop carries would occupy
 * registers in the code around the loop. */
static void emit_columns(group *g) {
    tsr_tile_builder *b = g->b;
    rows *r = g->r;
    MlirValue zero = tsr_tile_index(b, 0), one = tsr_tile_index(b, 1);
    MlirValue end = tsr_tile_index(b, g->lanes);
    const tsr_point point = r->point;
    MlirValue first = point.index[r->space.rank - 1];
    g->odd = is_odd(g);
    MlirValue any = tsr_tile_select(b, is_any_odd(g), one, zero);
    for (uint32_t i = 0; i < r->item_count; i++) r->items[i]->of_columns = false;
    find_of_columns(g->x);
    for (uint32_t i = 0; i < PART_COUNT; i++) {
        item *part = g->parts[i];
        for (uint32_t k = PLAIN; part && k < part->operand_count; k++)
            find_of_columns(part->operands[k]);
    }
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        if (it->of_columns && it->level < 2) it->copy = local_of(g, it);
        it->vector = it->level < 2 ? it->scalar : it->vector;
    }
    for (uint32_t i = 0; i < PART_COUNT; i++) {
        if (!g->parts[i]) continue;
        g->parts[i]->of_columns = false;
        g->parts[i]->copy = local_of(g, g->parts[i]);
        store_copy(g, g->parts[i], plain_of(g, i), zero);
    }
    TSR_TILE_FOR(b, odd, zero, any, 1) {
        for (uint32_t i = 0; i < r->item_count; i++)
            if (r->items[i]->of_columns && r->items[i]->level < 2)
                store_copy(g, r->items[i], r->items[i]->scalar, zero);
        if (!mlirValueIsNull(point.mask))
            end = tsr_tile_min(
                b, end,
                tsr_tile_sub(b, tsr_tile_index(b, r->space.dims[r->space.rank - 1]), first));
        TSR_TILE_FOR(b, each, zero, end, 1) {
            emit_column(g, each.index, first);
            each.is_rare = odd.is_rare = true;
        }
    }
    r->point = point;
    for (uint32_t i = 0; i < r->item_count; i++)
        if (r->items[i]->of_columns && r->items[i]->level < 2)
            r->items[i]->scalar = r->items[i]->vector;
    for (uint32_t i = 0; i < PART_COUNT; i++)
        if (g->parts[i]) g->parts[i]->scalar = load_copy(g, g->parts[i], zero, g->lanes);
}

void tsr_rows_emit_repair(rows *r, item *it, uint32_t stage) {
    tsr_tile_builder *b = &r->group->b;
    if (it->repaired) return;
    bool incoming = is_incoming(it);
    it->scalar = it->operands[incoming ? OF_PRODUCT : PLAIN]->scalar;
    it->later = waits(r, it);
    if (it->later) return;
    group g = {.r = r,
               .b = b,
               .x = it->operands[X],
               .stage = stage,
               .is_wide = it->node.dtype == TSR_DTYPE_F64,
               .centred = !is_of(it, "size"),
               .plain_mean = is_of(it, "average"),
               .is_power = is_of(it, "variance"),
               .incoming = incoming ? it : NULL,
               .lanes = r->has_trailing ? r->point.lanes : 0,
               .type = mlirValueGetType(it->scalar)};
    tsr_op_f64(it->node.op, "eps", &g.eps);
    g.wide = tsr_tile_value_type(b, TSR_DTYPE_F64, g.lanes);
    if (is_size(it) || is_of(it, "offset")) g.root = it->operands[PLAIN]->scalar;
    find_parts(&g, it);
    if (g.lanes && !b->target->arch)
        emit_columns(&g);
    else
        emit_group(&g);
}
