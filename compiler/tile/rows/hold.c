/* SPDX-License-Identifier: Apache-2.0
 *
 * Family `rows`: chooses the values of a row that are held or cached instead of being computed or
 * read again.
 */
#include "compiler/tile/attributes.h"
#include "compiler/tile/gpu/product.h"
#include "compiler/tile/rows/rows.h"

enum {
    LOCAL_BYTES_MAX = 192 * 1024,
    RESIDENT_ELEMENTS_MAX = TSR_ROW_CHUNKS_MAX * TSR_BLOCKED_ELEMENTS, /* elements held by a warp */
    CHEAP = 3, /* ops that are recomputed instead */
};

typedef tsr_row_item item;
typedef tsr_rows rows;

static bool is_cheap(MlirOperation op) {
    static const bool cheap[TSR_OP_COUNT] = {
        [TSR_GRAPH_ADD] = true,   [TSR_GRAPH_SUB] = true,     [TSR_GRAPH_MUL] = true,
        [TSR_GRAPH_MAX] = true,   [TSR_GRAPH_MIN] = true,     [TSR_GRAPH_NEG] = true,
        [TSR_GRAPH_ABS] = true,   [TSR_GRAPH_RELU] = true,    [TSR_GRAPH_COMPARE] = true,
        [TSR_GRAPH_WHERE] = true, [TSR_GRAPH_CAST] = true,    [TSR_GRAPH_BROADCAST] = true,
        [TSR_GRAPH_AND] = true,   [TSR_GRAPH_OR] = true,      [TSR_GRAPH_XOR] = true,
        [TSR_GRAPH_NOT] = true,   [TSR_GRAPH_BITCAST] = true, [TSR_GRAPH_SIGN] = true,
        [TSR_GRAPH_CLAMP] = true};
    return cheap[tsr_op_of(op)];
}

/* The cost of recomputing a value from leaves and cached values, in cheap ops. */
static uint32_t work_of(const item *it) {
    uint32_t work = 0;
    if (it->level < 2 || it->kind == TSR_ROW_LEAF || it->cached) return 0;
    for (uint32_t k = 0; k < it->operand_count; k++) work += work_of(it->operands[k]);
    work += it->kind == TSR_ROW_OP && !is_cheap(it->node.op) ? 8 : 1;
    return work < 1000 ? work : 1000;
}

static bool is_result_in_full(rows *r, const item *it, uint32_t *out_output) {
    for (uint32_t i = 0; i < r->plain_count; i++) {
        if (r->results[i] != it || !r->whole_rows[i] || tsr_dtype_is_narrow(it->node.dtype))
            continue;
        *out_output = i;
        return true;
    }
    return false;
}

/* Values as long as a row are walked in whole vectors of at least `lanes` lanes. */
bool tsr_rows_stream(const rows *r, uint32_t output) {
    uint32_t lanes = r->group->b.target->vector_bytes / 4;
    return tsr_view_streams(&r->outputs[output], &r->space, lanes > 16 ? lanes : 16);
}

bool tsr_rows_stream_shifted(const rows *r, uint32_t output) {
    uint32_t lanes = r->group->b.target->vector_bytes / 2;
    return r->whole_rows[output] && tsr_view_streams_shifted(r->group, &r->outputs[output],
                                                             &r->space, lanes > 16 ? lanes : 16);
}

static void cache_item(rows *r, item *it) {
    tsr_tile_builder *b = &r->group->b;
    tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
    uint32_t output = 0;
    if (is_result_in_full(r, it, &output) && !tsr_rows_stream(r, output) &&
        !tsr_rows_stream_shifted(r, output)) {
        it->cached = it->in_result = true;
        it->buffer = r->outputs[output].buffer;
        it->node.view = r->outputs[output];
        return;
    }
    int64_t bytes = r->columns * (int64_t)tsr_dtype_size(dtype);
    if (bytes > LOCAL_BYTES_MAX - r->local_bytes) return;
    r->local_bytes += bytes;
    it->cached = true;
    it->buffer = tsr_tile_local(b, tsr_tile_storage_type(b, dtype), r->columns);
}

static void find_cached(rows *r) {
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        bool later = false;
        for (uint32_t u = 0; u < r->item_count; u++)
            for (uint32_t k = 0; k < r->items[u]->operand_count; k++)
                later |= r->items[u]->operands[k] == it && r->items[u]->stage > it->stage;
        if (it->kind == TSR_ROW_OP && it->level == 2 && later && work_of(it) > CHEAP)
            cache_item(r, it);
    }
}

/* True if the value is costly, and a reduction or a later stage reads it. */
bool tsr_rows_is_cached_column(const rows *r, const item *it) {
    if (it->kind != TSR_ROW_OP || it->level < 2 || work_of(it) <= CHEAP) return false;
    for (uint32_t u = 0; u < r->item_count; u++)
        for (uint32_t k = 0; k < r->items[u]->operand_count; k++)
            if (r->items[u]->operands[k] == it &&
                (r->items[u]->stage > it->stage || r->items[u]->kind == TSR_ROW_REDUCE))
                return true;
    return false;
}

void tsr_rows_cache_columns(rows *r, uint32_t lanes) {
    enum { BYTES_MAX = 512 * 1024 };
    tsr_tile_builder *b = &r->group->b;
    for (uint32_t i = 0; i < r->item_count; i++) {
        item *it = r->items[i];
        tsr_dtype dtype = tsr_tile_compute_dtype(it->node.dtype);
        int64_t count = r->columns * lanes, bytes = count * (int64_t)tsr_dtype_size(dtype);
        if (!count || !tsr_rows_is_cached_column(r, it) || bytes > BYTES_MAX - r->local_bytes)
            continue;
        r->local_bytes += bytes;
        it->cached = true;
        it->buffer = tsr_tile_local(b, tsr_tile_storage_type(b, dtype), count);
    }
}

/* 16-bit inputs are held in their stored type and widened again in each stage. */
bool tsr_row_is_packed(const item *it) {
    return it->kind == TSR_ROW_LEAF && tsr_dtype_is_narrow(it->node.dtype);
}

/* Operands of `it` are needed in the stages that compute `it`. */
static void ask_operands(const item *it, uint32_t stages) {
    for (uint32_t k = 0; k < it->operand_count; k++)
        if (it->operands[k]->level == 2) it->operands[k]->asked |= stages;
}

uint32_t tsr_rows_chunk(const rows *r) { return TSR_BLOCKED_ELEMENTS * r->warps; }

/* Reserves registers for the item from the first stage that needs it to the last one, if enough are
 * free. */
static bool reserve(rows *r, const item *it, int64_t *capacity) {
    uint32_t first = (uint32_t)__builtin_ctz(it->asked);
    uint32_t last = 31U - (uint32_t)__builtin_clz(it->asked);
    int64_t size = tsr_row_is_packed(it) ? r->columns / 2 : r->columns;
    for (uint32_t s = first; s < last; s++)
        if (capacity[s] < size) return false;
    int64_t all = (int64_t)RESIDENT_ELEMENTS_MAX * r->warps;
    for (uint32_t s = first; s < last; s++) {
        capacity[s] -= size;
        if (all - capacity[s] > r->resident_elements) r->resident_elements = all - capacity[s];
    }
    return first < last;
}

/* Finds the values that lanes hold: costly values and inputs, while registers are available. */
static void find_resident(rows *r) {
    enum { STAGES_MAX = 31 };
    int64_t capacity[STAGES_MAX];
    int64_t sums = r->sums ? r->sums->count : 0;
    r->resident_elements = sums * r->columns;
    for (uint32_t i = 0; i < r->item_count; i++) r->items[i]->asked = r->items[i]->resident = 0;
    for (uint32_t s = 0; s < STAGES_MAX; s++)
        capacity[s] = (int64_t)RESIDENT_ELEMENTS_MAX * r->warps - sums * r->columns;
    for (uint32_t i = 0; i < r->plain_count; i++)
        if (r->whole_rows[i]) r->results[i]->asked |= 1U << r->results[i]->stage;
    for (uint32_t i = r->item_count; i-- > 0;) {
        item *it = r->items[i];
        bool read = it->kind == TSR_ROW_LEAF && it->node.kind == TSR_NODE_VIEW;
        if (it->kind == TSR_ROW_REDUCE || it->kind == TSR_ROW_SUM)
            ask_operands(it, 1U << it->stage);
        if (it->level < 2 || !it->asked) continue;
        bool costly = it->kind == TSR_ROW_OP && work_of(it) > CHEAP;
        it->resident = (read || costly) && reserve(r, it, capacity);
        ask_operands(it, it->resident ? 1U << (uint32_t)__builtin_ctz(it->asked) : it->asked);
    }
}

/* True if the item is an input whose elements differ from row to row. */
bool tsr_row_is_own(const rows *r, const item *it) {
    bool moves = false;
    if (it->kind != TSR_ROW_LEAF || it->node.kind != TSR_NODE_VIEW || it->level < 2) return false;
    for (uint32_t d = 0; d + 1 < r->space.rank; d++)
        moves |= r->space.dims[d] > 1 && it->node.view.strides[d];
    return moves && tsr_dtype_is_float(it->node.dtype);
}

/* True if the lanes of `warps` warps can hold the row. */
static bool may_hold(const rows *r, uint32_t warps) {
    if (!r->group->is_native || r->stage_count > 8 || r->columns % TSR_BLOCKED_RUN ||
        r->columns > (int64_t)RESIDENT_ELEMENTS_MAX * warps)
        return false;
    int64_t chunks = (r->columns - 1) / ((int64_t)TSR_BLOCKED_ELEMENTS * warps) + 1;
    if (r->sums && (!r->even || chunks * r->sums->count > TSR_TILE_CARRIED_MAX)) return false;
    if (!r->even && (warps > 1 || r->columns % TSR_BLOCKED_ELEMENTS)) return false;
    for (uint32_t i = 0; i < r->item_count; i++) {
        tsr_dtype dtype = tsr_tile_compute_dtype(r->items[i]->node.dtype);
        if (tsr_dtype_size(dtype) > 4) return false;
        if (r->items[i]->kind == TSR_ROW_REDUCE && dtype != TSR_DTYPE_F32) return false;
    }
    return true;
}

/* A factor for the initial number of warps, and registers of a lane. The first choice is used if no
 * assembler reports spills; the last one is accepted as it is. */
typedef struct choice {
    uint32_t times, registers;
} choice;

enum { CHOICES = 4, FEW_WARPS = 4, WARPS_MAX = 16 };
static const choice for_rows[CHOICES] = {{1, 128}, {2, 96}, {2, 128}, {4, 128}};
/* Rows with sums: indexed by is_much. */
static const choice for_sums[][CHOICES] = {{{1, 64}, {1, 80}, {1, 128}, {2, 128}},
                                           {{1, 128}, {1, 168}, {2, 64}, {2, 128}}};
static const choice for_parameters[CHOICES] = {{1, 128}, {1, 168}, {2, 96}, {2, 128}};
static const choice for_short_sums[CHOICES] = {{1, 80}, {1, 96}, {1, 128}, {2, 128}};

/* Does a lane hold more than one vector of a row? */
static bool is_much(int64_t columns, uint32_t warps) {
    return columns > (int64_t)TSR_BLOCKED_ELEMENTS * warps;
}

/* The fewest warps with at most SUMS elements of sums per lane; a power of two for long rows. */
uint32_t tsr_rows_sum_warps(int64_t columns, uint32_t sums, uint32_t *out_blocks) {
    enum { REGISTERS = 2048, BLOCKS_MAX = 8, SUMS = 16 }; /* a multiprocessor's registers / 32 */
    int64_t vectors = (columns - 1) / TSR_BLOCKED_ELEMENTS + 1,
            least = columns * sums / (SUMS * 32);
    uint32_t warps = FEW_WARPS;
    while (warps < WARPS_MAX && warps < least) warps *= 2;
    if (vectors <= FEW_WARPS) warps = (uint32_t)vectors;
    uint32_t registers = warps <= FEW_WARPS ? 80 : is_much(columns, warps) ? 128 : 64;
    uint32_t blocks = REGISTERS / (registers * warps);
    *out_blocks = blocks > BLOCKS_MAX ? BLOCKS_MAX : blocks ? blocks : 1;
    return warps;
}

/* Finds the fewest warps that hold the row in a quarter of a lane's registers. */
static void find_warps(rows *r) {
    enum { RESIDENT_REGISTERS = 32 };
    r->holds = false;
    if (r->sums) {
        r->warps = r->sums->warps;
        r->holds = may_hold(r, r->warps);
        return;
    }
    for (r->warps = 1;; r->warps *= 2) {
        if (may_hold(r, r->warps)) {
            find_resident(r);
            r->holds = true;
            int64_t lanes = (int64_t)r->warps * r->group->b.target->warp_lanes;
            if (r->resident_elements <= RESIDENT_REGISTERS * lanes || !r->even) return;
        }
        if (r->warps == WARPS_MAX) return;
    }
}

void tsr_rows_choose(rows *r) {
    tsr_tile_group *group = r->group;
    int64_t skip = 0;
    r->block_programs = 1;
    find_warps(r);
    if (!r->holds) {
        r->warps = 1;
        find_cached(r);
        return;
    }
    tsr_op_i64(group->op, TSR_SKIP_NAME, &skip);
    if (skip >= CHOICES) skip = CHOICES - 1;
    const choice *of = !r->sums               ? for_rows
                       : !r->sums->count      ? for_parameters
                       : r->warps > FEW_WARPS ? for_sums[is_much(r->columns, r->warps)]
                                              : for_short_sums;
    if (r->even) r->warps *= of[skip].times;
    find_resident(r);
    if (r->sums) {
        r->block_programs = r->sums->block_programs;
        tsr_rows_find_ahead(r);
        if (!r->stages) r->block_programs = 1;
        group->block_programs = r->block_programs;
    }
    group->cooperative = r->warps;
    group->registers = of[skip].registers;
    group->contracts = r->even;
    group->has_choices = r->even && skip < CHOICES - 1;
}
