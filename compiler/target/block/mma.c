/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on matrix units. With wgmma a warp group computes 64 rows at a time from descriptors of
 * shared memory, and continues before the product is done: one product may be in flight while the
 * next one begins, and its stage is released one step later. With mma.sync each warp loads its
 * factors with ldmatrix. Sources: PTX ISA 8.5, "Asynchronous Warpgroup Level Matrix Instructions",
 * "mma.sync.aligned".
 */
#include "compiler/shim/shim.h"
#include "compiler/target/block/block.h"
#include "compiler/target/block/sizes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    STEP_BYTES = 32, /* bytes of K in one instruction */
    CHUNK_BYTES = 16,
    SWIZZLE_ATOM_BYTES = 1024, /* 8 rows of 128 bytes */
};

static const char *type_name(MlirType element) {
    if (mlirTypeIsAF32(element)) return "tf32";
    return mlirTypeIsABF16(element) ? "bf16" : "f16";
}

static tsr_block_product read_product(tsr_emit *emit, MlirOperation op) {
    int64_t dims[3] = {0};
    bool is_acc = false;
    MlirType element;
    tsr_block_product p = {.a_transposed = tsr_op_flag(op, "transpose_a"),
                           .b_transposed = tsr_op_flag(op, "transpose_b")};
    LLVMValueRef stage = tsr_emit_operand(emit, op, 3);
    p.b = tsr_block_ring(emit, tsr_op_operand(op, 1));
    p.b_at = tsr_block_stage(emit, p.b, stage);
    if (tsr_shim_tile_shared(mlirValueGetType(tsr_op_operand(op, 0)), dims, &p.element)) {
        p.a = tsr_block_ring(emit, tsr_op_operand(op, 0));
        p.a_at = tsr_block_stage(emit, p.a, stage);
    } else {
        tsr_shim_tile_fragment(mlirValueGetType(tsr_op_operand(op, 0)), dims, &p.element, &is_acc);
    }
    uint32_t depth = p.b_transposed ? p.b->columns : p.b->rows;
    p.steps = depth * p.b->element_bytes / STEP_BYTES;
    bool known =
        tsr_shim_tile_fragment(mlirValueGetType(tsr_op_operand(op, 2)), dims, &element, &is_acc);
    TSR_ASSERT(known);
    p.columns = (uint32_t)dims[1];
    p.layout = tsr_block_layout(emit, dims[0], dims[1]);
    p.row_blocks = p.layout.row_blocks;
    return p;
}

/* ---- wgmma ----------------------------------------------------------------------------------- */

typedef struct text {
    char bytes[TSR_BLOCK_ASM_MAX];
    size_t length;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, arguments);
    va_end(arguments);
    TSR_ASSERT(count >= 0 && t->length + (size_t)count < sizeof t->bytes);
    t->length += (size_t)count;
}

/* The parts of a descriptor that do not depend on the address. */
static uint64_t descriptor_bits(const tsr_ring *ring, bool by_rows) {
    uint64_t leading = by_rows ? 1 : (uint64_t)ring->rows * TSR_BLOCK_SWIZZLE_BYTES >> 4;
    uint64_t stride = SWIZZLE_ATOM_BYTES >> 4, swizzle_128 = 1;
    return leading << 16 | stride << 32 | swizzle_128 << 62;
}

/* The increment of a descriptor from the first step of K to step number `step`. */
static uint64_t step_units(const tsr_ring *ring, bool by_rows, uint32_t step) {
    uint32_t per_block = TSR_BLOCK_SWIZZLE_BYTES / STEP_BYTES;
    uint64_t bytes;
    if (by_rows)
        bytes = (uint64_t)(step / per_block) * ring->rows * TSR_BLOCK_SWIZZLE_BYTES +
                (uint64_t)(step % per_block) * STEP_BYTES;
    else
        bytes = (uint64_t)step * (STEP_BYTES / ring->element_bytes) * TSR_BLOCK_SWIZZLE_BYTES;
    return bytes >> 4;
}

static LLVMValueRef descriptor(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at,
                               bool by_rows) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(emit->llvm);
    LLVMValueRef low = LLVMBuildAnd(b, at, tsr_block_int(emit, 0x3FFFF), "");
    low = LLVMBuildLShr(b, low, tsr_block_int(emit, 4), "");
    return LLVMBuildOr(b, LLVMBuildZExt(b, low, i64, ""),
                       tsr_emit_int(i64, (int64_t)descriptor_bits(ring, by_rows)), "");
}

/* The address of the warp group's row block m of A. */
static LLVMValueRef group_address(tsr_emit *emit, const tsr_block_product *p, uint32_t m) {
    LLVMBuilderRef b = emit->builder;
    const tsr_block *block = emit->block;
    LLVMValueRef group = LLVMBuildUDiv(b, block->warp, tsr_block_int(emit, 4), "");
    LLVMValueRef first = tsr_block_mul(emit, group, p->a_common ? 0 : (int64_t)p->row_blocks);
    LLVMValueRef number = tsr_block_add(emit, first, m); /* number of the block of 64 rows */
    int64_t unit = (int64_t)GROUP_ROWS * TSR_BLOCK_SWIZZLE_BYTES;
    if (p->a_transposed) /* a block of columns has 64 columns */
        unit = (int64_t)p->a->rows * TSR_BLOCK_SWIZZLE_BYTES;
    return LLVMBuildAdd(b, p->a_at, tsr_block_mul(emit, number, unit), "");
}

/* Writes all steps of all row blocks as one text, so that no instruction comes between them.
 * Operands: the sums, tied; descriptors of A or its registers; the descriptor of B. */
static void write_wgmma(const tsr_block_product *p, unsigned sums, unsigned a_count, text *t) {
    unsigned per_block = p->columns / 2, b;
    unsigned first_a = p->is_fresh ? sums : 2 * sums;
    b = first_a + a_count;
    bool tf32 = mlirTypeIsAF32(p->element);
    add(t, "{ .reg .b64 da, db; wgmma.fence.sync.aligned; ");
    for (uint32_t m = 0; m < p->row_blocks; m++)
        for (uint32_t s = 0; s < p->steps; s++) {
            int adds = !p->is_fresh || s > 0;
            if (p->a)
                add(t, "add.s64 da, $%u, %" PRIu64 "; ", first_a + m,
                    step_units(p->a, !p->a_transposed, s));
            add(t, "add.s64 db, $%u, %" PRIu64 "; ", b, step_units(p->b, p->b_transposed, s));
            add(t, "wgmma.mma_async.sync.aligned.m64n%uk%u.f32.%s.%s {", p->columns,
                STEP_BYTES / p->b->element_bytes, type_name(p->element), type_name(p->element));
            for (unsigned i = 0; i < per_block; i++)
                add(t, "%s$%u", i ? "," : "", m * per_block + i);
            if (p->a)
                add(t, "}, da, db, %d, 1, 1", adds);
            else
                add(t, "}, {$%u,$%u,$%u,$%u}, db, %d, 1, 1", first_a + 4 * (m * p->steps + s),
                    first_a + 4 * (m * p->steps + s) + 1, first_a + 4 * (m * p->steps + s) + 2,
                    first_a + 4 * (m * p->steps + s) + 3, adds);
            if (!tf32 && p->a) add(t, ", %d", p->a_transposed);
            if (!tf32) add(t, ", %d", !p->b_transposed);
            add(t, "; ");
        }
    add(t, "wgmma.commit_group.sync.aligned; }");
}

static void write_constraints(unsigned sums, unsigned tied, unsigned registers,
                              unsigned descriptors, text *t) {
    for (unsigned i = 0; i < sums; i++) add(t, "=f,");
    for (unsigned i = 0; i < tied; i++) add(t, "%u,", i);
    for (unsigned i = 0; i < registers; i++) add(t, "r,");
    for (unsigned i = 0; i < descriptors; i++) add(t, "l,");
    add(t, "~{memory}");
}

static LLVMTypeRef sums_type(tsr_emit *emit, unsigned count) {
    LLVMTypeRef types[TSR_BLOCK_REGISTERS_MAX];
    for (unsigned i = 0; i < count; i++) types[i] = LLVMFloatTypeInContext(emit->llvm);
    return LLVMStructTypeInContext(emit->llvm, types, count, false);
}

static unsigned take_registers(tsr_emit *emit, MlirValue fragment, LLVMValueRef *values) {
    LLVMValueRef whole = tsr_emit_get(emit, fragment);
    unsigned count = LLVMCountStructElementTypes(LLVMTypeOf(whole));
    for (unsigned i = 0; i < count; i++)
        values[i] = LLVMBuildExtractValue(emit->builder, whole, i, "");
    return count;
}

LLVMValueRef tsr_block_wgmma(tsr_emit *emit, const tsr_block_product *p, LLVMValueRef *given,
                             unsigned sums, unsigned registers) {
    static text code, constraints; /* the child process has one thread */
    LLVMValueRef args[3 * TSR_BLOCK_REGISTERS_MAX];
    unsigned tied = p->is_fresh ? 0 : sums, count = tied + registers, descriptors = 0;
    if (count) memcpy(args, given, count * sizeof *args);
    code.length = constraints.length = 0;
    for (uint32_t m = 0; p->a && m < p->row_blocks; m++)
        args[count + descriptors++] =
            descriptor(emit, p->a, group_address(emit, p, m), !p->a_transposed);
    write_wgmma(p, sums, registers + descriptors, &code);
    args[count + descriptors++] = descriptor(emit, p->b, p->b_at, p->b_transposed);
    write_constraints(sums, tied, registers, descriptors, &constraints);
    return tsr_block_asm(emit, sums_type(emit, sums), code.bytes, constraints.bytes, args,
                         count + descriptors);
}

static void emit_wgmma(tsr_emit *emit, MlirOperation op, const tsr_block_product *p) {
    LLVMValueRef given[2 * TSR_BLOCK_REGISTERS_MAX];
    unsigned sums = take_registers(emit, tsr_op_operand(op, 2), given), registers = 0;
    if (!p->a) registers = take_registers(emit, tsr_op_operand(op, 0), given + sums);
    tsr_emit_set(emit, op, tsr_block_wgmma(emit, p, given, sums, registers));
    emit->block->pending = true;
}

LLVMValueRef tsr_block_wait_wgmma(tsr_emit *emit, unsigned left, LLVMValueRef *sums,
                                  unsigned count) {
    static text code, constraints;
    code.length = constraints.length = 0;
    add(&code, "wgmma.wait_group.sync.aligned %u;", left);
    write_constraints(count, count, 0, 0, &constraints);
    return tsr_block_asm(emit, count ? sums_type(emit, count) : NULL, code.bytes, constraints.bytes,
                         sums, count);
}

/* The sums pass through the wait, so that no instruction reads them before it. */
static void wait_products(tsr_emit *emit, MlirValue fragment, unsigned left) {
    LLVMValueRef args[TSR_BLOCK_REGISTERS_MAX];
    unsigned sums = mlirValueIsNull(fragment) ? 0 : take_registers(emit, fragment, args);
    LLVMValueRef result = tsr_block_wait_wgmma(emit, left, args, sums);
    if (sums) tsr_emit_bind(emit, fragment, result);
}

void tsr_block_wait_products(tsr_emit *emit, MlirValue fragment) {
    tsr_block *block = emit->block;
    if (!block->pending) return;
    wait_products(emit, fragment, 0);
    block->pending = false;
    tsr_block_release_deferred(emit);
}

/* ---- mma.sync -------------------------------------------------------------------------------- */

static LLVMValueRef lane_bits(tsr_emit *emit, unsigned shift, unsigned mask) {
    LLVMValueRef lane = LLVMBuildLShr(emit->builder, emit->lane, tsr_block_int(emit, shift), "");
    return LLVMBuildAnd(emit->builder, lane, tsr_block_int(emit, mask), "");
}

/* Loads four 8 x 8 matrices of 16-bit elements, two by two: they begin at `row` and `chunk`;
 * `row_bit` and `chunk_bit` are the bits of the lane that select the second one in each direction.
 */
static void load_matrices(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, LLVMValueRef row,
                          LLVMValueRef chunk, unsigned row_bit, unsigned chunk_bit, bool transposed,
                          LLVMValueRef out[4]) {
    LLVMBuilderRef b = emit->builder;
    LLVMTypeRef i32 = tsr_block_i32(emit), types[] = {i32, i32, i32, i32};
    row = LLVMBuildAdd(b, row, lane_bits(emit, 0, 7), "");
    row = LLVMBuildAdd(b, row, tsr_block_mul(emit, lane_bits(emit, row_bit, 1), 8), "");
    chunk = LLVMBuildAdd(b, chunk, lane_bits(emit, chunk_bit, 1), "");
    LLVMValueRef address = tsr_block_chunk(emit, ring, at, row, chunk);
    const char *code = transposed
                           ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0,$1,$2,$3}, [$4];"
                           : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0,$1,$2,$3}, [$4];";
    LLVMValueRef loaded = tsr_block_asm(emit, LLVMStructTypeInContext(emit->llvm, types, 4, false),
                                        code, "=r,=r,=r,=r,r,~{memory}", &address, 1);
    for (unsigned i = 0; i < 4; i++) out[i] = LLVMBuildExtractValue(b, loaded, i, "");
}

/* Loads elements of 32 bits of a K x columns matrix, which ldmatrix cannot transpose: rows `row`
 * and row + 4 of K, at columns `column` and column + 8. The order equals the order of A in
 * mma.sync; for B columns come first. Steps are whole atoms of the swizzle, so that they share
 * their addresses. */
static void load_elements(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at,
                          LLVMValueRef column, uint32_t step, bool columns_first,
                          LLVMValueRef out[4]) {
    enum { BYTES = 4, PER_CHUNK = CHUNK_BYTES / BYTES, DEPTH_32 = STEP_BYTES / BYTES };
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef unit = tsr_block_int(emit, PER_CHUNK), row = lane_bits(emit, 0, 3);
    char code[48];
    column = LLVMBuildAdd(b, column, lane_bits(emit, 2, 7), "");
    snprintf(code, sizeof code, "ld.shared.b32 $0, [$1+%u];",
             step * DEPTH_32 * TSR_BLOCK_SWIZZLE_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        unsigned deeper = columns_first ? i & 1 : i >> 1, beside = columns_first ? i >> 1 : i & 1;
        LLVMValueRef x = tsr_block_add(emit, column, 8 * (int64_t)beside);
        LLVMValueRef address =
            tsr_block_chunk(emit, ring, at, tsr_block_add(emit, row, 4 * (int64_t)deeper),
                            LLVMBuildUDiv(b, x, unit, ""));
        LLVMValueRef rest = LLVMBuildURem(b, x, unit, "");
        address = LLVMBuildAdd(b, address, tsr_block_mul(emit, rest, BYTES), "");
        out[i] = tsr_block_asm(emit, tsr_block_i32(emit), code, "=r,r,~{memory}", &address, 1);
    }
}

/* Loads A's 16 rows from `row` on, step `step` of K. */
static void load_a(tsr_emit *emit, const tsr_ring *ring, LLVMValueRef at, LLVMValueRef row,
                   uint32_t step, bool transposed, LLVMValueRef out[4]) {
    LLVMValueRef eight = tsr_block_int(emit, 8);
    uint32_t per_step = STEP_BYTES / CHUNK_BYTES;
    if (!transposed)
        load_matrices(emit, ring, at, row, tsr_block_int(emit, (int64_t)step * per_step), 3, 4,
                      false, out);
    else if (ring->element_bytes == 4)
        load_elements(emit, ring, at, row, step, false, out);
    else
        load_matrices(emit, ring, at, tsr_block_int(emit, (int64_t)step * 16),
                      LLVMBuildUDiv(emit->builder, row, eight, ""), 4, 3, true, out);
}

/* Loads B's 16 columns from `column` on. */
static void load_b(tsr_emit *emit, const tsr_block_product *p, LLVMValueRef column, uint32_t step,
                   LLVMValueRef out[4]) {
    LLVMValueRef eight = tsr_block_int(emit, 8);
    uint32_t per_step = STEP_BYTES / CHUNK_BYTES;
    if (p->b_transposed)
        load_matrices(emit, p->b, p->b_at, column, tsr_block_int(emit, (int64_t)step * per_step), 4,
                      3, false, out);
    else if (p->b->element_bytes == 4)
        load_elements(emit, p->b, p->b_at, column, step, true, out);
    else
        load_matrices(emit, p->b, p->b_at, tsr_block_int(emit, (int64_t)step * 16),
                      LLVMBuildUDiv(emit->builder, column, eight, ""), 3, 4, true, out);
}

/* Rounds f32 to the nearest tf32: the unit ignores all but 10 bits of the fraction. */
static void round_factors(tsr_emit *emit, const tsr_block_product *p, LLVMValueRef values[4]) {
    for (unsigned i = 0; i < 4 && mlirTypeIsAF32(p->element); i++)
        values[i] = tsr_block_asm(emit, tsr_block_i32(emit), "cvt.rna.tf32.f32 $0, $1;", "=r,r",
                                  &values[i], 1);
}

void tsr_block_multiply(tsr_emit *emit, MlirType element, LLVMValueRef *sums, LLVMValueRef *a,
                        LLVMValueRef *b) {
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm), types[] = {f32, f32, f32, f32};
    char code[200];
    const char *type = type_name(element);
    snprintf(code, sizeof code,
             "mma.sync.aligned.m16n8k%u.row.col.f32.%s.%s.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, "
             "{$8,$9}, {$10,$11,$12,$13};",
             STEP_BYTES / (mlirTypeIsAF32(element) ? 4 : 2), type, type);
    LLVMValueRef args[] = {a[0], a[1], a[2], a[3], b[0], b[1], sums[0], sums[1], sums[2], sums[3]};
    LLVMValueRef result = tsr_block_asm(emit, LLVMStructTypeInContext(emit->llvm, types, 4, false),
                                        code, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", args, 10);
    for (unsigned i = 0; i < 4; i++) sums[i] = LLVMBuildExtractValue(emit->builder, result, i, "");
}

static void emit_mma_sync(tsr_emit *emit, MlirOperation op, const tsr_block_product *p) {
    enum { ROW_BLOCKS_MAX = 16 };
    LLVMValueRef sums[TSR_BLOCK_REGISTERS_MAX], inputs[TSR_BLOCK_REGISTERS_MAX];
    LLVMValueRef a[ROW_BLOCKS_MAX][4], b[4];
    const tsr_layout *l = &p->layout;
    unsigned count = take_registers(emit, tsr_op_operand(op, 2), sums);
    TSR_ASSERT(l->row_blocks <= ROW_BLOCKS_MAX);
    if (!p->a) take_registers(emit, tsr_op_operand(op, 0), inputs);
    for (uint32_t s = 0; s < p->steps; s++) {
        for (uint32_t m = 0; m < l->row_blocks; m++) {
            if (p->a)
                load_a(emit, p->a, p->a_at, tsr_block_add(emit, l->warp_row, m * l->step), s,
                       p->a_transposed, a[m]);
            else
                memcpy(a[m], inputs + 4 * (m * p->steps + s), sizeof a[m]);
            round_factors(emit, p, a[m]);
        }
        for (uint32_t j = 0; j < l->column_blocks; j += 2) {
            load_b(emit, p, tsr_block_add(emit, l->warp_column, 8 * j), s, b);
            round_factors(emit, p, b);
            for (uint32_t m = 0; m < l->row_blocks; m++)
                for (uint32_t k = 0; k < 2; k++)
                    tsr_block_multiply(emit, p->element, sums + 4 * (m * l->column_blocks + j + k),
                                       a[m], b + 2 * k);
        }
    }
    tsr_emit_set(emit, op,
                 tsr_block_pack_registers(emit, LLVMFloatTypeInContext(emit->llvm), sums, count));
}

/* ---- ops ------------------------------------------------------------------------------------- */

void tsr_block_emit_mma(tsr_emit *emit, MlirOperation op) {
    tsr_block_product p = read_product(emit, op);
    if (emit->block->has_wgmma) {
        emit_wgmma(emit, op, &p);
        /* After this the previous stage has been read; factors in registers have been read, too,
         * before others replace them. */
        wait_products(emit, (MlirValue){NULL}, p.a ? 1 : 0);
    } else {
        emit_mma_sync(emit, op, &p);
    }
}

/* Loads a fragment "acc" of f32. Transposed, the lanes of a warp read 32 different banks: the
 * swizzle separates the four rows and two chunks. */
static void load_sums(tsr_emit *emit, MlirOperation op, const int64_t *dims) {
    enum { PER_CHUNK = CHUNK_BYTES / 4 };
    LLVMBuilderRef b = emit->builder;
    LLVMValueRef registers[TSR_BLOCK_REGISTERS_MAX], unit = tsr_block_int(emit, PER_CHUNK);
    LLVMTypeRef f32 = LLVMFloatTypeInContext(emit->llvm);
    const tsr_ring *ring = tsr_block_ring(emit, tsr_op_operand(op, 0));
    LLVMValueRef at = tsr_block_stage(emit, ring, tsr_emit_operand(emit, op, 1));
    bool transposed = tsr_op_has(op, "transpose");
    tsr_layout l = tsr_block_layout(emit, dims[0], dims[1]);
    unsigned count = l.row_blocks * l.column_blocks * BLOCK_REGISTERS;
    TSR_ASSERT(count <= TSR_BLOCK_REGISTERS_MAX);
    for (unsigned i = 0; i < count; i++) {
        uint32_t j = i / BLOCK_REGISTERS % l.column_blocks, h = i / 2 % 2;
        uint32_t m = i / BLOCK_REGISTERS / l.column_blocks;
        LLVMValueRef row = tsr_block_add(emit, l.row, (int64_t)l.step * m + 8 * (int64_t)h);
        LLVMValueRef column = tsr_block_add(emit, l.column, (int64_t)BLOCK_COLUMNS * j + i % 2);
        LLVMValueRef x = transposed ? row : column;
        LLVMValueRef address = tsr_block_chunk(emit, ring, at, transposed ? column : row,
                                               LLVMBuildUDiv(b, x, unit, ""));
        address =
            LLVMBuildAdd(b, address, tsr_block_mul(emit, LLVMBuildURem(b, x, unit, ""), 4), "");
        registers[i] =
            tsr_block_asm(emit, f32, "ld.shared.f32 $0, [$1];", "=f,r,~{memory}", &address, 1);
    }
    tsr_emit_set(emit, op, tsr_block_pack_registers(emit, f32, registers, count));
}

/* Loads a fragment "a": four registers for each row block and step of K, as mma.sync needs them. */
void tsr_block_emit_load_shared(tsr_emit *emit, MlirOperation op) {
    int64_t dims[2] = {0};
    bool is_acc = false;
    MlirType element;
    LLVMValueRef registers[TSR_BLOCK_REGISTERS_MAX];
    const tsr_ring *ring = tsr_block_ring(emit, tsr_op_operand(op, 0));
    LLVMValueRef at = tsr_block_stage(emit, ring, tsr_emit_operand(emit, op, 1));
    tsr_shim_tile_fragment(mlirValueGetType(tsr_op_result(op, 0)), dims, &element, &is_acc);
    if (is_acc) {
        load_sums(emit, op, dims);
        return;
    }
    tsr_layout l = tsr_block_layout(emit, dims[0], dims[1]);
    uint32_t steps = ring->columns * ring->element_bytes / STEP_BYTES, count = 0;
    TSR_ASSERT(l.row_blocks * steps * 4 <= TSR_BLOCK_REGISTERS_MAX);
    for (uint32_t m = 0; m < l.row_blocks; m++)
        for (uint32_t s = 0; s < steps; s++, count += 4)
            load_a(emit, ring, at, tsr_block_add(emit, l.warp_row, m * l.step), s, false,
                   registers + count);
    tsr_emit_set(emit, op, tsr_block_pack_registers(emit, tsr_block_i32(emit), registers, count));
}
