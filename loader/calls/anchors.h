/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of an entry that has copies for several sizes of its dims (manifests/anchor.h) runs the
 * copy that has the dims of the inputs. Private to this folder.
 */
#ifndef TSR_LOADER_ANCHORS_H
#define TSR_LOADER_ANCHORS_H

#include "manifests/anchor.h"
#include "runtime/base/result.h"

typedef struct tsr_anchor_input {
    size_t port; /* index of an input of the entry */
    const tsr_shape *shape;
    bool is_flat; /* the shape is only the number of elements */
} tsr_anchor_input;

/* Finds the copy, from entry `first` on, whose inputs have these shapes. TSR_DATA if a dim has two
 * sizes (both, and their inputs), or a size for which there is no copy (the sizes), or if a flat
 * input fits several copies. If only other dims differ, returns a copy with the right sizes, whose
 * ports say what is expected. */
TSR_RESULT tsr_anchor_choose(tsr_ctx *ctx, const tsr_config *config, size_t first,
                             const tsr_anchor_input *inputs, size_t input_count, size_t *out_entry);

#endif
