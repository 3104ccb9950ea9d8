/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel families `max_pool2d`, `avg_pool2d` and their gradients, of images [N, H, W, C]. Vectors
 * run along the channels.
 *
 * Forward, a program computes some lines of the result; the positions of each window are visited in
 * ascending order. For the gradients a program owns some lines of the image and walks backwards
 * over the windows that overlap them, adding to each position. The sum of a position therefore adds
 * its windows in ascending order of the position within the window, for every division of the work.
 * The columns of windows that are wholly inside a line are unrolled.
 */
#include "compiler/tile/kernels/runs.h"
#include "compiler/tile/open.h"

#include <math.h>
#include <string.h>

enum {
    VECTORS = 4,
    COLUMNS_MAX = 8,
    PROGRAM_ELEMENTS = 16 * 1024,
    IMAGE_ELEMENTS = 64 * 1024,
    LINE_BYTES = 64
};

/* One axis, H or W. Windows [first, end) are inside the image. */
typedef struct axis {
    int64_t image, result, window, stride, low;
    int64_t first, end;
} axis;

typedef struct pool {
    tsr_tile_group *group;
    tsr_dtype dtype;
    bool is_max, excludes;
    int64_t images, channels;
    axis axes[2];
    MlirValue image, pooled; /* buffers; pooled: the result, or its gradient */
    MlirValue made;          /* the result of a gradient */
    uint32_t lanes, vectors;
    MlirValue begin, end; /* gradients: the lines of the image that the program owns */
    MlirValue channel, masks[VECTORS];
} pool;

/* The current window along an axis: the image position of its first element, and the range of its
 * positions that are inside the image. */
typedef struct span {
    MlirValue start, low, high;
    bool is_whole;
} span;

/* ---- reading --------------------------------------------------------------------------------- */

static void find_inside(axis *a) {
    int64_t last = a->image + a->low - a->window;
    a->first = tsr_divide_up(a->low, a->stride);
    a->end = last < 0 ? 0 : last / a->stride + 1;
    if (a->end > a->result) a->end = a->result;
    if (a->first > a->end) a->first = a->end;
}

static tsr_result read_windows(pool *p, const tsr_shape *image, const tsr_shape *pooled) {
    MlirOperation op = p->group->root;
    int64_t window[2], strides[2], padding[4];
    size_t counts[3] = {0};
    bool known = image->rank == 4 && pooled->rank == 4 &&
                 tsr_op_i64s(op, "window", 2, window, &counts[0]) && counts[0] == 2 &&
                 tsr_op_i64s(op, "strides", 2, strides, &counts[1]) && counts[1] == 2 &&
                 tsr_op_i64s(op, "padding", 4, padding, &counts[2]) && counts[2] == 4 &&
                 tsr_dtype_is_float(p->dtype);
    if (!known) FAIL(p->group->ctx, TSR_INTERNAL, "'%s': malformed pooling", p->group->name);
    for (size_t i = 0; i < 2; i++) {
        p->axes[i] = (axis){(int64_t)image->dims[i + 1],
                            (int64_t)pooled->dims[i + 1],
                            window[i],
                            strides[i],
                            padding[2 * i],
                            0,
                            0};
        find_inside(&p->axes[i]);
    }
    p->images = (int64_t)image->dims[0];
    p->channels = (int64_t)image->dims[3];
    return TSR_SUCCESS;
}

/* Reads the op: the image, the pooled values and the result are among its operands and result, in
 * an order that depends on the op. */
static tsr_result read(tsr_tile_group *group, bool is_max, bool is_gradient, pool *out_pool) {
    pool p = {.group = group, .is_max = is_max};
    uint32_t first = 0, second = 0, made = group->input_count;
    TRY(group->ctx, tsr_runs_argument(group, 0, &first));
    if (is_gradient && is_max) TRY(group->ctx, tsr_runs_argument(group, 1, &second));
    uint32_t image = is_gradient && !is_max ? made : first;
    uint32_t pooled = !is_gradient ? made : is_max ? second : first;
    p.dtype = group->types[image].dtype;
    p.excludes = tsr_op_flag(group->root, "exclude_padding");
    p.image = group->buffers[image];
    p.pooled = group->buffers[pooled];
    p.made = group->buffers[made];
    TRY(group->ctx, read_windows(&p, &group->types[image].shape, &group->types[pooled].shape));
    uint32_t size = (uint32_t)tsr_dtype_size(tsr_tile_compute_dtype(p.dtype));
    p.lanes = tsr_lanes_fit(group->b.target->vector_bytes / size, p.channels);
    bool few = is_gradient && group->b.target->warp_lanes;
    int64_t vectors = tsr_divide_up(p.channels, p.lanes), most = few ? VECTORS / 2 : VECTORS;
    if (vectors) p.vectors = (uint32_t)tsr_divide_up(vectors, tsr_divide_up(vectors, most));
    *out_pool = p;
    return TSR_SUCCESS;
}

/* ---- positions ------------------------------------------------------------------------------- */

static void enter_channels(pool *p, MlirValue part) {
    tsr_tile_builder *b = &p->group->b;
    int64_t wide = (int64_t)p->lanes * p->vectors;
    p->channel = tsr_tile_mul(b, part, wide);
    MlirValue left = tsr_tile_sub(b, tsr_tile_index(b, p->channels), p->channel);
    for (uint32_t v = 0; v < p->vectors; v++)
        p->masks[v] =
            p->channels % wide
                ? tsr_tile_mask(b, tsr_tile_offset(b, left, -(int64_t)(v * p->lanes)), p->lanes)
                : tsr_tile_null;
}

/* Offset of the current channels of a position. */
static MlirValue position(pool *p, MlirValue image, bool of_image, MlirValue y, MlirValue x) {
    tsr_tile_builder *b = &p->group->b;
    int64_t height = of_image ? p->axes[0].image : p->axes[0].result;
    int64_t width = of_image ? p->axes[1].image : p->axes[1].result;
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, image, height), y);
    at = tsr_tile_add(b, tsr_tile_mul(b, at, width), x);
    return tsr_tile_add(b, tsr_tile_mul(b, at, p->channels), p->channel);
}

static MlirValue load(pool *p, MlirValue from, MlirValue at, uint32_t v) {
    tsr_tile_builder *b = &p->group->b;
    return tsr_tile_load(b, p->dtype, from, tsr_tile_offset(b, at, v * p->lanes), p->lanes,
                         p->masks[v]);
}

static void store(pool *p, MlirValue value, MlirValue to, MlirValue at, uint32_t v) {
    tsr_tile_builder *b = &p->group->b;
    tsr_tile_store(b, p->dtype, value, to, tsr_tile_offset(b, at, v * p->lanes), p->masks[v]);
}

static MlirValue all(pool *p, double value) {
    tsr_tile_builder *b = &p->group->b;
    return tsr_tile_float(b, tsr_tile_value_type(b, p->dtype, p->lanes), value);
}

static span enter(pool *p, int which, MlirValue window, bool is_whole) {
    tsr_tile_builder *b = &p->group->b;
    const axis *a = &p->axes[which];
    MlirValue zero = tsr_tile_index(b, 0);
    span s = {.start = tsr_tile_offset(b, tsr_tile_mul(b, window, a->stride), -a->low),
              .low = zero,
              .high = tsr_tile_index(b, a->window),
              .is_whole = is_whole && a->window <= COLUMNS_MAX};
    if (is_whole) return s;
    s.low = tsr_tile_max(b, tsr_tile_sub(b, zero, s.start), zero);
    s.high = tsr_tile_min(b, tsr_tile_sub(b, tsr_tile_index(b, a->image), s.start), s.high);
    return s;
}

/* Called at each position of a window with its offset in the image. */
typedef void (*position_fn)(pool *p, MlirValue at, MlirValue *carried);

/* Calls `visit` at the positions of lines [y.low, y.high) in order. */
static void each_position(pool *p, MlirValue image, const span *y, const span *x, uint32_t count,
                          MlirValue *carried, position_fn visit) {
    tsr_tile_builder *b = &p->group->b;
    TSR_TILE_FOR_CARRIED(b, lines, y->low, y->high, 1, count, carried) {
        MlirValue at = position(p, image, true, tsr_tile_add(b, y->start, lines.index), x->start);
        if (x->is_whole) {
            for (int64_t i = 0; i < p->axes[1].window; i++)
                visit(p, tsr_tile_offset(b, at, i * p->channels), carried);
        } else {
            TSR_TILE_FOR_CARRIED(b, columns, x->low, x->high, 1, count, carried) {
                visit(p, tsr_tile_add(b, at, tsr_tile_mul(b, columns.index, p->channels)), carried);
            }
        }
    }
}

/* 1 / the number of elements in the mean of a window. */
static MlirValue share(pool *p, const span *y, const span *x) {
    tsr_tile_builder *b = &p->group->b;
    MlirType scalar = tsr_tile_value_type(b, p->dtype, 0);
    int64_t known = p->axes[0].window * p->axes[1].window;
    MlirValue height = tsr_tile_sub(b, y->high, y->low), width = tsr_tile_sub(b, x->high, x->low);
    MlirValue one = tsr_tile_float(b, scalar, 1);
    if (!p->excludes) return all(p, 1 / (double)known);
    MlirValue count = tsr_tile_2(b, "arith.muli", height, width);
    count = tsr_tile_to(b, "arith.index_cast", count, tsr_tile_value_type(b, TSR_DTYPE_I64, 0));
    count = tsr_tile_to(b, "arith.sitofp", count, scalar);
    return tsr_tile_splat(b, tsr_tile_2(b, "arith.divf", one, count), p->lanes);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void add_element(pool *p, MlirValue at, MlirValue *best) {
    tsr_tile_builder *b = &p->group->b;
    for (uint32_t v = 0; v < p->vectors; v++)
        best[v] = p->is_max ? tsr_element_max(b, p->dtype, best[v], load(p, p->image, at, v))
                            : tsr_element_add(b, p->dtype, best[v], load(p, p->image, at, v));
}

/* The sum of values -0 is -0, except with padding, whose values are +0. */
static MlirValue sum_of_nothing(pool *p, const span *y, const span *x) {
    tsr_tile_builder *b = &p->group->b;
    int64_t positions = p->axes[0].window * p->axes[1].window;
    MlirValue minus = all(p, -0.0);
    MlirValue height = tsr_tile_sub(b, y->high, y->low), width = tsr_tile_sub(b, x->high, x->low);
    MlirValue count = tsr_tile_2(b, "arith.muli", height, width);
    MlirValue whole = tsr_tile_icompare(b, TSR_ICMP_EQ, count, tsr_tile_index(b, positions));
    return tsr_tile_select(b, whole, minus, all(p, 0));
}

static void emit_window(pool *p, MlirValue image, MlirValue line, MlirValue column, const span *y,
                        const span *x) {
    MlirValue values[VECTORS];
    for (uint32_t v = 0; v < p->vectors; v++)
        values[v] = p->is_max ? all(p, -(double)INFINITY) : sum_of_nothing(p, y, x);
    each_position(p, image, y, x, p->vectors, values, add_element);
    MlirValue to = position(p, image, false, line, column);
    MlirValue factor = p->is_max ? tsr_tile_null : share(p, y, x);
    for (uint32_t v = 0; v < p->vectors; v++) {
        if (!p->is_max) values[v] = tsr_element_mul(&p->group->b, p->dtype, values[v], factor);
        store(p, values[v], p->pooled, to, v);
    }
}

/* Windows [begin, end) of a line, all channels of each. */
static void emit_windows(pool *p, MlirValue image, MlirValue line, int64_t begin, int64_t end,
                         bool is_whole) {
    tsr_tile_builder *b = &p->group->b;
    int64_t parts = tsr_divide_up(p->channels, (int64_t)p->lanes * p->vectors);
    if (begin >= end) return;
    bool always = p->axes[0].first == 0 && p->axes[0].end == p->axes[0].result;
    span y = enter(p, 0, line, always);
    TSR_TILE_FOR(b, columns, tsr_tile_index(b, begin), tsr_tile_index(b, end), 1) {
        span x = enter(p, 1, columns.index, is_whole);
        TSR_TILE_FOR(b, channels, tsr_tile_index(b, 0), tsr_tile_index(b, parts), 1) {
            enter_channels(p, channels.index);
            emit_window(p, image, line, columns.index, &y, &x);
        }
    }
}

/* The number of lines, each of `elements` elements, of a program that processes `most` elements; a
 * warp takes one line. */
static int64_t lines_each(const pool *p, int64_t elements, int64_t most) {
    if (p->group->b.target->warp_lanes) return 1;
    return elements < most ? most / elements : 1;
}

static tsr_result lower_forward(pool *p) {
    tsr_tile_builder *b = &p->group->b;
    const axis *y = &p->axes[0], *x = &p->axes[1];
    int64_t lines = p->images * y->result;
    if (!lines || !p->channels || !x->result) return TSR_SUCCESS;
    int64_t each = lines_each(p, x->result * p->channels, PROGRAM_ELEMENTS);
    p->group->grid = tsr_divide_up(lines, each);
    tsr_tile_open_grid(p->group, lines, each, 1);
    MlirValue pid = p->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue first = tsr_tile_mul(b, pid, each);
    MlirValue end =
        tsr_tile_min(b, tsr_tile_offset(b, first, each), tsr_tile_open_count(p->group, lines));
    TSR_TILE_FOR(b, loop, first, end, 1) {
        MlirValue image = tsr_tile_div(b, loop.index, y->result);
        MlirValue line = tsr_tile_rem(b, loop.index, y->result);
        emit_windows(p, image, line, 0, x->first, false);
        emit_windows(p, image, line, x->first, x->end, true);
        emit_windows(p, image, line, x->end, x->result, false);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_max_pool2d(tsr_tile_group *group) {
    pool p;
    TRY(group->ctx, read(group, true, false, &p));
    return lower_forward(&p);
}

tsr_result tsr_tile_lower_avg_pool2d(tsr_tile_group *group) {
    pool p;
    TRY(group->ctx, read(group, false, false, &p));
    return lower_forward(&p);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Windows tile the image: each position is stored once. */
static bool tiles(const pool *p) {
    for (int i = 0; i < 2; i++)
        if (p->axes[i].stride != p->axes[i].window || p->axes[i].low ||
            p->axes[i].result * p->axes[i].window != p->axes[i].image)
            return false;
    return true;
}

static void add_gradient(pool *p, MlirValue value, MlirValue at, uint32_t v) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue before = tiles(p) ? all(p, 0) : load(p, p->made, at, v);
    store(p, tsr_element_add(b, p->dtype, before, value), p->made, at, v);
}

/* carried: the values to add to each position. */
static void add_share(pool *p, MlirValue at, MlirValue *carried) {
    for (uint32_t v = 0; v < p->vectors; v++) add_gradient(p, carried[v], at, v);
}

/* True if the element is the largest of its window; that is NaN if an element is NaN, and then each
 * NaN matches. */
static MlirValue is_largest(pool *p, MlirValue element, MlirValue largest) {
    tsr_tile_builder *b = &p->group->b;
    return tsr_tile_2(b, "arith.ori", tsr_tile_fcompare(b, TSR_FCMP_OEQ, element, largest),
                      tsr_tile_fcompare(b, TSR_FCMP_UNO, element, element));
}

/* carried: the largest elements, then the gradients, which become 0 once they are added. */
static void add_first(pool *p, MlirValue at, MlirValue *carried) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue zero = all(p, 0);
    for (uint32_t v = 0; v < p->vectors; v++) {
        MlirValue *left = &carried[p->vectors + v];
        MlirValue is = is_largest(p, load(p, p->image, at, v), carried[v]);
        add_gradient(p, tsr_tile_select(b, is, *left, zero), at, v);
        *left = tsr_tile_select(b, is, zero, *left);
    }
}

/* The largest element may also be in a line of the window before the program's first one: then the
 * program must not add its gradient. */
static void pass_first(pool *p, MlirValue at, MlirValue *carried) {
    tsr_tile_builder *b = &p->group->b;
    for (uint32_t v = 0; v < p->vectors; v++) {
        MlirValue *left = &carried[p->vectors + v];
        MlirValue is = is_largest(p, load(p, p->image, at, v), carried[v]);
        *left = tsr_tile_select(b, is, all(p, 0), *left);
    }
}

/* Prefetches the positions that the windows of the preceding line will be the first to visit: the
 * hardware prefetcher does not follow a backward walk. */
static void fetch(pool *p, MlirValue image, MlirValue from, const span *y, const span *x) {
    tsr_tile_builder *b = &p->group->b;
    int64_t height = p->axes[0].stride, width = p->axes[1].stride;
    uint32_t wide = p->lanes * p->vectors;
    if (b->target->warp_lanes || height * width > COLUMNS_MAX) return;
    from = tsr_tile_offset(b, from, -p->axes[1].result * p->channels);
    tsr_tile_prefetch_vector(b, p->dtype, p->pooled, from, wide);
    for (int64_t i = 0; i < height * width; i++) {
        MlirValue line = tsr_tile_offset(b, y->start, i / width - height);
        MlirValue at = position(p, image, true, line, tsr_tile_offset(b, x->start, i % width));
        if (p->is_max) tsr_tile_prefetch_vector(b, p->dtype, p->image, at, wide);
        tsr_tile_prefetch_vector(b, p->dtype, p->made, at, wide);
    }
}

static void emit_gradient(pool *p, MlirValue image, MlirValue line, MlirValue column, const span *y,
                          const span *x) {
    tsr_tile_builder *b = &p->group->b;
    MlirValue from = position(p, image, false, line, column), carried[2 * VECTORS];
    if (!tiles(p)) fetch(p, image, from, y, x);
    span before = *y, own = *y;
    own.low = tsr_tile_max(b, y->low, tsr_tile_sub(b, p->begin, y->start));
    own.high = tsr_tile_min(b, y->high, tsr_tile_sub(b, p->end, y->start));
    before.high = own.low;
    if (!p->is_max) {
        MlirValue factor = share(p, y, x);
        for (uint32_t v = 0; v < p->vectors; v++)
            carried[v] = tsr_element_mul(b, p->dtype, load(p, p->pooled, from, v), factor);
        each_position(p, image, &own, x, p->vectors, carried, add_share);
        return;
    }
    for (uint32_t v = 0; v < p->vectors; v++) carried[v] = all(p, -(double)INFINITY);
    each_position(p, image, y, x, p->vectors, carried, add_element);
    for (uint32_t v = 0; v < p->vectors; v++) carried[p->vectors + v] = load(p, p->pooled, from, v);
    if (!tiles(p)) each_position(p, image, &before, x, 2 * p->vectors, carried, pass_first);
    each_position(p, image, &own, x, 2 * p->vectors, carried, add_first);
}

/* The gradients of windows [begin, end) of a line, in descending order unless windows tile the
 * image. */
static void emit_gradients(pool *p, MlirValue image, MlirValue line, int64_t begin, int64_t end,
                           bool is_whole) {
    tsr_tile_builder *b = &p->group->b;
    int64_t parts = tsr_divide_up(p->channels, (int64_t)p->lanes * p->vectors);
    if (begin >= end) return;
    span y = enter(p, 0, line, false);
    TSR_TILE_FOR(b, columns, tsr_tile_index(b, 0), tsr_tile_index(b, end - begin), 1) {
        MlirValue column = tiles(p) ? tsr_tile_offset(b, columns.index, begin)
                                    : tsr_tile_sub(b, tsr_tile_index(b, end - 1), columns.index);
        span x = enter(p, 1, column, is_whole);
        TSR_TILE_FOR(b, channels, tsr_tile_index(b, 0), tsr_tile_index(b, parts), 1) {
            enter_channels(p, channels.index);
            emit_gradient(p, image, line, column, &y, &x);
        }
    }
}

static void clear_lines(pool *p, MlirValue image, MlirValue begin, MlirValue end) {
    tsr_tile_builder *b = &p->group->b;
    int64_t line = p->axes[1].image * p->channels;
    MlirValue zero = tsr_tile_float(b, tsr_tile_storage_type(b, p->dtype), 0);
    MlirValue at = tsr_tile_add(b, tsr_tile_mul(b, image, p->axes[0].image), begin);
    tsr_run run = {p->dtype, tsr_tile_mul(b, tsr_tile_sub(b, end, begin), line),
                   p->axes[0].image * line};
    tsr_run_fill(b, &run, zero, p->made, tsr_tile_mul(b, at, line));
}

/* Clears the program's lines that no later window line of [low, high) overlaps. */
static void clear_covered(pool *p, MlirValue image, MlirValue line, MlirValue low, MlirValue high) {
    tsr_tile_builder *b = &p->group->b;
    const axis *y = &p->axes[0];
    MlirValue start = tsr_tile_offset(b, tsr_tile_mul(b, line, y->stride), -y->low);
    MlirValue next = tsr_tile_min(b, tsr_tile_offset(b, start, y->stride), p->end);
    MlirValue is_first = tsr_tile_icompare(b, TSR_ICMP_EQ, line, low);
    MlirValue is_last = tsr_tile_icompare(b, TSR_ICMP_EQ, tsr_tile_offset(b, line, 1), high);
    start = tsr_tile_select(b, is_first, p->begin, tsr_tile_max(b, start, p->begin));
    clear_lines(p, image, start, tsr_tile_select(b, is_last, p->end, next));
}

static tsr_result lower_gradient(pool *p) {
    tsr_tile_builder *b = &p->group->b;
    const axis *y = &p->axes[0], *x = &p->axes[1];
    if (!p->images || !p->channels || !y->image || !x->image) return TSR_SUCCESS;
    int64_t each = tsr_round_up(lines_each(p, x->image * p->channels, IMAGE_ELEMENTS), y->stride);
    int64_t parts = tsr_divide_up(y->image, each);
    p->group->grid = p->images * parts;
    MlirValue pid = p->group->grid > 1 ? tsr_tile_program_id(b) : tsr_tile_index(b, 0);
    MlirValue image = tsr_tile_div(b, pid, parts), zero = tsr_tile_index(b, 0);
    MlirValue part = tsr_tile_rem(b, pid, parts);
    if (!tiles(p)) part = tsr_tile_sub(b, tsr_tile_index(b, parts - 1), part); /* also backwards */
    p->begin = tsr_tile_mul(b, part, each);
    p->end = tsr_tile_min(b, tsr_tile_offset(b, p->begin, each), tsr_tile_index(b, y->image));
    /* The windows that overlap lines begin ... end - 1. */
    MlirValue edge = tsr_tile_offset(b, p->begin, y->low - y->window + y->stride);
    MlirValue low = tsr_tile_div(b, tsr_tile_max(b, edge, zero), y->stride);
    MlirValue high = tsr_tile_div(b, tsr_tile_offset(b, p->end, y->low - 1 + y->stride), y->stride);
    high = tsr_tile_min(b, high, tsr_tile_index(b, y->result));
    MlirValue none = tsr_tile_icompare(b, TSR_ICMP_SGE, low, high);
    if (!tiles(p)) clear_lines(p, image, p->begin, tsr_tile_select(b, none, p->end, p->begin));
    TSR_TILE_FOR(b, loop, low, high, 1) {
        MlirValue line =
            tsr_tile_sub(b, tsr_tile_offset(b, tsr_tile_add(b, low, high), -1), loop.index);
        if (tiles(p)) line = loop.index;
        if (!tiles(p)) clear_covered(p, image, line, low, high);
        emit_gradients(p, image, line, x->end, x->result, false);
        emit_gradients(p, image, line, x->first, x->end, true);
        emit_gradients(p, image, line, 0, x->first, false);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_tile_lower_max_pool2d_grad(tsr_tile_group *group) {
    pool p;
    TRY(group->ctx, read(group, true, true, &p));
    return lower_gradient(&p);
}

tsr_result tsr_tile_lower_avg_pool2d_grad(tsr_tile_group *group) {
    pool p;
    TRY(group->ctx, read(group, false, true, &p));
    return lower_gradient(&p);
}
