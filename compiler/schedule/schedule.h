/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph IR -> Schedule IR, in place: every entry becomes a list of `tsched.call`s between its reads
 * (param, opt.state, step, constants) and its `assign`s; every `tsched.func` is one kernel to be.
 * Equal groups of different entries share one function. Group names are valid C identifiers.
 *
 * As passes: `tsched-verify`, `tsched-apply`, `tsched-pipeline`, `tsched-fuse`, `tsched-pack`,
 * `tsched-fuse-epilogues`, `tsched-narrow`, `tsched-hoist`, `tsched-batch`.
 */
#ifndef TSR_COMPILER_SCHEDULE_SCHEDULE_H
#define TSR_COMPILER_SCHEDULE_SCHEDULE_H

#include "compiler/mlir.h"
#include "compiler/names.h"

typedef enum tsr_op_class {
    TSR_CLASS_OTHER, /* not in ops.def */
    TSR_CLASS_SOURCE,
    TSR_CLASS_CONSTANT,
    TSR_CLASS_MAP,
    TSR_CLASS_MATMUL,
    TSR_CLASS_REDUCE,
    TSR_CLASS_MOVE,
    TSR_CLASS_ALONE,
    TSR_CLASS_WIDE,
    TSR_CLASS_BARRIER,
    TSR_CLASS_LOOP,
    TSR_CLASS_VIEW,
    TSR_CLASS_VRANK,
    TSR_CLASS_COLLECTIVE,
    TSR_CLASS_TAKE,
    TSR_CLASS_JOIN,
    TSR_CLASS_SINK,
} tsr_op_class;

typedef struct tsr_op_row {
    const char *name;
    tsr_op_class op_class;
    uint32_t weight;
    bool faults;
} tsr_op_row;

/* The op's row of ops.def; NULL if it has none. */
const tsr_op_row *tsr_op_row_find(MlirOperation op);
/* Is it one that a kernel computes, and so may stand in a fusion group? */
bool tsr_op_row_is_computed(const tsr_op_row *row);
/* Does the op widen 16 bits to f32, or narrow f32 to 16 bits? */
bool tsr_op_is_width_cast(MlirOperation op);
/* "map", "reduce", "matmul", or the name of the op for one that stands alone ("cross_entropy"). */
const char *tsr_op_group_kind(const tsr_op_row *row);
/* Floating-point operations of an op that is not elementwise, about; saturates. */
uint64_t tsr_op_work(MlirOperation op);
/* NumPy broadcasting: can `from` stretch to `to`? */
bool tsr_shape_stretches(const tsr_shape *from, const tsr_shape *to);

/* Constants that kernels read whole stay in the entry, become tensors of the bundle, and carry
 * their name in this attribute: a function of type and value, so that equal ones are one. */
#define TSR_CONSTANT_NAME "tessera.tensor"

/* An op of plan.td: it says what shall be, and computes nothing. */
bool tsr_op_is_plan(MlirOperation op);
/* Sizes of tiles that a plan chose, on the op that they are for. */
#define TSR_CHOSEN_TILE "tsched.tile"
/* On ops that a plan has in one kernel: which one. Behind tessera-streams it is the path of the
 * call that the ops are of, so that each call has a kernel of its own. */
#define TSR_PLANNED_GROUP "tsched.group"

/* Of tessera-verify-scheduled: entries hold calls, and what later stages place without a kernel. */
bool tsr_schedule_verify_entries(MlirModule module);

/* Passes tsched-apply: plans' choices go to ops, plans are removed;
 * tsched-verify: the functions that plans name exist; tsched-pipeline: what the schedule of
 * each tsched.pipeline.region comes to, as attributes. */
bool tsr_pass_apply(MlirModule module);
bool tsr_pass_verify_plans(MlirModule module);
bool tsr_pass_pipeline(MlirModule module);

/* Pass tsched-fuse. Entries that already hold calls of groups stay as they are. */
bool tsr_pass_fuse(MlirModule module);
/* Pass tsched-pack: the second operand of a product that is a tensor which the entry leaves as it
 * is is packed by a group of its own (kind "pack"), which runs only when the tensor has changed.
 * No pass of the stage: tsr_tile_lower runs it for targets whose vectors fit a strip. */
bool tsr_pass_pack(MlirModule module);
/* The same; `pairs`: products of bf16 take pairs of rows. */
bool tsr_schedule_pack(MlirModule module, bool pairs);
/* Pass tsched-narrow: a matmul takes a matrix of bf16 or f16 that another group widens for it as it
 * is. Before tsched-pack, for CPUs. */
bool tsr_pass_narrow(MlirModule module);
/* Pass tsched-fuse-epilogues: a product and the elementwise group that alone reads its result
 * become one group, where the product is long enough to hide its epilogue. For CPUs, before
 * tsched-narrow. */
bool tsr_pass_fuse_epilogues(MlirModule module);
/* An epilogue waits for memory if it reads at least this many operands of the product's shape. */
enum { TSR_EPILOGUE_OPERANDS_LEAST = 2 };
/* On a tsched.func: its result depends on one tensor only, and is computed when that has changed.
 */
#define TSR_HOISTED_NAME "tsched.hoisted"
/* Pass tsched-hoist: what is computed element by element of one tensor that the entry leaves as it
 * is, is computed once. For the native numerics of GPUs, after tsched-fuse. */
bool tsr_pass_hoist(MlirModule module);
/* Does some function call the group of this name? */
bool tsr_group_is_called(MlirModule module, const char *symbol);
/* Between begin and end a pass replaces groups by others, their clones: `add` names the clone (the
 * group's name and `suffix`, or what of that is free) and puts it behind its group; `find` gives it
 * again, null where there is none; `end` drops groups that have one and are not called any more. */
void tsr_clones_begin(MlirModule module);
MlirOperation tsr_clone_find(MlirModule module, MlirOperation group, const char *suffix);
void tsr_clone_add(MlirModule module, MlirOperation group, MlirOperation clone, const char *suffix);
void tsr_clones_end(MlirModule module);
/* A tensor of the program that stays as it is while the entry runs. `assigned` remembers what the
 * entry assigns, for the next question. */
bool tsr_is_invariant(tsr_assigned *assigned, MlirOperation entry, MlirValue value);
/* The function itself, or the entry that the body of a loop runs in. */
MlirOperation tsr_entry_of(MlirModule module, MlirOperation func);
/* Calls of one elementwise expression on buffers of their own become one call of a group of kind
 * "batch", of at most `arguments_max` inputs and outputs: with one launch, as a GPU likes it. */
bool tsr_schedule_batch(MlirModule module, uint32_t arguments_max);
bool tsr_pass_batch(MlirModule module); /* the same, as tsched-batch */
/* What TSR_SEGMENTS_NAME says of a group or kernel; false where it says nothing, or nothing that
 * fits as many inputs and outputs. */
typedef struct tsr_segments {
    uint32_t count, inputs, outputs; /* inputs and outputs of each */
} tsr_segments;
bool tsr_segments_read(MlirOperation op, size_t inputs, size_t outputs, tsr_segments *out_segments);
/* The rule of such a group. */
bool tsr_segments_verify(MlirOperation func);
enum { TSR_STRIP_BYTES = 64 }; /* a row of a strip: one line of the cache, whatever the target */
/* The shape that a matrix has in strips of elements of this type: the last dim, all others
 * together; transposed, the other way round. `pairs`: of rows. */
tsr_shape tsr_pack_shape(const tsr_type *matrix, tsr_dtype dtype, bool transposed, bool pairs);

/* Runs every pass of this stage. TSR_COMPILE on error; the diagnostics are in the list. */
TSR_RESULT tsr_schedule_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list);

/* Appends the groups and what each entry runs as JSON
 * (application/vnd.tessera.schedule.v1+json). */
void tsr_schedule_json(MlirModule module, tsr_buffer *out);

/* From MLIR values to numbers; memory is in the arena. */
typedef struct tsr_value_map {
    struct tsr_value_slot *slots;
    size_t count, capacity; /* capacity: a power of two, or 0 */
} tsr_value_map;
/* False when out of memory. Setting a value again replaces its number. */
bool tsr_value_map_set(tsr_value_map *map, tsr_arena *arena, MlirValue value, uint32_t number);
/* UINT32_MAX if absent. */
uint32_t tsr_value_map_get(const tsr_value_map *map, MlirValue value);

#endif
