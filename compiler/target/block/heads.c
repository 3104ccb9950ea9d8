/* SPDX-License-Identifier: Apache-2.0
 *
 * Where heads are stored in the buffers of tile.attend: they are a dimension, or adjacent columns.
 */
#include "compiler/target/block/block.h"
#include "compiler/target/host/rules.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>
#include <string.h>

void tsr_block_locate_head(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                           LLVMValueRef row, int64_t column, LLVMValueRef *out_at) {
    LLVMBuilderRef b = emit->builder;
    tsr_heads heads = tsr_attend_heads(attend, buffer);
    out_at[0] = tsr_block_int(emit, column);
    out_at[1] = row;
    out_at[2] = head;
    if (heads.first < 0) return;
    /* Computed again each time: the copying role has few registers. */
    head = tsr_block_asm(emit, tsr_block_i32(emit), "mov.b32 $0, $1;", "=r,r", &head, 1);
    LLVMValueRef count = tsr_block_int(emit, heads.count);
    out_at[2] = LLVMBuildUDiv(b, head, count, "");
    LLVMValueRef of_batch = LLVMBuildURem(b, head, count, "");
    out_at[0] = tsr_block_add(emit, tsr_block_mul(emit, of_batch, heads.d), heads.first + column);
}
