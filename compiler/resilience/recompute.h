/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which values of a segment are saved for the backward pass and which are recomputed.
 * Works on plain structs: recompute.c fills them from Graph IR.
 *
 * Saving a value costs its bytes, and running an op again costs its operations times a price; the
 * cheapest choice is a minimum cut (He and Yu, "Transcending runtime-memory tradeoffs in
 * checkpointing by being fusion aware", MLSys 2023, section 4). Policy full: operations are free.
 * Selective: an operation costs TSR_SR_PRICE; with a budget, the price that just meets it.
 * Selective recomputation is Korthikanti et al. 2022, section 5.
 */
#ifndef TSR_COMPILER_RESILIENCE_RECOMPUTE_H
#define TSR_COMPILER_RESILIENCE_RECOMPUTE_H

#include "compiler/resilience/resilience.h"
#include "runtime/base/arena.h"

/* Prices are in 1/1024 bytes per operation. An operation is worth 1/32 byte: elementwise ops and
 * norms are run again, products of matrices from 64 terms on are not. */
enum { TSR_SR_PRICE_UNIT = 1024, TSR_SR_PRICE = TSR_SR_PRICE_UNIT / 32 };

enum { TSR_SR_NO_SEGMENT = UINT32_MAX };

typedef struct tsr_sr_value {
    MlirValue mlir;
    uint32_t op; /* the node that computes it; UINT32_MAX for an argument */
    uint64_t size_bytes;
    bool needed;    /* the backward pass reads it */
    bool saved;     /* stays until the backward pass in any case */
    bool again;     /* recomputed, not saved */
    MlirValue copy; /* the recomputed value; null until then */
} tsr_sr_value;

typedef struct tsr_sr_node {
    MlirOperation mlir;
    uint32_t segment;
    bool backward;
    bool source; /* reads a tensor, the step, the seed, or is a constant: costs nothing to save */
    bool fixed;  /* not an op of Graph IR: a collective, the end of a region; never run again */
    uint64_t work;
    uint32_t operand_count, result_count;
    const uint32_t *operands; /* values */
    uint32_t first_result;    /* value */
} tsr_sr_node;

/* True for a forward node that is in no segment and can be run again. */
bool tsr_sr_node_is_free(const tsr_sr_node *node);

typedef struct tsr_sr_program {
    tsr_arena *arena;
    tsr_sr_node *nodes; /* in the order of the block */
    uint32_t node_count;
    tsr_sr_value *values;
    uint32_t value_count;
} tsr_sr_program;

typedef struct tsr_sr_choice {
    uint64_t saved_bytes; /* bytes that only this segment's replay needs */
    uint64_t work;        /* recomputed operations */
} tsr_sr_choice;

/* Returns the result of one segment at one price; `commit` sets `again` and `saved` of its values.
 * Segments are decided from the last to the first. False when out of memory. */
bool tsr_sr_choose(tsr_sr_program *program, uint32_t segment, uint64_t price, bool commit,
                   tsr_sr_choice *out_choice);
/* Divides the forward nodes without a segment into segments with numbers from `first` on, at most
 * `limit`; returns how many there are. Boundaries are where few bytes cross; their number is about
 * the square root of the number of values needed (Chen et al. 2016, section 4). */
uint32_t tsr_sr_find_segments(tsr_sr_program *program, uint32_t first, uint32_t limit);

#endif
