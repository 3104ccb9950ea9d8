/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves between chunks and ranks, compared with a naive gather and slice, element by element:
 * for every number of ranks up to 8 on either side, every division of a state, tensors of up to 17
 * elements, and chunks of any size. Also measures how long planning takes for a large state.
 */
#include "runtime/base/clock.h"
#include "runtime/store/reshard.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, ELEMENTS_MAX = 17, TENSORS = 3, CHUNKS_MAX = TENSORS * ELEMENTS_MAX };

typedef struct plan {
    tsr_manifest manifest;
    tsr_tensor_row tensors[TENSORS];
    tsr_chunk_row chunks[CHUNKS_MAX];
} plan;

/* Plans tensors with these numbers of elements, in chunks of `each` elements. */
static void make_plan(plan *p, const uint64_t *counts, uint64_t each) {
    *p = (plan){.manifest = {.tensors = p->tensors, .chunks = p->chunks, .tensor_count = TENSORS}};
    for (uint32_t i = 0; i < TENSORS; i++) {
        p->tensors[i] = (tsr_tensor_row){
            .name = "t", .dtype = TSR_DTYPE_I32, .shape = {.rank = 1, .dims = {counts[i]}}};
        for (uint64_t first = 0; first < counts[i]; first += each) {
            uint64_t count = counts[i] - first < each ? counts[i] - first : each;
            p->chunks[p->manifest.chunk_count++] = (tsr_chunk_row){.first = first, .count = count};
            p->tensors[i].chunk_count++;
        }
    }
}

static int value_of(uint32_t tensor, uint64_t element) {
    return (int)(1 + tensor * 1000 + element);
}

/* The naive slice: returns true if this element is on this rank. Parts are consecutive, and so are
 * ranks. */
static bool is_own(uint64_t count, uint32_t parts, uint32_t rank, uint32_t ranks,
                   uint64_t element) {
    if (parts == 0) return true;
    uint64_t each = (count + parts - 1) / parts, part = element / each;
    return (uint64_t)parts * rank / ranks <= part && part < (uint64_t)parts * (rank + 1) / ranks;
}

typedef struct world {
    plan p;
    uint32_t ranks;
    uint32_t parts[TENSORS];
    uint64_t counts[TENSORS];
    int shards[RANKS_MAX][TENSORS][ELEMENTS_MAX]; /* value of each element; 0: not on the rank */
    int chunks[TENSORS][ELEMENTS_MAX]; /* value of each element, from its chunk's owner */
    unsigned written[TENSORS][ELEMENTS_MAX];
} world;

static uint32_t owner_of_chunk(const world *w, uint32_t chunk) {
    uint32_t rank = 0;
    for (;; rank++) {
        tsr_part part = tsr_part_of(w->p.manifest.chunk_count, rank, w->ranks);
        if (chunk >= part.first && chunk < part.first + part.count) return rank;
    }
}

static bool same_move(const tsr_move *a, const tsr_move *b) {
    return a->chunk == b->chunk && a->tensor == b->tensor && a->round == b->round &&
           a->from == b->from && a->to == b->to && a->elements.first == b->elements.first &&
           a->elements.count == b->elements.count;
}

/* Sender and receiver have planned the same move in the same round, and no pair occurs twice in a
 * round. */
static void check_pairs(const tsr_moves *all, uint32_t ranks) {
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < all[r].count; i++) {
            const tsr_move *move = &all[r].moves[i];
            uint32_t other = move->from == r ? move->to : move->from;
            unsigned found = 0, in_round = 0;
            for (size_t k = 0; k < all[other].count; k++) {
                const tsr_move *theirs = &all[other].moves[k];
                found += same_move(theirs, move);
                in_round += theirs->round == move->round && theirs->from == move->from &&
                            theirs->to == move->to;
            }
            cr_assert(found == 1 && in_round == 1);
            cr_assert(i == 0 || all[r].moves[i - 1].round <= move->round);
        }
}

static void run_moves(world *w, tsr_direction direction) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_moves all[RANKS_MAX];
    const tsr_sharding sharding = {w->ranks, w->parts};
    for (uint32_t r = 0; r < w->ranks; r++)
        cr_assert_eq(
            tsr_moves_plan(&ctx, &arena, &w->p.manifest, &sharding, r, direction, &all[r]).code,
            TSR_OK);
    check_pairs(all, w->ranks);
    for (uint32_t r = 0; r < w->ranks; r++)
        for (size_t i = 0; i < all[r].count; i++) {
            const tsr_move *m = &all[r].moves[i];
            if (m->to != r) continue; /* count each move once */
            uint32_t owner = direction == TSR_TO_CHUNKS ? m->to : m->from;
            cr_assert_eq(owner, owner_of_chunk(w, m->chunk));
            const tsr_chunk_row *chunk = &w->p.chunks[m->chunk];
            for (uint64_t e = m->elements.first; e < m->elements.first + m->elements.count; e++) {
                cr_assert(e >= chunk->first && e < chunk->first + chunk->count);
                int *in_chunk = &w->chunks[m->tensor][e];
                if (direction == TSR_TO_CHUNKS)
                    *in_chunk = w->shards[m->from][m->tensor][e];
                else
                    w->shards[m->to][m->tensor][e] = *in_chunk;
                w->written[m->tensor][e]++;
            }
        }
    tsr_arena_finish(&arena);
}

static void slice(world *w) {
    memset(w->shards, 0, sizeof w->shards);
    for (uint32_t r = 0; r < w->ranks; r++)
        for (uint32_t i = 0; i < TENSORS; i++)
            for (uint64_t e = 0; e < w->counts[i]; e++)
                if (is_own(w->counts[i], w->parts[i], r, w->ranks, e))
                    w->shards[r][i][e] = value_of(i, e);
}

/* Saves from w->ranks ranks: every element of every chunk is written once, with the right value. */
static void check_save(world *w) {
    memset(w->chunks, 0, sizeof w->chunks);
    memset(w->written, 0, sizeof w->written);
    slice(w);
    run_moves(w, TSR_TO_CHUNKS);
    for (uint32_t i = 0; i < TENSORS; i++)
        for (uint64_t e = 0; e < w->counts[i]; e++) {
            cr_assert_eq(w->written[i][e], 1);
            cr_assert_eq(w->chunks[i][e], value_of(i, e));
        }
}

/* Loads on w->ranks ranks: every rank has its slice and nothing else, and no element came twice. */
static void check_load(world *w) {
    int expected[RANKS_MAX][TENSORS][ELEMENTS_MAX];
    unsigned holders[TENSORS][ELEMENTS_MAX] = {0};
    slice(w);
    memcpy(expected, w->shards, sizeof expected);
    memset(w->shards, 0, sizeof w->shards);
    memset(w->written, 0, sizeof w->written);
    run_moves(w, TSR_FROM_CHUNKS);
    cr_assert_eq(memcmp(w->shards, expected, sizeof expected), 0);
    for (uint32_t r = 0; r < w->ranks; r++)
        for (uint32_t i = 0; i < TENSORS; i++)
            for (uint64_t e = 0; e < w->counts[i]; e++) holders[i][e] += expected[r][i][e] != 0;
    cr_assert_eq(memcmp(holders, w->written, sizeof holders), 0);
}

/* Stage 0 has no tensors in parts; stages 1 and 2 divide the state; stage 3 also divides the
 * parameter. */
static void set_stage(world *w, int stage, uint32_t positions) {
    w->parts[0] = stage == 3 ? positions : 0;
    w->parts[1] = w->parts[2] = stage >= 1 ? positions : 0;
}

static void check_all_of(world *w, uint32_t positions) {
    for (int stage = 0; stage <= 3; stage++)
        for (uint32_t ranks = 1; ranks <= RANKS_MAX; ranks++) {
            w->ranks = ranks;
            set_stage(w, stage, positions);
            check_save(w);
            for (int other = 0; other <= 3; other++)
                for (w->ranks = 1; w->ranks <= RANKS_MAX; w->ranks++) {
                    set_stage(w, other, positions);
                    check_load(w);
                }
        }
}

/* All timeouts are equal: Criterion 2.4 leaks the timer of a test that ends earlier than another
 * running test. */
Test(reshard, any_number_and_stage_to_any_other, .timeout = 120) {
    world *w = malloc(sizeof *w);
    for (uint64_t count = 0; count <= ELEMENTS_MAX; count++)
        for (uint64_t each = 1; each <= ELEMENTS_MAX; each += each < 4 ? 1 : 5) {
            w->counts[0] = count;
            w->counts[1] = (count * 5 + 3) % (ELEMENTS_MAX + 1);
            w->counts[2] = ELEMENTS_MAX - count;
            make_plan(&w->p, w->counts, each);
            check_all_of(w, 8);
        }
    free(w);
}

Test(reshard, any_number_of_parts, .timeout = 120) {
    world *w = malloc(sizeof *w);
    for (uint32_t positions = 1; positions <= 12; positions++)
        for (uint64_t count = 0; count <= ELEMENTS_MAX; count += 1 + count / 6) {
            w->counts[0] = count;
            w->counts[1] = ELEMENTS_MAX;
            w->counts[2] = count / 2;
            make_plan(&w->p, w->counts, 3);
            for (w->ranks = 1; w->ranks <= RANKS_MAX; w->ranks++) {
                set_stage(w, 3, positions);
                check_save(w);
                check_load(w);
            }
        }
    free(w);
}

/* ---- a large one ---- */

enum { MANY = 10000, MANY_RANKS = 64, TRIES = 5 };
#ifdef __SANITIZE_ADDRESS__
enum { PLAN_MS_MAX = 200 }; /* the sanitizer checks every access */
#else
enum { PLAN_MS_MAX = 10 };
#endif

Test(reshard, ten_thousand_tensors_on_sixty_four_ranks) {
    tsr_tensor_row *tensors = calloc(MANY, sizeof *tensors);
    tsr_chunk_row *chunks = calloc(MANY, sizeof *chunks);
    uint32_t *parts = calloc(MANY, sizeof *parts);
    tsr_manifest manifest = {
        .tensors = tensors, .chunks = chunks, .tensor_count = MANY, .chunk_count = MANY};
    tsr_ctx ctx = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t count = 1 + i * UINT64_C(7919) % 1000003;
        tensors[i] = (tsr_tensor_row){.name = "t",
                                      .dtype = TSR_DTYPE_F32,
                                      .chunk_count = 1,
                                      .shape = {.rank = 1, .dims = {count}}};
        chunks[i] = (tsr_chunk_row){.count = count, .size_bytes = (uint32_t)(4 * count)};
        parts[i] = i % 3 ? MANY_RANKS : 0;
    }
    const tsr_sharding sharding = {MANY_RANKS, parts};
    double best = 1e9;
    size_t moved = 0;
    for (uint32_t try = 0; try < TRIES; try++) {
        tsr_arena arena = {0};
        tsr_moves save, load;
        double began = tsr_clock_seconds();
        cr_assert_eq(
            tsr_moves_plan(&ctx, &arena, &manifest, &sharding, 17, TSR_TO_CHUNKS, &save).code,
            TSR_OK);
        cr_assert_eq(
            tsr_moves_plan(&ctx, &arena, &manifest, &sharding, 17, TSR_FROM_CHUNKS, &load).code,
            TSR_OK);
        double took = 1e3 * (tsr_clock_seconds() - began);
        if (took < best) best = took;
        moved = save.count + load.count;
        tsr_arena_finish(&arena);
    }
    printf("%d tensors, %d ranks: %zu moves of a rank, both ways, planned in %.2f ms\n", MANY,
           MANY_RANKS, moved, best);
    cr_assert_lt(best, PLAN_MS_MAX);
    free(tensors);
    free(chunks);
    free(parts);
}
