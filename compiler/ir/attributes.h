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

/* Attribute of an entry: the symbols of its open dims, ["N", "S"]. */
#define TSR_DIMS_NAME "tessera.dims"
/* Module attribute: the sizes of symbols, {N = 64}, for pass tessera-bind-dims. */
#define TSR_SIZES_NAME "tessera.dim_sizes"

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

/* tsched.func, while its target's Tile IR is made: for each input, then each output, the elements
 * from one row to the next; 0: dense. Afterwards the buffers have these pitches: tsr_buffer_make.
 */
#define TSR_PITCHES_NAME "tile.pitches"
enum { TSR_PITCH_BYTES = 128 }; /* unit of pitches and of the offsets of such buffers */

#endif
