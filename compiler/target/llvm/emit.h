/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR -> LLVM IR through the LLVM C API. llvm_func.c makes functions, loops and memory
 * accesses; llvm_ops.c the ops of arith, vector and math; llvm_math.c the functions; llvm_narrow.c
 * conversions of 16-bit floats.
 *
 * Fast-math flags are only set where TSR_CONTRACT_NAME allows it: separate operations stay
 * separate. Ops that are undefined in LLVM get a definition: arith.fptosi saturates, NaN gives 0.
 */
#ifndef TSR_COMPILER_TARGET_LLVM_EMIT_H
#define TSR_COMPILER_TARGET_LLVM_EMIT_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/target/target.h"
#include "manifests/fatbin.h"

#include <llvm-c/Core.h>

typedef struct tsr_emit_slot {
    const void *key; /* MlirValue.ptr */
    LLVMValueRef value;
} tsr_emit_slot;

enum {
    TSR_EMIT_ARGUMENTS_MAX = 2048,
    TSR_EMIT_LANES_MAX = 256,  /* lanes of a vector that one lane of the machine holds */
    TSR_EMIT_CARRIED_MAX = 64, /* carried values of a loop */
    /* How a kernel uses an argument. */
    TSR_EMIT_LOADED = 1,
    TSR_EMIT_STORED = 2,
    TSR_EMIT_BOTH = 3,
    TSR_EMIT_REPLACED = 4, /* an output may overwrite it */
    TSR_EMIT_AGAIN = 8,    /* several ops store it */
};

typedef struct tsr_emit {
    tsr_ctx *ctx;
    const tsr_target *target;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    /* of the current kernel */
    const char *kernel;
    LLVMValueRef function, program, fault;
    bool at_once;   /* the function's body runs once for all programs of a call */
    bool streams;   /* it has non-temporal stores */
    bool contracts; /* TSR_CONTRACT_NAME */
    LLVMBasicBlockRef entry;
    tsr_emit_slot *slots; /* open addressing, capacity a power of two */
    size_t slot_count, slot_capacity;
    /* used on the lanes of a warp: llvm_warp.c */
    unsigned lanes;                /* lanes that run a program together; 0: a CPU */
    unsigned block_programs;       /* TSR_BLOCK_PROGRAMS_NAME; else 1 */
    LLVMValueRef side;             /* i32: number of this program among the block's programs */
    LLVMValueRef lane, local_base; /* i32; start of local buffers */
    LLVMValueRef shared;           /* memory that several warps exchange sums through */
    unsigned sums, sums_emitted;   /* sums over lanes in the kernel; sums emitted */
    bool fetches;                  /* the kernel has copies to local buffers */
    uint64_t local_used;           /* their bytes */
    uint64_t local_each;           /* bytes of one program that fetches */
    unsigned char argument_use[TSR_EMIT_ARGUMENTS_MAX];
    bool loaded, stored; /* memory that lanes exchange values through was loaded or stored since the
                            last barrier */
    struct tsr_block *block; /* a program that a block runs: block/block.h; else NULL */
} tsr_emit;

/* Emits every tile.func of the module. `note` receives the name of each one before it is emitted.
 * `launches` has one row for each on a target with warps, else NULL. Release everything by
 * disposing of emit->llvm and tsr_emit_finish. */
TSR_RESULT tsr_emit_module(tsr_emit *emit, MlirModule module, char *note, size_t note_size,
                           tsr_fatbin_kernel *launches);
void tsr_emit_finish(tsr_emit *emit);
/* Called after the passes: replaces masked loads and stores by faster plain ones
 * (llvm_masked.c). */
void tsr_emit_split_masked(tsr_emit *emit);

/* ---- for the other emitter files ---- */

/* The alignment of memory for values of the type and for vectors of such values: elements are
 * aligned, vectors need not be. */
unsigned tsr_emit_align(LLVMTypeRef type);
LLVMValueRef tsr_emit_get(tsr_emit *emit, MlirValue value);
bool tsr_emit_has(tsr_emit *emit, MlirValue value);
void tsr_emit_bind(tsr_emit *emit, MlirValue value, LLVMValueRef llvm);
TSR_RESULT tsr_emit_ops(tsr_emit *emit, MlirBlock block);
/* Emits the ops of a block that come before `end`. */
TSR_RESULT tsr_emit_ops_before(tsr_emit *emit, MlirOperation end);
LLVMValueRef tsr_emit_operand(tsr_emit *emit, MlirOperation op, size_t index);
void tsr_emit_set(tsr_emit *emit, MlirOperation op, LLVMValueRef value); /* sets result 0 */
LLVMTypeRef tsr_emit_type(tsr_emit *emit, MlirType type);
/* A call of an intrinsic overloaded on `types`. */
LLVMValueRef tsr_emit_intrinsic(tsr_emit *emit, const char *name, const LLVMTypeRef *types,
                                unsigned type_count, LLVMValueRef *args, unsigned arg_count);
LLVMBasicBlockRef tsr_emit_block(tsr_emit *emit, const char *name);

/* llvm_segment.c: tile.segment */
void tsr_emit_segment(tsr_emit *emit, MlirOperation op);

/* Element `index` of an integer DenseElementsAttr with that element type. */
int64_t tsr_emit_int_element(MlirAttribute value, MlirType element, int64_t index);

/* Lanes of a vector type (on a warp: registers), 0 for a scalar; the type of one element. */
unsigned tsr_emit_lanes(LLVMTypeRef type);
LLVMTypeRef tsr_emit_element(LLVMTypeRef type);
/* The type with the number of lanes of `like`. */
LLVMTypeRef tsr_emit_like(LLVMTypeRef element, LLVMTypeRef like);
LLVMValueRef tsr_emit_splat(tsr_emit *emit, LLVMValueRef scalar, unsigned lanes);
LLVMValueRef tsr_emit_float(LLVMTypeRef type, double value); /* splat */
LLVMValueRef tsr_emit_int(LLVMTypeRef type, int64_t value);  /* splat */
/* a * b + c: fused if the target can, else rounded twice. */
LLVMValueRef tsr_emit_fma(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/* Converts bf16 (else f16) as 16 bits to f32, and f32 to the nearest bf16 or f16, ties to even; a
 * NaN keeps its sign and its upper bits and becomes quiet. */
LLVMValueRef tsr_emit_widen(tsr_emit *emit, LLVMValueRef bits, bool bf16);
LLVMValueRef tsr_emit_narrow(tsr_emit *emit, LLVMValueRef value, bool bf16);

/* arith.fptosi, saturating: `type` is the result's (llvm_whole.c) */
LLVMValueRef tsr_emit_whole(tsr_emit *emit, LLVMValueRef x, LLVMTypeRef type);

/* tile.dot (llvm_dot.c) */
LLVMValueRef tsr_emit_dot(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum);
/* tile.dot_bytes */
LLVMValueRef tsr_emit_dot_bytes(tsr_emit *emit, LLVMValueRef a, LLVMValueRef b, LLVMValueRef sum,
                                bool a_unsigned, bool b_unsigned);
/* Converts to bf16, as tsr_emit_narrow, a vector without denormal numbers; the target must have
 * has_dot. */
LLVMValueRef tsr_emit_narrow_normal(tsr_emit *emit, LLVMValueRef value);

/* llvm_check.c: names the first op of a tile.func that cannot be emitted: TSR_INTERNAL if the op is
 * unknown, TSR_COMPILE if it is not supported with these types or on this target. */
TSR_RESULT tsr_emit_check(const tsr_emit *emit, MlirOperation func);
/* Does the file's table have the op? llvm_func.c, llvm_ops.c, llvm_warp.c, block/func.c */
bool tsr_emit_func_has(MlirOperation op);
bool tsr_emit_ops_have(MlirOperation op);
bool tsr_emit_warp_has(MlirOperation op);
bool tsr_emit_block_has(MlirOperation op);

/* Emits ops of arith, vector and math. *out_known false: another op. */
TSR_RESULT tsr_emit_op(tsr_emit *emit, MlirOperation op, bool *out_known);

LLVMValueRef tsr_emit_exp(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_exp_below_40(tsr_emit *emit, LLVMValueRef x); /* x < 40; the same bits */
LLVMValueRef tsr_emit_exp_shifted(tsr_emit *emit, LLVMValueRef x);  /* TSR_SHIFTED_NAME */
LLVMValueRef tsr_emit_expm1(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_log(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_log1p(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_tanh(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_erf(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_gelu(tsr_emit *emit, LLVMValueRef x); /* with erf */
/* The derivative of gelu, with an error up to 2^-22 in f32 and 2^-50 in f64. */
LLVMValueRef tsr_emit_gelu_slope(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_gelu_tanh(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_sin(tsr_emit *emit, LLVMValueRef x); /* trigonometry.c */
LLVMValueRef tsr_emit_cos(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_tan(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_asin(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_acos(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_atan(tsr_emit *emit, LLVMValueRef x);
LLVMValueRef tsr_emit_pow(tsr_emit *emit, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef tsr_emit_power(tsr_emit *emit, LLVMValueRef x, LLVMValueRef exponent);

#endif
