/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR on the threads of a block: one block runs a program of a tile.func with `warps`. The body
 * is emitted twice, for two roles that run concurrently and synchronize at the stages of the rings:
 *
 *     copying warp group     only copies: wait until the stage is released, begin its copies
 *     computing warps        all other ops: wait until the copies of the stage are done, …
 *
 * Both roles iterate over all programs of the block, so that copies run ahead of products by the
 * number of stages, also from one program to the next. A stage has two mbarriers: `full`, `empty`.
 *
 * With two teams a block runs two programs concurrently, each on its own computing warps: while one
 * multiplies, the other stores. The teams take turns at their loops of products, so that stages are
 * used in the order in which they are filled.
 *
 * With one team, its warp groups may multiply for the last stages of a program one after the other,
 * so that one stores while the next one multiplies.
 *
 * Blocks may run together (as a cluster). Blocks that share a matrix copy it by turns, a stage
 * each, to all sharers; a stage is empty when the computing warps of all blocks that share copies
 * with this block have released it.
 *
 * Attention with mma.sync has one role: it needs the registers that a copying role would use, and a
 * block runs one program (attend_sync.c).
 *
 * Copies use the tensor memory accelerator if the target has it and all pitches are multiples of 16
 * bytes; otherwise each copying thread copies by itself. Products are wgmma or mma.sync.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_BLOCK_H
#define TSR_COMPILER_TARGET_BLOCK_BLOCK_H

#include "compiler/target/llvm/emit.h"

enum {
    TSR_BLOCK_RINGS_MAX = 8,
    TSR_BLOCK_SHARES_MAX = 2,
    TSR_BLOCK_GROUP = 128,         /* threads of a warp group */
    TSR_BLOCK_SWIZZLE_BYTES = 128, /* row of a block of columns */
    TSR_BLOCK_RING_ALIGN = 1024,   /* of a swizzled matrix: the swizzle depends on the address */
    TSR_BLOCK_ASM_MAX = 16 * 1024,
    TSR_BLOCK_REGISTERS_MAX = 256, /* registers of a fragment, per thread */
    TSR_BLOCK_COPIES_MAX = 2,      /* copies of a stage by waves */
    TSR_BLOCK_PREFETCH_MAX = 32,   /* chunks of such a copy, per thread */
};

typedef struct tsr_ring {
    MlirValue value;
    uint32_t offset;     /* bytes, in shared memory */
    uint32_t team_bytes; /* distance from one team's ring to the next; 0: shared by all teams */
    uint32_t stages, rows, columns, element_bytes;
    bool swizzled, is_copied_to;
    bool is_factor; /* factor of a product: f32 is rounded to tf32 while boxes are copied */
} tsr_ring;

/* A fragment that the copy engine loads box by box (fetch.c). */
typedef struct tsr_block_fetch {
    MlirOperation op;      /* tile.load_fragment; null: no such fragment */
    uint32_t slots;        /* slots for boxes, per warp group */
    uint32_t full_at;      /* their barriers, for each warp group of each team */
    LLVMValueRef programs; /* memory of an i32: number of programs that the team has stored */
} tsr_block_fetch;

/* A copy whose loads are in flight: chunks in the memory of a thread, which become registers
 * (wave_copy.c). */
typedef struct tsr_block_prefetch {
    MlirOperation copy; /* tile.async_copy */
    uint32_t count;
    LLVMValueRef chunks[TSR_BLOCK_PREFETCH_MAX];
    LLVMValueRef
        inside[TSR_BLOCK_PREFETCH_MAX]; /* i1: else the chunk is zeros; NULL: it is inside */
} tsr_block_prefetch;

/* Among the blocks that run together, `count` copy the same part; their ranks are `stride`
 * apart. */
typedef struct tsr_share {
    uint32_t count, stride;
} tsr_share;

typedef struct tsr_block {
    uint32_t warps, groups; /* warps and warp groups that compute a program */
    uint32_t waves; /* AMD: waves that run a program, else 0; `warp` numbers them (wave.h) */
    uint32_t teams; /* programs that are computed concurrently, 1 or 2 */
    uint32_t program_stages; /* with two teams: stages that each program uses */
    bool has_wgmma, has_tma, uses_tma;
    uint32_t together; /* number of blocks that run together, with a program each */
    tsr_share shares[TSR_BLOCK_SHARES_MAX]; /* blocks that copy for each other */
    uint32_t share_count;
    bool copies; /* the role being emitted */
    bool writes; /* it is the role of warps 1 and 2 of the copying group, with a thread each */
    tsr_ring rings[TSR_BLOCK_RINGS_MAX];
    uint32_t ring_count, stages, shared_bytes, full_at, empty_at;
    uint32_t registers; /* registers per thread at most; 0: no cap */
    tsr_fatbin_map maps[TSR_FATBIN_MAPS_MAX];
    uint32_t map_count;
    bool lacks_maps;           /* the kernel needs more maps than it may have */
    LLVMValueRef shared;       /* i32: start of shared memory */
    LLVMValueRef thread, warp; /* i32, within the team; warp is the same in all its lanes */
    LLVMValueRef team;         /* i32; not set in the copying role */
    unsigned grid_index;       /* index of the parameter with the number of programs */
    LLVMValueRef rank;         /* i32: the block's number among the blocks that run together */
    LLVMValueRef sums;         /* memory of an i32: number of sums over programs so far */
    uint32_t exchange_bytes, written_at, read_at;             /* their shared memory */
    uint32_t query_stages, queries_full_at, queries_empty_at; /* queries of attention */
    uint32_t own_barriers, own_at;                            /* barriers of attention's gradient */
    LLVMValueRef tiles;    /* memory of an i32: number of tiles of queries so far */
    LLVMValueRef used;     /* memory of an i32: number of stages used so far */
    LLVMValueRef base;     /* i32: the value of `used` when the program began */
    LLVMValueRef deferred; /* memory of an i32: 1 + the stage still to be released; 0: none */
    MlirValue filled;      /* stage whose copies have begun */
    /* Values that tile.map loads in advance: recorded while `fetches` is set, used after that. */
    LLVMValueRef ahead[TSR_BLOCK_REGISTERS_MAX];
    uint32_t ahead_count, ahead_taken;
    bool fetches;
    tsr_block_fetch fetch;
    tsr_block_prefetch prefetches[TSR_BLOCK_COPIES_MAX]; /* waves: the copies of the next step */
    uint32_t prefetch_count;
    bool holds;           /* their loads are being emitted */
    bool pingpong;        /* warp groups take turns */
    bool has_one_role;    /* attention without wgmma: threads copy for themselves */
    bool pending, stored; /* products not waited for; copies from shared memory not waited for */
} tsr_block;

/* Emits one kernel; see tsr_emit_warp_func. */
TSR_RESULT tsr_emit_block_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch);
/* Emits an op of a program that a block runs. */
TSR_RESULT tsr_emit_block_op(tsr_emit *emit, MlirOperation op, bool *out_known);

/* ---- for the files of this folder ---- */

LLVMTypeRef tsr_block_i32(tsr_emit *emit);
LLVMValueRef tsr_block_int(tsr_emit *emit, int64_t value); /* i32 */
LLVMValueRef tsr_block_add(tsr_emit *emit, LLVMValueRef x, int64_t y);
LLVMValueRef tsr_block_mul(tsr_emit *emit, LLVMValueRef x, int64_t y);
/* PTX instructions, as written; `convergent`: all threads execute them together. */
LLVMValueRef tsr_block_asm(tsr_emit *emit, LLVMTypeRef result, const char *text,
                           const char *constraints, LLVMValueRef *args, unsigned arg_count);
/* Waits for all computing threads (group < 0), or for the threads of a warp group. */
void tsr_block_sync(tsr_emit *emit, bool of_group);
/* Waits for all threads of the program; its warps may come from different points of the code. */
void tsr_block_sync_apart(tsr_emit *emit);

/* bar.sync or bar.arrive for the turn of `whose` (i32), among this number of threads. */
void tsr_block_named_barrier(tsr_emit *emit, const char *text, LLVMValueRef whose,
                             uint32_t threads);

/* rings.c: adds the ring of a tile.alloc_shared; marks the rings of a tile.mma; gives all rings
 * their places, when all that the program needs is known. */
TSR_RESULT tsr_block_add_ring(tsr_emit *emit, MlirOperation op);
void tsr_block_mark_factors(tsr_block *block, MlirOperation mma);
void tsr_block_locate_rings(tsr_block *block);
tsr_ring *tsr_block_find_ring(tsr_block *block, MlirValue value);
uint32_t tsr_block_element_bytes(MlirType element);
const tsr_ring *tsr_block_ring(tsr_emit *emit, MlirValue value);
/* Start of the ring, the team's own if it has one. */
LLVMValueRef tsr_block_ring_address(tsr_emit *emit, const tsr_ring *ring);
/* Address of the matrix of `stage` (index) in the ring. */
LLVMValueRef tsr_block_stage(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef stage);
/* Address of 16 bytes of a matrix at `at`: number `chunk` of row `row`, both i32. */
LLVMValueRef tsr_block_chunk(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at,
                             LLVMValueRef row, LLVMValueRef chunk);
/* The map of an argument for boxes of rows x 128 bytes, f32 rounded to tf32 if `rounds`. Returns a
 * wrong map if the list is full; then the function is refused. */
uint32_t tsr_block_map(tsr_emit *emit, MlirValue buffer, uint32_t rows, bool rounds);
LLVMValueRef tsr_block_map_address(tsr_emit *emit, uint32_t map);
/* maps.c: the largest number of maps of a kernel; makes parameter `index` of the function a map,
 * passed by value and never copied; prefetches all maps before that instruction, while barriers are
 * initialized. Call it last, when the number of maps is known. */
uint32_t tsr_block_map_limit(const tsr_block *block);
void tsr_block_set_map(tsr_emit *emit, unsigned index);
void tsr_block_prefetch_maps(tsr_emit *emit, LLVMValueRef before);
/* Does the accelerator support the buffer's rows and the distance between them? */
bool tsr_block_is_mappable(MlirValue buffer);
MlirValue tsr_block_argument(MlirValue buffer); /* the argument under a chain of views */

/* copy.c: the slot of number `count` (i32) in a cycle of `stages` slots, and the parity to wait
 * with on its barriers. */
typedef struct tsr_slot {
    LLVMValueRef count, slot, parity; /* i32 */
} tsr_slot;
tsr_slot tsr_block_slot(tsr_emit *emit, LLVMValueRef count, uint32_t stages);
/* The barrier of the slot; the barriers of all slots begin at `offset`. */
LLVMValueRef tsr_block_barrier(tsr_emit *emit, const tsr_slot *at, uint32_t offset);
/* Waits until the phase with this parity is over. */
void tsr_block_wait(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef parity);
/* One thread of each warp group arrives, or of each warp without wgmma. `condition` may be NULL. */
void tsr_block_arrive(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef condition);
/* Arrives, and announces this number of bytes. */
void tsr_block_expect(tsr_emit *emit, LLVMValueRef barrier, uint32_t bytes);
/* Begins to copy a matrix of the ring, with one instruction for each 128 bytes of columns. `at`:
 * i32 position in the buffer, the last dimension first. `share`: the blocks that receive it; NULL:
 * only this block. */
void tsr_block_copy_boxes(tsr_emit *emit, MlirValue buffer, LLVMValueRef *at, const tsr_ring *ring,
                          LLVMValueRef to, LLVMValueRef barrier, const tsr_share *share);
/* Records the blocks that share a tile.async_copy; checks all copies when the rest is planned. */
TSR_RESULT tsr_block_plan_share(tsr_emit *emit, MlirOperation copy);
TSR_RESULT tsr_block_check_copies(tsr_emit *emit);
/* The number of blocks that a block copies to, including itself. */
uint32_t tsr_block_sharers(const tsr_block *block);

void tsr_block_emit_async_copy(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_wait(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_release(tsr_emit *emit, MlirOperation op);
/* Releases the stage whose release waits for products, if there is one. */
void tsr_block_release_deferred(tsr_emit *emit);
/* Called before a loop, at the beginning of its body (for state that iterations pass on), and after
 * it. */
void tsr_block_before_loop(tsr_emit *emit, MlirOperation loop);
void tsr_block_enter_loop(tsr_emit *emit, MlirOperation loop);
void tsr_block_after_loop(tsr_emit *emit, MlirOperation loop);

/* Iterations of a loop with constant bounds; else 0. */
uint32_t tsr_block_rounds(MlirOperation loop);
/* The number of the loop's last iterations that warp groups run one after the other: all groups but
 * the first wait before these iterations, and all groups but the last release the next group after
 * them. */
uint32_t tsr_block_tail(tsr_emit *emit, MlirOperation loop);
void tsr_block_follow(tsr_emit *emit, bool waits);

/* layout.c: the layout of a fragment "acc" in threads: register block_registers (m * column_blocks
 * + j) + 2 h + e of a thread is element (row + step m + pair_rows h, column + block_columns j +
 * pair_columns h + e). */
typedef struct tsr_layout {
    uint32_t row_blocks, column_blocks, step;
    uint32_t block_columns, block_registers, pair_rows, pair_columns;
    LLVMValueRef row, column; /* i32 */
    /* The same for the warp, without lanes: */
    LLVMValueRef warp_row, warp_column;
} tsr_layout;
tsr_layout tsr_block_layout(tsr_emit *emit, int64_t rows, int64_t columns);
tsr_layout tsr_block_layout_of(tsr_emit *emit, MlirValue fragment);
unsigned tsr_block_layout_count(const tsr_layout *layout); /* registers */
/* The element of an even register, relative to the thread's first element; the next register is the
 * next column. */
void tsr_block_layout_find(const tsr_layout *layout, unsigned number, int64_t *out_row,
                           int64_t *out_column);
/* A fragment's registers; products are waited for first. */
void tsr_block_registers(tsr_emit *emit, MlirValue fragment, LLVMValueRef *out_values,
                         unsigned *out_count);
LLVMValueRef tsr_block_pack_registers(tsr_emit *emit, LLVMTypeRef element, LLVMValueRef *values,
                                      unsigned count);
/* Rounds two f32 to one register of bf16 or f16. */
LLVMValueRef tsr_block_narrow(tsr_emit *emit, MlirType element, LLVMValueRef low,
                              LLVMValueRef high);
/* Waits for the products; afterwards the registers of a fragment are the sums. */
void tsr_block_wait_products(tsr_emit *emit, MlirValue fragment);

/* mma.c */
typedef struct tsr_block_product {
    const tsr_ring *a, *b; /* a NULL: A is in registers */
    MlirType element;
    LLVMValueRef a_at, b_at; /* i32: addresses of the stages */
    bool a_transposed, b_transposed;
    bool is_fresh; /* the sums begin at 0 */
    uint32_t columns, steps;
    uint32_t row_blocks; /* row blocks of 64 rows, per warp group */
    bool a_common;       /* all warp groups use the first rows of A */
    tsr_layout layout;   /* for mma.sync */
} tsr_block_product;
/* Begins a product of wgmma. `given`: the sums, unless they are fresh, then the registers of A. The
 * result contains the sums, which may be read after tsr_block_wait_wgmma. */
LLVMValueRef tsr_block_wgmma(tsr_emit *emit, const tsr_block_product *p, LLVMValueRef *given,
                             unsigned sums, unsigned registers);
/* Waits until at most `left` such products are in flight. The result is `sums`, which may be read
 * then. */
LLVMValueRef tsr_block_wait_wgmma(tsr_emit *emit, unsigned left, LLVMValueRef *sums,
                                  unsigned count);

/* One mma.sync: 16 rows of A, in four registers, with 8 columns of B, in two, added to four sums.
 */
void tsr_block_multiply(tsr_emit *emit, MlirType element, LLVMValueRef *sums, LLVMValueRef *a,
                        LLVMValueRef *b);

/* loop.c: memory of a thread, which becomes registers; allocated before the function's first
 * instruction. */
LLVMValueRef tsr_block_memory(tsr_emit *emit, LLVMTypeRef type);
LLVMValueRef tsr_block_get(tsr_emit *emit, LLVMValueRef memory);
void tsr_block_set(tsr_emit *emit, LLVMValueRef memory, LLVMValueRef value);
/* A loop over index = first, first + step … below limit, all i32. */
typedef struct tsr_block_loop {
    LLVMBasicBlockRef body, end;
    LLVMValueRef index, limit;
    int64_t step;
} tsr_block_loop;
tsr_block_loop tsr_block_loop_begin(tsr_emit *emit, LLVMValueRef first, LLVMValueRef limit,
                                    int64_t step, const char *name);
void tsr_block_loop_end(tsr_emit *emit, const tsr_block_loop *loop);
/* Code emitted between the two calls runs if the condition is true. */
LLVMBasicBlockRef tsr_block_if(tsr_emit *emit, LLVMValueRef condition, const char *name);
void tsr_block_end_if(tsr_emit *emit, LLVMBasicBlockRef rest);
/* Address of the ring's matrix in that slot. */
LLVMValueRef tsr_block_slot_address(tsr_emit *emit, const tsr_ring *ring, const tsr_slot *at);
LLVMValueRef tsr_block_power_of_2(tsr_emit *emit, LLVMValueRef x); /* approximate, f32 */
void tsr_block_unpack(tsr_emit *emit, LLVMValueRef whole, LLVMValueRef *out_values, unsigned count);
/* Waits until at most `left` products are in flight; `sums` are then the results of finished
 * ones. */
void tsr_block_wait_some(tsr_emit *emit, unsigned left, LLVMValueRef *sums, unsigned count);

/* heads.c: the position of `column` in the head's row `row`, as box copies need it; three i32. */
void tsr_block_locate_head(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                           LLVMValueRef row, int64_t column, LLVMValueRef *out_at);

/* attend.c */
void tsr_block_plan_attend(tsr_emit *emit, MlirOperation op); /* finds the op's rings */
void tsr_block_open_attend(tsr_emit *emit);                   /* called before the first program */
TSR_RESULT tsr_block_emit_attend(tsr_emit *emit, MlirOperation op);

/* attend_grad.c: tile.attend "backward", the whole function; a block runs one program. */
bool tsr_block_is_backward(MlirOperation op);
void tsr_block_plan_grad(tsr_emit *emit); /* its barriers */
/* The number of arrivals at its barrier number `barrier_number`. */
uint32_t tsr_block_grad_arrivals(const tsr_block *block, uint32_t barrier_number);
void tsr_block_emit_grad(tsr_emit *emit, MlirOperation op);

/* sum.c */
void tsr_block_plan_sum(tsr_block *block, MlirOperation op);
void tsr_block_emit_sum(tsr_emit *emit, MlirOperation op);

/* box.c: 64 rows x 64 columns to shared memory, at `from` + `at` bytes. `values`: 32 registers of a
 * fragment "acc"; `pairs`: the same as 16 results of tsr_block_narrow. */
void tsr_block_put_pairs(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                         LLVMValueRef *pairs);
void tsr_block_put_box(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                       int64_t at, LLVMValueRef *values);
/* Stores the first columns, as many as `count` registers contain; `transposed`: they are rows of
 * the box. */
void tsr_block_put_parts(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                         int64_t at, unsigned count, bool transposed, LLVMValueRef *values);
/* Narrows `values` to `count` pairs; stores `count` pairs, 16 or 8 columns of a box, to the slot of
 * part `part`. */
void tsr_block_narrow_part(tsr_emit *emit, MlirType element, LLVMValueRef *values, unsigned count,
                           LLVMValueRef *out_pairs);
void tsr_block_put_part(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        unsigned part, bool transposed, LLVMValueRef *pairs, unsigned count);
/* Begins to copy box `box` to position `at`; see tsr_block_copy_boxes. */
void tsr_block_copy_box(tsr_emit *emit, MlirValue buffer, LLVMValueRef box, LLVMValueRef *at);
/* Only the first thread of each warp group executes it. */
void tsr_block_first_thread(tsr_emit *emit, const char *text, const char *constraints,
                            LLVMValueRef *args, unsigned count);

/* How a fragment passes through a ring: 64 rows x 128 bytes at a time, box by box of a row block,
 * from slot to slot. Each warp group has its own slots. */
typedef struct tsr_boxes {
    const tsr_ring *ring;
    uint32_t columns;   /* columns of a box */
    uint32_t row_boxes; /* boxes of a row block */
    uint32_t all, slots;
    uint32_t row_blocks;
} tsr_boxes;
tsr_boxes tsr_block_boxes(const tsr_ring *ring, const tsr_layout *layout);
/* i32: the warp group's first row of the fragment. */
LLVMValueRef tsr_block_group_row(tsr_emit *emit, const tsr_boxes *boxes);
/* The slot of box `number` of the warp group, `out_at` bytes after the result. */
LLVMValueRef tsr_block_box_slot(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                                int64_t *out_at);
/* The address of this lane's 16 bytes of part `part`, of 16 columns, in the box at `from`, for
 * ldmatrix and stmatrix. */
LLVMValueRef tsr_block_part_address(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from,
                                    unsigned part);
/* Stores a box of f32, of 16 registers, to its slot, and loads it. */
void tsr_block_put_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *values);
void tsr_block_get_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *out_values);

/* fetch.c */
tsr_result tsr_block_plan_fetch(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_fetch(tsr_emit *emit, MlirOperation op); /* requests the first boxes */
/* Waits for box `number`, and reads its registers as f32. */
void tsr_block_take_box(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                        LLVMValueRef *out_values);
/* Called after the copy of box `number` from its slot: requests a box for a free slot. Executed by
 * one thread. */
void tsr_block_fetch_next(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number);

/* A tile.gather of pairs: the two elements at the first offset, which is rounded down to an even
 * number. */
void tsr_block_emit_pair(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_fill(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_mma(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_load_shared(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_store_shared(tsr_emit *emit, MlirOperation op);
TSR_RESULT tsr_block_emit_map(tsr_emit *emit, MlirOperation op);
TSR_RESULT tsr_block_emit_store(tsr_emit *emit, MlirOperation op);
/* The device's own function "tanh", "exp", or "gelu" by tanh, of two f32 in each lane; NULL: the
 * device has no such function. */
LLVMValueRef tsr_block_approximate(tsr_emit *emit, const char *function, LLVMValueRef x);
/* Before the block ends: waits for the block's stores through shared memory. */
void tsr_block_emit_stored(tsr_emit *emit);

#endif
