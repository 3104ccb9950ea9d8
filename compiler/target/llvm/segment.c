/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.segment: a tree of comparisons finds the segment of a program; its leaves are the arguments.
 */
#include "compiler/target/llvm/emit.h"

enum { OWN_RESULTS = 2 }; /* results before the buffers */

typedef struct tree {
    tsr_emit *emit;
    MlirOperation op;
    MlirAttribute first;
    size_t parts;
    LLVMValueRef program;
    LLVMBasicBlockRef done;
    LLVMValueRef *phis; /* first program, size, buffers */
} tree;

static LLVMValueRef number(const tree *t, int64_t value) {
    return tsr_emit_int(LLVMTypeOf(t->program), value);
}

static int64_t first_of(const tree *t, size_t segment) {
    int64_t value = 0;
    bool known = tsr_attr_i64(mlirArrayAttrGetElement(t->first, (intptr_t)segment), &value);
    TSR_ASSERT(known);
    return value;
}

static void add_leaf(const tree *t, size_t segment) {
    LLVMBuilderRef b = t->emit->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    tsr_type type;
    uint64_t count = 0;
    bool known = tsr_value_type(tsr_op_operand(t->op, 1 + segment * t->parts), &type) &&
                 tsr_shape_count(&type.shape, &count);
    TSR_ASSERT(known);
    for (size_t i = 0; i < OWN_RESULTS + t->parts; i++) {
        LLVMValueRef value =
            i == 0   ? number(t, first_of(t, segment))
            : i == 1 ? number(t, (int64_t)count)
                     : tsr_emit_operand(t->emit, t->op, 1 + segment * t->parts + i - OWN_RESULTS);
        LLVMAddIncoming(t->phis[i], &value, &from, 1);
    }
    LLVMBuildBr(b, t->done);
}

/* Adds the tree for segments begin to end - 1; its depth is logarithmic in their number. */
static void add_tree(const tree *t, size_t begin, size_t end) {
    LLVMBuilderRef b = t->emit->builder;
    size_t middle = begin + (end - begin) / 2;
    if (end - begin == 1) {
        add_leaf(t, begin);
        return;
    }
    LLVMBasicBlockRef low = tsr_emit_block(t->emit, "segment"),
                      high = tsr_emit_block(t->emit, "segment");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, t->program, number(t, first_of(t, middle)), ""),
                    low, high);
    LLVMPositionBuilderAtEnd(b, low);
    add_tree(t, begin, middle);
    LLVMPositionBuilderAtEnd(b, high);
    add_tree(t, middle, end);
}

void tsr_emit_segment(tsr_emit *emit, MlirOperation op) {
    enum { PARTS_MAX = TSR_EMIT_ARGUMENTS_MAX };
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef phis[OWN_RESULTS + PARTS_MAX];
    tree t = {.emit = emit,
              .op = op,
              .first = tsr_op_attr(op, "first"),
              .parts = tsr_op_result_count(op) - OWN_RESULTS,
              .program = tsr_emit_operand(emit, op, 0),
              .done = tsr_emit_block(emit, "found"),
              .phis = phis};
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    TSR_ASSERT(t.parts <= PARTS_MAX);
    LLVMPositionBuilderAtEnd(b, t.done);
    for (size_t i = 0; i < OWN_RESULTS + t.parts; i++)
        phis[i] = LLVMBuildPhi(
            b, i < OWN_RESULTS ? LLVMTypeOf(t.program) : LLVMPointerTypeInContext(emit->llvm, 0),
            "");
    LLVMPositionBuilderAtEnd(b, from);
    add_tree(&t, 0, (size_t)mlirArrayAttrGetNumElements(t.first));
    LLVMPositionBuilderAtEnd(b, t.done);
    tsr_emit_bind(emit, tsr_op_result(op, 0), LLVMBuildNSWSub(b, t.program, phis[0], "number"));
    for (size_t i = 1; i < OWN_RESULTS + t.parts; i++)
        tsr_emit_bind(emit, tsr_op_result(op, i), phis[i]);
}
