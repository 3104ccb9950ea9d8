/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass tessera-virtual-ranks: values as virtual ranks see them, shared by virtual_ranks.c,
 * exchange.c and layouts.c.
 */
#ifndef TSR_COMPILER_RESILIENCE_SPLITTER_H
#define TSR_COMPILER_RESILIENCE_SPLITTER_H

#include "compiler/graph/emit.h"
#include "compiler/ir/value_map.h"

/* A value of the program as virtual ranks see it: whole, or sharded among them. */
typedef struct tsr_sharded_value {
    int state;                     /* state of `local`; see split_rules.h */
    bool scatters;                 /* see split_rules.h */
    bool stays;                    /* a tensor with a declared layout, or computed from one alone */
    int reads;                     /* if it stays: the dim that products read in parts */
    MlirValue local, whole;        /* null: not created yet */
    MlirValue parts[TSR_RANK_MAX]; /* parts of a whole value, for one virtual rank, by dim */
} tsr_sharded_value;

typedef struct tsr_splitter {
    MlirModule module;
    MlirOperation func;
    MlirContext context;
    uint64_t parts;
    tsr_arena arena;
    tsr_value_map numbers;
    tsr_sharded_value *views;
    uint32_t count, capacity;
    MlirValue vrank; /* null: not created yet */
    MlirOperation *replaced;
    size_t replaced_count;
    bool stays; /* a tensor has a declared layout */
} tsr_splitter;

/* Adds the view of a value; returns its number in s->views. */
uint32_t tsr_splitter_add(tsr_splitter *s, MlirValue value, int state, MlirValue local);
tsr_sharded_value *tsr_splitter_view(tsr_splitter *s, MlirValue value);
/* The value on each virtual rank, whole. */
MlirValue tsr_splitter_whole(tsr_splitter *s, MlirValue value);
/* The virtual rank's part of a value along `dim`; depth: 0. */
MlirValue tsr_splitter_part(tsr_splitter *s, tsr_builder *b, MlirValue value, int dim, int depth);
/* The type of a part; dim < 0: the type itself. */
tsr_type tsr_splitter_divided(tsr_type type, int dim, uint64_t parts);
/* The offset of a virtual rank's part of `size`, as a scalar of this type. */
MlirValue tsr_splitter_begin(tsr_splitter *s, tsr_builder *b, uint64_t size, tsr_dtype dtype);

/* exchange.c: whether the part along dim `to` can be got by an exchange of blocks, and that part:
 * of a value that is split along another dim; of a sum, a summand of which each virtual rank has.
 */
bool tsr_splitter_can_exchange(const tsr_splitter *s, const tsr_sharded_value *of, int to);
MlirValue tsr_splitter_exchange(tsr_splitter *s, tsr_builder *b, const tsr_sharded_value *of,
                                int to);
bool tsr_splitter_can_scatter(const tsr_splitter *s, const tsr_sharded_value *of, int to);
MlirValue tsr_splitter_scatter(tsr_splitter *s, tsr_builder *b, const tsr_sharded_value *of,
                               int to);

/* layouts.c: each returns false for other ops. A read of a tensor that stays where it is; *out_good
 * is false after an error. */
bool tsr_layout_read(tsr_splitter *s, MlirOperation op, bool *out_good);
/* An assign to such a tensor. */
bool tsr_layout_assign(tsr_splitter *s, MlirOperation op);
/* A gather from the rows of a split tensor, and its gradient. */
bool tsr_layout_gather(tsr_splitter *s, MlirOperation op);
bool tsr_layout_scatter(tsr_splitter *s, MlirOperation op);
/* Marks the gradients of lookups, whose indices the lookups have checked. */
void tsr_layout_mark_checked(MlirOperation func);
/* Replaces losses over split classes by simpler ops; returns the first new op; null
 * for other ops. */
MlirOperation tsr_layout_expand(tsr_splitter *s, MlirOperation op);

#endif
