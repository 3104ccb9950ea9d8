/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks draw the sizes from the same seed, so that each knows the sizes that the others send.
 */
#include "tests/transport/bodies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 12, SIZE_MAX_BYTES = 700 * 1000 };

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Returns mostly small sizes, some larger than a slot, and sometimes 0. */
static size_t draw_size(uint32_t *state) {
    switch (next(state) >> 28) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
    case 3: /* several slots of a channel, so that some messages are read in place */
        return next(state) % SIZE_MAX_BYTES;
    default:
        return (next(state) >> 8) % 5000;
    }
}

static unsigned char byte_of(uint32_t from, uint32_t to, size_t index) {
    return (unsigned char)(from * 31 + to * 17 + index * 7 + (index >> 8));
}

static void fill(unsigned char *bytes, uint32_t from, uint32_t to, size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = byte_of(from, to, i);
}

static bool is_filled(const unsigned char *bytes, uint32_t from, uint32_t to, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte_of(from, to, i)) return false;
    return true;
}

int body_all_to_all(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const plan *p = user;
    uint32_t state = p->seed, n = t->rank_count;
    unsigned char *memory = ranks_memory(t, 2 * (size_t)n * SIZE_MAX_BYTES, p->in_heap);
    uint64_t sent = 0, received = 0;
    EXPECT(memory, "no memory");
    for (int round = 0; round < ROUNDS; round++) {
        tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
        for (uint32_t from = 0; from < n; from++)
            for (uint32_t to = 0; to < n; to++) {
                size_t size = draw_size(&state);
                if (from == t->rank)
                    sends[to] = (tsr_transport_segment){memory + to * SIZE_MAX_BYTES, size, true};
                if (to == t->rank)
                    receives[from] =
                        (tsr_transport_segment){memory + (n + from) * SIZE_MAX_BYTES, size, true};
                if (from != to && from == t->rank) sent += size;
                if (from != to && to == t->rank) received += size;
            }
        for (uint32_t r = 0; r < n; r++) {
            fill(sends[r].bytes, t->rank, r, sends[r].size_bytes);
            memset(receives[r].bytes, 0xee, receives[r].size_bytes);
        }
        EXPECT_OK(tsr_all_to_all(ctx, t, sends, receives));
        for (uint32_t r = 0; r < n; r++)
            EXPECT(is_filled(receives[r].bytes, r, t->rank, receives[r].size_bytes),
                   "round %d: other bytes from rank %u", round, r);
    }
    EXPECT(t->sent_bytes == sent && t->received_bytes == received,
           "counted %" PRIu64 " and %" PRIu64 " bytes, not %" PRIu64 " and %" PRIu64, t->sent_bytes,
           t->received_bytes, sent, received);
    ranks_memory_free(t, memory);
    return 0;
}

int body_gather_and_broadcast(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const plan *p = user;
    uint32_t state = p->seed, n = t->rank_count;
    unsigned char *memory = ranks_memory(t, (size_t)n * SIZE_MAX_BYTES, p->in_heap);
    EXPECT(memory, "no memory");
    for (int round = 0; round < ROUNDS; round++) {
        size_t first[TSR_TRANSPORT_RANKS_MAX + 1] = {0};
        for (uint32_t r = 0; r < n; r++) first[r + 1] = first[r] + draw_size(&state);
        memset(memory, 0xee, first[n]);
        fill(memory + first[t->rank], t->rank, 99, first[t->rank + 1] - first[t->rank]);
        EXPECT_OK(tsr_all_gather(ctx, t, memory, first));
        for (uint32_t r = 0; r < n; r++)
            EXPECT(is_filled(memory + first[r], r, 99, first[r + 1] - first[r]),
                   "round %d: other bytes from rank %u", round, r);
        uint32_t root = next(&state) % n;
        size_t size = draw_size(&state);
        EXPECT_OK(tsr_barrier(ctx, t)); /* all ranks have finished reading */
        if (t->rank == root)
            fill(memory, root, 7, size);
        else
            memset(memory, 0xee, size);
        EXPECT_OK(tsr_broadcast(ctx, t, root, memory, size));
        EXPECT(is_filled(memory, root, 7, size), "round %d: other bytes from root %u", round, root);
        EXPECT_OK(tsr_barrier(ctx, t));
    }
    ranks_memory_free(t, memory);
    return 0;
}

/* A ring of messages, with several in flight between each pair. */
int body_send_and_receive(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const plan *p = user;
    uint32_t state = p->seed, n = t->rank_count;
    unsigned char *memory = ranks_memory(t, 2 * SIZE_MAX_BYTES, p->in_heap);
    uint32_t to = (t->rank + 1) % n, from = (t->rank + n - 1) % n;
    EXPECT(memory, "no memory");
    if (n == 1) {
        EXPECT(tsr_send(ctx, t, 0, memory, 1).code == TSR_INTERNAL, "sent to itself");
        EXPECT(tsr_receive(ctx, t, 0, memory, 1).code == TSR_INTERNAL, "received from itself");
    }
    for (int round = 0; round < ROUNDS && n > 1; round++) {
        size_t size = draw_size(&state);
        fill(memory, t->rank, to, size);
        /* A ring in which all ranks send first would deadlock. */
        if (t->rank == 0) EXPECT_OK(tsr_send(ctx, t, to, memory, size));
        EXPECT_OK(tsr_receive(ctx, t, from, memory + SIZE_MAX_BYTES, size));
        EXPECT(is_filled(memory + SIZE_MAX_BYTES, from, t->rank, size), "round %d: other bytes",
               round);
        if (t->rank != 0) EXPECT_OK(tsr_send(ctx, t, to, memory, size));
    }
    ranks_memory_free(t, memory);
    return 0;
}

/* ---- sums ---- */

enum { LEAVES_MAX = 24, ELEMENTS_MAX = 20000 };

static float leaf_value(uint32_t seed, uint32_t leaf, size_t element) {
    uint32_t state = seed ^ (leaf * 2654435761u) ^ (uint32_t)(element * 40503u);
    next(&state);
    float value = (float)(int)(next(&state) >> 8) - 8388608.0f;
    return next(&state) >> 31 ? value : value * 1e-6f;
}

/* Adjacent values are added level by level; see test_tree.c. */
static float pair_up(float *values, uint32_t count) {
    while (count > 1) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < count; i += 2)
            values[n++] = i + 1 < count ? values[i] + values[i + 1] : values[i];
        count = n;
    }
    return values[0];
}

static float sum_of(uint32_t seed, uint32_t first, uint32_t count, size_t element) {
    float values[LEAVES_MAX];
    for (uint32_t i = 0; i < count; i++) values[i] = leaf_value(seed, first + i, element);
    return pair_up(values, count);
}

static void fill_rows(const tsr_transport *t, const tsr_reduce_options *o, uint32_t seed,
                      float *rows) {
    tsr_subtree parts[LEAVES_MAX];
    uint32_t begin = o->first_leaf[t->rank];
    uint32_t n = tsr_tree_cover(o->leaf_count, begin, o->first_leaf[t->rank + 1] - begin, parts);
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < o->count; j++)
            rows[i * (o->stride_bytes / sizeof *rows) + j] =
                sum_of(seed, parts[i].first_leaf, parts[i].leaf_count, j);
}

int body_sums(tsr_ctx *ctx, tsr_transport *t, void *user) {
    const plan *p = user;
    uint32_t state = p->seed, n = t->rank_count;
    size_t row = ELEMENTS_MAX * sizeof(float);
    float *rows = ranks_memory(t, (LEAVES_MAX + 1) * row, p->in_heap);
    EXPECT(rows, "no memory");
    float *out = rows + LEAVES_MAX * ELEMENTS_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t leaves = 1 + next(&state) % LEAVES_MAX, first_leaf[TSR_TRANSPORT_RANKS_MAX + 1];
        for (uint32_t r = 0; r <= n; r++) first_leaf[r] = leaves * r / n;
        size_t count = draw_size(&state) % ELEMENTS_MAX, first[TSR_TRANSPORT_RANKS_MAX + 1] = {0};
        for (uint32_t r = 1; r < n; r++)
            first[r] = first[r - 1] + next(&state) % (count - first[r - 1] + 1);
        first[n] = count;
        uint32_t seed = next(&state);
        /* The result may overwrite row 0 if this rank has one; odd rounds do so. */
        bool in_place = round % 2 && first_leaf[t->rank + 1] != first_leaf[t->rank];
        float *all = in_place ? rows : out;
        tsr_reduce_options o = {
            TSR_REDUCTION_SUM_F32, leaves, first_leaf, rows, row, count, p->in_heap};
        fill_rows(t, &o, seed, rows);
        EXPECT_OK(tsr_reduce_scatter(ctx, t, &o, first, out));
        for (size_t i = first[t->rank]; i < first[t->rank + 1]; i++) {
            float expected = sum_of(seed, 0, leaves, i);
            EXPECT(memcmp(&out[i - first[t->rank]], &expected, 4) == 0,
                   "round %d, element %zu of %zu, %u leaves: %a, not %a", round, i, count, leaves,
                   (double)out[i - first[t->rank]], (double)expected);
        }
        EXPECT_OK(tsr_all_reduce(ctx, t, &o, all));
        for (size_t i = 0; i < count; i++) {
            float expected = sum_of(seed, 0, leaves, i);
            EXPECT(memcmp(&all[i], &expected, 4) == 0, "round %d: all-reduced element %zu of %zu",
                   round, i, count);
        }
        EXPECT_OK(tsr_barrier(ctx, t));
    }
    ranks_memory_free(t, rows);
    return 0;
}

int body_agreement(tsr_ctx *ctx, tsr_transport *t, void *user) {
    (void)user;
    const unsigned char same[3] = {1, 2, 3};
    EXPECT_OK(tsr_agree(ctx, t, "bundles", same, sizeof same));
    if (t->rank_count == 1) return 0;
    unsigned char other[3] = {1, 2, t->rank == 1 ? 0xab : 3};
    EXPECT(tsr_agree(ctx, t, "bundles", other, sizeof other).code == TSR_MISMATCH, "agreed");
    EXPECT(strstr(ctx->error.text, "different bundles: rank 0 010203, rank 1 0102ab"), "%s",
           ctx->error.text);
    return 0;
}
