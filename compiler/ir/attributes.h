/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of attributes that more than one stage reads.
 */
#ifndef TSR_COMPILER_IR_ATTRIBUTES_H
#define TSR_COMPILER_IR_ATTRIBUTES_H

/* Module attribute: the name of the target that the module is compiled for. */
#define TSR_TARGET_NAME "tessera.target"

/* Module attributes: the file that holds the values of the parameters, in the folder of the module,
 * and its SHA-256 ("sha256:…"). */
#define TSR_WEIGHTS_NAME "tessera.weights"
#define TSR_WEIGHTS_DIGEST_NAME "tessera.weights_digest"

/* Products of integers, after tessera-decompose: operands are words of four bytes (tessera.words),
 * ui32 of unsigned ones. */
#define TSR_WORDS_NAME "tessera.words"

/* Attribute of an entry: the symbols of its open dims, ["N", "S"]. */
#define TSR_DIMS_NAME "tessera.dims"
/* Attribute of a function: constraints on dims, ["D % 8 == 0"]. The attribute TSR_DIMS_NAME of an
 * argument or a result names its dims. */
#define TSR_CONSTRAINTS_NAME "tessera.constraints"
/* Module attribute: the sizes of symbols, {N = 64}, for pass tessera-bind-dims. */
#define TSR_SIZES_NAME "tessera.dim_sizes"
/* Module attribute of an imported model: {N = [1, 64]}. What was computed from dims is right only
 * if the symbol has sizes in this range. */
#define TSR_BOUNDS_NAME "tessera.dim_bounds"

/* Attribute of a function: the effects that it may have, ["random", "state"]. */
#define TSR_EFFECTS_NAME "tessera.effects"
/* Attribute of a function: {seed = 7 : i64}. What it computes depends on its arguments, the state,
 * the step and this seed alone. */
#define TSR_DETERMINISTIC_NAME "tessera.deterministic"
/* Attribute of a call: the name of the function in the program, which names the random streams of
 * the call, where the function has another symbol. */
#define TSR_CALLED_NAME "tessera.called_as"
/* Attribute of a random op, from pass tessera-streams: the seed of its deterministic function. */
#define TSR_SEED_NAME "tessera.seed"

/* Attributes of an entry whose dim stays open at run time, added by pass tessera-copy-anchors: the
 * symbol, [lowest size, highest size], and for each argument and each result the number that, times
 * the dim, is its dim 0; 0: its dims do not depend on the dim. Types have the highest size. */
#define TSR_OPEN_DIM_NAME "tessera.open_dim"
#define TSR_OPEN_RANGE_NAME "tessera.open_range"
#define TSR_OPEN_INPUTS_NAME "tessera.open_inputs"
#define TSR_OPEN_OUTPUTS_NAME "tessera.open_outputs"

/* Module attribute while it is lowered for its largest sizes: other sizes follow, and what depends
 * on them is found by comparison (compiler/graph/open). */
#define TSR_COMPARED_NAME "tsched.compared"
/* Attributes of lowered ops of such an entry, found by comparison. The types of the results, with
 * expressions of the dims; for an attribute with numbers that follow from dims, the prefix and its
 * name: all of its numbers, as expressions; for a constant, the expression that all elements are,
 * and whether they are 1 divided by it. Types and attributes themselves have the largest sizes. */
#define TSR_OPEN_TYPES_NAME "tsched.open_types"
#define TSR_OPEN_NUMBERS_PREFIX "tsched.open."
#define TSR_OPEN_VALUE_NAME "tsched.open_value"
#define TSR_OPEN_INVERSE_NAME "tsched.open_inverse"

/* Constants that kernels read whole stay in the entry, become tensors of the bundle, and carry
 * their name in this attribute. The name depends only on type and value, so equal constants are
 * one tensor. */
#define TSR_CONSTANT_NAME "tessera.tensor"

/* The kernel that a plan puts the op in. After tessera-streams its value is the path of the call
 * that inlined the op, so that each call has a kernel of its own. */
#define TSR_PLANNED_GROUP "tsched.group"

/* [segments, inputs of a segment]: a group or kernel that does the same computation on the
 * arguments of several segments; its inputs are the inputs of the first segment, then of the second
 * segment and so on, then the shared inputs; outputs likewise. An output only overwrites inputs of
 * its own segment. */
#define TSR_SEGMENTS_NAME "tile.segments"

/* tsched.func and its calls, while a target's Tile IR is made: for each input, then each output,
 * the number that, times the open dim of the entry, is its dim 0; 0: its dims do not depend on the
 * dim. The last input is the dim. */
#define TSR_OPEN_TIMES_NAME "tsched.open_times"
/* tsched.func: the largest size of the dim, and its symbol. With TSR_OPEN_TYPES_NAME, the types of
 * the inputs and outputs, the group has extents (compiler/tile/open/extent.h). */
#define TSR_OPEN_HIGH_NAME "tsched.open_high"
#define TSR_OPEN_SYMBOL_NAME "tsched.open_symbol"
/* Kernels: [times, each, parts]; with the dim n, a launch has
 * parts * ceil(times * n / each) programs. */
#define TSR_OPEN_GRID_NAME "tile.open_grid"
/* tessera_target: buffers whose dim 0 is this number times the dim. */
#define TSR_OPEN_ROWS_NAME "tessera_target.times"

/* tsched.func, while its target's Tile IR is made: for each input, then each output, the elements
 * from one row to the next; 0: dense. Afterwards the buffers have these pitches: tsr_buffer_make.
 */
#define TSR_PITCHES_NAME "tile.pitches"
enum { TSR_PITCH_BYTES = 128 }; /* unit of pitches and of the offsets of such buffers */

#endif
