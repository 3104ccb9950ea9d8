/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.dot: the machine's instruction in vectors of 16, 8 or 4 sums, or two multiply-adds of the
 * elements widened to f32. Also the instruction that rounds to bf16, for values without denormals,
 * which it would flush.
 */
#include "compiler/target/llvm/emit.h"

#include <stdio.h>

enum { LANES_MAX = 256, PART_MAX = 16, PART_LEAST = 4, HALF_BITS = 16 };

typedef struct dot {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef i32, f32, bf16; /* scalars */
    unsigned lanes;
} dot;

/* Pairs as 32-bit integers; the first element is the lower half. */
static LLVMValueRef as_words(const dot *d, LLVMValueRef pairs) {
    unsigned words = LLVMGetVectorSize(LLVMTypeOf(pairs)) / 2;
    if (words == d->lanes)
        return LLVMBuildBitCast(d->b, pairs, LLVMVectorType(d->i32, d->lanes), "");
    return tsr_emit_splat(d->emit, LLVMBuildBitCast(d->b, pairs, d->i32, ""), d->lanes);
}

/* Lanes begin ... begin + count - 1; lanes outside of `from` are undefined. */
static LLVMValueRef part_of(const dot *d, LLVMValueRef from, unsigned begin, unsigned count) {
    LLVMValueRef lanes[PART_MAX];
    if (begin == 0 && count == d->lanes) return from;
    for (unsigned i = 0; i < count; i++)
        lanes[i] = begin + i < d->lanes ? tsr_emit_int(d->i32, begin + i) : LLVMGetPoison(d->i32);
    return LLVMBuildShuffleVector(d->b, from, LLVMGetPoison(LLVMTypeOf(from)),
                                  LLVMConstVector(lanes, count), "");
}

/* All lanes of x, then all lanes of y. */
static LLVMValueRef join(const dot *d, LLVMValueRef x, unsigned x_count, LLVMValueRef y,
                         unsigned y_count) {
    LLVMValueRef lanes[LANES_MAX], wide[LANES_MAX];
    TSR_ASSERT(x_count + y_count <= LANES_MAX);
    for (unsigned i = 0; i < x_count; i++)
        wide[i] = i < y_count ? tsr_emit_int(d->i32, i) : LLVMGetPoison(d->i32);
    y = LLVMBuildShuffleVector(d->b, y, LLVMGetPoison(LLVMTypeOf(y)),
                               LLVMConstVector(wide, x_count), "");
    for (unsigned i = 0; i < x_count + y_count; i++) lanes[i] = tsr_emit_int(d->i32, i);
    return LLVMBuildShuffleVector(d->b, x, y, LLVMConstVector(lanes, x_count + y_count), "");
}

static LLVMValueRef instruction(const dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(sum));
    LLVMTypeRef pairs = LLVMVectorType(d->bf16, 2 * lanes);
    char name[64];
    snprintf(name, sizeof name, "llvm.x86.avx512bf16.dpbf16ps.%u", 32 * lanes);
    /* The operand that may be a broadcast element comes last: the instruction can broadcast it from
     * memory. */
    LLVMValueRef args[] = {sum, LLVMBuildBitCast(d->b, b, pairs, ""),
                           LLVMBuildBitCast(d->b, a, pairs, "")};
    return tsr_emit_intrinsic(d->emit, name, NULL, 0, args, 3);
}

static LLVMValueRef in_parts(const dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    LLVMValueRef done = NULL;
    unsigned part = PART_MAX;
    while (part > PART_LEAST && part / 2 >= d->lanes) part /= 2;
    for (unsigned at = 0; at < d->lanes; at += part) {
        LLVMValueRef value = instruction(d, part_of(d, a, at, part), part_of(d, b, at, part),
                                         part_of(d, sum, at, part));
        unsigned count = d->lanes - at < part ? d->lanes - at : part;
        if (at)
            done = join(d, done, at, value, count);
        else
            done = value;
    }
    if (d->lanes >= part) return done;
    dot all = *d;
    all.lanes = part;
    return part_of(&all, done, 0, d->lanes);
}

/* Widens the upper or the lower halves to f32. */
static LLVMValueRef widen(const dot *d, LLVMValueRef words, bool upper) {
    LLVMTypeRef type = LLVMTypeOf(words);
    LLVMValueRef bits = upper
                            ? LLVMBuildAnd(d->b, words, tsr_emit_int(type, INT64_C(0xffff0000)), "")
                            : LLVMBuildShl(d->b, words, tsr_emit_int(type, HALF_BITS), "");
    return LLVMBuildBitCast(d->b, bits, LLVMVectorType(d->f32, d->lanes), "");
}

static dot make(tsr_emit *emit, LLVMValueRef like) {
    return (dot){.emit = emit,
                 .b = emit->builder,
                 .i32 = LLVMInt32TypeInContext(emit->llvm),
                 .f32 = LLVMFloatTypeInContext(emit->llvm),
                 .bf16 = LLVMBFloatTypeInContext(emit->llvm),
                 .lanes = LLVMGetVectorSize(LLVMTypeOf(like))};
}

LLVMValueRef tsr_emit_narrow_normal(tsr_emit *emit, LLVMValueRef value) {
    dot d = make(emit, value);
    LLVMTypeRef i16 = LLVMVectorType(LLVMInt16TypeInContext(emit->llvm), PART_MAX);
    LLVMValueRef done = NULL;
    for (unsigned at = 0; at < d.lanes; at += PART_MAX) {
        LLVMValueRef part = part_of(&d, value, at, PART_MAX);
        part = tsr_emit_intrinsic(emit, "llvm.x86.avx512bf16.cvtneps2bf16.512", NULL, 0, &part, 1);
        part = LLVMBuildBitCast(d.b, part, i16, "");
        unsigned count = d.lanes - at < PART_MAX ? d.lanes - at : PART_MAX;
        done = at ? join(&d, done, at, part, count) : part;
    }
    if (d.lanes >= PART_MAX) return done;
    dot all = d;
    all.lanes = PART_MAX;
    return part_of(&all, done, 0, d.lanes);
}

LLVMValueRef tsr_emit_dot(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    dot d = make(emit, sum);
    a = as_words(&d, a);
    b = as_words(&d, b);
    if (emit->target->has_dot) return in_parts(&d, a, b, sum);
    sum = tsr_emit_fma(emit, widen(&d, a, true), widen(&d, b, true), sum);
    return tsr_emit_fma(emit, widen(&d, a, false), widen(&d, b, false), sum);
}
