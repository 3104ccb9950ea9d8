/* SPDX-License-Identifier: Apache-2.0
 *
 * Small data is exchanged in meetings, if the transport has them. Larger reductions read the other
 * ranks' rows in place if the transport can expose them; otherwise they are done in rounds that fit
 * into the transport's scratch memory.
 */
#include "runtime/transport/collective.h"

#include "runtime/base/clock.h"

#include <stdio.h>
#include <string.h>

typedef struct segments {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
} segments;

static void clear(const tsr_transport *t, segments *p) {
    memset(p->sends, 0, t->rank_count * sizeof *p->sends);
    memset(p->receives, 0, t->rank_count * sizeof *p->receives);
}

static tsr_result exchange(tsr_ctx *ctx, tsr_transport *t, tsr_operation operation,
                           const segments *p) {
    return tsr_transport_exchange(ctx, t, &(tsr_exchange){operation, p->sends, p->receives, false});
}

/* The method depends only on values that are the same on all ranks. */
static bool can_meet(const tsr_transport *t, const size_t *sizes) {
    if (t->meeting_bytes == 0) return false;
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (sizes[r] > t->meeting_bytes) return false;
    return true;
}

tsr_result tsr_barrier(tsr_ctx *ctx, tsr_transport *t) {
    if (t->meeting_bytes) {
        const void *nothing[TSR_TRANSPORT_RANKS_MAX];
        return tsr_transport_meet(ctx, t, &(tsr_meeting){.operation = TSR_OPERATION_BARRIER},
                                  nothing);
    }
    segments p;
    for (uint32_t r = 0; r < t->rank_count; r++)
        p.sends[r] = p.receives[r] = (tsr_transport_segment){.active = true};
    return exchange(ctx, t, TSR_OPERATION_BARRIER, &p);
}

tsr_result tsr_broadcast(tsr_ctx *ctx, tsr_transport *t, uint32_t root, void *bytes,
                         size_t size_bytes) {
    TSR_ASSERT(root < t->rank_count);
    segments p;
    clear(t, &p);
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (t->rank == root) p.sends[r] = (tsr_transport_segment){bytes, size_bytes, true};
    p.receives[root] = (tsr_transport_segment){bytes, size_bytes, true};
    return exchange(ctx, t, TSR_OPERATION_BROADCAST, &p);
}

static tsr_result gather_by_meeting(tsr_ctx *ctx, tsr_transport *t, unsigned char *all,
                                    const size_t *first_byte, const size_t *sizes) {
    const void *theirs[TSR_TRANSPORT_RANKS_MAX];
    size_t total = first_byte[t->rank_count] - first_byte[0], own = sizes[t->rank];
    tsr_meeting meeting = {.operation = TSR_OPERATION_ALL_GATHER,
                           .own = {all + first_byte[t->rank], own, 0, 1},
                           .sizes = sizes,
                           .sent_bytes = (uint64_t)(t->rank_count - 1) * own,
                           .received_bytes = total - own};
    TRY(ctx, tsr_transport_meet(ctx, t, &meeting, theirs));
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (r != t->rank && sizes[r]) memcpy(all + first_byte[r], theirs[r], sizes[r]);
    return TSR_SUCCESS;
}

static tsr_result gather(tsr_ctx *ctx, tsr_transport *t, void *bytes, const size_t *first_byte,
                         bool just_written) {
    segments p;
    unsigned char *all = bytes;
    size_t sizes[TSR_TRANSPORT_RANKS_MAX];
    for (uint32_t r = 0; r < t->rank_count; r++) sizes[r] = first_byte[r + 1] - first_byte[r];
    if (can_meet(t, sizes)) return gather_by_meeting(ctx, t, all, first_byte, sizes);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        p.sends[r] = (tsr_transport_segment){all + first_byte[t->rank],
                                             first_byte[t->rank + 1] - first_byte[t->rank], true};
        p.receives[r] =
            (tsr_transport_segment){all + first_byte[r], first_byte[r + 1] - first_byte[r], true};
    }
    return tsr_transport_exchange(
        ctx, t, &(tsr_exchange){TSR_OPERATION_ALL_GATHER, p.sends, p.receives, just_written});
}

tsr_result tsr_all_gather(tsr_ctx *ctx, tsr_transport *t, void *bytes, const size_t *first_byte) {
    return gather(ctx, t, bytes, first_byte, false);
}

tsr_result tsr_all_gather_each(tsr_ctx *ctx, tsr_transport *t, void *bytes, size_t size_bytes) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    for (uint32_t r = 0; r <= t->rank_count; r++) first_byte[r] = r * size_bytes;
    return tsr_all_gather(ctx, t, bytes, first_byte);
}

tsr_result tsr_all_to_all(tsr_ctx *ctx, tsr_transport *t, const tsr_transport_segment *sends,
                          const tsr_transport_segment *receives) {
    return tsr_transport_exchange(
        ctx, t, &(tsr_exchange){TSR_OPERATION_ALL_TO_ALL, sends, receives, false});
}

tsr_result tsr_send(tsr_ctx *ctx, tsr_transport *t, uint32_t to, const void *bytes,
                    size_t size_bytes) {
    if (to >= t->rank_count || to == t->rank)
        FAIL(ctx, TSR_INTERNAL, "rank %u of %u cannot send to rank %u", t->rank, t->rank_count, to);
    segments p;
    clear(t, &p);
    p.sends[to] = (tsr_transport_segment){(void *)(uintptr_t)bytes, size_bytes, true};
    return exchange(ctx, t, TSR_OPERATION_SEND, &p);
}

tsr_result tsr_receive(tsr_ctx *ctx, tsr_transport *t, uint32_t from, void *bytes,
                       size_t size_bytes) {
    if (from >= t->rank_count || from == t->rank)
        FAIL(ctx, TSR_INTERNAL, "rank %u of %u cannot receive from rank %u", t->rank, t->rank_count,
             from);
    segments p;
    clear(t, &p);
    p.receives[from] = (tsr_transport_segment){bytes, size_bytes, true};
    return exchange(ctx, t, TSR_OPERATION_SEND, &p);
}

static void write_hex(const unsigned char *bytes, size_t size_bytes, char *out) {
    for (size_t i = 0; i < size_bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

tsr_result tsr_agree(tsr_ctx *ctx, tsr_transport *t, const char *what, const void *bytes,
                     size_t size_bytes) {
    TSR_ASSERT(size_bytes > 0 && size_bytes <= TSR_AGREE_MAX);
    unsigned char all[TSR_TRANSPORT_RANKS_MAX * TSR_AGREE_MAX];
    memcpy(all + t->rank * size_bytes, bytes, size_bytes);
    TRY(ctx, tsr_all_gather_each(ctx, t, all, size_bytes));
    for (uint32_t r = 1; r < t->rank_count; r++) {
        if (memcmp(all, all + r * size_bytes, size_bytes) == 0) continue;
        char ours[2 * TSR_AGREE_MAX + 1], theirs[2 * TSR_AGREE_MAX + 1];
        write_hex(all, size_bytes, ours);
        write_hex(all + r * size_bytes, size_bytes, theirs);
        FAIL(ctx, TSR_MISMATCH, "ranks have different %s: rank 0 %s, rank %u %s", what, ours, r,
             theirs);
    }
    return TSR_SUCCESS;
}

/* ---- reductions ---- */

/* The subtrees of all ranks in order; the subtrees of rank r are first[r] … first[r + 1]. */
typedef struct reduction {
    const tsr_reduce_options *options;
    tsr_transport *t;
    size_t element_bytes;
    uint32_t first[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t row_max; /* maximum number of rows of a rank */
    tsr_subtree subtrees[TSR_LEAVES_MAX];
    const void *values[TSR_LEAVES_MAX];
} reduction;

static tsr_result reduction_init(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                                 reduction *out) {
    out->options = options;
    out->t = t;
    out->element_bytes = tsr_reduction_get_size(options->reduction);
    out->first[0] = 0;
    out->row_max = 0;
    if (options->leaf_count == 0 || options->leaf_count > TSR_LEAVES_MAX ||
        options->first_leaf[0] != 0 || options->first_leaf[t->rank_count] != options->leaf_count)
        FAIL(ctx, TSR_INTERNAL, "%u ranks hold leaves %u to %u of %u (at most %d)", t->rank_count,
             options->first_leaf[0], options->first_leaf[t->rank_count], options->leaf_count,
             TSR_LEAVES_MAX);
    for (uint32_t r = 0; r < t->rank_count; r++) {
        uint32_t begin = options->first_leaf[r], end = options->first_leaf[r + 1];
        if (end < begin || end > options->leaf_count)
            FAIL(ctx, TSR_INTERNAL, "rank %u holds leaves %u to %u", r, begin, end);
        uint32_t rows =
            tsr_tree_cover(options->leaf_count, begin, end - begin, &out->subtrees[out->first[r]]);
        if (rows > out->row_max) out->row_max = rows;
        out->first[r + 1] = out->first[r] + rows;
    }
    return TSR_SUCCESS;
}

static const unsigned char *own_row(const reduction *r, uint32_t row, size_t element) {
    return (const unsigned char *)r->options->rows + row * r->options->stride_bytes +
           element * r->element_bytes;
}

static uint32_t own_row_count(const reduction *r) {
    return r->first[r->t->rank + 1] - r->first[r->t->rank];
}

/* Number of bytes in this rank's rows outside its own range. */
static uint64_t plan_scatter(const reduction *r, const size_t *first_element) {
    size_t own = first_element[r->t->rank + 1] - first_element[r->t->rank];
    return (uint64_t)own_row_count(r) * (r->options->count - own) * r->element_bytes;
}

static void reduce_values(reduction *r, size_t count, void *scratch, void *out) {
    tsr_tree_reduce(&(tsr_tree_inputs){.reduction = r->options->reduction,
                                       .leaf_count = r->options->leaf_count,
                                       .subtrees = r->subtrees,
                                       .values = r->values,
                                       .count = count,
                                       .scratch = scratch},
                    out);
}

static bool are_exposed(const reduction *r) {
    uint32_t rows = own_row_count(r);
    if (!r->options->exposed) return false;
    TSR_ASSERT(rows == 0 || tsr_transport_can_expose(r->t, r->options->rows,
                                                     (rows - 1) * r->options->stride_bytes +
                                                         r->options->count * r->element_bytes));
    return true;
}

/* A chunk whose sums stay in the cache while they are computed. */
enum { CHUNK_BYTES_MAX = 32 << 10 };

static void reduce_exposed(reduction *r, const tsr_rows *rows, size_t begin, size_t count,
                           unsigned char *out) {
    tsr_transport *t = r->t;
    size_t chunk = t->scratch_bytes / TSR_TREE_DEPTH_MAX;
    if (chunk > CHUNK_BYTES_MAX) chunk = CHUNK_BYTES_MAX;
    chunk = chunk / r->element_bytes;
    for (size_t done = 0; done < count; done += chunk) {
        size_t part = count - done < chunk ? count - done : chunk;
        for (uint32_t rank = 0; rank < t->rank_count; rank++)
            for (uint32_t i = r->first[rank]; i < r->first[rank + 1]; i++)
                r->values[i] = rank == t->rank
                                   ? own_row(r, i - r->first[rank], begin + done)
                                   : (const unsigned char *)rows[rank].bytes +
                                         (i - r->first[rank]) * rows[rank].stride_bytes +
                                         done * r->element_bytes;
        reduce_values(r, part, t->scratch, out + done * r->element_bytes);
    }
}

static tsr_result scatter_exposed(tsr_ctx *ctx, reduction *r, const size_t *first_element,
                                  void *out) {
    tsr_transport *t = r->t;
    tsr_rows rows[TSR_TRANSPORT_RANKS_MAX], expected[TSR_TRANSPORT_RANKS_MAX];
    size_t begin = first_element[t->rank], count = first_element[t->rank + 1] - begin;
    for (uint32_t rank = 0; rank < t->rank_count; rank++) {
        size_t theirs = first_element[rank + 1] - first_element[rank];
        rows[rank] = (tsr_rows){own_row(r, 0, first_element[rank]), theirs * r->element_bytes,
                                r->options->stride_bytes, own_row_count(r)};
        expected[rank] =
            (tsr_rows){NULL, count * r->element_bytes, 0, r->first[rank + 1] - r->first[rank]};
    }
    tsr_exposure exposure = {TSR_OPERATION_REDUCE_SCATTER, rows, expected};
    tsr_rows theirs[TSR_TRANSPORT_RANKS_MAX];
    uint64_t began_ns = tsr_trace_begin(ctx->trace, tsr_transport_track(t)),
             sent_before = t->sent_bytes;
    TRY(ctx, tsr_transport_expose(ctx, t, &exposure, theirs));
    reduce_exposed(r, theirs, begin, count, out);
    TRY(ctx, tsr_transport_retract(ctx, t));
    if (began_ns)
        tsr_trace_span(ctx->trace, tsr_transport_track(t), tsr_operation_name(exposure.operation),
                       began_ns, tsr_clock_ns(),
                       (tsr_trace_detail){.bytes = t->sent_bytes - sent_before});
    return TSR_SUCCESS;
}

/* Receives elements [done, done + part) of this rank's range, of all rows, into the scratch memory.
 */
static tsr_result receive_round(tsr_ctx *ctx, reduction *r, tsr_operation operation,
                                const size_t *first_element, size_t done, size_t chunk) {
    tsr_transport *t = r->t;
    segments p;
    size_t begin = first_element[t->rank] + done;
    for (uint32_t row = 0; row < r->row_max; row++) {
        clear(t, &p);
        for (uint32_t rank = 0; rank < t->rank_count; rank++) {
            size_t theirs = first_element[rank + 1] - first_element[rank];
            size_t mine = first_element[t->rank + 1] - first_element[t->rank];
            theirs = theirs > done ? theirs - done : 0;
            mine = mine > done ? mine - done : 0;
            if (theirs > chunk) theirs = chunk;
            if (mine > chunk) mine = chunk;
            uint32_t index = r->first[rank] + row;
            unsigned char *slot = (unsigned char *)t->scratch + index * chunk * r->element_bytes;
            if (rank == t->rank) {
                if (row < own_row_count(r)) r->values[index] = own_row(r, row, begin);
                continue;
            }
            if (row < own_row_count(r))
                p.sends[rank] = (tsr_transport_segment){
                    (void *)(uintptr_t)own_row(r, row, first_element[rank] + done),
                    theirs * r->element_bytes, true};
            if (index < r->first[rank + 1]) {
                p.receives[rank] = (tsr_transport_segment){slot, mine * r->element_bytes, true};
                r->values[index] = slot;
            }
        }
        TRY(ctx, exchange(ctx, t, operation, &p));
    }
    return TSR_SUCCESS;
}

/* Finds the number of elements for which a piece of every row fits into the scratch memory. */
static tsr_result find_chunk(tsr_ctx *ctx, const reduction *r, size_t *out_chunk) {
    size_t rows = (size_t)r->first[r->t->rank_count] + TSR_TREE_DEPTH_MAX;
    *out_chunk = r->t->scratch_bytes / rows / r->element_bytes;
    if (*out_chunk == 0)
        FAIL(ctx, TSR_INTERNAL, "%zu rows of %zu bytes do not fit into a scratch of %zu", rows,
             r->element_bytes, r->t->scratch_bytes);
    return TSR_SUCCESS;
}

static tsr_result scatter_in_rounds(tsr_ctx *ctx, reduction *r, const size_t *first_element,
                                    unsigned char *out) {
    tsr_transport *t = r->t;
    size_t chunk, longest = 0;
    TRY(ctx, find_chunk(ctx, r, &chunk));
    for (uint32_t rank = 0; rank < t->rank_count; rank++)
        if (first_element[rank + 1] - first_element[rank] > longest)
            longest = first_element[rank + 1] - first_element[rank];
    size_t count = first_element[t->rank + 1] - first_element[t->rank];
    unsigned char *levels =
        (unsigned char *)t->scratch + r->first[t->rank_count] * chunk * r->element_bytes;
    for (size_t done = 0; done < longest; done += chunk) {
        TRY(ctx, receive_round(ctx, r, TSR_OPERATION_REDUCE_SCATTER, first_element, done, chunk));
        if (done >= count) continue;
        reduce_values(r, count - done < chunk ? count - done : chunk, levels,
                      out + done * r->element_bytes);
    }
    return TSR_SUCCESS;
}

/* Few elements: every rank contributes all its rows, and reduces the elements that it needs from
 * the rows of all ranks. */
static bool can_reduce_by_meeting(const reduction *r, size_t *out_sizes) {
    size_t row_bytes = r->options->count * r->element_bytes;
    for (uint32_t rank = 0; rank < r->t->rank_count; rank++)
        out_sizes[rank] = (r->first[rank + 1] - r->first[rank]) * row_bytes;
    return row_bytes * TSR_TREE_DEPTH_MAX <= r->t->scratch_bytes && can_meet(r->t, out_sizes);
}

static tsr_result reduce_by_meeting(tsr_ctx *ctx, reduction *r, const size_t *sizes,
                                    tsr_meeting *meeting, size_t begin, size_t count, void *out) {
    tsr_transport *t = r->t;
    const void *theirs[TSR_TRANSPORT_RANKS_MAX];
    size_t row_bytes = r->options->count * r->element_bytes;
    meeting->own =
        (tsr_rows){r->options->rows, row_bytes, r->options->stride_bytes, own_row_count(r)};
    meeting->sizes = sizes;
    TRY(ctx, tsr_transport_meet(ctx, t, meeting, theirs));
    for (uint32_t rank = 0; rank < t->rank_count; rank++)
        for (uint32_t i = r->first[rank]; i < r->first[rank + 1]; i++)
            r->values[i] = (const unsigned char *)theirs[rank] + (i - r->first[rank]) * row_bytes +
                           begin * r->element_bytes;
    reduce_values(r, count, t->scratch, out);
    return TSR_SUCCESS;
}

tsr_result tsr_reduce_scatter(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                              const size_t *first_element, void *out) {
    reduction r;
    size_t sizes[TSR_TRANSPORT_RANKS_MAX];
    TRY(ctx, reduction_init(ctx, t, options, &r));
    if (first_element[0] != 0 || first_element[t->rank_count] != options->count)
        FAIL(ctx, TSR_INTERNAL, "ranges of elements are 0 to %zu, not %zu to %zu", options->count,
             first_element[0], first_element[t->rank_count]);
    if (can_reduce_by_meeting(&r, sizes)) {
        size_t begin = first_element[t->rank], count = first_element[t->rank + 1] - begin;
        size_t others = r.first[t->rank_count] - own_row_count(&r);
        tsr_meeting meeting = {.operation = TSR_OPERATION_REDUCE_SCATTER,
                               .sent_bytes = plan_scatter(&r, first_element),
                               .received_bytes = others * count * r.element_bytes};
        return reduce_by_meeting(ctx, &r, sizes, &meeting, begin, count, out);
    }
    if (are_exposed(&r)) return scatter_exposed(ctx, &r, first_element, out);
    return scatter_in_rounds(ctx, &r, first_element, out);
}

/* Few elements: every rank receives all rows and reduces them itself. */
static tsr_result all_reduce_small(tsr_ctx *ctx, reduction *r, size_t chunk, void *out) {
    tsr_transport *t = r->t;
    size_t count = r->options->count;
    segments p;
    for (uint32_t row = 0; row < r->row_max; row++) {
        clear(t, &p);
        for (uint32_t rank = 0; rank < t->rank_count; rank++) {
            uint32_t index = r->first[rank] + row;
            unsigned char *slot = (unsigned char *)t->scratch + index * chunk * r->element_bytes;
            if (rank == t->rank) {
                if (row < own_row_count(r)) r->values[index] = own_row(r, row, 0);
                continue;
            }
            if (row < own_row_count(r))
                p.sends[rank] = (tsr_transport_segment){(void *)(uintptr_t)own_row(r, row, 0),
                                                        count * r->element_bytes, true};
            if (index < r->first[rank + 1]) {
                p.receives[rank] = (tsr_transport_segment){slot, count * r->element_bytes, true};
                r->values[index] = slot;
            }
        }
        TRY(ctx, exchange(ctx, t, TSR_OPERATION_ALL_REDUCE, &p));
    }
    reduce_values(r, count,
                  (unsigned char *)t->scratch + r->first[t->rank_count] * chunk * r->element_bytes,
                  out);
    return TSR_SUCCESS;
}

enum { SMALL_BYTES = 16 << 10, LINE_BYTES = 64, CACHED_BYTES = 8 << 20 };

static bool is_small(const reduction *r, size_t chunk) {
    return r->options->count <= chunk && r->options->count * r->element_bytes <= SMALL_BYTES;
}

/* Divides into ranges of full cache lines, so that no two ranks write the same line. */
void tsr_all_reduce_share(const tsr_transport *t, const tsr_reduce_options *options,
                          size_t *out_first_element) {
    size_t line = LINE_BYTES / tsr_reduction_get_size(options->reduction), count = options->count;
    size_t lines = (count + line - 1) / line;
    for (uint32_t rank = 0; rank <= t->rank_count; rank++) {
        size_t first = (lines * rank + t->rank_count - 1) / t->rank_count * line;
        out_first_element[rank] = first < count ? first : count;
    }
}

static void share_lines(const reduction *r, size_t *first_element, size_t *first_byte) {
    tsr_all_reduce_share(r->t, r->options, first_element);
    for (uint32_t rank = 0; rank <= r->t->rank_count; rank++)
        first_byte[rank] = first_element[rank] * r->element_bytes;
}

tsr_result tsr_all_reduce(tsr_ctx *ctx, tsr_transport *t, const tsr_reduce_options *options,
                          void *out) {
    reduction r;
    size_t chunk;
    TRY(ctx, reduction_init(ctx, t, options, &r));
    TRY(ctx, find_chunk(ctx, &r, &chunk));
    if (is_small(&r, chunk)) {
        size_t sizes[TSR_TRANSPORT_RANKS_MAX];
        if (!can_reduce_by_meeting(&r, sizes)) return all_reduce_small(ctx, &r, chunk, out);
        size_t others = r.first[t->rank_count] - own_row_count(&r);
        tsr_meeting meeting = {.operation = TSR_OPERATION_ALL_REDUCE,
                               .sent_bytes = (uint64_t)(t->rank_count - 1) * sizes[t->rank],
                               .received_bytes = others * options->count * r.element_bytes};
        return reduce_by_meeting(ctx, &r, sizes, &meeting, 0, options->count, out);
    }
    size_t first_element[TSR_TRANSPORT_RANKS_MAX + 1], first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    share_lines(&r, first_element, first_byte);
    unsigned char *bytes = out;
    TRY(ctx, tsr_reduce_scatter(ctx, t, options, first_element, bytes + first_byte[t->rank]));
    return gather(ctx, t, bytes, first_byte, options->count * r.element_bytes <= CACHED_BYTES);
}

/* ---- bytes sent ---- */

uint64_t tsr_all_gather_plan(const tsr_transport *t, const size_t *first_byte) {
    return (uint64_t)(t->rank_count - 1) * (first_byte[t->rank + 1] - first_byte[t->rank]);
}

static bool plan_reduction(const tsr_transport *t, const tsr_reduce_options *options,
                           reduction *out) {
    tsr_ctx aside = {0};
    return reduction_init(&aside, (tsr_transport *)(uintptr_t)t, options, out).code == TSR_OK;
}

uint64_t tsr_reduce_scatter_plan(const tsr_transport *t, const tsr_reduce_options *options,
                                 const size_t *first_element) {
    reduction r;
    return plan_reduction(t, options, &r) ? plan_scatter(&r, first_element) : 0;
}

uint64_t tsr_all_reduce_plan(const tsr_transport *t, const tsr_reduce_options *options) {
    tsr_ctx aside = {0};
    reduction r;
    size_t chunk, first_element[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    if (!plan_reduction(t, options, &r) || find_chunk(&aside, &r, &chunk).code) return 0;
    if (is_small(&r, chunk))
        return (uint64_t)(t->rank_count - 1) * own_row_count(&r) * options->count * r.element_bytes;
    share_lines(&r, first_element, first_byte);
    return plan_scatter(&r, first_element) + tsr_all_gather_plan(t, first_byte);
}

bool tsr_all_reduce_sends_all(const tsr_transport *t, const tsr_reduce_options *options) {
    tsr_ctx aside = {0};
    reduction r;
    size_t chunk;
    return plan_reduction(t, options, &r) && !find_chunk(&aside, &r, &chunk).code &&
           is_small(&r, chunk);
}
