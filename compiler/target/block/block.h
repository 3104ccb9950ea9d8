/* SPDX-License-Identifier: Apache-2.0
 *
 * Tile IR on the threads of a block: a program of a tile.func with `warps` is run by one block. Its
 * body is emitted twice, for two roles that run side by side and meet at the stages of the rings:
 *
 *     copying warp group     copies alone: wait until the stage is released, begin its copies
 *     computing warps        all else: wait until the copies of the stage are done, …
 *
 * Both walk all programs of the block, so that copies run ahead of products by as many stages as
 * there are, also from one program to the next. A stage has two mbarriers: `full`, `empty`.
 *
 * With two teams a block runs two programs side by side, each on computing warps of its own: while
 * one multiplies, the other stores. They take turns at their loops of products, so that stages are
 * used in the order they are filled.
 *
 * With one team its warp groups may multiply for the last stages of a program one after the other,
 * so that one stores while the next one multiplies.
 *
 * Blocks may run together (as a cluster). What several of them copy they copy by turns, a stage
 * each, to all of these; a stage is then filled when the computing warps of all that share copies
 * with the block have released it.
 *
 * Attention with mma.sync has one role: what copies take of registers it needs itself, and a block
 * runs one program (attend_sync.c).
 *
 * Copies are those of the tensor memory accelerator where the target has it and all pitches are
 * multiples of 16 bytes, else each copying thread's own. Products are wgmma or mma.sync.
 */
#ifndef TSR_COMPILER_TARGET_BLOCK_BLOCK_H
#define TSR_COMPILER_TARGET_BLOCK_BLOCK_H

#include "compiler/target/llvm_emit.h"

enum {
    TSR_BLOCK_RINGS_MAX = 8,
    TSR_BLOCK_SHARES_MAX = 2,
    TSR_BLOCK_GROUP = 128,         /* threads of a warp group */
    TSR_BLOCK_SWIZZLE_BYTES = 128, /* of a row of a block of columns */
    TSR_BLOCK_ASM_MAX = 16 * 1024,
    TSR_BLOCK_REGISTERS_MAX = 256, /* of a fragment, in a thread */
};

typedef struct tsr_ring {
    MlirValue value;
    uint32_t offset;     /* bytes, in shared memory */
    uint32_t team_bytes; /* from one team's to the next one's; 0: all have the same */
    uint32_t stages, rows, columns, element_bytes;
    bool swizzled, is_copied_to;
    bool is_factor; /* of a product: f32 is rounded to tf32 as boxes are copied there */
} tsr_ring;

/* A fragment that comes by the copy engine, box by box (fetch.c). */
typedef struct tsr_block_fetch {
    MlirOperation op;      /* tile.load_fragment; null: there is none */
    uint32_t slots;        /* for boxes, of a warp group */
    uint32_t full_at;      /* their barriers, of each warp group of each team */
    LLVMValueRef programs; /* memory of an i32: that the team has stored */
} tsr_block_fetch;

/* Of the blocks that run together, `count` copy the same, their ranks `stride` apart. */
typedef struct tsr_share {
    uint32_t count, stride;
} tsr_share;

typedef struct tsr_block {
    uint32_t warps, groups;  /* that compute a program */
    uint32_t teams;          /* programs that are computed at a time, 1 or 2 */
    uint32_t program_stages; /* with two teams: what each program uses */
    bool has_wgmma, has_tma, uses_tma;
    uint32_t together;                      /* blocks, with a program each */
    tsr_share shares[TSR_BLOCK_SHARES_MAX]; /* which of them copy for each other */
    uint32_t share_count;
    bool copies; /* the role being emitted */
    bool writes; /* it is that of the copying group's warps 1 and 2, a thread of each */
    tsr_ring rings[TSR_BLOCK_RINGS_MAX];
    uint32_t ring_count, stages, shared_bytes, full_at, empty_at;
    uint32_t registers; /* cap; 0: none */
    tsr_fatbin_map maps[TSR_FATBIN_MAPS_MAX];
    uint32_t map_count;
    bool lacks_maps;           /* more are needed than there may be */
    LLVMValueRef shared;       /* i32: where shared memory begins */
    LLVMValueRef thread, warp; /* i32, of the team; warp is the same in all its lanes */
    LLVMValueRef team;         /* i32; the copying role has none */
    unsigned grid_index;       /* of the parameter that counts programs */
    LLVMValueRef rank;         /* i32: of the block among those that run together */
    LLVMValueRef sums;         /* memory of an i32: sums over programs so far */
    uint32_t exchange_bytes, written_at, read_at;             /* for them, in shared memory */
    uint32_t query_stages, queries_full_at, queries_empty_at; /* of attention's queries */
    uint32_t own_barriers, own_at;                            /* of attention's gradient */
    LLVMValueRef tiles;    /* memory of an i32: tiles of queries so far */
    LLVMValueRef used;     /* memory of an i32: stages used so far */
    LLVMValueRef base;     /* i32: the same when the program began */
    LLVMValueRef deferred; /* memory of an i32: 1 + the stage still to be released; 0: none */
    MlirValue filled;      /* stage whose copies have begun */
    /* What tile.map loads, where it is loaded ahead: kept while `fetches`, taken from then on. */
    LLVMValueRef ahead[TSR_BLOCK_REGISTERS_MAX];
    uint32_t ahead_count, ahead_taken;
    bool fetches;
    tsr_block_fetch fetch;
    bool attends_in_turns; /* warp groups take turns */
    bool has_one_role;     /* attention without wgmma: threads copy for themselves */
    bool pending, stored;  /* products not waited for; copies from shared memory not waited for */
} tsr_block;

/* One kernel; see tsr_emit_warp_func. */
TSR_RESULT tsr_emit_block_func(tsr_emit *emit, MlirOperation func, tsr_fatbin_kernel *out_launch);
/* An op of such a program. */
TSR_RESULT tsr_emit_block_op(tsr_emit *emit, MlirOperation op, bool *out_known);

/* ---- for the files of this folder ---- */

LLVMTypeRef tsr_block_i32(tsr_emit *emit);
LLVMValueRef tsr_block_int(tsr_emit *emit, int64_t value); /* i32 */
LLVMValueRef tsr_block_add(tsr_emit *emit, LLVMValueRef x, int64_t y);
LLVMValueRef tsr_block_mul(tsr_emit *emit, LLVMValueRef x, int64_t y);
/* Instructions as they stand in PTX; `convergent` as all that threads do together. */
LLVMValueRef tsr_block_asm(tsr_emit *emit, LLVMTypeRef result, const char *text,
                           const char *constraints, LLVMValueRef *args, unsigned arg_count);
/* Waits for all computing threads (group < 0), or for those of a warp group. */
void tsr_block_sync(tsr_emit *emit, bool of_group);
/* All of the program's, at whatever points of the code its warps come to it. */
void tsr_block_sync_apart(tsr_emit *emit);

/* bar.sync or bar.arrive of `whose` (i32) turn it is, among so many threads. */
void tsr_block_turn(tsr_emit *emit, const char *text, LLVMValueRef whose, uint32_t threads);

const tsr_ring *tsr_block_ring(tsr_emit *emit, MlirValue value);
/* Where the ring begins, the team's own if it has one. */
LLVMValueRef tsr_block_ring_address(tsr_emit *emit, const tsr_ring *ring);
/* Address of the matrix that `stage` (index) has in the ring. */
LLVMValueRef tsr_block_stage(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef stage);
/* Address of 16 bytes of a matrix at `at`: number `chunk` of row `row`, both i32. */
LLVMValueRef tsr_block_chunk(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at,
                             LLVMValueRef row, LLVMValueRef chunk);
/* The map of an argument for boxes of rows x 128 bytes, f32 rounded to tf32 if `rounds`; a wrong
 * one where there is no more room: the function is refused. */
uint32_t tsr_block_map(tsr_emit *emit, MlirValue buffer, uint32_t rows, bool rounds);
LLVMValueRef tsr_block_map_address(tsr_emit *emit, uint32_t map);
/* maps.c: how many a kernel may have; parameter `index` of the function is one, by value and never
 * copied; before that instruction, all of them are on their way while barriers are made: which
 * there are is known when all else is written. */
uint32_t tsr_block_map_limit(const tsr_block *block);
void tsr_block_set_map(tsr_emit *emit, unsigned index);
void tsr_block_prefetch_maps(tsr_emit *emit, LLVMValueRef before);
/* Are rows of the buffer, and what lies between them, as the accelerator takes them? */
bool tsr_block_is_mappable(MlirValue buffer);
MlirValue tsr_block_argument(MlirValue buffer); /* that it is, or is a view of */

/* copy.c: where number `count` (i32) of what goes round `stages` slots lies, and the parity that
 * its barriers are waited on with. */
typedef struct tsr_slot {
    LLVMValueRef count, slot, parity; /* i32 */
} tsr_slot;
tsr_slot tsr_block_slot(tsr_emit *emit, LLVMValueRef count, uint32_t stages);
/* Its barrier, of those from `offset` on. */
LLVMValueRef tsr_block_barrier(tsr_emit *emit, const tsr_slot *at, uint32_t offset);
/* Until the phase of that parity is over. */
void tsr_block_wait(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef parity);
/* One thread for each warp group, or without wgmma for each warp. `condition` may be NULL. */
void tsr_block_arrive(tsr_emit *emit, LLVMValueRef barrier, LLVMValueRef condition);
/* Arrives there, where so many bytes will come. */
void tsr_block_expect(tsr_emit *emit, LLVMValueRef barrier, uint32_t bytes);
/* Begins to copy a matrix of the ring, one instruction for each 128 bytes of columns. `at`: i32, of
 * the buffer, the last dimension first. `share`: of those to whom it comes; NULL: to this block
 * alone. */
void tsr_block_copy_boxes(tsr_emit *emit, MlirValue buffer, LLVMValueRef *at, const tsr_ring *ring,
                          LLVMValueRef to, LLVMValueRef barrier, const tsr_share *share);
/* Notes whom a tile.async_copy is shared with; checks all copies, when the rest is planned. */
TSR_RESULT tsr_block_plan_share(tsr_emit *emit, MlirOperation copy);
TSR_RESULT tsr_block_check_copies(tsr_emit *emit);
/* The blocks to which a block copies, itself among them. */
uint32_t tsr_block_sharers(const tsr_block *block);

void tsr_block_emit_async_copy(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_wait(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_release(tsr_emit *emit, MlirOperation op);
/* The stage whose release waits for products, if there is one. */
void tsr_block_release_deferred(tsr_emit *emit);
/* Before a loop, in it as it begins (what its rounds leave to each other), and behind it. */
void tsr_block_before_loop(tsr_emit *emit, MlirOperation loop);
void tsr_block_enter_loop(tsr_emit *emit, MlirOperation loop);
void tsr_block_after_loop(tsr_emit *emit, MlirOperation loop);

/* Rounds of a loop whose bounds are constants; else 0. */
uint32_t tsr_block_rounds(MlirOperation loop);
/* How many of the loop's last rounds warp groups run one after the other: each but the first waits
 * before them, each but the last lets the next one go behind them. */
uint32_t tsr_block_tail(tsr_emit *emit, MlirOperation loop);
void tsr_block_follow(tsr_emit *emit, bool waits);

/* How a fragment "acc" lies in threads: register 4 (m * column_blocks + j) + 2 h + e of a thread is
 * element (row + step * m + 8 h, column + 8 j + e). */
typedef struct tsr_layout {
    uint32_t row_blocks, column_blocks, step;
    LLVMValueRef row, column; /* i32 */
    /* Of the warp, without its lanes: */
    LLVMValueRef warp_row, warp_column;
} tsr_layout;
tsr_layout tsr_block_layout(tsr_emit *emit, int64_t rows, int64_t columns);
/* A fragment's registers; products are waited for first. */
void tsr_block_registers(tsr_emit *emit, MlirValue fragment, LLVMValueRef *out_values,
                         unsigned *out_count);
LLVMValueRef tsr_block_pack_registers(tsr_emit *emit, LLVMTypeRef element, LLVMValueRef *values,
                                      unsigned count);
/* Two f32 to one register of bf16 or f16. */
LLVMValueRef tsr_block_narrow(tsr_emit *emit, MlirType element, LLVMValueRef low,
                              LLVMValueRef high);
/* After it the registers of a fragment are those of the sum. */
void tsr_block_wait_products(tsr_emit *emit, MlirValue fragment);

/* mma.c */
typedef struct tsr_block_product {
    const tsr_ring *a, *b; /* a NULL: in registers */
    MlirType element;
    LLVMValueRef a_at, b_at; /* i32: of the stages */
    bool a_transposed, b_transposed;
    bool is_fresh; /* the sums begin with 0 */
    uint32_t columns, steps;
    uint32_t row_blocks; /* of 64 rows, of a warp group */
    bool a_common;       /* all warp groups have the first rows of A */
    tsr_layout layout;   /* with mma.sync */
} tsr_block_product;
/* Begins a product of wgmma. `given`: the sums, unless they are fresh, then the registers of A. The
 * result holds the sums, which may be read after tsr_block_wait_wgmma. */
LLVMValueRef tsr_block_wgmma(tsr_emit *emit, const tsr_block_product *p, LLVMValueRef *given,
                             unsigned sums, unsigned registers);
/* Until at most `left` such products are under way. The result is `sums`, which may be read then.
 */
LLVMValueRef tsr_block_wait_wgmma(tsr_emit *emit, unsigned left, LLVMValueRef *sums,
                                  unsigned count);

/* One mma.sync: 16 rows of A, in four registers, with 8 columns of B, in two, added to four sums.
 */
void tsr_block_multiply(tsr_emit *emit, MlirType element, LLVMValueRef *sums, LLVMValueRef *a,
                        LLVMValueRef *b);

/* loop.c: memory of a thread, which becomes registers; made before the function's first
 * instruction. */
LLVMValueRef tsr_block_memory(tsr_emit *emit, LLVMTypeRef type);
LLVMValueRef tsr_block_get(tsr_emit *emit, LLVMValueRef memory);
void tsr_block_set(tsr_emit *emit, LLVMValueRef memory, LLVMValueRef value);
/* For index = first, first + step … below limit, all i32. */
typedef struct tsr_block_loop {
    LLVMBasicBlockRef body, end;
    LLVMValueRef index, limit;
    int64_t step;
} tsr_block_loop;
tsr_block_loop tsr_block_loop_begin(tsr_emit *emit, LLVMValueRef first, LLVMValueRef limit,
                                    int64_t step, const char *name);
void tsr_block_loop_end(tsr_emit *emit, const tsr_block_loop *loop);
/* What is written between both runs where the condition holds. */
LLVMBasicBlockRef tsr_block_if(tsr_emit *emit, LLVMValueRef condition, const char *name);
void tsr_block_end_if(tsr_emit *emit, LLVMBasicBlockRef rest);
/* Where the ring's matrix at that slot begins. */
LLVMValueRef tsr_block_slot_address(tsr_emit *emit, const tsr_ring *ring, const tsr_slot *at);
LLVMValueRef tsr_block_power_of_2(tsr_emit *emit, LLVMValueRef x); /* the device's, of f32 */
void tsr_block_unpack(tsr_emit *emit, LLVMValueRef whole, LLVMValueRef *out_values, unsigned count);
/* Waits until at most `left` products are under way; `sums` are then those of what is done. */
void tsr_block_wait_some(tsr_emit *emit, unsigned left, LLVMValueRef *sums, unsigned count);

/* heads.c: `column` of the head's rows from `row` on, as copies of boxes take it; three i32. */
void tsr_block_locate_head(tsr_emit *emit, MlirOperation attend, size_t buffer, LLVMValueRef head,
                           LLVMValueRef row, int64_t column, LLVMValueRef *out_at);

/* attend.c */
void tsr_block_plan_attend(tsr_emit *emit, MlirOperation op); /* finds its rings */
void tsr_block_open_attend(tsr_emit *emit);                   /* before the first program */
TSR_RESULT tsr_block_emit_attend(tsr_emit *emit, MlirOperation op);

/* attend_grad.c: tile.attend "backward", the whole of its function; a block runs one program. */
bool tsr_block_is_backward(MlirOperation op);
void tsr_block_plan_grad(tsr_emit *emit); /* its barriers */
/* How many arrive at its barrier number `barrier_number`. */
uint32_t tsr_block_grad_arrivals(const tsr_block *block, uint32_t barrier_number);
void tsr_block_emit_grad(tsr_emit *emit, MlirOperation op);

/* sum.c */
void tsr_block_plan_sum(tsr_block *block, MlirOperation op);
void tsr_block_emit_sum(tsr_emit *emit, MlirOperation op);

/* box.c: 64 rows x 64 columns to shared memory, `at` bytes behind `from`; `values`: 32
 * registers of a fragment "acc", `pairs`: them as 16 of tsr_block_narrow. */
void tsr_block_put_pairs(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                         LLVMValueRef *pairs);
void tsr_block_put_box(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                       int64_t at, LLVMValueRef *values);
/* Its first columns, as many as `count` registers hold; `transposed`: they are rows of the box. */
void tsr_block_put_parts(tsr_emit *emit, const tsr_ring *ring, MlirType element, LLVMValueRef from,
                         int64_t at, unsigned count, bool transposed, LLVMValueRef *values);
/* `count` pairs of `values`; and as many, of 16 columns of a box or of 8, to the slot of part
 * `part`. */
void tsr_block_narrow_part(tsr_emit *emit, MlirType element, LLVMValueRef *values, unsigned count,
                           LLVMValueRef *out_pairs);
void tsr_block_put_part(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        unsigned part, bool transposed, LLVMValueRef *pairs, unsigned count);
/* Begins to copy such a box, `box`, to where `at` says; see tsr_block_copy_boxes. */
void tsr_block_copy_box(tsr_emit *emit, MlirValue buffer, LLVMValueRef box, LLVMValueRef *at);
/* Only the first thread of each warp group does it. */
void tsr_block_first_thread(tsr_emit *emit, const char *text, const char *constraints,
                            LLVMValueRef *args, unsigned count);

/* How a fragment goes through a ring: 64 rows x 128 bytes at a time, box by box of a row block,
 * from slot to slot, of which each warp group has its own. */
typedef struct tsr_boxes {
    const tsr_ring *ring;
    uint32_t columns; /* of a box */
    uint32_t across;  /* boxes of a row block */
    uint32_t all, slots;
    uint32_t row_blocks;
} tsr_boxes;
tsr_boxes tsr_block_boxes(const tsr_ring *ring, const tsr_layout *layout);
/* i32: the warp group's first row of the fragment. */
LLVMValueRef tsr_block_group_row(tsr_emit *emit, const tsr_boxes *boxes);
/* Where the warp group's slot of box `number` lies, `out_at` bytes behind what is returned. */
LLVMValueRef tsr_block_box_slot(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                                int64_t *out_at);
/* Of the box at `from`: where this lane's 16 bytes of part `part`, of 16 columns, lie, as ldmatrix
 * and stmatrix take them. */
LLVMValueRef tsr_block_part_address(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from,
                                    unsigned part);
/* A box of f32, of 16 registers, to its slot and from there. */
void tsr_block_put_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *values);
void tsr_block_get_wide(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef from, int64_t at,
                        LLVMValueRef *out_values);

/* fetch.c */
tsr_result tsr_block_plan_fetch(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_fetch(tsr_emit *emit, MlirOperation op); /* asks for the first boxes */
/* Waits for box `number`, and reads it as f32, as many as the box has registers. */
void tsr_block_take_box(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number,
                        LLVMValueRef *out_values);
/* Behind the copy of box `number` from its slot: asks for a box for a slot that is free. For one
 * thread. */
void tsr_block_fetch_next(tsr_emit *emit, const tsr_boxes *boxes, uint32_t number);

/* A tile.gather of pairs: the two elements at the first offset, which is made even. */
void tsr_block_emit_pair(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_fill(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_mma(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_load_shared(tsr_emit *emit, MlirOperation op);
void tsr_block_emit_store_shared(tsr_emit *emit, MlirOperation op);
TSR_RESULT tsr_block_emit_map(tsr_emit *emit, MlirOperation op);
TSR_RESULT tsr_block_emit_store(tsr_emit *emit, MlirOperation op);
/* The device's own function "tanh", "exp", or "gelu" by tanh, of two f32 in each lane; NULL: it has
 * none. */
LLVMValueRef tsr_block_approximate(tsr_emit *emit, const char *function, LLVMValueRef x);
/* Before the block ends: what it stored by way of shared memory is stored. */
void tsr_block_emit_stored(tsr_emit *emit);

#endif
