/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10 of counters {step, lower, upper, 0} (runtime/base/random/philox.h). The step and
 * the upper word are the same for a whole head, so the first three rounds need two products and the
 * other seven need all: 16 of 20. Numbers of 15 bits are compared two at a time, with f16
 * comparisons of the same bits. The order is the same except for NaNs, which are never dropped. The
 * threshold is therefore at most the number of infinity.
 */
#include "compiler/target/block/drop.h"

#include "compiler/ir/samples.h"
#include "compiler/target/block/sizes.h"
#include "compiler/target/host/rules.h"
#include "compiler/tile/attributes.h"

#include <inttypes.h>
#include <math.h>

enum { SAMPLES = 3, HALF_INFINITY = 0x7c00 };
static const uint32_t factors[] = {0xD2511F53u, 0xCD9E8D57u}, steps[] = {0x9E3779B9u, 0xBB67AE85u};

/* ---- the op ---------------------------------------------------------------------------------- */

tsr_drop tsr_block_read_drop(MlirOperation attend) {
    tsr_drop drop = {.some = tsr_op_has(attend, "dropout")};
    double rate = 0;
    uint64_t keys = (uint64_t)tsr_attend_dim(attend, 1, 1), numbers = 0;
    if (!drop.some) return drop;
    tsr_op_f64(attend, "dropout", &rate);
    tsr_op_i64(attend, "stream", &drop.stream);
    tsr_samples_of_head((uint64_t)tsr_attend_dim(attend, 0, 1), keys, &numbers);
    drop.left = 1 - rate;
    drop.threshold = (int64_t)ceil(ldexp((double)(float)rate, TSR_SAMPLES_BITS));
    drop.head_counters = numbers / TSR_SAMPLES_SHARED;
    drop.tile_row = (uint32_t)((keys + TSR_SAMPLES_TILE - 1) / TSR_SAMPLES_TILE *
                               WARP_LANES); /* one for each lane */
    return drop;
}

/* ---- words ----------------------------------------------------------------------------------- */

static LLVMValueRef both(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildXor(emit->builder, x, y, "");
}

/* The product of 64 bits with factor `which`, in one instruction: LLVM would multiply numbers of 64
 * bits. */
static void multiply(tsr_emit *emit, int which, LLVMValueRef x, LLVMValueRef *out_low,
                     LLVMValueRef *out_high) {
    LLVMTypeRef i32 = tsr_block_i32(emit), two[] = {i32, i32};
    LLVMTypeRef type = LLVMStructTypeInContext(emit->llvm, two, 2, 0);
    LLVMValueRef args[] = {x, LLVMConstInt(i32, factors[which], false)}, made[2];
    tsr_block_unpack(emit,
                     tsr_block_asm(emit, type,
                                   "{ .reg .b64 t; mul.wide.u32 t, $2, $3; mov.b64 {$0, $1}, t; }",
                                   "=r,=r,r,n", args, 2),
                     made, 2);
    *out_low = made[0];
    *out_high = made[1];
}

/* The second half of the key of a round. */
static LLVMValueRef second_key(tsr_emit *emit, const tsr_drop *drop, uint32_t round) {
    return LLVMConstInt(tsr_block_i32(emit), (uint32_t)drop->stream + steps[1] * round, false);
}

/* Loads element `index` of the op's buffer `buffer`, or its lower half. No thread writes the
 * buffer, so the load may move up in the code, unless `reload` is set. */
static LLVMValueRef load(tsr_emit *emit, MlirOperation attend, size_t buffer, bool whole,
                         LLVMValueRef index, bool reload) {
    static const char name[] = "invariant.load";
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMTypeRef type = whole ? i64 : tsr_block_i32(emit);
    LLVMValueRef at = tsr_emit_operand(emit, attend, buffer);
    if (index) at = LLVMBuildGEP2(b, i64, at, &index, 1, "");
    if (reload)
        return tsr_block_asm(emit, type,
                             whole ? "ld.global.nc.b64 $0, [$1];" : "ld.global.nc.b32 $0, [$1];",
                             whole ? "=l,l" : "=r,l", &at, 1);
    LLVMValueRef loaded = LLVMBuildLoad2(b, type, at, "");
    LLVMMetadataRef node = LLVMMDNodeInContext2(emit->llvm, NULL, 0);
    LLVMSetMetadata(loaded, LLVMGetMDKindIDInContext(emit->llvm, name, sizeof name - 1),
                    LLVMMetadataAsValue(emit->llvm, node));
    return loaded;
}

/* The number of the head's first counter. */
static LLVMValueRef first_counter(tsr_emit *emit, MlirOperation attend, const tsr_drop *drop,
                                  size_t buffer, LLVMValueRef head, bool reload) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    int64_t batch = mlirShapedTypeGetDimSize(mlirValueGetType(tsr_op_operand(attend, buffer)), 0);
    LLVMValueRef heads = tsr_block_int(emit, tsr_attend_dim(attend, 0, 0) / batch);
    LLVMValueRef item = LLVMBuildZExt(b, LLVMBuildUDiv(b, head, heads, ""), i64, "");
    LLVMValueRef first = load(emit, attend, buffer, true, item, reload);
    first =
        LLVMBuildAdd(b, first, LLVMBuildZExt(b, LLVMBuildURem(b, head, heads, ""), i64, ""), "");
    return LLVMBuildMul(b, first, LLVMConstInt(i64, drop->head_counters, false), "");
}

void tsr_block_begin_drop(tsr_emit *emit, MlirOperation attend, tsr_drop *drop, LLVMValueRef head,
                          bool reload) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = tsr_block_i32(emit);
    size_t at = tsr_attend_buffers(attend);
    if (!drop->some) return;
    LLVMValueRef counter = first_counter(emit, attend, drop, at, head, reload), low, high;
    LLVMValueRef step = load(emit, attend, at + 1, false, NULL, reload);
    LLVMValueRef seed = load(emit, attend, at + 2, false, NULL, reload);
    LLVMValueRef upper = LLVMBuildTrunc(
        b, LLVMBuildLShr(b, counter, LLVMConstInt(LLVMTypeOf(counter), 32, false), ""), i32, "");
    for (uint32_t r = 0; r < TSR_DROP_ROUNDS; r++)
        drop->keys[r] = LLVMBuildAdd(b, seed, LLVMConstInt(i32, steps[0] * r, false), "");
    LLVMValueRef words[TSR_DROP_WORDS];
    multiply(emit, 1, upper, &words[1], &high);
    drop->first = both(emit, high, both(emit, LLVMBuildTrunc(b, counter, i32, ""), drop->keys[0]));
    multiply(emit, 0, step, &words[3], &words[2]);
    words[2] = both(emit, words[2], second_key(emit, drop, 0));
    drop->second = both(emit, words[3], second_key(emit, drop, 1));
    multiply(emit, 1, words[2], &low, &high);
    words[0] = both(emit, high, both(emit, words[1], drop->keys[1]));
    drop->third = both(emit, low, drop->keys[2]);
    multiply(emit, 0, words[0], &low, &high);
    drop->fourth = both(emit, high, second_key(emit, drop, 2));
    drop->fifth = both(emit, low, second_key(emit, drop, 3));
}

void tsr_block_draw(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef counter,
                    LLVMValueRef out_words[static TSR_DROP_WORDS]) {
    enum { BEGUN = 3 };
    LLVMValueRef *w = out_words, low[2], high[2];
    multiply(emit, 0, both(emit, drop->first, counter), &low[0], &high[0]);
    w[2] = both(emit, drop->fourth, low[0]);
    multiply(emit, 1, both(emit, high[0], drop->second), &w[1], &high[1]);
    w[0] = both(emit, high[1], drop->third);
    for (uint32_t r = BEGUN; r < TSR_DROP_ROUNDS; r++) {
        LLVMValueRef rest = r == BEGUN ? drop->fifth : both(emit, w[3], second_key(emit, drop, r));
        for (int i = 0; i < 2; i++) multiply(emit, i, w[(size_t)i * 2], &low[i], &high[i]);
        w[0] = both(emit, both(emit, high[1], w[1]), drop->keys[r]);
        w[2] = both(emit, high[0], rest);
        w[1] = low[1];
        w[3] = low[0];
    }
}

/* ---- dropped weights ------------------------------------------------------------------------- */

/* The threshold for both halves of a register. */
static LLVMValueRef threshold(tsr_emit *emit, const tsr_drop *drop) {
    return tsr_block_int(emit, drop->threshold << 16 | drop->threshold);
}

LLVMValueRef tsr_block_drop_mask(tsr_emit *emit, const tsr_drop *drop, LLVMValueRef word) {
    LLVMValueRef args[] = {word, threshold(emit, drop)};
    return tsr_block_asm(emit, tsr_block_i32(emit),
                         "{ .reg .b32 t; abs.f16x2 t, $1; set.geu.u32.f16x2 $0, t, $2; }", "=r,r,r",
                         args, 2);
}

/* ---- transposed ------------------------------------------------------------------------------ */

/* Lanes l and l xor 4 have two consecutive keys and the same two queries, so they share two
 * counters. Each lane draws the counter of query lane / 4 % 2. */
LLVMValueRef tsr_block_transposed_counter(tsr_emit *emit) {
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef four = tsr_block_int(emit, 4);
    LLVMValueRef key = LLVMBuildLShr(b, emit->lane, tsr_block_int(emit, 3), "");
    LLVMValueRef query = LLVMBuildAnd(b, emit->lane, tsr_block_int(emit, 3), "");
    LLVMValueRef counter = LLVMBuildAdd(b, tsr_block_mul(emit, query, 8), key, "");
    return LLVMBuildAdd(b, counter, LLVMBuildAnd(b, emit->lane, four, ""), "");
}

/* Selects bytes of two registers: by `odd` in lanes of an odd key, otherwise by `even`. The
 * selector is computed again each time because few registers are left. */
static LLVMValueRef permute(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y, int64_t even,
                            int64_t odd) {
    LLVMValueRef args[] = {x, y, emit->lane, tsr_block_int(emit, even), tsr_block_int(emit, odd)};
    return tsr_block_asm(emit, tsr_block_i32(emit),
                         "{ .reg .pred p; .reg .b32 t; and.b32 t, $3, 4; setp.ne.b32 p, t, 0; "
                         "selp.b32 t, $5, $4, p; prmt.b32 $0, $1, $2, t; }",
                         "=r,r,r,r,n,n", args, 5);
}

/* The lower half of a word belongs to the even key. Each lane sends the halves that belong to the
 * other lane, two at a time, and joins its own halves with the received ones: lower halves belong
 * to the even query. */
void tsr_block_transpose_words(tsr_emit *emit, LLVMValueRef words[static TSR_DROP_WORDS]) {
    enum { LOWER = 0x5410, UPPER = 0x7632 }; /* halves of both */
    for (unsigned w = 0; w < TSR_DROP_WORDS; w += 2) {
        LLVMValueRef other = permute(emit, words[w], words[w + 1], UPPER, LOWER);
        other = tsr_block_asm(emit, tsr_block_i32(emit), "shfl.sync.bfly.b32 $0, $1, 4, 31, -1;",
                              "=r,r", &other, 1);
        words[w] = permute(emit, words[w], other, 0x5410, 0x3254);
        words[w + 1] = permute(emit, words[w + 1], other, 0x7610, 0x3276);
    }
}
