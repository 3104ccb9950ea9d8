/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph IR -> Schedule IR, in place: every entry becomes a list of `tsched.call`s between its reads
 * (param, opt.state, step, constants) and its `assign`s; every `tsched.func` is a future kernel.
 * Equal groups of different entries share one function. Group names are valid C identifiers.
 *
 * As passes: `tsched-verify`, `tsched-apply`, `tsched-pipeline`, `tsched-fuse`, `tsched-pack`,
 * `tsched-fuse-epilogues`, `tsched-narrow`, `tsched-hoist`, `tsched-batch`.
 */
#ifndef TSR_COMPILER_SCHEDULE_SCHEDULE_H
#define TSR_COMPILER_SCHEDULE_SCHEDULE_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/names.h"

/* Tile sizes that a plan chose, on the op that they are for. */
#define TSR_CHOSEN_TILE "tsched.tile"
/* Part of tessera-verify-scheduled: entries contain only calls, and ops that later stages assign
 * memory to without a kernel. */
bool tsr_schedule_verify_entries(MlirModule module);
/* The same: instructions of a GPU in kernels of deterministic entries are deterministic. */
bool tsr_schedule_verify_deterministic(MlirModule module);

/* Pass tsched-apply moves plans' choices to ops and removes the plans; tsched-verify checks that
 * the functions that plans name exist; tsched-pipeline records the properties of each
 * tsched.pipeline.region's schedule as attributes. */
bool tsr_pass_apply(MlirModule module);
bool tsr_pass_verify_plans(MlirModule module);
bool tsr_pass_pipeline(MlirModule module);

/* Pass tsched-fuse. Entries that already contain calls of groups stay unchanged. */
bool tsr_pass_fuse(MlirModule module);
/* Pass tsched-pack: if the second operand of a product is a tensor that the entry does not change,
 * a group of its own (kind "pack") packs it, which runs only when the tensor has changed.
 * tsr_tile_lower runs this pass, not the schedule stage, for targets whose vectors fit a strip. */
bool tsr_pass_pack(MlirModule module);
/* The same; `pairs`: products of bf16 take pairs of rows. */
bool tsr_schedule_pack(MlirModule module, bool pairs);
/* Pass tsched-narrow: a matmul takes a bf16 or f16 matrix directly instead of the copy that
 * another group widened. Runs before tsched-pack, for CPUs. */
bool tsr_pass_narrow(MlirModule module);
/* Pass tsched-fuse-epilogues: a product and the elementwise group that is the only reader of its
 * result become one group, if the product is long enough to hide its epilogue. Runs before
 * tsched-narrow, for CPUs. */
bool tsr_pass_fuse_epilogues(MlirModule module);
/* An epilogue waits for memory if it reads at least this many operands of the product's shape. */
enum { TSR_EPILOGUE_OPERANDS_LEAST = 2 };
/* Attribute of a tsched.func: its result depends on one tensor only, and is computed when that
 * tensor has changed. */
#define TSR_HOISTED_NAME "tsched.hoisted"
/* Pass tsched-hoist: values computed element by element from one tensor that the entry does not
 * change are computed once. For the native numerics of GPUs, after tsched-fuse. */
bool tsr_pass_hoist(MlirModule module);
/* True if some function calls the group of this name. */
bool tsr_group_is_called(MlirModule module, const char *symbol);
/* Between begin and end a pass replaces groups by clones. `add` names the clone (the group's name
 * and `suffix`, made unique) and inserts it after its group; `find` returns it again, or null if
 * there is none; `end` drops groups that have a clone and are no longer called. */
void tsr_clones_begin(MlirModule module);
MlirOperation tsr_clone_find(MlirModule module, MlirOperation group, const char *suffix);
void tsr_clone_add(MlirModule module, MlirOperation group, MlirOperation clone, const char *suffix);
void tsr_clones_end(MlirModule module);
/* True for a tensor of the program that does not change while the entry runs. `assigned` caches
 * the tensors that the entry assigns, for later queries. */
bool tsr_is_invariant(tsr_assigned *assigned, MlirOperation entry, MlirValue value);
/* Returns the function itself, or the entry in which the body of a loop runs. */
MlirOperation tsr_entry_of(MlirModule module, MlirOperation func);
/* Combines calls of one elementwise expression on different buffers into one call of a group of
 * kind "batch", of at most `arguments_max` inputs and outputs. A GPU then needs one launch. */
bool tsr_schedule_batch(MlirModule module, uint32_t arguments_max);
bool tsr_pass_batch(MlirModule module); /* the same, as pass tsched-batch */
/* Reads TSR_SEGMENTS_NAME of a group or kernel; false if it is missing or does not fit the number
 * of inputs and outputs. */
typedef struct tsr_segments {
    uint32_t count, inputs, outputs; /* inputs and outputs of each */
} tsr_segments;
bool tsr_segments_read(MlirOperation op, size_t inputs, size_t outputs, tsr_segments *out_segments);
/* The verifier of batch groups. */
bool tsr_segments_verify(MlirOperation func);
enum { TSR_STRIP_BYTES = 64 }; /* a row of a strip: one line of the cache, whatever the target */
/* The shape of a matrix in strips of elements of this type: columns are the last dim and rows all
 * others together; transposed, the reverse. `pairs`: strips of row pairs. */
tsr_shape tsr_pack_shape(const tsr_type *matrix, tsr_dtype dtype, bool transposed, bool pairs);
/* The words of each four rows of a matrix of i8 or ui8; false if its rows, over all dims before the
 * last one, do not form whole words in order. */
bool tsr_pack_words(const tsr_type *matrix, tsr_type *out_words);

/* Runs every pass of this stage. TSR_COMPILE on error; the diagnostics are in the list. */
TSR_RESULT tsr_schedule_lower(tsr_ctx *ctx, MlirModule module, tsr_diag_list *list);

/* Appends the groups, the calls of each entry, and the sizes of the kernels in `planned`, one
 * module for each target, as JSON (application/vnd.tessera.schedule.v1+json). Sorts `planned`. */
void tsr_schedule_json(MlirModule module, MlirModule *planned, size_t planned_count,
                       tsr_buffer *out);

#endif
