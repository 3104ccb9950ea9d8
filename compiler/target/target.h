/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets, and code generation for them: Tile IR -> LLVM IR -> object -> ELF shared object.
 *
 * Everything that touches LLVM runs in a forked child with a memory and a time limit, because LLVM
 * aborts on what it cannot select: a failure of the child is TSR_INTERNAL and names the kernel it
 * was working on. MLIR's threads must be off in the caller's context
 * (mlirContextEnableMultithreading(context, false)): a forked child has only the calling thread.
 *
 * The shared object exports one function per tile.func (runtime/base/kernel.h), imports nothing,
 * and holds no path, date or host name: the bytes are a function of module, target and LLVM
 * version. Kernels use at most TSR_TARGET_STACK_MAX bytes of stack.
 */
#ifndef TSR_COMPILER_TARGET_TARGET_H
#define TSR_COMPILER_TARGET_TARGET_H

#include "runtime/base/arena.h"
#include "runtime/base/result.h"

#include <mlir-c/IR.h>

/* On math.exp: its operand is below 40 or NaN. Changes no bit of the result. */
#define TSR_BELOW_40_NAME "tile.below_40"
/* On math.exp: its operand is a number minus one that is hardly below it, or NaN; below 40 at any
 * rate. In f32 the result is off by up to 2.3 units in the last place, 0.05 |x| more, and 0 where
 * it would be below 2^-126. */
#define TSR_SHIFTED_NAME "tile.shifted"

/* Of an op of dialect math: the device's own approximation will do. */
#define TSR_APPROXIMATE_NAME "tile.approximate"

/* Of a tile.func, on a GPU: a product and the sum it goes into may be one FMA. */
#define TSR_CONTRACT_NAME "tile.contract"

/* Of an arith.truncf from f32: its operand is no denormal number. Changes no bit of the result. */
#define TSR_NORMAL_NAME "tile.normal"

/* Of an arith.extf: any number. It is done here, again if need be: what lanes hold is its operand.
 */
#define TSR_AGAIN_NAME "tile.again"

/* Of a scf.for: it is not entered but in a few programs; it may be slow, but takes few registers.
 * Changes no bit of a result. */
#define TSR_RARE_NAME "tile.rare"

/* Of a tile.load or tile.store of a vector of whole multiples of 256 elements, at an address that
 * is a multiple of 8 elements or of 16 bytes, on a warp: the elements are in a blocked arrangement,
 * 8 consecutive ones in each lane, so that each lane moves 16 bytes at a time (8 elements of one
 * byte). It permutes the vector's elements: element i is the one that i % 32 of 32 lanes has as
 * number i / 32. This is right where all vectors that meet are permuted alike. A mask has it,
 * too, and then ends at a multiple of 8 elements: an access with another mask is not permuted. */
#define TSR_BLOCKED_NAME "tile.blocked"
enum { TSR_BLOCKED_ELEMENTS = 256, TSR_BLOCKED_RUN = 8 };

/* Of a tile.local of a GPU: its lanes have parts of their own, which tile.fetch fills and a blocked
 * tile.load, of a vector that begins where one of its size can, reads. */
#define TSR_OWN_NAME "tile.own"

/* Of a tile.func without warps, on a GPU: W = 2 to 32, where W warps run one program together. Then
 * what is said of a warp's 32 lanes holds of 32 W: a blocked vector has whole multiples of 256 W
 * elements. Elements stay where they are but in vector.reduction, and local buffers are lanes' own.
 */
#define TSR_COOPERATIVE_NAME "tile.cooperative"
enum { TSR_COOPERATIVE_MAX = 32 };

/* Of a tile.func without warps, on a GPU: n = 2 to 15, which divides its grid. Programs n i to
 * n i + n - 1 share a block, and may exchange what tile.add_beside says. */
#define TSR_BESIDE_NAME "tile.beside"
enum { TSR_BESIDE_MAX = 15 };

/* Of a tile.gather in tile.map: what a lane gathers are elements 2 i and 2 i + 1 of the buffer, or,
 * where that is not stored, any two such near the first. */
#define TSR_PAIRS_NAME "tile.pairs"

/* [segments, inputs of one]: of a group or kernel that computes the same of the arguments of
 * several segments; inputs are those of the first segment, of the second one and so on, then those
 * of all; outputs the same. An output lies over inputs of its own segment alone. */
#define TSR_SEGMENTS_NAME "tile.segments"

/* Of a tsched.func, while its target's Tile IR is made: of each input, then output, elements from
 * one row to the next; 0: dense. Then it is the layout of buffers: tsr_buffer_make. */
#define TSR_PITCHES_NAME "tile.pitches"
enum { TSR_PITCH_BYTES = 128 }; /* pitches, and where such buffers begin, are multiples of it */

/* Of a tile.func with warps: 2, where a block runs two programs side by side, which take turns at
 * their one loop of products. No result depends on it. */
#define TSR_TEAMS_NAME "tile.teams"

/* Of a tile.func: the sizes of its tiles, where there was a choice. */
#define TSR_TILE_NAME "tile"

/* Of a tile.func without warps, while tiles are chosen: there are others, for fewer registers. */
#define TSR_CHOICES_NAME "tile.choices"

/* Of a tile.func with warps: n of 2 to 8, where programs n i to n i + n - 1 run at the same time
 * on neighbours. The grid is a multiple of it. Of a tile.async_copy, [count, stride]: `count` of
 * them, numbers that far apart, copy the same part. */
#define TSR_TOGETHER_NAME "tile.together"
enum { TSR_TOGETHER_MAX = 8 };
#define TSR_SHARED_NAME "tile.shared"

/* Of a loop of a tile.func with warps: in so many of its last rounds warp groups multiply one after
 * the other, so that each but the last may go on while the others multiply; where there are more
 * stages than that, and twice as many rounds as stages. No result depends on it. */
#define TSR_TAIL_NAME "tile.tail"

/* Of a tile.attend: for each of its buffers the first column of heads that lie side by side, head h
 * of batch b in rows b of a buffer [B, S, columns], from column `first` + h D on; -1: heads are a
 * dimension of their own, [B H, S, D]. With it [H, G, D]: heads of a batch's queries, of its keys,
 * and numbers of one. */
#define TSR_SIDES_NAME "tile.sides"
#define TSR_HEADS_NAME "tile.heads"

enum {
    TSR_TILE_VECTORS_MAX = 4, /* width of a matmul tile, in vectors */
    TSR_TARGET_STACK_MAX = 1536 * 1024,
};

/* What a device with memory of its own does in a second, for estimates. */
typedef struct tsr_device_rates {
    double flops, bytes;
    double copied_bytes;   /* from the host or to it, one way */
    double launch_seconds; /* that each launch takes besides */
} tsr_device_rates;

typedef struct tsr_target {
    const char *name;     /* "cpu:x86-64-v3", as in --target and in bundles */
    const char *triple;   /* LLVM's */
    const char *cpu;      /* LLVM's */
    const char *features; /* LLVM's, beyond the cpu */
    uint32_t vector_bytes;
    bool has_fma;           /* without: multiply, round, add */
    bool has_f16c;          /* conversions between f16 and f32 */
    bool has_dot;           /* dot products of bf16: tile.dot is one instruction */
    uint32_t warp_lanes;    /* lanes that run one program together; 0: one */
    uint32_t arch;          /* GPU: 90 is compute capability 9.0; CPU: 0 */
    bool arch_exactly;      /* its code runs on that one alone */
    uint32_t arguments_max; /* GPU: buffers of a kernel, where a batch has many */
    tsr_device_rates rates; /* GPU; see targets.def */
    uint32_t matmul_rows[TSR_TILE_VECTORS_MAX]; /* the same */
} tsr_target;

/* Of a tsched.call: its one result lies where operand number n does, which the kernel writes a part
 * of. */
#define TSR_OVER_NAME "tile.over"

/* Where the heads of a tile.attend's buffer lie. */
typedef struct tsr_heads {
    int64_t first; /* column; -1: heads are a dimension */
    int64_t count; /* of a batch */
    int64_t d;     /* numbers of one */
} tsr_heads;
/* Dimension `d` of the buffer as [heads, rows, numbers]. */
int64_t tsr_attend_dim(MlirOperation attend, size_t buffer, intptr_t d);
/* The rules of both attributes; complains of the op. */
bool tsr_attend_check_heads(MlirOperation attend);
/* Its buffers, but for what weights are dropped by: three behind the others, where it has
 * `dropout`. */
size_t tsr_attend_buffers(MlirOperation attend);
/* Can weights of so many queries and keys fall there? */
bool tsr_attend_can_drop(double rate, int64_t queries, int64_t keys);
bool tsr_attend_check_samples(MlirOperation attend); /* their rules */
enum { TSR_HEADS_UNIT = 8 }; /* elements: where columns begin, how long rows are */

/* TSR_USAGE lists the names there are. */
TSR_RESULT tsr_target_find(tsr_ctx *ctx, const char *name, const tsr_target **out_target);
size_t tsr_target_count(void);
const tsr_target *tsr_target_get(size_t index); /* weakest first */
/* Bytes of shared memory that one program of a GPU may have; 0: a CPU. */
int64_t tsr_target_shared_bytes(const tsr_target *target);

/* TSR_COMPILE, after TSR-0511 was emitted, where a tile.func of the module holds an op that has no
 * machine code on the target. */
TSR_RESULT tsr_target_check(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target);
/* Compiles a module of tile.func. The ELF bytes lie in the arena. */
TSR_RESULT tsr_target_compile(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                              tsr_arena *arena, void **out_elf, size_t *out_size_bytes);

typedef enum tsr_target_text {
    TSR_TARGET_LLVM = 1, /* LLVM IR, after its passes */
    TSR_TARGET_ASM = 2,  /* assembly */
} tsr_target_text;

/* What the compiler makes of the module, as NUL-terminated text in the arena. */
TSR_RESULT tsr_target_dump(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                           tsr_target_text kind, tsr_arena *arena, char **out_text);

#endif
