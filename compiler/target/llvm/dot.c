/* SPDX-License-Identifier: Apache-2.0
 *
 * tile.dot: the machine's instruction in vectors of 16, 8 or 4 sums, or two multiply-adds of the
 * elements widened to f32. tile.dot_bytes: the machine's instruction for unsigned by signed bytes;
 * on other CPUs, two multiply-adds of pairs of 16 bits, which cannot overflow; elsewhere, and for
 * few lanes, four multiply-adds of 32 bits. Also the instruction that rounds to bf16, for values
 * without denormals, which it would flush.
 */
#include "compiler/target/llvm/emit.h"

#include <stdio.h>
#include <string.h>

enum { LANES_MAX = 256, PART_MAX = 16, PART_LEAST = 4, HALF_BITS = 16, BYTE_BITS = 8 };

typedef struct dot {
    tsr_emit *emit;
    LLVMBuilderRef b;
    LLVMTypeRef i32, f32, bf16; /* scalars */
    unsigned lanes;
    bool a_unsigned, b_unsigned; /* of bytes */
} dot;

typedef LLVMValueRef (*part_fn)(const dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum);

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

/* Computes parts of at most `part` lanes. */
static LLVMValueRef in_parts(const dot *d, unsigned part, part_fn compute, LLVMValueRef a,
                             LLVMValueRef b, LLVMValueRef sum) {
    LLVMValueRef done = NULL;
    while (part > PART_LEAST && part / 2 >= d->lanes) part /= 2;
    for (unsigned at = 0; at < d->lanes; at += part) {
        LLVMValueRef value =
            compute(d, part_of(d, a, at, part), part_of(d, b, at, part), part_of(d, sum, at, part));
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
    if (emit->target->has_dot) return in_parts(&d, PART_MAX, instruction, a, b, sum);
    sum = tsr_emit_fma(emit, widen(&d, a, true), widen(&d, b, true), sum);
    return tsr_emit_fma(emit, widen(&d, a, false), widen(&d, b, false), sum);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Calls an instruction on vectors of `sum`'s size; the operands have the same bits. */
static LLVMValueRef call(const dot *d, const char *name, LLVMValueRef *args, unsigned count) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    TSR_ASSERT(id);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(d->emit->module, id, NULL, 0);
    LLVMTypeRef type = LLVMGlobalGetValueType(function), of_args[3];
    TSR_ASSERT(LLVMCountParamTypes(type) == count && count <= 3);
    LLVMGetParamTypes(type, of_args);
    for (unsigned i = 0; i < count; i++) args[i] = LLVMBuildBitCast(d->b, args[i], of_args[i], "");
    return LLVMBuildCall2(d->b, type, function, args, count, "");
}

/* sum + unsigned bytes times signed bytes */
static LLVMValueRef unsigned_by_signed(const dot *d, LLVMValueRef x, LLVMValueRef y,
                                       LLVMValueRef sum) {
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(sum));
    char name[64];
    snprintf(name, sizeof name, "llvm.x86.avx512.vpdpbusd.%u", 4 * BYTE_BITS * lanes);
    LLVMValueRef args[] = {sum, x, y};
    return call(d, name, args, 3);
}

/* An operand of the wrong sign is moved by 128, and what that adds is subtracted again. */
static LLVMValueRef by_instruction(const dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    LLVMTypeRef type = LLVMTypeOf(sum);
    LLVMValueRef move = tsr_emit_int(type, INT64_C(0x80808080)), zero = LLVMConstNull(type);
    if (d->a_unsigned != d->b_unsigned)
        return unsigned_by_signed(d, d->a_unsigned ? a : b, d->a_unsigned ? b : a, sum);
    if (!d->a_unsigned) {
        sum = unsigned_by_signed(d, LLVMBuildXor(d->b, a, move, ""), b, sum);
        return LLVMBuildSub(d->b, sum, unsigned_by_signed(d, move, b, zero), "");
    }
    LLVMValueRef ones = tsr_emit_int(type, INT64_C(0x01010101)), bits = tsr_emit_int(type, 7);
    sum = unsigned_by_signed(d, a, LLVMBuildXor(d->b, b, move, ""), sum);
    LLVMValueRef moved = LLVMBuildShl(d->b, unsigned_by_signed(d, a, ones, zero), bits, "");
    return LLVMBuildAdd(d->b, sum, moved, "");
}

/* The even or the odd bytes of words as numbers of 16 bits. */
static LLVMValueRef bytes_of(const dot *d, LLVMValueRef words, bool is_unsigned, bool odd) {
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(words));
    LLVMTypeRef type = LLVMVectorType(LLVMInt16TypeInContext(d->emit->llvm), 2 * lanes);
    LLVMValueRef x = LLVMBuildBitCast(d->b, words, type, ""), bits = tsr_emit_int(type, BYTE_BITS);
    if (!odd && is_unsigned) return LLVMBuildAnd(d->b, x, tsr_emit_int(type, 0xff), "");
    if (!odd) x = LLVMBuildShl(d->b, x, bits, "");
    return is_unsigned ? LLVMBuildLShr(d->b, x, bits, "") : LLVMBuildAShr(d->b, x, bits, "");
}

static LLVMValueRef by_pairs(const dot *d, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum) {
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(sum));
    const char *name = lanes == 16  ? "llvm.x86.avx512.pmaddw.d.512"
                       : lanes == 8 ? "llvm.x86.avx2.pmadd.wd"
                                    : "llvm.x86.sse2.pmadd.wd";
    for (int odd = 0; odd < 2; odd++) {
        LLVMValueRef args[] = {bytes_of(d, a, d->a_unsigned, odd),
                               bytes_of(d, b, d->b_unsigned, odd)};
        sum = LLVMBuildAdd(d->b, sum, call(d, name, args, 2), "");
    }
    return sum;
}

/* Byte `number` of each word as a number of 32 bits. */
static LLVMValueRef byte_of(const dot *d, LLVMValueRef words, bool is_unsigned, int number) {
    enum { TOP = 3 };
    LLVMTypeRef type = LLVMTypeOf(words);
    LLVMValueRef up = tsr_emit_int(type, (TOP - number) * BYTE_BITS);
    LLVMValueRef down = tsr_emit_int(type, TOP * BYTE_BITS);
    LLVMValueRef x = LLVMBuildShl(d->b, words, up, "");
    return is_unsigned ? LLVMBuildLShr(d->b, x, down, "") : LLVMBuildAShr(d->b, x, down, "");
}

LLVMValueRef tsr_emit_dot_bytes(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum,
                                bool a_unsigned, bool b_unsigned) {
    unsigned lanes = tsr_emit_lanes(LLVMTypeOf(sum));
    bool is_cpu = emit->target->family == TSR_FAMILY_CPU;
    if (is_cpu && lanes >= PART_LEAST) {
        dot d = make(emit, sum);
        d.a_unsigned = a_unsigned;
        d.b_unsigned = b_unsigned;
        unsigned part = emit->target->vector_bytes / (unsigned)sizeof(int32_t);
        return in_parts(&d, part, emit->target->has_vnni ? by_instruction : by_pairs, a, b, sum);
    }
    const dot d = {.emit = emit, .b = emit->builder};
    for (int i = 0; i < 4; i++) {
        LLVMValueRef product =
            LLVMBuildMul(d.b, byte_of(&d, a, a_unsigned, i), byte_of(&d, b, b_unsigned, i), "");
        sum = LLVMBuildAdd(d.b, sum, product, "");
    }
    return sum;
}
